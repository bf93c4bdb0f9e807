#include "report/selection/sum-blocks.h"

#include <errno.h>

#include "store/statement.h"

struct count {
	struct slice_store *store;
	const struct slice_cut *cut;
	struct slice_blocks *blocks; /* where whole slices are added up; NULL: all rows are read */
	const struct slice_events *events;
	sqlite3_stmt *births; /* of ?1 run, ?2 to ?3 ids */
	sqlite3_stmt *ended; /* a block that ends */
	struct sweep *sweep; /* of the slice at hand; without blocks of all */
	int64_t first_id; /* blocks from here on are in the sweep since their birth */
	bool is_over; /* the last birth was met */
};

static void cleanup(struct count *count)
{
	sqlite3_finalize(count->births);
	sqlite3_finalize(count->ended);
	sweep_close(count->sweep);
}
#define auto_count __attribute__((cleanup(cleanup)))

static int64_t or_else(sqlite3_stmt *row, int column, int64_t otherwise)
{
	return sqlite3_column_type(row, column) == SQLITE_NULL ? otherwise
							       : sqlite3_column_int64(row, column);
}

static bool counts(const struct count *count, int64_t time_ns)
{
	return !count->is_over && time_ns >= count->cut->from_ns && time_ns < count->cut->to_ns;
}

static int end_block(void *context, const struct sweep_end *end)
{
	struct count *count = context;

	return counts(count, (int64_t)end->time) ? count->events->end(count->events->context, end)
						 : 0;
}

/* Whether there can be such a stack, and such threads (INT64_MIN: none). */
static bool has_rows(const struct count *count, int64_t stack_id, int64_t thread_id)
{
	const struct slice_store *store = count->store;
	bool is_thread = thread_id >= 0 && thread_id <= store->last_thread;

	return stack_id >= 0 && stack_id <= store->last_stack &&
	       (is_thread || thread_id == INT64_MIN);
}

/* A block that was there before the slice. */
static int push_older(struct count *count, int64_t id)
{
	sqlite3_reset(count->ended);
	statement_integer(count->ended, 1, id);
	int r = statement_step(count->ended);

	if (r <= 0)
		return r < 0 ? r : -EBADMSG;
	const struct sweep_end end = {
		.time = sweep_time(count->sweep, sqlite3_column_int64(count->ended, 0)),
		.size = (uint64_t)sqlite3_column_int64(count->ended, 1),
		.n = 1,
		.stack_id = sqlite3_column_int64(count->ended, 2),
		.thread_id = or_else(count->ended, 3, INT64_MIN),
	};
	return has_rows(count, end.stack_id, end.thread_id) ? sweep_push(count->sweep, &end)
							    : -EBADMSG;
}

static int push_exit(struct count *count, const int64_t *values)
{
	const struct sweep_end end = {
		.time = sweep_time(count->sweep, values[0]),
		.size = (uint64_t)values[3],
		.n = (uint64_t)values[2],
		.id = SLICE_EXIT,
		.stack_id = values[1],
		.thread_id = INT64_MIN,
	};

	return sweep_push(count->sweep, &end);
}

static int push_stored(void *context, enum slice_section section, const int64_t *values)
{
	struct count *count = context;

	if (section == SLICE_ENDS && values[0] >= count->first_id)
		return 0;
	return section == SLICE_ENDS ? push_older(count, values[0]) : push_exit(count, values);
}

static int push_own(struct count *count, const struct slice_birth *birth,
		    const struct slice_head *head)
{
	const struct sweep_end end = {
		.time = sweep_time(count->sweep, birth->death_ns),
		.size = (uint64_t)birth->size,
		.n = 1,
		.stack_id = birth->stack_id,
		.thread_id = birth->killer_id,
	};

	bool is_pushed =
		count->blocks ? birth->death_ns <= head->last_ns : birth->death_ns != INT64_MAX;

	return is_pushed ? sweep_push(count->sweep, &end) : 0;
}

static int add_birth(struct count *count, const struct slice_head *head)
{
	sqlite3_stmt *row = count->births;
	const struct slice_birth birth = {
		.id = sqlite3_column_int64(row, 0),
		.stack_id = sqlite3_column_int64(row, 1),
		.size = sqlite3_column_int64(row, 2),
		.birth_ns = sqlite3_column_int64(row, 3),
		.death_ns = or_else(row, 4, INT64_MAX),
		.thread_id = sqlite3_column_int64(row, 5),
		.killer_id = or_else(row, 6, INT64_MIN),
	};
	bool is_sound = birth.thread_id >= 0 && has_rows(count, birth.stack_id, birth.thread_id) &&
			has_rows(count, birth.stack_id, birth.killer_id);
	int r = sweep_until(count->sweep, birth.birth_ns > 0 ? (uint64_t)birth.birth_ns : 0);

	if (r == 0 && !is_sound)
		r = -EBADMSG;
	if (r == 0 && counts(count, birth.birth_ns))
		r = count->events->birth(count->events->context, &birth);
	if (birth.id == count->cut->last_id)
		count->is_over = true;
	return r < 0 ? r : push_own(count, &birth, head);
}

static int sweep_rows(struct count *count, const struct slice_head *head)
{
	const struct slice_visitor visitor = { 1u << SLICE_ENDS | 1u << SLICE_EXITS, push_stored,
					       count };
	int r = slice_store_read(count->store, head, &visitor);

	sqlite3_reset(count->births);
	statement_integer(count->births, 1, count->store->run_id);
	statement_integer(count->births, 2, head->first_row);
	statement_integer(count->births, 3, head->last_row);
	while (r == 0 && !count->is_over && (r = statement_step(count->births)) == 1)
		r = add_birth(count, head);
	return r;
}

static int add_part(void *context, const struct slice_head *head)
{
	struct count *count = context;

	count->sweep = sweep_open(end_block, count);
	int r = count->sweep ? sweep_rows(count, head) : -ENOMEM;
	if (r == 0)
		r = sweep_until(count->sweep, UINT64_MAX);
	count->sweep = sweep_close(count->sweep);
	return r;
}

static int add_whole(void *context, const struct slice_head *head)
{
	struct count *count = context;
	struct slice_blocks_sum sum = { count->blocks, head->first_ns, count->store->last_thread };

	const struct slice_visitor visitor = { SLICE_OF_BLOCKS, slice_blocks_add, &sum };

	return count->is_over ? 0 : slice_store_read(count->store, head, &visitor);
}

static int prepare(struct count *count)
{
	sqlite3 *db = count->store->db;
	int r = statement_prepare(db,
				  "SELECT id, coalesce(stack_id, 0), size, birth_ns, death_ns,"
				  " thread_id, death_thread_id FROM main.allocation"
				  " WHERE run_id = ?1 AND id BETWEEN ?2 AND ?3",
				  &count->births);

	if (r == 0)
		r = statement_prepare(
			db,
			"SELECT death_ns, size, coalesce(stack_id, 0), death_thread_id"
			" FROM main.allocation WHERE id = ?",
			&count->ended);
	return r;
}

static int count_birth(void *context, const struct slice_birth *birth)
{
	return slice_blocks_birth(context, birth);
}

static int count_end(void *context, const struct sweep_end *end)
{
	return slice_blocks_end(context, end);
}

int slice_edge_count(struct slice_store *store, const struct slice_cut *cut,
		     struct slice_blocks *blocks)
{
	const struct slice_events events = { count_birth, count_end, blocks };
	auto_count struct count count = { .store = store,
					  .cut = cut,
					  .blocks = blocks,
					  .events = &events,
					  .first_id = INT64_MAX };
	const struct slice_walk walk = { .from_ns = cut->from_ns,
					 .to_ns = cut->to_ns,
					 .cut_row = cut->last_id,
					 .whole = add_whole,
					 .part = add_part,
					 .context = &count };
	int r = prepare(&count);

	return r < 0 ? r : slice_store_walk(store, &walk);
}

static int add_rows(void *context, const struct slice_head *head)
{
	struct count *count = context;

	if (count->first_id == INT64_MAX)
		count->first_id = head->first_row;
	return sweep_rows(count, head);
}

int slice_edge_visit(struct slice_store *store, const struct slice_cut *cut,
		     const struct slice_events *events)
{
	auto_count struct count count = {
		.store = store, .cut = cut, .events = events, .first_id = INT64_MAX
	};
	const struct slice_walk walk = { .from_ns = cut->from_ns,
					 .to_ns = cut->to_ns,
					 .is_of_rows = true,
					 .part = add_rows,
					 .context = &count };
	int r = prepare(&count);

	count.sweep = sweep_open(end_block, &count);
	if (!count.sweep)
		return -ENOMEM;
	if (r == 0)
		r = slice_store_walk(store, &walk);
	return r < 0 ? r : sweep_until(count.sweep, UINT64_MAX);
}
