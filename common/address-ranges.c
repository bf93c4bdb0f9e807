#include "common/address-ranges.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* The first range that ends at or behind an address. */
static size_t first_reaching(const struct ranges *ranges, uint64_t address)
{
	return array_n_while(ranges->items, ranges->n, it, it->end < address);
}

int ranges_add(struct ranges *ranges, uint64_t start, uint64_t end)
{
	if (start >= end)
		return 0;

	size_t first = first_reaching(ranges, start);
	size_t behind = first;
	while (behind < ranges->n && ranges->items[behind].start <= end) {
		const struct range *range = &ranges->items[behind++];

		start = range->start < start ? range->start : start;
		end = range->end > end ? range->end : end;
	}
	if (behind == first) {
		if (grow_one(&ranges->items, ranges->n, &ranges->n_allocated) < 0)
			return -ENOMEM;
		memmove(ranges->items + first + 1, ranges->items + first,
			(ranges->n - first) * sizeof(*ranges->items));
		ranges->n++;
	} else {
		memmove(ranges->items + first + 1, ranges->items + behind,
			(ranges->n - behind) * sizeof(*ranges->items));
		ranges->n -= behind - first - 1;
	}
	ranges->items[first] = (struct range){ start, end };
	return 0;
}

bool ranges_have(const struct ranges *ranges, uint64_t address)
{
	size_t i = first_reaching(ranges, address);

	if (i < ranges->n && ranges->items[i].end == address)
		i++;
	return i < ranges->n && ranges->items[i].start <= address;
}

void ranges_finish(struct ranges *ranges)
{
	free(ranges->items);
	*ranges = (struct ranges){ 0 };
}
