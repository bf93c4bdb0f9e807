#include "analyze/live/freed-pages.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

#define PAGE_LOG2   12
#define GROUP_LOG2  21 /* 512 pages */
#define GROUP_PAGES (UINT64_C(1) << (GROUP_LOG2 - PAGE_LOG2))
#define GROUP_WORDS (GROUP_PAGES / 64)

/* A larger range (2^40 bytes, 2^19 groups) is a damaged size: it would only eat memory. */
#define MAX_RANGE (UINT64_C(1) << 40)

struct page_group {
	uint64_t words[GROUP_WORDS];
};

void freed_pages_finish(struct freed_pages *set)
{
	free(set->groups);
	key_map_finish(&set->places);
	*set = (struct freed_pages){ 0 };
}

/* Set bits first to last of a group. */
static void set_bits(struct page_group *group, unsigned first, unsigned last)
{
	for (unsigned word = first / 64; word <= last / 64; word++) {
		unsigned low = word == first / 64 ? first % 64 : 0;
		unsigned high = word == last / 64 ? last % 64 : 63;
		group->words[word] |= UINT64_MAX >> (63 - high) & UINT64_MAX << low;
	}
}

/* Add pages first to last, which lie in one group. */
static int add_to_group(struct freed_pages *set, uint64_t first, uint64_t last)
{
	uint64_t key = first / GROUP_PAGES;
	bool is_last = set->last_place > 0 && set->last == key;
	size_t place = is_last ? set->last_place : key_map_get(&set->places, key, 0);

	if (place == 0) {
		if (grow_array_to(&set->groups, set->n, &set->n_allocated, sizeof(*set->groups)) <
			    0 ||
		    key_map_put(&set->places, key, 0, set->n + 1) < 0)
			return -ENOMEM;
		place = ++set->n;
	}
	set->last = key;
	set->last_place = place;
	set_bits(&set->groups[place - 1], first % GROUP_PAGES, last % GROUP_PAGES);
	return 0;
}

int freed_pages_add(struct freed_pages *set, uint64_t address, uint64_t size)
{
	uint64_t end = size > 0 ? address + (size - 1) : address;

	if (end < address || size > MAX_RANGE)
		return 0;
	uint64_t last = end >> PAGE_LOG2;
	/* Most blocks lie in a page that is near the one before. */
	if (last == address >> PAGE_LOG2 && set->last_place > 0 &&
	    set->last == last / GROUP_PAGES) {
		set->groups[set->last_place - 1].words[last % GROUP_PAGES / 64] |= UINT64_C(1)
										   << last % 64;
		return 0;
	}
	for (uint64_t first = address >> PAGE_LOG2; first <= last;) {
		uint64_t group_last = first | (GROUP_PAGES - 1);
		int r = add_to_group(set, first, group_last < last ? group_last : last);
		if (r < 0)
			return r;
		first = group_last + 1;
	}
	return 0;
}

bool freed_pages_has(const struct freed_pages *set, uint64_t address)
{
	uint64_t page = address >> PAGE_LOG2;
	unsigned bit = page % GROUP_PAGES;
	size_t place = key_map_get(&set->places, page / GROUP_PAGES, 0);

	return place != 0 && set->groups[place - 1].words[bit / 64] >> (bit % 64) & 1;
}

/* Those of a group that lie in pages first to last. */
static uint64_t count_group(const struct page_group *group, uint64_t key, uint64_t first,
			    uint64_t last)
{
	uint64_t n = 0;

	for (unsigned word = 0; word < GROUP_WORDS; word++) {
		uint64_t page = key * GROUP_PAGES + (uint64_t)word * 64;
		uint64_t bits = group->words[word];

		if (bits == 0 || page > last || page + 63 < first)
			continue;
		if (page < first)
			bits &= UINT64_MAX << (first - page);
		if (page + 63 > last)
			bits &= UINT64_MAX >> (63 - (last - page));
		n += (uint64_t)__builtin_popcountll(bits);
	}
	return n;
}

uint64_t freed_pages_count(const struct freed_pages *set, uint64_t address, uint64_t size)
{
	uint64_t end = address + (size - 1), n = 0;

	if (size == 0 || end < address || set->n == 0)
		return 0;
	uint64_t first = address >> PAGE_LOG2, last = end >> PAGE_LOG2;

	if (last / GROUP_PAGES - first / GROUP_PAGES < set->places.capacity) {
		for (uint64_t key = first / GROUP_PAGES; key <= last / GROUP_PAGES; key++) {
			size_t place = key_map_get(&set->places, key, 0);

			if (place != 0)
				n += count_group(&set->groups[place - 1], key, first, last);
		}
		return n;
	}
	for (size_t i = 0; i < set->places.capacity; i++) {
		const struct key_map_entry *entry = &set->places.entries[i];

		if (entry->value != 0 && entry->a >= first / GROUP_PAGES &&
		    entry->a <= last / GROUP_PAGES)
			n += count_group(&set->groups[entry->value - 1], entry->a, first, last);
	}
	return n;
}
