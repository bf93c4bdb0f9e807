#include "analyze/input/clock-bounds.h"

#include <stdlib.h>

#include "common/array.h"

int clock_ranges_add(struct clock_ranges *ranges, uint64_t start, uint64_t size, uint64_t time_ns)
{
	int r = grow_array(&ranges->items, ranges->n, &ranges->n_allocated, sizeof(*ranges->items));

	if (r < 0 || size == 0 || start + size < start)
		return r;
	ranges->items[ranges->n++] =
		(struct clock_range){ .start = start, .end = start + size, .time_ns = time_ns };
	return 0;
}

static int compare_ranges(const void *left, const void *right)
{
	const struct clock_range *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* Where ranges lie over each other, which of them is meant depends on the time. */
void clock_ranges_sort(struct clock_ranges *ranges)
{
	uint64_t end = 0;
	size_t longest = 0;

	if (ranges->n > 1)
		qsort(ranges->items, ranges->n, sizeof(*ranges->items), compare_ranges);
	for (size_t i = 0; i < ranges->n; i++) {
		if (i > 0 && ranges->items[i].start < end)
			ranges->items[i].is_shared = ranges->items[longest].is_shared = true;
		if (ranges->items[i].end > end) {
			end = ranges->items[i].end;
			longest = i;
		}
	}
}

const struct clock_range *clock_ranges_find(const struct clock_ranges *ranges, uint64_t address)
{
	size_t low = array_n_until(ranges->items, ranges->n, start, address);

	if (low == 0)
		return NULL;
	const struct clock_range *range = &ranges->items[low - 1];
	return address < range->end && !range->is_shared ? range : NULL;
}

void clock_ranges_finish(struct clock_ranges *ranges)
{
	free(ranges->items);
	*ranges = (struct clock_ranges){ 0 };
}

void clock_bounds_high(struct clock_bounds *bounds, uint64_t perf_ns, uint64_t raw_ns)
{
	int64_t offset = (int64_t)(raw_ns - perf_ns);

	if (!bounds->has_high || offset < bounds->high)
		bounds->high = offset;
	bounds->has_high = true;
	bounds->n++;
}

void clock_bounds_low(struct clock_bounds *bounds, uint64_t perf_ns, uint64_t raw_ns)
{
	int64_t offset = (int64_t)(raw_ns - perf_ns);

	if (!bounds->has_low || offset > bounds->low)
		bounds->low = offset;
	bounds->has_low = true;
	bounds->n++;
}

struct clock_offset clock_bounds_offset(const struct clock_bounds *bounds)
{
	struct clock_offset offset = {
		.offset_ns = bounds->has_high ? bounds->high : bounds->low,
		.error_ns = UINT64_MAX,
		.is_known = bounds->has_high || bounds->has_low,
	};

	if (bounds->has_high && bounds->has_low)
		offset.error_ns = (uint64_t)llabs(bounds->high - bounds->low) + 1;
	return offset;
}
