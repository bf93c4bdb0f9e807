/*
 * Ends that were stamped before the allocation they belong to. The stamp before a free is not
 * ordered with what the processor has still to do: while it waits for the line through which
 * another thread hands the block over, the stamp can be some 100 ns older than that. An end that
 * finds no block waits for an allocation there by another thread within the skew. (A thread's own
 * order is certain.)
 *
 * Where every block has an event such an end belongs to that allocation, whatever was at the
 * address before: nobody frees what was not handed out. Where blocks are withheld it may have been
 * one of those. Then it only counts where nothing else ends the block until its address is born
 * again.
 */
#include "analyze/live/live-memory-internal.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/input/merge.h"

#define WAITING_SETS 64 /* by address ... */
#define WAITING_WAYS 4 /* ... so many of each wait at once */
#define N_DOUBTED    64

/* An end without a block, and the thread that ended one there just before (0: none). */
struct waiting {
	struct memory_end_of end; /* thread 0: nothing waits here */
	uint32_t other;
};

/* An end that may be that of a live block. */
struct doubted {
	uint64_t block_id; /* 0: none */
	struct memory_end_of end;
};

struct memory_early {
	struct waiting waiting[WAITING_SETS * WAITING_WAYS];
	struct doubted doubted[N_DOUBTED]; /* round */
	unsigned n_doubted; /* ever */
};

void memory_early_note(struct memory_image *image, const struct memory_end_of *end)
{
	image->recent[image->n_recent++ % MEMORY_RECENT] = (struct memory_recent){
		.address = end->address,
		.time_ns = end->time_ns,
		.thread = end->thread,
	};
}

/* The thread that ended a block at this address within the skew; it is another one. 0: none. */
static uint32_t find_other(const struct memory_image *image, const struct memory_end_of *end)
{
	for (unsigned i = 0; i < MEMORY_RECENT; i++) {
		const struct memory_recent *recent = &image->recent[i];

		if (recent->address == end->address && recent->thread != end->thread &&
		    end->time_ns - recent->time_ns <= MERGE_SKEW_NS)
			return recent->thread;
	}
	return 0;
}

/* Whether there may be blocks that have no event. */
static bool has_unrecorded(const struct memory *memory, const struct memory_image *image)
{
	return image->was_withheld || memory->was_withheld || memory->min_bytes > 0 ||
	       memory->is_picked || memory->has_unseen;
}

/* The count of ends of blocks that nobody saw being born, or below --min-size. */
static uint64_t *unknown_of(struct memory *memory, const struct memory_image *image)
{
	struct tally_total *total = &memory->tally->total;

	return image->was_withheld || memory->was_withheld || memory->min_bytes > 0 ||
			       memory->is_picked
		       ? &total->unrecorded_frees
		       : &total->before_trace_frees;
}

/* Nothing was allocated that a waiting end could belong to. */
static void drop(struct memory *memory, struct memory_image *image, struct waiting *waiting)
{
	if (waiting->end.thread == 0)
		return;
	(*unknown_of(memory, image))++;
	waiting->end.thread = 0;
}

static struct waiting *set_of(struct memory_early *early, uint64_t address)
{
	uint64_t set = address * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (WAITING_SETS - 1);

	return &early->waiting[set * WAITING_WAYS];
}

/* A free place of the address's set, or that of the end that has waited longest. */
static struct waiting *place_for(struct waiting *set)
{
	struct waiting *oldest = &set[0];

	for (unsigned i = 0; i < WAITING_WAYS; i++) {
		if (set[i].end.thread == 0)
			return &set[i];
		if (set[i].end.time_ns < oldest->end.time_ns)
			oldest = &set[i];
	}
	return oldest;
}

int memory_early_keep(struct memory *memory, struct memory_image *image,
		      const struct memory_end_of *end)
{
	if (!image->early)
		image->early = calloc(1, sizeof(*image->early));
	if (!image->early)
		return -ENOMEM;

	struct waiting *place = place_for(set_of(image->early, end->address));
	drop(memory, image, place);
	*place = (struct waiting){ *end, find_other(image, end) };
	return 0;
}

/* The end that waits for this allocation. Those that have waited too long are dropped. */
static struct waiting *find_end(struct memory *memory, struct memory_image *image,
				const struct memory_allocation *allocation)
{
	struct waiting *set = set_of(image->early, allocation->address);
	struct waiting *first = NULL;

	for (unsigned i = 0; i < WAITING_WAYS; i++) {
		struct waiting *waiting = &set[i];

		if (waiting->end.thread == 0 || waiting->end.address != allocation->address)
			continue;
		if (allocation->time_ns - waiting->end.time_ns > MERGE_SKEW_NS ||
		    (waiting->end.thread == allocation->thread && !waiting->other))
			drop(memory, image, waiting);
		else if (!first || waiting->end.time_ns < first->end.time_ns)
			first = waiting;
	}
	return first;
}

bool memory_early_allocation(struct memory *memory, struct memory_image *image,
			     const struct memory_allocation *allocation, uint64_t block_id,
			     struct memory_end_of *ret_end)
{
	struct waiting *waiting = image->early ? find_end(memory, image, allocation) : NULL;
	if (!waiting)
		return false;

	struct memory_end_of end = waiting->end;
	end.is_early = true;
	/*
	 * Of two ends in a row the one by the thread of the allocation came before the allocation.
	 */
	if (end.thread == allocation->thread)
		end.thread = waiting->other;
	if (has_unrecorded(memory, image) && !waiting->other) {
		struct memory_early *early = image->early;
		early->doubted[early->n_doubted++ % N_DOUBTED] = (struct doubted){ block_id, end };
		drop(memory, image, waiting);
		return false;
	}
	waiting->end.thread = 0;
	memory->tally->total.early_frees++;
	*ret_end = end;
	return true;
}

const struct memory_end_of *memory_early_end(const struct memory_image *image, uint64_t block_id)
{
	for (unsigned i = 0; image->early && i < N_DOUBTED; i++) {
		if (image->early->doubted[i].block_id == block_id)
			return &image->early->doubted[i].end;
	}
	return NULL;
}

void memory_early_count(struct memory *memory, const struct memory_image *image)
{
	memory->tally->total.early_frees++;
	(*unknown_of(memory, image))--;
}

void memory_early_finish(struct memory *memory, struct memory_image *image)
{
	for (unsigned i = 0; image->early && i < WAITING_SETS * WAITING_WAYS; i++)
		drop(memory, image, &image->early->waiting[i]);
	free(image->early);
	image->early = NULL;
}
