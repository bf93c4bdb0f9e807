#include "report/selection/recount-internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "report/selection/recount.h"
#include "report/selection/sum-slices.h"
#include "store/columns/column.h"
#include "store/database.h"
#include "store/heatmap/lookup.h"
#include "store/row-limit.h"
#include "store/row-writer.h"
#include "store/statement.h"

struct replay_carried {
	int64_t first_id; /* of the blocks born in slices that the time meets, ... */
	/* ... all lie from here to there, but may be born before the time; none: before first_id */
	int64_t last_id;
	int64_t *ids; /* of older ones that live when it begins, ascending; the caller's to free */
	size_t n;
	size_t n_allocated;
};

/* ---- Where the blocks of a part of time lie, so that not all rows are read ---- */

#define BIT(column) (1u << (column))
#define WANTED	    (BIT(PICTURE_BLOCK_BIRTH) | BIT(PICTURE_BLOCK_LIFE) | BIT(PICTURE_BLOCK_ID))

/* A row is found by its id in the time that eight take when all are read. */
#define ROWS_OF_FIND 8u

static int add_piece(const struct picture_columns *columns, int64_t from_ns,
		     struct replay_carried *carried)
{
	for (uint32_t i = 0; i < columns->n; i++) {
		int64_t birth_ns = columns->values[PICTURE_BLOCK_BIRTH][i];
		int64_t life_ns = columns->values[PICTURE_BLOCK_LIFE][i];
		int64_t id = columns->values[PICTURE_BLOCK_ID][i];
		int64_t end_ns;

		if (id >= carried->first_id || birth_ns >= from_ns)
			continue;
		if (life_ns != CHUNK_NULL && !__builtin_add_overflow(birth_ns, life_ns, &end_ns) &&
		    end_ns < from_ns)
			continue;
		int r = grow_array(&carried->ids, carried->n, &carried->n_allocated,
				   sizeof(*carried->ids));
		if (r < 0)
			return r;
		carried->ids[carried->n++] = id;
	}
	return 0;
}

static int add_part(struct picture_store *store, const struct picture_part *part, int64_t from_ns,
		    struct replay_carried *carried)
{
	int r = 1;

	/* A small part has the first piece only. */
	for (unsigned piece = 0; piece < PICTURE_PIECES && r > 0; piece++) {
		r = picture_store_fetch(store, part, piece, WANTED);
		if (r > 0) {
			int added = add_piece(&store->columns, from_ns, carried);
			r = added < 0 ? added : r;
		}
	}
	return r < 0 ? r : 0;
}

static int add_process(struct picture_store *store, const struct picture_process *process,
		       int64_t from_ns, struct replay_carried *carried)
{
	int r = 0;

	for (size_t i = 0; i < process->n_parts && r == 0; i++) {
		const struct picture_part *part = &process->parts[i];
		if (part->is_blocks && part->from < picture_time(from_ns))
			r = add_part(store, part, from_ns, carried);
	}
	return r;
}

static int compare(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return left < right ? -1 : left > right;
}

static int add_processes(const struct replay *replay, struct replay_carried *carried)
{
	auto_picture_store struct picture_store *store = NULL;
	uint64_t n_blocks = 0;
	int r = picture_store_open(db_handle(replay->db), &store);

	if (r < 0)
		return r;
	for (size_t i = 0; i < store->n_processes && r == 0; i++) {
		const struct picture_process *process = &store->processes[i];
		if (process->run_id != replay->run_id)
			continue;
		n_blocks += process->n_blocks;
		r = add_process(store, process, replay->selection->from_ns, carried);
	}
	if (r == 0 && carried->n > 1)
		qsort(carried->ids, carried->n, sizeof(*carried->ids), compare);
	return r == 0 && carried->n > n_blocks / ROWS_OF_FIND ? -ENODATA : r;
}

/*
 * From slices and pictures. Returns 0; -ENODATA: the run has none, its time is all of it, or so
 * many blocks are carried that reading all rows is faster; or another negative errno.
 */
static int replay_carried_find(const struct replay *replay, struct replay_carried *ret_carried)
{
	const struct selection *selection = replay->selection;
	bool is_timed = selection->from_ns > 0 || selection->to_ns < INT64_MAX;
	struct replay_carried carried = { 0 };
	int r = is_timed ? slice_births(replay, &carried.first_id, &carried.last_id) : -ENODATA;

	if (r == 0 && selection->from_ns > 0)
		r = add_processes(replay, &carried);
	if (r == 0)
		*ret_carried = carried;
	else
		free(carried.ids);
	return r == -EPROTO ? -EBADMSG : r;
}

/* Ids that room is made for, for each block that was met. */
#define IDS_OF_BLOCK 64u
#define LEAST_BLOCKS 1024u

/* Births in the order of ids, ends from a heap. */

struct ends {
	struct tally_end *items; /* a binary heap by time_ns */
	size_t n;
	size_t n_allocated;
};

static void ends_finish(struct ends *ends)
{
	free(ends->items);
}
#define auto_ends __attribute__((cleanup(ends_finish)))

static int ends_push(struct ends *ends, const struct tally_end *end)
{
	int r = grow_array(&ends->items, ends->n, &ends->n_allocated, sizeof(*ends->items));
	if (r < 0)
		return r;

	size_t i = ends->n++;
	for (; i > 0 && ends->items[(i - 1) / 2].time_ns > end->time_ns; i = (i - 1) / 2)
		ends->items[i] = ends->items[(i - 1) / 2];
	ends->items[i] = *end;
	return 0;
}

static struct tally_end ends_pop(struct ends *ends)
{
	struct tally_end first = ends->items[0];
	struct tally_end last = ends->items[--ends->n];
	size_t i = 0;

	for (size_t child; (child = 2 * i + 1) < ends->n; i = child) {
		if (child + 1 < ends->n &&
		    ends->items[child + 1].time_ns < ends->items[child].time_ns)
			child++;
		if (last.time_ns <= ends->items[child].time_ns)
			break;
		ends->items[i] = ends->items[child];
	}
	ends->items[i] = last;
	return first;
}

enum {
	BLOCK_THREAD,
	BLOCK_SIZE,
	BLOCK_BIRTH,
	BLOCK_DEATH,
	BLOCK_KILLER,
	BLOCK_STACK,
	BLOCK_PROCESS_END, /* where it was not freed */
	BLOCK_ID,
};

static const struct replay_conditions block_conditions = {
	.head = "SELECT allocation.thread_id, size, birth_ns, death_ns, death_thread_id,"
		" coalesce(stack_id, 0), CASE WHEN death_ns IS NULL THEN (SELECT end_ns"
		" FROM process"
		"  WHERE process.id = process_id) END, allocation.id FROM main.allocation"
		" WHERE allocation.run_id = :run",
	.process = IN_PROCESS("allocation"),
	.thread = IN_THREAD("allocation"),
	.region = IN_REGION("allocation", "birth_ns"),
	.addresses = " AND address < :high AND address + max(size, 1) > :low",
	.time = " AND birth_ns < :to AND coalesce(death_ns, :to) >= :from",
	.rows = " AND allocation.id BETWEEN :first_block AND :last_block AND birth_ns < :to"
		" AND coalesce(death_ns, :to) >= :from",
	.tail = " ORDER BY allocation.id",
};

/*
 * How the selection sees the end of a block; times since its begin, cut at its end. 0 or -EBADMSG.
 */
static int read_end(const struct replay *replay, sqlite3_stmt *row, int64_t run_end_ns,
		    struct tally_end *ret_end)
{
	const struct selection *selection = replay->selection;
	int64_t birth_ns = sqlite3_column_int64(row, BLOCK_BIRTH);
	int64_t death_ns = replay_or_null(row, BLOCK_DEATH);
	int64_t process_end_ns = replay_or_null(row, BLOCK_PROCESS_END);
	int64_t end_ns = death_ns != ROWS_NULL	       ? death_ns
			 : process_end_ns != ROWS_NULL ? process_end_ns
						       : INT64_MAX;
	int64_t to_ns = selection->to_ns < run_end_ns ? selection->to_ns : run_end_ns;
	bool is_carried = birth_ns < selection->from_ns;
	struct tally_end end = {
		.size = (uint64_t)sqlite3_column_int64(row, BLOCK_SIZE),
		.life_ns = -1,
		.thread_row = sqlite3_column_int64(row, BLOCK_THREAD),
		.death_thread_row = replay_or_null(row, BLOCK_KILLER),
		.is_freed = death_ns != ROWS_NULL,
		.is_left = end_ns == INT64_MAX || end_ns >= selection->to_ns,
		.is_carried = is_carried,
	};

	int r = replay_distance(selection->from_ns, end_ns < to_ns ? end_ns : to_ns, &end.time_ns);
	if (r == 0 && !is_carried)
		r = replay_distance(selection->from_ns, birth_ns, &end.birth_ns);
	if (r == 0 && end.is_freed)
		r = replay_distance(birth_ns, death_ns, &end.life_ns);
	*ret_end = end;
	return r;
}

/*
 * Samples ask for the sites of millions of blocks: those that were met are kept, 4 bytes for each
 * id from the first one on. Where ids lie too far apart for that, the database is asked.
 */
static int remember(struct replay_sites *sites, int64_t id, uint32_t site)
{
	if (!sites->sites)
		sites->first_id = id;
	uint64_t at = (uint64_t)id - (uint64_t)sites->first_id;
	uint64_t limit = (++sites->n_met + LEAST_BLOCKS) * IDS_OF_BLOCK;
	if (at >= limit)
		return 0;
	if (grow_array_to(&sites->sites, at, &sites->n, sizeof(*sites->sites)) < 0)
		return -ENOMEM;
	sites->sites[at] = site;
	return 0;
}

static bool has_rows(const struct replay_limits *limits, const struct tally_end *end,
		     int64_t stack_id)
{
	return row_is_below(stack_id, limits->stacks) &&
	       row_is_below(end->thread_row, limits->threads) &&
	       (end->death_thread_row == ROWS_NULL ||
		row_is_below(end->death_thread_row, limits->threads));
}

static int add_block(const struct replay *replay, struct ends *ends, sqlite3_stmt *row,
		     int64_t run_end_ns)
{
	int64_t stack_id = sqlite3_column_int64(row, BLOCK_STACK);
	struct tally_end end;

	int r = read_end(replay, row, run_end_ns, &end);
	if (r == 0 && end.is_carried && end.time_ns < 0) /* its process ended before */
		return 0;
	if (r == 0 && !has_rows(&replay->limits, &end, stack_id))
		r = -EBADMSG;
	if (r == 0)
		r = tally_site(replay->tally, stack_id, &end.site);
	if (r == 0)
		r = remember(replay->sites, sqlite3_column_int64(row, BLOCK_ID), end.site);
	if (r < 0)
		return r;
	/* What is there when the time begins is there at once, and ends afterwards. */
	while (!end.is_carried && ends->n > 0 && ends->items[0].time_ns <= end.birth_ns) {
		struct tally_end earlier = ends_pop(ends);
		tally_death(replay->tally, &earlier);
	}
	if (end.is_carried)
		tally_carry(replay->tally, end.site, end.size);
	else
		tally_birth(replay->tally, end.site, end.size, end.birth_ns, end.thread_row);
	return ends_push(ends, &end);
}

/* Behind the last run everything ends: the next one begins with nothing live. */
static void end_all(const struct replay *replay, struct ends *ends)
{
	bool is_last = replay->run_id == replay->selection->runs[replay->selection->n_runs - 1];

	while (ends->n > 0) {
		struct tally_end end = ends_pop(ends);
		if (end.is_left && !is_last)
			tally_leave(replay->tally, end.site, end.size);
		tally_death(replay->tally, &end);
	}
}

static int add_rows(const struct replay *replay, struct ends *ends, sqlite3_stmt *row,
		    int64_t run_end_ns)
{
	int r = row ? 0 : statement_kept(db_handle(replay->db));

	while (r == 0 && (r = statement_step(row)) == 1)
		r = add_block(replay, ends, row, run_end_ns);
	return r;
}

/* Those that live when the time begins, each by its id, and then those that are born in it. */
static int add_found(const struct replay *replay, struct ends *ends, int64_t run_end_ns,
		     const struct replay_carried *carried)
{
	static const struct replay_rows any;
	struct replay part = *replay;
	int r = 0;

	part.rows = &any;
	auto_statement sqlite3_stmt *row = replay_prepare(&part, &block_conditions);
	int first = sqlite3_bind_parameter_index(row, ":first_block");
	int last = sqlite3_bind_parameter_index(row, ":last_block");
	for (size_t i = 0; i <= carried->n && row && r == 0; i++) {
		bool is_one = i < carried->n;
		sqlite3_reset(row);
		statement_integer(row, first, is_one ? carried->ids[i] : carried->first_id);
		statement_integer(row, last, is_one ? carried->ids[i] : carried->last_id);
		r = add_rows(replay, ends, row, run_end_ns);
	}
	return row ? r : statement_kept(db_handle(replay->db));
}

static int add_all(const struct replay *replay, struct ends *ends, int64_t run_end_ns)
{
	auto_statement sqlite3_stmt *row = replay_prepare(replay, &block_conditions);

	return add_rows(replay, ends, row, run_end_ns);
}

int replay_blocks(const struct replay *replay)
{
	auto_ends struct ends ends = { 0 };
	struct replay_carried carried = { 0 };
	int64_t run_end_ns = replay_run_end(replay);
	int r = replay_carried_find(replay, &carried);

	if (r == 0)
		r = add_found(replay, &ends, run_end_ns, &carried);
	else if (r == -ENODATA)
		r = add_all(replay, &ends, run_end_ns);
	if (r == 0)
		end_all(replay, &ends);
	free(carried.ids);
	return r;
}
