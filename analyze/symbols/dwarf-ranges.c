#include "analyze/symbols/dwarf-ranges.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

struct die_range {
	uint64_t low;
	uint64_t high;
	uint64_t max_high; /* of this and all before it */
	size_t owner;
};

int die_ranges_add(struct die_ranges *ranges, Dwarf_Die *die, size_t owner)
{
	ptrdiff_t offset = 0;
	Dwarf_Addr base = 0;
	Dwarf_Addr low;
	Dwarf_Addr high;

	while ((offset = dwarf_ranges(die, offset, &base, &low, &high)) > 0) {
		if (low >= high)
			continue;
		if (grow_array(&ranges->items, ranges->n, &ranges->n_allocated,
			       sizeof(*ranges->items)) < 0)
			return -ENOMEM;
		ranges->items[ranges->n++] =
			(struct die_range){ .low = low, .high = high, .owner = owner };
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct die_range *left = a;
	const struct die_range *right = b;

	return left->low < right->low ? -1 : left->low > right->low;
}

void die_ranges_settle(struct die_ranges *ranges)
{
	uint64_t max_high = 0;

	if (ranges->n)
		qsort(ranges->items, ranges->n, sizeof(*ranges->items), compare);
	for (size_t i = 0; i < ranges->n; i++) {
		if (ranges->items[i].high > max_high)
			max_high = ranges->items[i].high;
		ranges->items[i].max_high = max_high;
	}
}

size_t die_ranges_begin(const struct die_ranges *ranges, uint64_t address)
{
	size_t low = 0;
	size_t high = ranges->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ranges->items[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool die_ranges_next(const struct die_ranges *ranges, uint64_t address, size_t *inout_at,
		     size_t *ret_owner)
{
	while (*inout_at > 0 && ranges->items[*inout_at - 1].max_high > address) {
		const struct die_range *range = &ranges->items[--*inout_at];

		if (address < range->high) {
			*ret_owner = range->owner;
			return true;
		}
	}
	return false;
}

void die_ranges_finish(struct die_ranges *ranges)
{
	free(ranges->items);
	*ranges = (struct die_ranges){ 0 };
}
