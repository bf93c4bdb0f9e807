#include "analyze/live/allocation-writer.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/live/allocation-sorter.h"
#include "analyze/live/live-memory.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/large.h"
#include "store/database-internal.h"
#include "store/row-scan.h"
#include "store/row-writer.h"
#include "store/totals/stretch-blocks.h"
#include "store/totals/totals.h"
#include "store/writer-thread.h"

#define ADVANCE	     (BLOCK_ROWS_WINDOW / 4) /* allocations at a time leave the window */
#define FIRST_WINDOW 1024u /* most runs are small, and 28 MiB are not for them */
#define AHEAD	     8u /* rows that are fetched before their turn */
#define MOST_ENDED   8192u /* a power of two of blocks is given to the thread at a time */

static const struct rows_table table = {
	.name = "allocation",
	.columns = ROWS_ALLOCATION,
	.types = "nnnnnnniiinniiirii",
};

enum column {
	ID,
	RUN,
	PROCESS,
	THREAD,
	ADDRESS,
	SIZE,
	ALLOCATED_NS,
	FREED_NS,
	FREED_THREAD,
	STACK,
	CALL,
	END_KIND,
	PREVIOUS,
	FREE_CALL,
	KIND,
	WEIGHT,
	WITHIN,
	POOL,
};

/* What is needed of a block before it ends. */
struct birth {
	int64_t time_ns;
	uint64_t address;
	uint64_t size;
	int64_t process_row;
	uint32_t site;
	uint32_t within_site;
	uint8_t interval;
};

/*
 * Blocks that ended, those that were born meanwhile, and where stretches begin. What happens at one
 * moment is not torn apart.
 */
struct ended {
	struct block_row *rows;
	size_t n;
	size_t n_allocated;
	size_t n_done;
	size_t n_sorted; /* up to there what ends at one moment is in the order of ids */
	struct birth *births;
	size_t n_births;
	size_t n_births_allocated;
	int64_t *borders;
	size_t n_borders;
	size_t n_borders_allocated;
	uint64_t last; /* the highest id that was allocated */
};

/*
 * The merge fills one batch, while a thread of its own puts those of the other one in order. All
 * behind `job` is the thread's while it is going.
 */
struct block_rows {
	struct ended filled;
	size_t n_full; /* of ended rows: then is looked for room */
	struct stretch_borders borders;
	struct stretch_touches *touches;
	size_t n_threads;
	char apart[128]; /* each side writes often, and none waits for the other's cache line */
	struct ended given;
	struct db_writer *thread;
	struct db_job job;
	struct block_rows_of of;
	uint64_t base; /* the lowest id in the window */
	struct block_row *window; /* by id modulo n_window; block.id 0: has not ended */
	uint64_t n_window; /* a power of two, at most BLOCK_ROWS_WINDOW */
	struct block_spill *late; /* what ended when its id had left the window */
	struct rows *rows;
	struct stretch_blocks *sums;
	struct block_listener listener; /* born NULL: there is none */
};

static void cleanup_block_rows(struct block_rows **rows)
{
	*rows = block_rows_close(*rows);
}
#define auto_block_rows __attribute__((cleanup(cleanup_block_rows)))

static double weight_of(const struct block_rows *rows, uint8_t interval, uint64_t size)
{
	return block_weight_of(rows->of.intervals->bytes[interval], size);
}

static int write_row(struct block_rows *rows, const struct block_row *from)
{
	const struct heap_block *block = &from->block;
	union rows_cell *row = rows_add(rows->rows);
	if (!row)
		return rows_error(rows->rows);

	row[ID].integer = rows->of.first_id + (int64_t)block->id;
	row[RUN].integer = rows->of.run_id;
	row[PROCESS].integer = from->process_row;
	row[THREAD].integer = from->thread_row;
	row[ADDRESS].integer = (int64_t)block->address;
	row[SIZE].integer = (int64_t)block->size;
	row[ALLOCATED_NS].integer = block->allocated_ns;
	row[FREED_NS].integer = memory_is_freed(from->end_kind) ? from->end_ns : ROWS_NULL;
	row[FREED_THREAD].integer = from->freed_thread_row;
	row[STACK].integer = from->stack_id ? from->stack_id : ROWS_NULL;
	row[CALL].integer = block->call;
	row[END_KIND].integer = from->end_kind;
	row[FREE_CALL].integer = from->free_call ? from->free_call : ROWS_NULL;
	row[KIND].integer = from->kind;
	row[PREVIOUS].integer = ROWS_NULL;
	row[WEIGHT].real = weight_of(rows, block->interval, block->size);
	if (block->previous_id)
		row[PREVIOUS].integer = rows->of.first_id + (int64_t)block->previous_id;
	row[WITHIN].integer = row[POOL].integer = ROWS_NULL;
	if (from->within_id)
		row[WITHIN].integer = rows->of.first_id + (int64_t)from->within_id;
	if (from->pool)
		row[POOL].integer = rows->of.first_pool + from->pool;
	return 0;
}

static struct block_row *row_of(const struct block_rows *rows, uint64_t id)
{
	return &rows->window[id & (rows->n_window - 1)];
}

/* Make the window twice as large. */
static int widen(struct block_rows *rows)
{
	uint64_t n_wider = 2 * rows->n_window;
	struct block_row *wider = large_alloc(n_wider * sizeof(*wider));

	if (!wider)
		return -ENOMEM;
	for (uint64_t id = rows->base; id < rows->base + rows->n_window; id++) {
		const struct block_row *row = row_of(rows, id);
		if (row->block.id == id)
			wider[id & (n_wider - 1)] = *row;
	}
	free(rows->window);
	rows->window = wider;
	rows->n_window = n_wider;
	return 0;
}

/* Allocations below the new base leave the window: those that have ended are written. */
static int advance(struct block_rows *rows, uint64_t base)
{
	for (; rows->base < base; rows->base++) {
		struct block_row *row = row_of(rows, rows->base);
		if (row->block.id != rows->base)
			continue;
		int r = write_row(rows, row);
		if (r < 0)
			return r;
		row->block.id = 0;
	}
	return 0;
}

/* Blocks up to this id have been allocated: the window moves along. */
static int pass(struct block_rows *rows, uint64_t id)
{
	while (id >= rows->base + rows->n_window && rows->n_window < BLOCK_ROWS_WINDOW) {
		int r = widen(rows);
		if (r < 0)
			return r;
	}
	if (id < rows->base + BLOCK_ROWS_WINDOW)
		return 0;
	return advance(rows, id + ADVANCE - BLOCK_ROWS_WINDOW);
}

static int order_row(struct block_rows *rows, const struct block_row *row)
{
	if (row->block.id < rows->base)
		return block_spill_add(rows->late, row);
	*row_of(rows, row->block.id) = *row;
	return 0;
}

static bool has_told(const struct block_rows *rows)
{
	return rows->listener.born && stretch_blocks_are_ordered(rows->sums);
}

static int tell_birth(struct block_rows *rows, const struct birth *birth)
{
	const struct picture_row_block block = {
		.process_id = birth->process_row,
		.address = birth->address,
		.size = (int64_t)birth->size,
		.allocated_ns = birth->time_ns,
		.stack_id = birth->site,
	};

	return has_told(rows) ? rows->listener.born(rows->listener.context, &block) : 0;
}

static int tell_end(struct block_rows *rows, const struct block_row *row)
{
	bool is_freed = memory_is_freed(row->end_kind);
	const struct picture_row_block block = {
		.process_id = row->process_row,
		.size = (int64_t)row->block.size,
		.freed_ns = is_freed ? row->end_ns : INT64_MAX,
		.stack_id = row->block.site,
	};

	return has_told(rows) ? rows->listener.ended(rows->listener.context, &block) : 0;
}

static int add_end(struct block_rows *rows, const struct block_row *row)
{
	const struct heap_block *block = &row->block;
	struct tally_end end = {
		.size = block->size,
		.weight = weight_of(rows, block->interval, block->size),
		.allocated_ns = block->allocated_ns,
		.time_ns = row->end_ns,
		.life_ns = row->end_ns - block->allocated_ns,
		.thread_row = row->thread_row,
		.freed_thread_row = row->freed_thread_row,
		.site = block->site,
		.within = row->within_site,
		.is_freed = memory_is_freed(row->end_kind),
		.is_temporary = row->is_temporary,
		.is_reallocated = row->end_kind == MEMORY_REALLOCATED,
		.is_replaced = row->end_kind == MEMORY_EXEC,
	};

	return stretch_blocks_end(rows->sums, &end, row->is_left) ?: tell_end(rows, row);
}

/*
 * What comes next: another processor has just written it. Where it goes in the window was looked at
 * long ago.
 */
static void fetch(const struct block_rows *rows, size_t i)
{
	const struct block_row *coming = &rows->given.rows[i + 2 * AHEAD];

	__builtin_prefetch(coming);
	__builtin_prefetch(&coming->end_ns);
	if (i + AHEAD >= rows->given.n)
		return;
	const struct block_row *place = row_of(rows, rows->given.rows[i + AHEAD].block.id);
	__builtin_prefetch(place, 1);
	__builtin_prefetch(&place->end_ns, 1);
}

/* The next row. */
static int take_row(struct block_rows *rows)
{
	const struct block_row *row = &rows->given.rows[rows->given.n_done];

	fetch(rows, rows->given.n_done++);
	return add_end(rows, row) ?: order_row(rows, row);
}

DEFINE_ORDER(compare_ids, struct block_row, BY(block.id));

/* What ends at one moment, in the order of ids: the next rows, if they do. */
static void sort_moment(struct ended *given, int64_t time_ns)
{
	size_t to = given->n_done;

	while (to < given->n && given->rows[to].end_ns == time_ns)
		to++;
	qsort(given->rows + given->n_done, to - given->n_done, sizeof(*given->rows), compare_ids);
	given->n_sorted = to;
}

/* What ends before a time, and of what ends then the blocks below an id. */
static int take_ends(struct block_rows *rows, int64_t time_ns, uint64_t id)
{
	struct ended *given = &rows->given;
	int r = 0;

	while (r == 0 && given->n_done < given->n && given->rows[given->n_done].end_ns < time_ns)
		r = take_row(rows);
	if (given->n_sorted <= given->n_done)
		sort_moment(given, time_ns);
	while (r == 0 && given->n_done < given->n_sorted &&
	       given->rows[given->n_done].end_ns == time_ns &&
	       given->rows[given->n_done].block.id < id)
		r = take_row(rows);
	return r;
}

static int take_borders(struct block_rows *rows, size_t *number, int64_t until_ns)
{
	const struct ended *given = &rows->given;
	int r = 0;

	for (; r == 0 && *number < given->n_borders && given->borders[*number] <= until_ns;
	     ++*number)
		r = take_ends(rows, given->borders[*number], 0)
			    ?: stretch_blocks_border(rows->sums, given->borders[*number]);
	return r;
}

static int take_given(void *context)
{
	struct block_rows *rows = context;
	struct ended *given = &rows->given;
	uint64_t id = given->last - given->n_births;
	size_t border = 0;
	int r = pass(rows, given->last);

	given->n_done = given->n_sorted = 0;
	for (size_t i = 0; i < given->n_births && r == 0; i++) {
		const struct birth *birth = &given->births[i];
		struct tally_end born = {
			.size = birth->size,
			.weight = weight_of(rows, birth->interval, birth->size),
			.allocated_ns = birth->time_ns,
			.site = birth->site,
			.within = birth->within_site,
		};
		r = take_borders(rows, &border, birth->time_ns);
		r = r ?: take_ends(rows, birth->time_ns, ++id);
		r = r ?: stretch_blocks_born(rows->sums, &born);
		r = r ?: tell_birth(rows, birth);
	}
	r = r ?: take_borders(rows, &border, INT64_MAX);
	while (r == 0 && given->n_done < given->n)
		r = take_row(rows);
	return r;
}

/* ---- The merge's side ---- */

/* Wait for the thread; what went wrong there stays. */
static int settle(struct block_rows *rows)
{
	db_writer_wait(rows->thread, &rows->job);
	return rows->job.result;
}

/* The batch is full, or the last one. */
static int give(struct block_rows *rows)
{
	int r = settle(rows);
	if (r < 0)
		return r;

	struct ended free_again = rows->given;
	rows->given = rows->filled;
	rows->filled = free_again;
	rows->filled.n = rows->filled.n_births = rows->filled.n_borders = 0;
	rows->filled.last = rows->given.last;
	rows->n_full = rows->filled.n_allocated;
	db_writer_give(rows->thread, &rows->job);
	return 0;
}

/* Whether all that happens at the last moment is there. */
static bool is_later(const struct ended *ended, int64_t time_ns)
{
	return ended->n_births == 0 || time_ns > ended->births[ended->n_births - 1].time_ns;
}

/* Batches grow: most runs are small. */
static int make_room(struct block_rows *rows, int64_t time_ns)
{
	struct ended *ended = &rows->filled;
	int r = ended->n >= MOST_ENDED && is_later(ended, time_ns) ? give(rows) : 0;

	r = r ?: grow_one(&ended->rows, ended->n, &ended->n_allocated);
	rows->n_full = ended->n < MOST_ENDED && ended->n_allocated > MOST_ENDED ? MOST_ENDED
		       : ended->n < MOST_ENDED					? ended->n_allocated
										: ended->n + 1;
	return r;
}

/* A stretch begins where a block is born or a sample taken. */
static int add_border(struct block_rows *rows, int64_t time_ns)
{
	struct ended *ended = &rows->filled;
	int r = 0;

	if (!stretch_borders_row(&rows->borders, time_ns,
				 rows->of.tally->n_sites + rows->n_threads))
		return 0;
	r = grow_one(&ended->borders, ended->n_borders, &ended->n_borders_allocated);
	if (r == 0)
		ended->borders[ended->n_borders++] = time_ns;
	return r ?: stretch_touches_border(rows->touches, time_ns);
}

int block_rows_sampled(struct block_rows *rows, int64_t time_ns, const struct sample_event *taken)
{
	return add_border(rows, time_ns) ?: stretch_touches_sample(rows->touches, taken);
}

int block_rows_touched(struct block_rows *rows, const struct touch *touch)
{
	const struct tally *tally = rows->of.tally;

	return stretch_touches_add(rows->touches, touch, tally->sites[touch->owner.site].stack_id);
}

int block_rows_born(struct block_rows *rows, const struct heap_block *block, int64_t process_row,
		    uint32_t within_site)
{
	struct ended *ended = &rows->filled;
	int r = ended->n_births >= MOST_ENDED && is_later(ended, block->allocated_ns) ? give(rows)
										      : 0;

	if (block->thread >= rows->n_threads)
		rows->n_threads = block->thread + 1;
	r = r ?: add_border(rows, block->allocated_ns);
	r = r ?: grow_one(&ended->births, ended->n_births, &ended->n_births_allocated);
	if (r < 0)
		return r;
	ended->births[ended->n_births++] = (struct birth){
		block->allocated_ns, block->address, block->size,     process_row,
		block->site,	     within_site,    block->interval,
	};
	ended->last = block->id;
	return 0;
}

int block_rows_end(struct block_rows *rows, int64_t time_ns, struct block_row **ret_row)
{
	int r = rows->filled.n < rows->n_full ? 0 : make_room(rows, time_ns);

	if (r == 0)
		*ret_row = &rows->filled.rows[rows->filled.n++];
	return r;
}

int block_rows_open(struct db *db, const struct block_rows_of *of, struct block_rows **ret_rows)
{
	auto_block_rows struct block_rows *rows = calloc(1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	rows->of = *of;
	rows->base = 1;
	rows->n_window = FIRST_WINDOW;
	rows->window = large_alloc(rows->n_window * sizeof(*rows->window));
	rows->late = block_spill_open(db->path);
	if (!rows->window || !rows->late)
		return -ENOMEM;

	rows->job.work = take_given;
	rows->job.context = rows;
	int r = stretch_blocks_open(&of->tally->ends, &rows->sums)
			?: rows_open(db, &table, &rows->rows);
	r = r ?: stretch_touches_open(of->tally->threads.first_row, &rows->touches);
	r = r ?: db_writer_open(&rows->thread);
	if (r < 0)
		return r;
	*ret_rows = steal_ptr(&rows);
	return 0;
}

struct block_rows *block_rows_close(struct block_rows *rows)
{
	if (!rows)
		return NULL;
	db_writer_close(rows->thread);
	rows_close(rows->rows);
	stretch_blocks_close(rows->sums);
	stretch_touches_close(rows->touches);
	free_all(rows->filled.rows, rows->filled.births, rows->filled.borders, rows->given.rows,
		 rows->given.births, rows->given.borders, rows->window);
	block_spill_close(rows->late);
	free(rows);
	return NULL;
}

static int write_late(void *context, const struct block_row *row)
{
	return write_row(context, row);
}

/* The last job of the thread: behind the last batch, what is in the window and what came late. */
static int finish_given(void *context)
{
	struct block_rows *rows = context;
	int r = take_given(rows) ?: advance(rows, rows->given.last + 1);
	r = r ?: rows_start_again(rows->rows);
	r = r ?: block_spill_drain(rows->late, write_late, rows);
	return r < 0 ? r : rows_flush(rows->rows);
}

int block_rows_count(struct block_rows *rows)
{
	int r = give(rows) ?: settle(rows);

	return r < 0 ? r : stretch_blocks_settle(rows->sums);
}

void block_rows_listen(struct block_rows *rows, const struct block_listener *listener)
{
	rows->listener = *listener;
}

bool block_rows_have_told(const struct block_rows *rows)
{
	return has_told(rows);
}

int block_rows_write_sums(struct block_rows *rows, struct db *db)
{
	return stretches_write(rows->sums, rows->touches, db, rows->of.run_id, rows->of.tally);
}

int block_rows_finish(struct block_rows *rows)
{
	int r = settle(rows);

	rows->job.work = finish_given;
	return r < 0 ? r : give(rows);
}

int block_rows_wait(struct block_rows *rows)
{
	return settle(rows);
}
