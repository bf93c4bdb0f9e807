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

#define PAGE_ROWS  21844u /* 2 MiB: as many leave the window at a time */
#define AHEAD	   32u /* ends whose blocks are fetched at a time */
#define MOST_ENDED 8192u /* a power of two of blocks is given to the thread at a time */

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
	N_COLUMNS,
};

/*
 * Blocks that ended, those that were born meanwhile, and where stretches begin. What happens at one
 * moment is not torn apart.
 */
struct ended {
	struct block_end *ends;
	size_t n;
	size_t n_allocated;
	size_t n_done;
	size_t n_sorted; /* up to there what ends at one moment is in the order of ids */
	struct block_birth *births;
	size_t n_births;
	size_t n_births_allocated;
	struct block_birth *late; /* of blocks that ended and have left the window */
	size_t n_late;
	size_t n_late_allocated;
	int64_t *borders;
	size_t n_borders;
	size_t n_borders_allocated;
	uint64_t last; /* the highest id that was allocated */
};

/* Blocks of PAGE_ROWS ids. */
struct page {
	struct block_rows *of;
	uint32_t n; /* that are written */
	_Alignas(LARGE_ALIGNMENT) struct block_row rows[PAGE_ROWS]; /* two lines each */
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
	struct page **pages; /* the window */
	size_t n_pages;
	size_t n_pages_allocated;
	uint64_t first_page; /* its number: id / PAGE_ROWS */
	struct page *leaving; /* it is being written */
	struct page *written; /* is free */
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

static int64_t or_null(int64_t row)
{
	return row ? row : ROWS_NULL;
}

static void fill_row(const struct block_rows *rows, const struct block_row *from,
		     union rows_cell *row)
{
	const struct block_birth *birth = &from->birth;
	const struct block_end *end = &from->end;

	row[ID].integer = rows->of.first_id + (int64_t)end->id;
	row[RUN].integer = rows->of.run_id;
	row[PROCESS].integer = birth->process;
	row[THREAD].integer = birth->thread;
	row[ADDRESS].integer = (int64_t)birth->address;
	row[SIZE].integer = (int64_t)birth->size;
	row[ALLOCATED_NS].integer = birth->time_ns;
	row[FREED_NS].integer = memory_is_freed(end->end_kind) ? end->time_ns : ROWS_NULL;
	row[FREED_THREAD].integer = or_null(end->freed_thread);
	row[STACK].integer = or_null(birth->stack);
	row[CALL].integer = end->call;
	row[END_KIND].integer = end->end_kind;
	row[FREE_CALL].integer = or_null(end->free_call);
	row[KIND].integer = or_null(end->kind);
	row[PREVIOUS].integer = ROWS_NULL;
	row[WEIGHT].real = weight_of(rows, birth->interval, birth->size);
	if (end->previous_id)
		row[PREVIOUS].integer = rows->of.first_id + (int64_t)end->previous_id;
	row[WITHIN].integer = row[POOL].integer = ROWS_NULL;
	if (birth->within_id)
		row[WITHIN].integer = rows->of.first_id + (int64_t)birth->within_id;
	if (birth->pool)
		row[POOL].integer = rows->of.first_pool + birth->pool;
}

/* ---- The window ---- */

static struct block_row *row_of(const struct block_rows *rows, uint64_t id)
{
	return &rows->pages[id / PAGE_ROWS - rows->first_page]->rows[id % PAGE_ROWS];
}

/* Most runs are small, and have one page that is used in part. */
static int add_page(struct block_rows *rows)
{
	bool is_first = rows->first_page + rows->n_pages == 0;
	int r = grow_one(&rows->pages, rows->n_pages, &rows->n_pages_allocated);
	struct page *page = r < 0      ? NULL
			    : is_first ? aligned_alloc(LARGE_ALIGNMENT, LARGE_PAGE_BYTES)
				       : steal_ptr(&rows->written) ?: large_room(LARGE_PAGE_BYTES);

	if (!page)
		return -ENOMEM;
	page->of = rows;
	page->n = 0;
	page->rows[0].end.id = 0; /* no block has the id 0 */
	rows->pages[rows->n_pages++] = page;
	return 0;
}
_Static_assert(sizeof(struct page) <= LARGE_PAGE_BYTES, "a page is one of the system's");

static int add_births(struct block_rows *rows)
{
	const struct ended *given = &rows->given;
	uint64_t id = given->last - given->n_births;
	int r = 0;

	for (size_t i = 0; i < given->n_births && r == 0; i++) {
		if (++id >= (rows->first_page + rows->n_pages) * PAGE_ROWS)
			r = add_page(rows);
		if (r == 0)
			*row_of(rows, id) = (struct block_row){ .birth = given->births[i] };
	}
	return r;
}

/* The threads that write ask for rows: those that have ended. */
static size_t write_page(const void *context, size_t *at, union rows_cell *cells, size_t n)
{
	const struct page *page = context;
	size_t n_filled = 0;

	for (; n_filled < n && *at < page->n; ++*at) {
		const struct block_row *row = &page->rows[*at];
		if (row->end.id)
			fill_row(page->of, row, cells + n_filled++ * N_COLUMNS);
	}
	return n_filled;
}

/* The first page leaves the window. n: of its rows. */
static int leave(struct block_rows *rows, uint64_t n)
{
	struct page *page = rows->pages[0];

	page->n = n < PAGE_ROWS ? (uint32_t)n : PAGE_ROWS;
	int r = rows_make(rows->rows, write_page, page);
	free(rows->written);
	rows->written = rows->leaving;
	rows->leaving = page;
	rows->first_page++;
	memmove(rows->pages, rows->pages + 1, --rows->n_pages * sizeof(struct page *));
	return r;
}

/* The window moves along: pages whose blocks come again if they end from now on. */
static int pass(struct block_rows *rows)
{
	uint64_t first = rows->given.last - rows->given.n_births;
	int r = 0;

	while (r == 0 && (rows->first_page + 1) * PAGE_ROWS + BLOCK_ROWS_WINDOW <= first)
		r = leave(rows, PAGE_ROWS);
	return r;
}

/* ---- In the order of time ---- */

static bool has_told(const struct block_rows *rows)
{
	return rows->listener.born && stretch_blocks_are_ordered(rows->sums);
}

static int tell_birth(struct block_rows *rows, const struct block_birth *birth)
{
	const struct picture_row_block block = {
		.process_id = birth->process,
		.address = birth->address,
		.size = (int64_t)birth->size,
		.allocated_ns = birth->time_ns,
		.stack_id = birth->site,
	};

	return has_told(rows) ? rows->listener.born(rows->listener.context, &block) : 0;
}

static int tell_end(struct block_rows *rows, const struct block_row *row)
{
	bool is_freed = memory_is_freed(row->end.end_kind);
	const struct picture_row_block block = {
		.process_id = row->birth.process,
		.size = (int64_t)row->birth.size,
		.freed_ns = is_freed ? row->end.time_ns : INT64_MAX,
		.stack_id = row->birth.site,
	};

	return has_told(rows) ? rows->listener.ended(rows->listener.context, &block) : 0;
}

static int add_end(struct block_rows *rows, const struct block_row *row)
{
	const struct block_birth *birth = &row->birth;
	struct tally_end end = {
		.size = birth->size,
		.weight = weight_of(rows, birth->interval, birth->size),
		.allocated_ns = birth->time_ns,
		.time_ns = row->end.time_ns,
		.life_ns = row->end.time_ns - birth->time_ns,
		.thread_row = birth->thread,
		.freed_thread_row = or_null(row->end.freed_thread),
		.site = birth->site,
		.within = birth->within_site,
		.is_freed = memory_is_freed(row->end.end_kind),
		.is_temporary = row->end.is_temporary,
		.is_reallocated = row->end.end_kind == MEMORY_REALLOCATED,
		.is_replaced = row->end.end_kind == MEMORY_EXEC,
	};

	return stretch_blocks_end(rows->sums, &end, row->end.is_left) ?: tell_end(rows, row);
}

/*
 * Blocks that end next were looked at long ago. All are read at once, so that they come together: a
 * prefetch does nothing where the processor has no place of the page at hand.
 */
static void fetch(const struct block_rows *rows, size_t i)
{
	const struct ended *given = &rows->given;
	size_t to = i + AHEAD < given->n ? i + AHEAD : given->n;

	for (; i < to; i++) {
		if (given->ends[i].late)
			continue;
		const struct block_row *row = row_of(rows, given->ends[i].id);
		(void)*(const volatile int64_t *)&row->birth.time_ns;
		(void)*(const volatile uint32_t *)&row->end.late;
	}
}

static int take_end(struct block_rows *rows)
{
	const struct block_end *end = &rows->given.ends[rows->given.n_done];

	if (rows->given.n_done % AHEAD == 0)
		fetch(rows, rows->given.n_done);
	rows->given.n_done++;
	if (end->late) {
		const struct block_row row = { rows->given.late[end->late - 1], *end };
		return add_end(rows, &row) ?: block_spill_add(rows->late, &row);
	}
	struct block_row *row = row_of(rows, end->id);
	row->end = *end;
	return add_end(rows, row);
}

DEFINE_ORDER(compare_ids, struct block_end, BY(id));

/* What ends at one moment, in the order of ids: the next ends, if they do. */
static void sort_moment(struct ended *given, int64_t time_ns)
{
	size_t to = given->n_done;

	while (to < given->n && given->ends[to].time_ns == time_ns)
		to++;
	if (to > given->n_done + 1)
		qsort(given->ends + given->n_done, to - given->n_done, sizeof(*given->ends),
		      compare_ids);
	given->n_sorted = to;
}

/* What ends before a time, and of what ends then the blocks below an id. */
static int take_ends(struct block_rows *rows, int64_t time_ns, uint64_t id)
{
	struct ended *given = &rows->given;
	int r = 0;

	while (r == 0 && given->n_done < given->n && given->ends[given->n_done].time_ns < time_ns)
		r = take_end(rows);
	if (given->n_sorted <= given->n_done)
		sort_moment(given, time_ns);
	while (r == 0 && given->n_done < given->n_sorted &&
	       given->ends[given->n_done].time_ns == time_ns && given->ends[given->n_done].id < id)
		r = take_end(rows);
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
	int r = pass(rows) ?: add_births(rows);

	given->n_done = given->n_sorted = 0;
	for (size_t i = 0; i < given->n_births && r == 0; i++) {
		const struct block_birth *birth = &given->births[i];
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
		r = take_end(rows);
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
	rows->filled.n = rows->filled.n_births = rows->filled.n_late = rows->filled.n_borders = 0;
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

	r = r ?: grow_one(&ended->ends, ended->n, &ended->n_allocated);
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

int block_rows_born(struct block_rows *rows, const struct block_birth *birth)
{
	struct ended *ended = &rows->filled;
	int r = ended->n_births >= MOST_ENDED && is_later(ended, birth->time_ns) ? give(rows) : 0;

	int64_t thread = birth->thread - rows->of.tally->threads.first_row;

	if (thread >= (int64_t)rows->n_threads)
		rows->n_threads = (size_t)thread + 1;
	r = r ?: add_border(rows, birth->time_ns);
	r = r ?: grow_one(&ended->births, ended->n_births, &ended->n_births_allocated);
	if (r < 0)
		return r;
	ended->births[ended->n_births++] = *birth;
	ended->last++;
	return 0;
}

int block_rows_end(struct block_rows *rows, int64_t batch_ns, const struct block_end *end,
		   struct block_birth **ret_birth)
{
	struct ended *ended = &rows->filled;
	bool is_late = ended->last - end->id >= BLOCK_ROWS_WINDOW;
	int r = ended->n < rows->n_full ? 0 : make_room(rows, batch_ns);

	if (r == 0 && is_late)
		r = grow_one(&ended->late, ended->n_late, &ended->n_late_allocated);
	if (r < 0)
		return r;
	*ret_birth = is_late ? &ended->late[ended->n_late++] : NULL;
	ended->ends[ended->n] = *end;
	ended->ends[ended->n++].late = is_late ? (uint32_t)ended->n_late : 0;
	return 0;
}

int block_rows_open(struct db *db, const struct block_rows_of *of, struct block_rows **ret_rows)
{
	auto_block_rows struct block_rows *rows = calloc(1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	rows->of = *of;
	rows->late = block_spill_open(db->path);
	if (!rows->late)
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
	free_all(rows->filled.ends, rows->filled.births, rows->filled.late, rows->filled.borders,
		 rows->given.ends, rows->given.births, rows->given.late, rows->given.borders,
		 rows->leaving, rows->written);
	array_free(rows->pages, rows->n_pages, it, free(*it));
	block_spill_close(rows->late);
	free(rows);
	return NULL;
}

static int write_late(void *context, const struct block_row *row)
{
	struct block_rows *rows = context;
	union rows_cell *cells = rows_add(rows->rows);

	if (!cells)
		return rows_error(rows->rows);
	fill_row(rows, row, cells);
	return 0;
}

/* The last job of the thread: behind the last batch, what is in the window and what came late. */
static int finish_given(void *context)
{
	struct block_rows *rows = context;
	int r = take_given(rows);

	while (r == 0 && rows->n_pages > 0)
		r = leave(rows, rows->given.last + 1 - rows->first_page * PAGE_ROWS);
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
