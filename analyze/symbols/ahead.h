#pragma once
/*
 * A thread that reads symbols and lines of addresses beside the import, before anybody asks: debug
 * information is unpacked and searched while events are merged. It has objects of its own, as
 * nothing that reads symbols is thread-safe; who takes one gets it with all that was read.
 */
#include <stdint.h>

struct object;
struct objects;
struct symbols_ahead;

/*
 * Nothing is read yet. NULL: names are to be found when they are asked for, as there is no memory,
 * or files may come from elsewhere. Accepts what symbols_ahead_close() accepts.
 */
struct symbols_ahead *symbols_ahead_open(const struct objects *objects);
struct symbols_ahead *symbols_ahead_close(struct symbols_ahead *ahead); /* accepts NULL */

/* An ELF address of an object will be asked for. Of ahead that is NULL nothing is kept. */
void symbols_ahead_expect(struct symbols_ahead *ahead, const struct object *object,
			  uint64_t address);

/*
 * The object that has the same names, and what was read of it so far; the object itself, if there
 * is none. From the first call on nothing is read ahead. It lives as long as ahead.
 */
struct object *symbols_ahead_take(struct symbols_ahead *ahead, struct object *object);
