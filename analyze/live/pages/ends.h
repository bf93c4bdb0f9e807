#pragma once
/*
 * What ended in an image within an interval of --source pages. Divided are touches among those that
 * live at its end: pages that a block has left may have been touched by it, and of a call site with
 * blocks that ended it is not known how these were touched. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/live/freed-pages.h"

/* All zero: nothing ended. */
struct touch_ends {
	struct freed_pages pages;
	uint8_t *sites; /* by number (tally.h): a block of it ended */
	size_t n_sites;
	int64_t *stacks; /* stack.id of mappings that ended, sorted by touch_ends_sort() */
	size_t n_stacks;
	size_t n_stacks_allocated;
	bool is_full; /* too many of these: it may be any */
};

/* Nothing has ended; the memory is freed. */
void touch_ends_finish(struct touch_ends *ends);

/* A block ended; what realloc makes of it lies in pages that it may have touched. 0 or -ENOMEM. */
int touch_ends_block(struct touch_ends *ends, uint32_t site, uint64_t address, uint64_t size);

/* A mapping of a call site ended, or a part of it did. 0 or -ENOMEM. */
int touch_ends_mapping(struct touch_ends *ends, int64_t stack_id);

/* Whether a mapping of a stack ended; sort before. */
void touch_ends_sort(struct touch_ends *ends);
bool touch_ends_has_stack(const struct touch_ends *ends, int64_t stack_id);
