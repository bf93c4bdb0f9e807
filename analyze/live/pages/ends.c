#include "analyze/live/pages/ends.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

#define MAX_STACKS (1u << 16) /* mappings that end in one interval; beyond that it may be any */

void touch_ends_finish(struct touch_ends *ends)
{
	freed_pages_finish(&ends->pages);
	free(ends->sites);
	free(ends->stacks);
	*ends = (struct touch_ends){ 0 };
}

int touch_ends_block(struct touch_ends *ends, uint32_t site, uint64_t address, uint64_t size)
{
	if (grow_array_to(&ends->sites, site, &ends->n_sites, sizeof(*ends->sites)) < 0)
		return -ENOMEM;
	ends->sites[site] = 1;
	return freed_pages_add(&ends->pages, address, size);
}

int touch_ends_mapping(struct touch_ends *ends, int64_t stack_id)
{
	if (ends->n_stacks > 0 && ends->stacks[ends->n_stacks - 1] == stack_id)
		return 0;
	if (ends->n_stacks == MAX_STACKS) {
		ends->is_full = true;
		return 0;
	}
	return array_add(ends->stacks, ends->n_stacks, ends->n_stacks_allocated, stack_id);
}

static int compare(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

void touch_ends_sort(struct touch_ends *ends)
{
	if (ends->n_stacks > 0)
		qsort(ends->stacks, ends->n_stacks, sizeof(*ends->stacks), compare);
}

bool touch_ends_has_stack(const struct touch_ends *ends, int64_t stack_id)
{
	return ends->is_full ||
	       (ends->n_stacks > 0 &&
		bsearch(&stack_id, ends->stacks, ends->n_stacks, sizeof(*ends->stacks), compare));
}
