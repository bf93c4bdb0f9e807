#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/compact/scan.h"
#include "store/database.h"
#include "store/end-queue.h"
#include "store/row-limit.h"
#include "store/row-writer.h"
#include "store/selection/count.h"
#include "store/statement.h"

enum {
	BLOCK_ALLOCATED,
	BLOCK_FREED,
	BLOCK_ID,
	BLOCK_PROCESS,
	BLOCK_THREAD,
	BLOCK_ADDRESS,
	BLOCK_SIZE,
	BLOCK_KILLER,
	BLOCK_STACK,
	BLOCK_WEIGHT,
	BLOCK_WITHIN,
};

struct process_end {
	int64_t id;
	int64_t end_ns; /* INT64_MAX: not known */
};

struct blocks {
	struct count *count;
	struct process_end *processes; /* by id */
	size_t n_processes;
	struct end_queue queue;
	int64_t to_ns; /* ends are cut here */
};

static void finish(struct blocks *blocks)
{
	free(blocks->processes);
	end_queue_finish(&blocks->queue);
}
#define auto_blocks __attribute__((cleanup(finish)))

static int read_processes(struct blocks *blocks)
{
	auto_statement sqlite3_stmt *row = NULL;
	size_t n_allocated = 0;
	int r = statement_prepare(db_handle(blocks->count->db),
				  "SELECT id, coalesce(end_ns, 9223372036854775807)"
				  " FROM main.process ORDER BY id",
				  &row);

	while (r == 0 && (r = statement_step(row)) == 1)
		r = array_add(blocks->processes, blocks->n_processes, n_allocated,
			      (struct process_end){ sqlite3_column_int64(row, 0),
						    sqlite3_column_int64(row, 1) });
	return r;
}

/* When what nobody freed ends. */
static int64_t end_of(const struct blocks *blocks, int64_t process_id)
{
	size_t i = array_n_until(blocks->processes, blocks->n_processes, id, process_id);

	return i > 0 && blocks->processes[i - 1].id == process_id ? blocks->processes[i - 1].end_ns
								  : INT64_MAX;
}

/* Those that lived in the time. */
static uint32_t choose_blocks(const void *context, const int64_t *const *columns, uint32_t n,
			      uint32_t *chosen)
{
	const struct count *count = context;
	uint32_t n_chosen = 0;

	for (uint32_t i = 0; i < n; i++) {
		int64_t freed_ns = columns[BLOCK_FREED][i];
		chosen[n_chosen] = i;
		n_chosen += columns[BLOCK_ALLOCATED][i] < count->to_ns &&
			    (freed_ns == SCAN_NULL || freed_ns >= count->from_ns);
	}
	return n_chosen;
}

static bool takes(const struct count *count, const int64_t *const *columns, uint32_t i)
{
	return filter_takes(count->filter, columns[BLOCK_PROCESS][i], columns[BLOCK_THREAD][i],
			    columns[BLOCK_ALLOCATED][i]) &&
	       filter_has_bytes(count->filter, columns[BLOCK_ADDRESS][i], columns[BLOCK_SIZE][i]);
}

/* A block as the time that is counted sees it; times since the selection's begin. */
struct block {
	struct tally_end end;
	int64_t stack_id;
	bool is_left; /* it is there when the time ends */
	bool is_carried; /* it was there when the time began */
};

/* Cut at the end of the time. 0 or -EBADMSG. */
static int read_block(const struct blocks *blocks, const int64_t *const *columns, uint32_t i,
		      struct block *ret_block)
{
	const struct count *count = blocks->count;
	int64_t zero_ns = count->selection->from_ns;
	int64_t allocated_ns = columns[BLOCK_ALLOCATED][i], freed_ns = columns[BLOCK_FREED][i];
	int64_t stack_id = columns[BLOCK_STACK][i];
	bool is_freed = freed_ns != SCAN_NULL;
	int64_t end_ns = is_freed ? freed_ns : end_of(blocks, columns[BLOCK_PROCESS][i]);
	struct block block = {
		.end = {
			.size = (uint64_t)columns[BLOCK_SIZE][i],
			.life_ns = -1,
			.thread_row = columns[BLOCK_THREAD][i],
			.freed_thread_row = columns[BLOCK_KILLER][i],
			.is_freed = is_freed,
		},
		.stack_id = stack_id == SCAN_NULL ? 0 : stack_id,
		.is_left = end_ns == INT64_MAX || end_ns >= count->to_ns,
		.is_carried = allocated_ns < count->from_ns,
	};

	int r = count_distance(zero_ns, end_ns < blocks->to_ns ? end_ns : blocks->to_ns,
			       &block.end.time_ns);
	if (r == 0)
		r = count_distance(zero_ns, block.is_carried ? count->from_ns : allocated_ns,
				   &block.end.allocated_ns);
	if (r == 0 && is_freed)
		r = count_distance(allocated_ns, freed_ns, &block.end.life_ns);
	memcpy(&block.end.weight, &columns[BLOCK_WEIGHT][i], sizeof(block.end.weight));
	*ret_block = block;
	return r;
}
_Static_assert(SCAN_NULL == ROWS_NULL, "a thread that nobody knows");

static bool has_rows(const struct count *count, const struct block *block)
{
	const struct tally_end *end = &block->end;

	return row_is_below(block->stack_id, count->max_stacks) &&
	       row_is_below(end->thread_row, count->max_threads) &&
	       (end->freed_thread_row == ROWS_NULL ||
		row_is_below(end->freed_thread_row, count->max_threads));
}

static int take_until(struct blocks *blocks, int64_t time_ns)
{
	struct tally *tally = blocks->count->tally;
	struct block_end end;
	int r;

	while ((r = end_queue_take(&blocks->queue, time_ns, &end)) == 1) {
		const struct block_weight weight = block_weigh(end.weight, end.size);
		if (end.within) {
			tally_free_within(tally, end.site, end.within, &weight, end.time_ns);
			tally_ends_end_within(&tally->ends, end.within, weight.bytes, end.time_ns);
		} else {
			tally_free(tally, end.site, &weight, end.time_ns, end.is_freed);
		}
		tally_ends_end(&tally->ends, end.site, &weight, end.time_ns, end.killer);
	}
	return r;
}

/* It lies in a block that is counted: in all no more is live than that. */
static int begin_within(struct count *count, const struct block *block,
			const struct block_weight *weight)
{
	const struct tally_end *end = &block->end;
	int r = tally_ends_live_within(&count->tally->ends, end->within, weight->bytes,
				       end->allocated_ns);

	if (r == 0)
		tally_allocation_within(count->tally, end->site, end->within, weight,
					end->allocated_ns);
	return r < 0 || block->is_carried ? r : tally_ends_born(&count->tally->ends, end);
}

static int begin_block(struct blocks *blocks, struct block *block)
{
	struct count *count = blocks->count;
	struct tally *tally = count->tally;
	struct tally_end *end = &block->end;
	const struct block_weight weight = block_weigh(end->weight, end->size);
	/* What is there when the time begins is there at once, and ends afterwards. */
	int r = block->is_carried ? 0 : take_until(blocks, end->allocated_ns);

	r = r ?: tally_ends_live(&tally->ends, end->site, weight.bytes, end->allocated_ns);
	if (r < 0)
		return r;
	if (end->within)
		return begin_within(count, block, &weight);
	if (!block->is_carried)
		tally_allocation(tally, end->site, &weight, end->allocated_ns);
	else if (count->goes_on)
		tally_return(tally, end->site, &weight);
	else
		tally_carry(tally, end->site, &weight);
	return block->is_carried ? 0 : tally_ends_born(&tally->ends, end);
}

/* The site of the block that it lies in, where that one is counted, too. */
static int find_within(struct count *count, int64_t within_id, uint32_t *ret_site)
{
	uint32_t stack = within_id == SCAN_NULL ? 0 : site_map_get(&count->stacks, within_id);

	return stack ? tally_site(count->tally, stack - 1, ret_site) : 0;
}

static int add_block(struct blocks *blocks, const int64_t *const *columns, uint32_t i)
{
	struct count *count = blocks->count;
	struct block block;

	int r = read_block(blocks, columns, i, &block);
	struct tally_end *end = &block.end;
	/* Its process ended before. */
	if (r == 0 && block.is_carried && end->time_ns < end->allocated_ns)
		return 0;
	if (r == 0 && !has_rows(count, &block))
		r = -EBADMSG;
	r = r ?: tally_site(count->tally, block.stack_id, &end->site);
	r = r ?: find_within(count, columns[BLOCK_WITHIN][i], &end->within);
	r = r ?: site_map_put(&count->stacks, columns[BLOCK_ID][i], (uint32_t)block.stack_id + 1);
	r = r ?: begin_block(blocks, &block);
	if (r < 0 || block.is_left)
		return r;
	const struct block_end later = {
		.time_ns = end->time_ns,
		.size = end->size,
		.site = end->site,
		.is_freed = end->is_freed,
		.weight = end->weight,
		.killer = end->within || end->freed_thread_row == ROWS_NULL
				  ? 0
				  : (uint32_t)end->freed_thread_row,
		.within = end->within,
	};
	return end_queue_push(&blocks->queue, &later);
}

static int add_rows(struct blocks *blocks, const struct scan_rows *rows)
{
	int r = 0;

	for (uint32_t i = 0; i < rows->n && r == 0; i++) {
		if (takes(blocks->count, rows->columns, i))
			r = add_block(blocks, rows->columns, i);
	}
	return r;
}

static int open_scan(const struct count *count, struct scan **ret_scan)
{
	const struct scan_query query = {
		"allocation",
		"allocated_ns, freed_ns, id, process_id, thread_id, address, size, freed_thread_id,"
		" stack_id, stands_for, within_id",
		count->run_id,
	};
	const struct scan_bound allocated = { BLOCK_ALLOCATED, INT64_MIN, count->to_ns - 1, false };
	const struct scan_bound freed = { BLOCK_FREED, count->from_ns, INT64_MAX, true };
	const struct scan_choice choice = { BLOCK_FREED + 1, choose_blocks, count };
	int r = scan_open(db_handle(count->db), &query, ret_scan);

	if (r == 0 && count->filter->is_timed) {
		scan_bound(*ret_scan, &allocated);
		scan_bound(*ret_scan, &freed);
		scan_choose(*ret_scan, &choice);
	}
	return r;
}

/* Nothing comes any more: what is live has been so until the end of the time. */
static int end_all(struct blocks *blocks, int64_t span_ns)
{
	struct count *count = blocks->count;
	int r = take_until(blocks, INT64_MAX);
	if (r == 0)
		tally_settle_live(count->tally, span_ns);
	return r;
}

/* Of arrays of 32 bits, too. */
static int64_t limit_of(struct db *db, const char *table)
{
	int64_t limit = row_limit(db_handle(db), table);

	return limit < INT32_MAX ? limit : INT32_MAX;
}

void count_init(struct count *count, struct db *db, int64_t run_id)
{
	count->db = db;
	count->run_id = run_id;
	count->max_stacks = limit_of(db, "main.stack");
	count->max_threads = limit_of(db, "main.thread");
}

int count_blocks(struct count *count)
{
	auto_blocks struct blocks blocks = { .count = count };
	auto_scan struct scan *scan = NULL;
	int64_t end_ns = db_integer_of(
		count->db, 0, "SELECT duration_ns FROM main.run WHERE id = ?1", "i", count->run_id);
	const struct scan_rows *rows;
	int64_t span_ns;

	blocks.to_ns = count->to_ns < end_ns ? count->to_ns : end_ns;
	int r = count_distance(count->selection->from_ns, blocks.to_ns, &span_ns);
	r = r ?: end_queue_init(&blocks.queue, span_ns);
	r = r ?: read_processes(&blocks);
	r = r ?: open_scan(count, &scan);
	while (r == 0 && (r = scan_next(scan, &rows)) == 1)
		r = add_rows(&blocks, rows);
	return r < 0 ? r : end_all(&blocks, span_ns);
}
