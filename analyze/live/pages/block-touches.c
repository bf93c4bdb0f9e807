#include "analyze/live/pages/block-touches.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

const struct rows_table block_touches_table = {
	.name = "page_block",
	.columns = "run_id, process_id, kind, owner_id, first_from_ns, first_to_ns, last_from_ns,"
		   " last_to_ns, n_intervals, size, resident, least, most, write_known, written,"
		   " last_write_ns",
	.types = "nntniiiinnnnnnni",
};

/* Times: ROWS_NULL: not yet. Bytes: the most of any interval. */
struct touched_block {
	struct block_meant meant;
	int64_t first_from_ns;
	int64_t first_to_ns;
	int64_t last_from_ns;
	int64_t last_to_ns;
	int64_t n_intervals;
	uint64_t size;
	struct touch_part part;
	uint8_t *states; /* of n_states pages: enum page_writing; NULL: nothing is known of them */
	uint64_t n_states;
	uint64_t n_known; /* of its pages */
	uint64_t n_written; /* of them */
	uint64_t page_bytes;
	int64_t last_write_ns; /* ROWS_NULL: never */
	/* In this interval: */
	uint64_t n_here; /* pages in the current mapping */
	uint64_t size_now;
	struct touch_part now;
	bool is_seen;
};

/* Of a page, in all intervals so far. */
enum page_writing { WRITING_UNKNOWN, WRITING_NEVER, WRITING_SEEN };

struct touch_part touch_part_of(const struct touch_facts *facts, uint64_t n)
{
	uint64_t bytes = facts->page_bytes, absent = facts->n_pages - facts->resident;
	/* A block that has left pages may have had any of these n. */
	uint64_t others = facts->n_pages - n + (facts->left < n ? facts->left : n);
	uint64_t most = facts->touched < n ? facts->touched : n;

	/* In as many huge pages, each of which is a page of page table entries. */
	if (facts->has_huge)
		others *= bytes / 8;
	return (struct touch_part){
		.least = facts->touched > others ? (facts->touched - others) * bytes : 0,
		.most = (facts->is_unsure ? n : most) * bytes,
		.resident = n > absent ? (n - absent) * bytes : 0,
	};
}

void block_touches_finish(struct block_touches *touches)
{
	array_free(touches->blocks, touches->n, it, free(it->states));
	free(touches->here);
	free(touches->seen);
	key_map_finish(&touches->places);
	*touches = (struct block_touches){ 0 };
}

/* 1 + its place; 0: no memory. */
static size_t place_of(struct block_touches *touches, const struct block_meant *meant)
{
	const struct touched_block *block =
		key_map_item(&touches->places, meant->id, meant->is_mapping, touches->blocks,
			     touches->n, touches->n_allocated,
			     (struct touched_block){
				     .meant = *meant,
				     .first_from_ns = ROWS_NULL,
				     .first_to_ns = ROWS_NULL,
				     .last_from_ns = ROWS_NULL,
				     .last_to_ns = ROWS_NULL,
				     .last_write_ns = ROWS_NULL,
			     });

	return block ? (size_t)(block - touches->blocks) + 1 : 0;
}

int block_touches_add(struct block_touches *touches, const struct block_meant *meant,
		      uint64_t n_pages)
{
	size_t place = place_of(touches, meant);

	if (place == 0 ||
	    grow_one(&touches->here, touches->n_here, &touches->n_here_allocated) < 0 ||
	    grow_one(&touches->seen, touches->n_seen, &touches->n_seen_allocated) < 0)
		return -ENOMEM;
	struct touched_block *block = &touches->blocks[place - 1];

	if (block->n_here == 0)
		touches->here[touches->n_here++] = place - 1;
	if (!block->is_seen)
		touches->seen[touches->n_seen++] = place - 1;
	block->is_seen = true;
	block->n_here += n_pages;
	return 0;
}

int block_touches_note(struct block_touches *touches, const struct block_meant *meant,
		       const struct block_writes *writes)
{
	size_t place = place_of(touches, meant);
	struct touched_block *block = place ? &touches->blocks[place - 1] : NULL;

	if (block && !block->states) {
		block->states = calloc(writes->n_pages, 1);
		block->n_states = block->states ? writes->n_pages : 0;
		block->page_bytes = writes->page_bytes;
	}
	if (!block || !block->states)
		return -ENOMEM;
	/* A mapping may have grown, or begin elsewhere: of what is left it is known. */
	for (uint64_t i = writes->first; i < writes->first + writes->n && i < block->n_states;
	     i++) {
		enum page_writing state = block->states[i];

		block->n_known += state == WRITING_UNKNOWN;
		block->n_written += writes->is_written && state != WRITING_SEEN;
		if (writes->is_written || state == WRITING_UNKNOWN)
			block->states[i] = writes->is_written ? WRITING_SEEN : WRITING_NEVER;
	}
	if (writes->is_written && block->last_write_ns < writes->end_ns)
		block->last_write_ns = writes->end_ns;
	return 0;
}

void block_touches_end_run(struct block_touches *touches, const struct touch_facts *facts)
{
	for (size_t i = 0; i < touches->n_here; i++) {
		struct touched_block *block = &touches->blocks[touches->here[i]];
		struct touch_part part = touch_part_of(facts, block->n_here);

		block->size_now += block->n_here * facts->page_bytes;
		block->now.least += part.least;
		block->now.most += part.most;
		block->now.resident += part.resident;
		block->n_here = 0;
	}
	touches->n_here = 0;
}

static void raise_to(uint64_t *value, uint64_t other)
{
	if (*value < other)
		*value = other;
}

static void end_block(struct touched_block *block, int64_t begin_ns, int64_t end_ns)
{
	if (begin_ns < block->meant.allocated_ns)
		begin_ns = block->meant.allocated_ns;
	if (block->now.most > 0) {
		if (block->first_from_ns == ROWS_NULL)
			block->first_from_ns = begin_ns;
		block->last_to_ns = end_ns;
	}
	if (block->now.least > 0) {
		if (block->first_to_ns == ROWS_NULL)
			block->first_to_ns = end_ns;
		block->last_from_ns = begin_ns;
	}
	block->n_intervals++;
	raise_to(&block->size, block->size_now);
	raise_to(&block->part.resident, block->now.resident);
	raise_to(&block->part.least, block->now.least);
	raise_to(&block->part.most, block->now.most);
	block->size_now = 0;
	block->now = (struct touch_part){ 0 };
	block->is_seen = false;
}

void block_touches_end(struct block_touches *touches, int64_t begin_ns, int64_t end_ns)
{
	for (size_t i = 0; i < touches->n_seen; i++)
		end_block(&touches->blocks[touches->seen[i]], begin_ns, end_ns);
	touches->n_seen = 0;
}

int block_touches_write(const struct block_touches *touches, struct rows *rows, int64_t run_id,
			int64_t process_row)
{
	for (size_t i = 0; i < touches->n; i++) {
		const struct touched_block *block = &touches->blocks[i];
		int r = rows_put(rows, CELL(run_id), CELL(process_row),
				 CELL(block->meant.is_mapping ? "mapping" : "heap"),
				 CELL(block->meant.id), CELL(block->first_from_ns),
				 CELL(block->first_to_ns), CELL(block->last_from_ns),
				 CELL(block->last_to_ns), CELL(block->n_intervals),
				 CELL(block->size), CELL(block->part.resident),
				 CELL(block->part.least), CELL(block->part.most),
				 CELL((int64_t)(block->n_known * block->page_bytes)),
				 CELL((int64_t)(block->n_written * block->page_bytes)),
				 CELL(block->last_write_ns));
		if (r < 0)
			return r;
	}
	return 0;
}
