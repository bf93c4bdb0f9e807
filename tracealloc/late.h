#pragma once
/*
 * Hooks of a process that was not started with us: our functions take the places of those that
 * they stand for in the tables (GOT) of all files that are loaded. Calls that go through none come
 * to us where the entries of the allocator's functions are redirected, too.
 */
#include <stdbool.h>
#include <stdint.h>

#include "schemas/attach.h"

/* Look up what has to be led to us. Other threads run. */
void ta_late_begin(void);

/*
 * Lead the calls of all files to us. All other threads stand, none is in the loader. 0, or a
 * negative errno: then nothing was changed. *ret_n: how many places.
 */
int ta_late_bind(uint32_t *ret_n);

/*
 * List the functions of the allocator that may be redirected at their entries, at most
 * ATTACH_MAX_ENTRIES; behind ta_late_use_entries() those that it was given. Returns how many.
 */
uint32_t ta_late_list_entries(struct attach_entry *ret_entries);

/*
 * From now on call the moved ones, behind ta_late_bind() and before anybody writes a jump.
 * ta_late_unbind() ends that: the jumps must be gone by then. Listed they are until
 * ta_late_forget().
 */
void ta_late_use_entries(const struct attach_entry *entries, uint32_t n);
void ta_late_forget(void);

/*
 * Put back what stood there. How many places; those that the program has changed since are left
 * alone. All other threads stand, none is in the loader or in us.
 */
uint32_t ta_late_unbind(void);

/* Files were loaded: lead their calls to us, too. Not in a hook. Keeps errno. */
void ta_late_look(void);
