#pragma once
/*
 * For a test's program that is linked with fail-calls.c: which of its allocations fails, while it
 * runs.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nothing that this thread does fails or is listed. */
void fail_calls_spare(bool is_to_be_spared);

/* Note the places that allocations are made from, from now on; nothing fails. */
void fail_calls_list(void);

/* Write out the places that were noted. Returns how many; n_most may be too few for all. */
size_t fail_calls_listed(uint64_t *places, size_t n_most);

/*
 * The next allocation of a place fails, once. is_near: it is looked for only about where its thread
 * was when it was listed, from that list on; that is fast, and may miss it.
 */
void fail_calls_at(uint64_t place, bool is_near);

/* Nothing fails any more. Returns whether one failed. */
bool fail_calls_end(void);

/* Blocks that are not freed. */
long fail_calls_n_live(void);
