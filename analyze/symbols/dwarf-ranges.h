#pragma once
/*
 * Which of many DIEs cover an address: their ranges, which may lie in each other. Add all, settle
 * once, then ask. All zero is empty. One thread.
 */
#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct die_range;

struct die_ranges {
	struct die_range *items;
	size_t n;
	size_t n_allocated;
};

/* Add the ranges of a DIE, to be found as owner. 0 or -ENOMEM. */
int die_ranges_add(struct die_ranges *ranges, Dwarf_Die *die, size_t owner);

/* All are added. */
void die_ranges_settle(struct die_ranges *ranges);

/*
 * Find the owners of the ranges that hold address, those that begin last first:
 *
 *	for (size_t at = die_ranges_begin(ranges, address); die_ranges_next(ranges, address, &at,
 *	&owner);)
 */
size_t die_ranges_begin(const struct die_ranges *ranges, uint64_t address);
bool die_ranges_next(const struct die_ranges *ranges, uint64_t address, size_t *inout_at,
		     size_t *ret_owner);

/* Free the memory; empty and usable afterwards. */
void die_ranges_finish(struct die_ranges *ranges);
