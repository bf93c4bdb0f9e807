#include "store/totals/clock-check.h"

static void remember(struct alignment_ring *ring, const struct alignment_moment *moment)
{
	ring->items[ring->n++ % ALIGNMENT_RING] = *moment;
}

static bool is_within(const struct alignment_moment *block, const struct alignment_moment *access)
{
	return block->process_row == access->process_row &&
	       access->address - block->address < block->size;
}

/* Whether a block of the ring holds the access and has its moment in (from_ns, to_ns). */
static bool has_block(const struct alignment_ring *ring, const struct alignment_moment *access,
		      int64_t from_ns, int64_t to_ns)
{
	size_t n = ring->n < ALIGNMENT_RING ? ring->n : ALIGNMENT_RING;

	for (size_t i = 0; i < n; i++) {
		const struct alignment_moment *block = &ring->items[i];

		if (block->time_ns >= from_ns && block->time_ns <= to_ns &&
		    is_within(block, access))
			return true;
	}
	return false;
}

void alignment_allocation(struct alignment *alignment, const struct alignment_moment *block)
{
	struct alignment_ring *strays = &alignment->strays;
	size_t n = strays->n < ALIGNMENT_RING ? strays->n : ALIGNMENT_RING;

	remember(&alignment->allocations, block);
	/* The usual case: the last access to no block is long ago. */
	if (n == 0 ||
	    strays->items[(strays->n - 1) % ALIGNMENT_RING].time_ns < block->time_ns - ALIGNMENT_NS)
		return;
	for (size_t i = 0; i < n; i++) { /* from the last one on */
		struct alignment_moment *stray =
			&strays->items[(strays->n - 1 - i) % ALIGNMENT_RING];
		bool is_old = stray->time_ns < block->time_ns - ALIGNMENT_NS;

		if (is_old && i + 1 < alignment->n_in_order)
			i = alignment->n_in_order - 1; /* those between are older */
		if (is_old || !is_within(block, stray))
			continue;
		alignment->n_before++;
		stray->process_row = 0; /* counted */
	}
}

static void remember_stray(struct alignment *alignment, const struct alignment_moment *access)
{
	const struct alignment_ring *strays = &alignment->strays;
	bool is_next = strays->n > 0 &&
		       strays->items[(strays->n - 1) % ALIGNMENT_RING].time_ns <= access->time_ns;

	alignment->n_in_order = is_next ? alignment->n_in_order + 1 : 1;
	remember(&alignment->strays, access);
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
		remember_stray(alignment, &access);
}
