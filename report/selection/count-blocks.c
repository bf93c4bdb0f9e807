#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "report/selection/count.h"
#include "store/compact/scan.h"
#include "store/database.h"
#include "store/end-queue.h"
#include "store/row-limit.h"
#include "store/row-writer.h"
#include "store/statement.h"

enum {
	BLOCK_ID,
	BLOCK_PROCESS,
	BLOCK_THREAD,
	BLOCK_ADDRESS,
	BLOCK_SIZE,
	BLOCK_ALLOCATED,
	BLOCK_FREED,
	BLOCK_KILLER,
	BLOCK_STACK,
	BLOCK_WEIGHT,
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

	while (r == 0 && (r = statement_step(row)) == 1) {
		r = grow_array(&blocks->processes, blocks->n_processes, &n_allocated,
			       sizeof(*blocks->processes));
		if (r < 0)
			return r;
		blocks->processes[blocks->n_processes++] =
			(struct process_end){ sqlite3_column_int64(row, 0),
					      sqlite3_column_int64(row, 1) };
	}
	return r;
}

/* When what nobody freed ends. */
static int64_t end_of(const struct blocks *blocks, int64_t process_id)
{
	size_t i = array_n_until(blocks->processes, blocks->n_processes, id, process_id);

	return i > 0 && blocks->processes[i - 1].id == process_id ? blocks->processes[i - 1].end_ns
								  : INT64_MAX;
}

static bool takes(const struct filter *filter, const int64_t *const *columns, uint32_t i)
{
	const struct selection *selection = filter->selection;
	int64_t allocated_ns = columns[BLOCK_ALLOCATED][i], freed_ns = columns[BLOCK_FREED][i];

	if (filter->is_timed && (allocated_ns >= selection->to_ns ||
				 (freed_ns != SCAN_NULL && freed_ns < selection->from_ns)))
		return false;
	return filter_takes(filter, columns[BLOCK_PROCESS][i], columns[BLOCK_THREAD][i],
			    allocated_ns) &&
	       filter_has_bytes(filter, columns[BLOCK_ADDRESS][i], columns[BLOCK_SIZE][i]);
}

/*
 * How the selection sees the end of a block; times since its begin, cut at its end. 0 or -EBADMSG.
 */
static int read_end(const struct blocks *blocks, const int64_t *const *columns, uint32_t i,
		    struct tally_end *ret_end)
{
	const struct selection *selection = blocks->count->selection;
	int64_t allocated_ns = columns[BLOCK_ALLOCATED][i], freed_ns = columns[BLOCK_FREED][i];
	bool is_freed = freed_ns != SCAN_NULL;
	int64_t end_ns = is_freed ? freed_ns : end_of(blocks, columns[BLOCK_PROCESS][i]);
	struct tally_end end = {
		.size = (uint64_t)columns[BLOCK_SIZE][i],
		.life_ns = -1,
		.thread_row = columns[BLOCK_THREAD][i],
		.freed_thread_row = columns[BLOCK_KILLER][i],
		.is_freed = is_freed,
		.is_left = end_ns == INT64_MAX || end_ns >= selection->to_ns,
		.is_carried = allocated_ns < selection->from_ns,
	};

	int r = count_distance(selection->from_ns, end_ns < blocks->to_ns ? end_ns : blocks->to_ns,
			       &end.time_ns);
	if (r == 0 && !end.is_carried)
		r = count_distance(selection->from_ns, allocated_ns, &end.allocated_ns);
	if (r == 0 && is_freed)
		r = count_distance(allocated_ns, freed_ns, &end.life_ns);
	memcpy(&end.weight, &columns[BLOCK_WEIGHT][i], sizeof(end.weight));
	*ret_end = end;
	return r;
}
_Static_assert(SCAN_NULL == ROWS_NULL, "a thread that nobody knows");

static bool has_rows(const struct count *count, const struct tally_end *end, int64_t stack_id)
{
	return row_is_below(stack_id, count->max_stacks) &&
	       row_is_below(end->thread_row, count->max_threads) &&
	       (end->freed_thread_row == ROWS_NULL ||
		row_is_below(end->freed_thread_row, count->max_threads));
}

static int take_until(struct blocks *blocks, int64_t time_ns)
{
	struct block_end end;
	int r;

	while ((r = end_queue_take(&blocks->queue, time_ns, &end)) == 1) {
		const struct block_weight weight = block_weigh(end.weight, end.size);
		tally_free(blocks->count->tally, end.site, &weight, end.time_ns, end.is_freed);
	}
	return r;
}

static int add_block(struct blocks *blocks, const int64_t *const *columns, uint32_t i)
{
	struct count *count = blocks->count;
	int64_t stack_id = columns[BLOCK_STACK][i] == SCAN_NULL ? 0 : columns[BLOCK_STACK][i];
	struct tally_end end;

	int r = read_end(blocks, columns, i, &end);
	if (r == 0 && end.is_carried && end.time_ns < 0) /* its process ended before */
		return 0;
	if (r == 0 && !has_rows(count, &end, stack_id))
		r = -EBADMSG;
	if (r == 0)
		r = tally_site(count->tally, stack_id, &end.site);
	if (r == 0)
		r = site_map_put(&count->sites, columns[BLOCK_ID][i], end.site);
	/* What is there when the time begins is there at once, and ends afterwards. */
	if (r == 0 && !end.is_carried)
		r = take_until(blocks, end.allocated_ns);
	if (r < 0)
		return r;
	const struct block_weight weight = block_weigh(end.weight, end.size);
	if (end.is_carried)
		tally_carry(count->tally, end.site, &weight);
	else
		tally_allocation(count->tally, end.site, &weight, end.allocated_ns);
	r = tally_ends_add(&count->tally->ends, &end);
	const struct block_end later = { end.time_ns,  end.size, end.site,
					 end.is_freed, 0,	 end.weight };
	return r < 0 || end.is_left ? r : end_queue_push(&blocks->queue, &later);
}

static int add_rows(struct blocks *blocks, const struct scan_rows *rows)
{
	int r = 0;

	for (uint32_t i = 0; i < rows->n && r == 0; i++) {
		if (takes(blocks->count->filter, rows->columns, i))
			r = add_block(blocks, rows->columns, i);
	}
	return r;
}

static int open_scan(const struct count *count, struct scan **ret_scan)
{
	const struct selection *selection = count->selection;
	const struct scan_query query = {
		"allocation",
		"id, process_id, thread_id, address, size, allocated_ns, freed_ns, freed_thread_id,"
		" stack_id, stands_for",
		count->run_id,
	};
	const struct scan_bound allocation = { BLOCK_ALLOCATED, INT64_MIN, selection->to_ns - 1,
					       false };
	const struct scan_bound freed = { BLOCK_FREED, selection->from_ns, INT64_MAX, true };
	int r = scan_open(db_handle(count->db), &query, ret_scan);

	if (r == 0 && count->filter->is_timed) {
		scan_bound(*ret_scan, &allocation);
		scan_bound(*ret_scan, &freed);
	}
	return r;
}

int count_blocks(struct count *count)
{
	auto_blocks struct blocks blocks = { .count = count };
	auto_scan struct scan *scan = NULL;
	const struct selection *selection = count->selection;
	int64_t end_ns = db_integer_of(
		count->db, 0, "SELECT duration_ns FROM main.run WHERE id = ?1", "i", count->run_id);
	const struct scan_rows *rows;
	int64_t span_ns;

	blocks.to_ns = selection->to_ns < end_ns ? selection->to_ns : end_ns;
	int r = count_distance(selection->from_ns, blocks.to_ns, &span_ns);
	if (r == 0)
		r = end_queue_init(&blocks.queue, span_ns);
	if (r == 0)
		r = read_processes(&blocks);
	if (r == 0)
		r = open_scan(count, &scan);
	while (r == 0 && (r = scan_next(scan, &rows)) == 1)
		r = add_rows(&blocks, rows);
	if (r == 0)
		r = take_until(&blocks, INT64_MAX);
	/* The next run begins with nothing live. */
	if (r == 0 && count->run_id != selection->runs[selection->n_runs - 1])
		tally_leave(count->tally);
	return r;
}
