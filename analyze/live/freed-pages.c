#include "analyze/live/freed-pages.h"

#include <errno.h>
#include <stdlib.h>

#define PAGE_LOG2   12
#define GROUP_LOG2  21 /* 512 pages */
#define GROUP_PAGES (UINT64_C(1) << (GROUP_LOG2 - PAGE_LOG2))
#define GROUP_WORDS (GROUP_PAGES / 64)

/* A larger range (2^40 bytes, 2^19 groups) is a damaged size: it would only eat memory. */
#define MAX_RANGE (UINT64_C(1) << 40)

struct page_group {
	uint64_t key; /* address >> GROUP_LOG2, plus 1; 0: free */
	uint64_t words[GROUP_WORDS];
};

void freed_pages_finish(struct freed_pages *set)
{
	free(set->groups);
	*set = (struct freed_pages){ 0 };
}

/* Where the group of a key is, or would go. There is a free place. */
static size_t place_of(const struct freed_pages *set, uint64_t key)
{
	size_t mask = set->n_allocated - 1;
	size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & mask;

	while (set->groups[i].key != 0 && set->groups[i].key != key)
		i = (i + 1) & mask;
	return i;
}

static int grow(struct freed_pages *set)
{
	struct freed_pages larger = {
		.n = set->n,
		.n_allocated = set->n_allocated ? 2 * set->n_allocated : 16,
	};

	larger.groups = calloc(larger.n_allocated, sizeof(*larger.groups));
	if (!larger.groups)
		return -ENOMEM;
	for (size_t i = 0; i < set->n_allocated; i++) {
		if (set->groups[i].key != 0)
			larger.groups[place_of(&larger, set->groups[i].key)] = set->groups[i];
	}
	free(set->groups);
	*set = larger;
	return 0;
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
	uint64_t key = (first / GROUP_PAGES) + 1;

	if (2 * set->n >= set->n_allocated) {
		int r = grow(set);
		if (r < 0)
			return r;
	}
	struct page_group *group = &set->groups[place_of(set, key)];
	set->n += group->key == 0;
	group->key = key;
	set_bits(group, first % GROUP_PAGES, last % GROUP_PAGES);
	return 0;
}

int freed_pages_add(struct freed_pages *set, uint64_t address, uint64_t size)
{
	uint64_t end = size > 0 ? address + (size - 1) : address;

	if (end < address || size > MAX_RANGE)
		return 0;
	uint64_t last = end >> PAGE_LOG2;
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

	if (set->n_allocated == 0)
		return false;
	const struct page_group *group = &set->groups[place_of(set, page / GROUP_PAGES + 1)];
	return group->key != 0 && group->words[bit / 64] >> (bit % 64) & 1;
}
