#include "analyze/freed-pages.h"

#include <errno.h>
#include <stdlib.h>

#define PAGE_LOG2   12
#define GROUP_LOG2  21 /* 512 pages */
#define GROUP_WORDS ((1u << (GROUP_LOG2 - PAGE_LOG2)) / 64)

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

static int add_page(struct freed_pages *set, uint64_t page)
{
	uint64_t key = (page >> (GROUP_LOG2 - PAGE_LOG2)) + 1;
	unsigned bit = page & (GROUP_WORDS * 64 - 1);

	if (2 * set->n >= set->n_allocated) {
		int r = grow(set);
		if (r < 0)
			return r;
	}
	struct page_group *group = &set->groups[place_of(set, key)];
	set->n += group->key == 0;
	group->key = key;
	group->words[bit / 64] |= UINT64_C(1) << (bit % 64);
	return 0;
}

int freed_pages_add(struct freed_pages *set, uint64_t address, uint64_t size)
{
	uint64_t last = size > 0 ? address + (size - 1) : address;

	if (last < address || size > MAX_RANGE)
		return 0;
	for (uint64_t page = address >> PAGE_LOG2; page <= last >> PAGE_LOG2; page++) {
		int r = add_page(set, page);
		if (r < 0)
			return r;
	}
	return 0;
}

bool freed_pages_has(const struct freed_pages *set, uint64_t address)
{
	uint64_t page = address >> PAGE_LOG2;
	unsigned bit = page & (GROUP_WORDS * 64 - 1);

	if (set->n_allocated == 0)
		return false;
	const struct page_group *group =
		&set->groups[place_of(set, (page >> (GROUP_LOG2 - PAGE_LOG2)) + 1)];
	return group->key != 0 && group->words[bit / 64] >> (bit % 64) & 1;
}
