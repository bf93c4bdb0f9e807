/* Which sums a touch belongs to. */
#include <stdbool.h>

#include "analyze/owners.h"
#include "analyze/samples.h"
#include "analyze/tally.h"

/* A named part of a block has an owner of its own; the block is in use all the same. */
static void count_heap(struct tally *tally, const struct sample_touch *touch)
{
	bool is_heap = touch->owner.kind == OWNER_heap;

	if (touch->owner.site == 0)
		return;
	tally_touch(tally, &(struct tally_touch){
				   .sample = touch->sample,
				   .time_ns = touch->time_ns,
				   .share = touch->share,
				   .weight = (double)touch->weight,
				   .site = touch->owner.site,
				   .is_fault = is_heap && touch->role == TRACE_ROLE_FAULT,
				   .is_time = is_heap && touch->role == TRACE_ROLE_WINDOW,
				   .is_stall = is_heap && touch->role == TRACE_ROLE_STALL,
				   .is_in_use = touch->owner.phase == OWNER_IN_USE,
			   });
}

/*
 * A fault is the kernel's look at a page, no access to a line; what is not known is nobody's. What
 * was waited for and the mix of a loop tell the same accesses once more.
 */
static bool is_of_line(const struct sample_touch *touch)
{
	bool is_access = touch->role == TRACE_ROLE_EXACT || touch->role == TRACE_ROLE_WINDOW;

	return touch->is_resolved && is_access && touch->thread_row && touch->process_row &&
	       touch->owner.kind != OWNER_tool && touch->owner.kind != OWNER_unknown &&
	       touch->owner.kind != OWNER_kernel && touch->owner.kind != OWNER_code;
}

static bool is_unresolved(const struct sample_touch *touch)
{
	return !touch->is_resolved && touch->frame && touch->owner.kind == OWNER_unknown &&
	       (touch->role == TRACE_ROLE_WINDOW || touch->role == TRACE_ROLE_STALL);
}

/* A block stands for its site. */
static int64_t owner_id_of(const struct tally *tally, const struct sample_touch *touch)
{
	return touch->owner.kind == OWNER_heap ? tally->sites[touch->owner.site].stack_id
					       : touch->owner.id;
}

static int count_access(struct tally *tally, const struct sample_touch *touch)
{
	return access_totals_add(&tally->accesses, touch, owner_id_of(tally, touch));
}

/* Where the page of a fault lay, in the place of a data source. */
static int count_node(struct tally *tally, const struct sample_touch *touch)
{
	struct sample_touch node = *touch;

	node.data_src = (int64_t)touch->node_number - 1;
	return access_totals_add(&tally->fault_nodes, &node, owner_id_of(tally, touch));
}

int tally_line(struct tally *tally, const struct sample_touch *touch)
{
	if (sample_source_is_watch(touch->source) || !is_of_line(touch))
		return 0;
	return shared_lines_add(&tally->lines, touch);
}

int tally_any_touch(struct tally *tally, const struct sample_touch *touch)
{
	int r = 0;

	if (touch->owner.kind == OWNER_heap || touch->owner.kind == OWNER_named)
		count_heap(tally, touch);
	/* All accesses to a few bytes: no sample of the program's, which these sums are of. */
	if (sample_source_is_watch(touch->source))
		return 0;
	if (touch->owner.kind != OWNER_heap)
		r = object_totals_add(&tally->objects, touch);
	if (r == 0 && is_unresolved(touch))
		r = unresolved_add(&tally->unresolved, touch->frame, touch->role, touch->share);
	if (r == 0 && !tally->has_no_lines)
		r = tally_line(tally, touch);
	if (r == 0 && touch->is_access && touch->role == TRACE_ROLE_EXACT)
		r = count_access(tally, touch);
	if (r == 0 && touch->node_number && touch->role == TRACE_ROLE_FAULT)
		r = count_node(tally, touch);
	return r;
}
