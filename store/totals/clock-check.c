#include "store/totals/clock-check.h"

static size_t n_kept(const struct alignment_ring *ring)
{
	return ring->n < ALIGNMENT_RING ? ring->n : ALIGNMENT_RING;
}

/* The i-th one, from the last one on. */
static struct alignment_moment *item(struct alignment_ring *ring, size_t i)
{
	return &ring->items[(ring->n - 1 - i) % ALIGNMENT_RING];
}

/* In order of time: who comes late is put before those that were later, and the first one goes. */
static void remember(struct alignment_ring *ring, const struct alignment_moment *moment)
{
	size_t i = 0;

	ring->n++;
	for (; i + 1 < n_kept(ring) && item(ring, i + 1)->time_ns > moment->time_ns; i++)
		*item(ring, i) = *item(ring, i + 1);
	*item(ring, i) = *moment;
}

static bool is_within(const struct alignment_moment *block, const struct alignment_moment *access)
{
	return block->process_row == access->process_row &&
	       access->address - block->address < block->size;
}

/* Whether a block of the ring holds the access and has its moment in [from_ns, to_ns]. */
static bool has_block(struct alignment_ring *ring, const struct alignment_moment *access,
		      int64_t from_ns, int64_t to_ns)
{
	size_t n = n_kept(ring);

	for (size_t i = 0; i < n && item(ring, i)->time_ns >= from_ns; i++) {
		if (item(ring, i)->time_ns <= to_ns && is_within(item(ring, i), access))
			return true;
	}
	return false;
}

void alignment_allocation(struct alignment *alignment, const struct alignment_moment *block)
{
	struct alignment_ring *strays = &alignment->strays;
	size_t n = n_kept(strays);

	remember(&alignment->allocations, block);
	for (size_t i = 0; i < n && item(strays, i)->time_ns >= block->time_ns - ALIGNMENT_NS;
	     i++) {
		if (!is_within(block, item(strays, i)))
			continue;
		alignment->n_before++;
		item(strays, i)->process_row = 0; /* counted */
	}
}

void alignment_free(struct alignment *alignment, const struct alignment_moment *block)
{
	remember(&alignment->frees, block);
}

void alignment_touch(struct alignment *alignment, const struct touch *touch)
{
	const struct alignment_moment access = {
		.process_row = touch->process_row,
		.time_ns = touch->time_ns,
		.address = touch->address,
	};
	bool is_block = touch->owner.kind == OWNER_heap || touch->owner.kind == OWNER_named;

	/*
	 * Other roles tell of accesses around the sample, not at its time. An allocator works on
	 * blocks before they are born and after they have ended, whatever the clocks say.
	 */
	if (!touch->is_resolved || touch->owner.phase != OWNER_IN_USE ||
	    (touch->role != TRACE_ROLE_EXACT && touch->role != TRACE_ROLE_FAULT))
		return;
	if (is_block)
		alignment->n_heap++;
	else if (touch->owner.kind == OWNER_tool)
		return;
	else if (has_block(&alignment->frees, &access, access.time_ns - ALIGNMENT_NS,
			   access.time_ns))
		alignment->n_after++;
	else if (has_block(&alignment->allocations, &access, access.time_ns,
			   access.time_ns + ALIGNMENT_NS))
		alignment->n_before++;
	else
		remember(&alignment->strays, &access);
}
