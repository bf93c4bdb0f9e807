/*
 * Ends that were stamped before the birth they belong to. The stamp before a free is not ordered with
 * what the processor has still to do: while it waits for the line through which another thread hands
 * the block over, the stamp can be some 100 ns older than that. So an address that is freed twice
 * without a birth in between, by two threads and within the skew, has one coming: the second end
 * waits for it. An end without the first is one of a block that nobody saw being born.
 */
#include "analyze/memory-internal.h"
#include "analyze/merge.h"

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

/* Of a block that nobody saw being born, or below --min-size. */
static void count_unknown(struct memory *memory, const struct memory_image *image)
{
	if (image->was_withheld || memory->min_bytes > 0)
		memory->tally->total.unrecorded_frees++;
	else
		memory->tally->total.before_trace_frees++;
}

static void drop(struct memory *memory, struct memory_image *image, unsigned i)
{
	count_unknown(memory, image);
	image->early[i] = image->early[--image->n_early];
}

void memory_early_keep(struct memory *memory, struct memory_image *image,
		       const struct memory_end_of *end)
{
	uint32_t other = find_other(image, end);

	if (other == 0) {
		count_unknown(memory, image);
		return;
	}
	if (image->n_early == MEMORY_EARLY)
		drop(memory, image, 0);
	image->early[image->n_early++] = (struct memory_early){ *end, other };
}

int memory_early_birth(struct memory *memory, struct memory_image *image,
		       const struct memory_birth *birth)
{
	for (unsigned i = image->n_early; i-- > 0;) {
		struct memory_end_of end = image->early[i].end;

		if (birth->time_ns - end.time_ns > MERGE_SKEW_NS) {
			drop(memory, image, i);
			continue;
		}
		if (end.address != birth->address)
			continue;
		/* Of the two ends the one by the thread of the birth came before the birth. */
		if (end.thread == birth->thread)
			end.thread = image->early[i].other;
		end.is_early = true;
		image->early[i] = image->early[--image->n_early];
		return memory_death(memory, &end);
	}
	return 0;
}

void memory_early_finish(struct memory *memory, struct memory_image *image)
{
	while (image->n_early > 0)
		drop(memory, image, image->n_early - 1);
}
