#include "runner/sampling/page-set.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define PAGE_BYTES  UINT64_C(4096)
#define STATE_MASK  (PAGE_BYTES - 1)
#define FORGOTTEN   UINT64_C(3) /* a state of slots only: page 0 in this state is no free slot */
#define FIRST_SLOTS 64

static uint64_t slot_page(uint64_t slot)
{
	return slot & ~STATE_MASK;
}

/* The slot of the page, or the free one where it belongs. There is always a free one. */
static size_t find(const uint64_t *slots, size_t n_slots, uint64_t page)
{
	/* Fibonacci hashing: 2^64 / the golden ratio. */
	size_t i = (size_t)((page / PAGE_BYTES * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

	for (i &= n_slots - 1; slots[i] && slot_page(slots[i]) != page; i = (i + 1) & (n_slots - 1))
		;
	return i;
}

enum page_state page_set_get(const struct page_set *set, uint64_t page)
{
	if (!set->n_slots)
		return PAGE_UNKNOWN;
	uint64_t state = set->slots[find(set->slots, set->n_slots, page)] & STATE_MASK;
	return state == FORGOTTEN ? PAGE_UNKNOWN : (enum page_state)state;
}

/* At most half full. */
static int make_room(struct page_set *set)
{
	size_t n_slots = set->n_slots ? 2 * set->n_slots : FIRST_SLOTS;
	uint64_t *slots;

	if (set->n * 2 < set->n_slots)
		return 0;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < set->n_slots; i++)
		if (set->slots[i])
			slots[find(slots, n_slots, slot_page(set->slots[i]))] = set->slots[i];
	free(set->slots);
	set->slots = slots;
	set->n_slots = n_slots;
	return 0;
}

int page_set_put(struct page_set *set, uint64_t page, enum page_state state)
{
	int r = make_room(set);

	if (r < 0)
		return r;
	size_t i = find(set->slots, set->n_slots, page);
	set->n += set->slots[i] == 0;
	set->slots[i] = page | (state == PAGE_UNKNOWN ? FORGOTTEN : (uint64_t)state);
	return 0;
}

static bool is_in_range(uint64_t page, uint64_t start, uint64_t size)
{
	/* Neither sum can overflow: the difference is taken on the side that is not negative. */
	return page >= start ? page - start < size : start - page < PAGE_BYTES && size;
}

void page_set_forget_range(struct page_set *set, uint64_t start, uint64_t size)
{
	for (size_t i = 0; i < set->n_slots; i++)
		if (set->slots[i] && is_in_range(slot_page(set->slots[i]), start, size))
			set->slots[i] = slot_page(set->slots[i]) | FORGOTTEN;
}

void page_set_finish(struct page_set *set)
{
	free(set->slots);
	*set = (struct page_set){ 0 };
}
