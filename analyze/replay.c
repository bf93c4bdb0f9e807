#include "analyze/replay.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/compact.h"
#include "analyze/db.h"
#include "analyze/grow.h"
#include "analyze/owners.h"
#include "analyze/row-limit.h"
#include "analyze/rows.h"
#include "analyze/samples.h"
#include "analyze/statement.h"
#include "common/cleanup.h"

/* ---- Conditions: each stands in the query only where the selection has it ---- */

#define IN_THREAD(row)                                                                             \
	" AND " row ".thread_id IN (SELECT id FROM thread WHERE run_id = :run AND tid = :tid)"
#define IN_PROCESS(row)                                                                            \
	" AND " row ".process_id IN (SELECT id FROM process WHERE run_id = :run AND pid = :pid)"
#define IN_REGION(row, time)                                                                       \
	" AND EXISTS (SELECT 1 FROM temp.span WHERE span.thread_id = " row ".thread_id AND"        \
	" span.start_ns <= " row "." time " AND span.end_ns > " row "." time ")"

/* Rows that are told by their ids are not looked for by the index of time. */
#define TIME_OF_ROWS " AND +sample.time_ns >= :from AND +sample.time_ns < :to"

/* Ids that room is made for, for each block that was met. */
#define IDS_OF_BLOCK 64u
#define LEAST_BLOCKS 1024u

struct conditions {
	const char *head;
	const char *process, *thread, *region, *addresses, *time;
	const char *rows; /* with their times, in the place of time ... */
	const char *whole; /* ... and what stands there for all time; NULL: nothing */
	const char *tail;
};

static sqlite3_stmt *prepare(const struct replay *replay, const struct conditions *conditions)
{
	const struct selection *selection = replay->selection;
	sqlite3 *handle = db_handle(replay->db);
	bool is_timed = selection->from_ns > 0 || selection->to_ns < INT64_MAX;
	const char *time = replay->rows ? conditions->rows
			   : is_timed	? conditions->time
					: conditions->whole;
	sqlite3_stmt *stmt = NULL;
	char *sql = sqlite3_mprintf(
		"%s%s%s%s%s%s%s", conditions->head, selection->pid ? conditions->process : "",
		selection->tid ? conditions->thread : "",
		selection->region ? conditions->region : "",
		selection->high ? conditions->addresses : "", time ? time : "", conditions->tail);
	static const struct replay_rows all;
	const struct replay_rows *rows = replay->rows ? replay->rows : &all;
	const struct {
		const char *name;
		int64_t value;
	} values[] = {
		{ ":run", replay->run_id },
		{ ":pid", selection->pid },
		{ ":tid", selection->tid },
		{ ":low", (int64_t)selection->low },
		{ ":high", (int64_t)selection->high },
		{ ":from", selection->from_ns },
		{ ":to", selection->to_ns },
		{ ":first_touch", rows->first_touch },
		{ ":last_touch", rows->last_touch },
		{ ":first_sample", rows->first_sample },
		{ ":last_sample", rows->last_sample },
	};

	int result = sql ? sqlite3_prepare_v2(handle, sql, -1, &stmt, NULL) : SQLITE_NOMEM;
	if (result != SQLITE_OK) {
		statement_keep(handle, result);
	} else {
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
			sqlite3_bind_int64(stmt, sqlite3_bind_parameter_index(stmt, values[i].name),
					   values[i].value);
	}
	sqlite3_free(sql);
	return stmt;
}

/* ---- Blocks: births in the order of ids, ends from a heap ---- */

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

static const struct conditions block_conditions = {
	.head = "SELECT allocation.thread_id, size, birth_ns, death_ns, death_thread_id,"
		" coalesce(stack_id, 0), CASE WHEN death_ns IS NULL THEN (SELECT end_ns FROM process"
		"  WHERE process.id = process_id) END, allocation.id FROM main.allocation"
		" WHERE allocation.run_id = :run",
	.process = IN_PROCESS("allocation"),
	.thread = IN_THREAD("allocation"),
	.region = IN_REGION("allocation", "birth_ns"),
	.addresses = " AND address < :high AND address + max(size, 1) > :low",
	.time = " AND birth_ns < :to AND coalesce(death_ns, :to) >= :from",
	.rows = "",
	.tail = " ORDER BY allocation.id",
};

static int64_t or_null(sqlite3_stmt *row, int column)
{
	return sqlite3_column_type(row, column) == SQLITE_NULL ? ROWS_NULL
							       : sqlite3_column_int64(row, column);
}

/* What one row tells may be anything; distances that no int64_t holds are damage. */
static int distance(int64_t from, int64_t to, int64_t *ret_distance)
{
	return __builtin_sub_overflow(to, from, ret_distance) ? -EBADMSG : 0;
}

/* How the selection sees the end of a block; times since its begin, cut at its end. 0 or -EBADMSG. */
static int read_end(const struct replay *replay, sqlite3_stmt *row, int64_t run_end_ns,
		    struct tally_end *ret_end)
{
	const struct selection *selection = replay->selection;
	int64_t birth_ns = sqlite3_column_int64(row, BLOCK_BIRTH);
	int64_t death_ns = or_null(row, BLOCK_DEATH);
	int64_t process_end_ns = or_null(row, BLOCK_PROCESS_END);
	int64_t end_ns = death_ns != ROWS_NULL	       ? death_ns
			 : process_end_ns != ROWS_NULL ? process_end_ns
						       : INT64_MAX;
	int64_t to_ns = selection->to_ns < run_end_ns ? selection->to_ns : run_end_ns;
	bool is_carried = birth_ns < selection->from_ns;
	struct tally_end end = {
		.size = (uint64_t)sqlite3_column_int64(row, BLOCK_SIZE),
		.life_ns = -1,
		.thread_row = sqlite3_column_int64(row, BLOCK_THREAD),
		.death_thread_row = or_null(row, BLOCK_KILLER),
		.is_freed = death_ns != ROWS_NULL,
		.is_left = end_ns == INT64_MAX || end_ns >= selection->to_ns,
		.is_carried = is_carried,
	};

	int r = distance(selection->from_ns, end_ns < to_ns ? end_ns : to_ns, &end.time_ns);
	if (r == 0 && !is_carried)
		r = distance(selection->from_ns, birth_ns, &end.birth_ns);
	if (r == 0 && end.is_freed)
		r = distance(birth_ns, death_ns, &end.life_ns);
	*ret_end = end;
	return r;
}

/*
 * Samples ask for the sites of millions of blocks: those that were met are kept, 4 bytes for each id from the
 * first one on. Where ids lie too far apart for that, the database is asked.
 */
static int remember(struct replay_sites *sites, int64_t id, uint32_t site)
{
	if (!sites->sites)
		sites->first_id = id;
	uint64_t at = (uint64_t)id - (uint64_t)sites->first_id;
	uint64_t limit = (++sites->n_met + LEAST_BLOCKS) * IDS_OF_BLOCK;
	if (at >= limit)
		return 0;
	if (at >= sites->n) {
		size_t n = at + at / 2 + 1024;
		uint32_t *larger = reallocarray(sites->sites, n, sizeof(*larger));
		if (!larger)
			return -ENOMEM;
		memset(larger + sites->n, 0, (n - sites->n) * sizeof(*larger));
		sites->sites = larger;
		sites->n = n;
	}
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

static int64_t run_end(const struct replay *replay)
{
	return db_integer_of(replay->db, 0, "SELECT duration_ns FROM main.run WHERE id = ?1", "i",
			     replay->run_id);
}

int replay_blocks(const struct replay *replay)
{
	auto_statement sqlite3_stmt *row = prepare(replay, &block_conditions);
	auto_ends struct ends ends = { 0 };
	int64_t run_end_ns = run_end(replay);
	int r = row ? 0 : statement_kept(db_handle(replay->db));

	while (r == 0 && (r = statement_step(row)) == 1)
		r = add_block(replay, &ends, row, run_end_ns);
	if (r == 0)
		end_all(replay, &ends);
	return r;
}

/* ---- Samples and touches ---- */

static const struct conditions sample_conditions = {
	.head = "SELECT sample.time_ns, sample.weight, sample.thread_id, source.name"
		" FROM main.sample JOIN main.source ON source.id = source_id WHERE source.run_id = :run",
	.process = IN_PROCESS("sample"),
	.thread = IN_THREAD("sample"),
	.region = IN_REGION("sample", "time_ns"),
	.addresses = "",
	.time = " AND sample.run_id = :run AND sample.time_ns >= :from AND sample.time_ns < :to",
	.rows = " AND sample.id BETWEEN :first_sample AND :last_sample" TIME_OF_ROWS,
	.whole = " AND sample.run_id = :run",
	.tail = "",
};

int replay_samples(const struct replay *replay)
{
	auto_statement sqlite3_stmt *row = prepare(replay, &sample_conditions);
	int r = row ? 0 : statement_kept(db_handle(replay->db));

	while (r == 0 && (r = statement_step(row)) == 1) {
		const char *source = statement_string(row, 3);
		struct sample_taken taken = {
			.source = source,
			.is_clock = sample_source_is_time(source),
			.weight = sqlite3_column_int64(row, 1),
			.thread_row = sqlite3_column_int64(row, 2),
		};
		r = distance(replay->selection->from_ns, sqlite3_column_int64(row, 0),
			     &taken.time_ns);
		if (r < 0 || !row_is_below(taken.thread_row, replay->limits.threads))
			return -EBADMSG;
		*replay->n_clock += taken.is_clock;
		tally_sample(replay->tally, &taken, strcmp(source, "faults") == 0);
		r = 0;
	}
	return r;
}

/* Addresses are those that a sample touched. */
static const struct conditions stack_conditions = {
	.head = "INSERT INTO temp.sample_stack SELECT source.name, stack_id, weight"
		" FROM main.sample JOIN main.source ON source.id = source_id"
		" WHERE source.run_id = :run AND source.error = 0 AND stack_id IS NOT NULL",
	.process = IN_PROCESS("sample"),
	.thread = IN_THREAD("sample"),
	.region = IN_REGION("sample", "time_ns"),
	.addresses = " AND EXISTS (SELECT 1 FROM main.touch WHERE sample_id = sample.id"
		     " AND address >= :low AND address < :high)",
	.time = " AND sample.run_id = :run AND sample.time_ns >= :from AND sample.time_ns < :to",
	.rows = "",
	.whole = " AND sample.run_id = :run",
	.tail = "",
};

int replay_stacks(const struct replay *replay)
{
	auto_statement sqlite3_stmt *row = prepare(replay, &stack_conditions);

	return row ? statement_step(row) : statement_kept(db_handle(replay->db));
}

enum {
	TOUCH_SAMPLE,
	TOUCH_TIME,
	TOUCH_WEIGHT,
	TOUCH_PROCESS,
	TOUCH_THREAD,
	TOUCH_SOURCE,
	TOUCH_ROLE,
	TOUCH_SHARE,
	TOUCH_ADDRESS,
	TOUCH_SIZE,
	TOUCH_WRITE,
	TOUCH_KIND,
	TOUCH_OWNER,
	TOUCH_PHASE,
	TOUCH_FRAME,
	TOUCH_SOURCE_ROW,
	TOUCH_SOURCE_KIND,
	TOUCH_DATA_SRC,
	TOUCH_LATENCY,
	TOUCH_NODE,
};

/* Of the samples of page faults only: the node + 1. */
#define FAULT_NODE                                                                                 \
	" CASE WHEN role = 3 THEN (SELECT node + 1 FROM main.access_detail AS detail"              \
	"  WHERE detail.sample_id = sample.id) END"
#define TOUCH_HEAD                                                                                 \
	"SELECT sample.id, sample.time_ns, weight, sample.process_id, sample.thread_id,"           \
	" source.name, role, share, touch.address, touch.size, is_write, owner_kind, owner_id,"    \
	" phase, touch.frame_id, source_id, source.kind, data_src,"                                \
	" (SELECT latency FROM main.access_detail AS detail WHERE detail.sample_id = sample.id"    \
	"  AND source.kind BETWEEN 4 AND 6)," FAULT_NODE
#define TOUCH_REST                                                                                 \
	" JOIN main.source ON source.id = source_id WHERE sample.run_id = :run"                    \
	" AND touch.run_id = :run"

#define TOUCH_CONDITIONS                                                                           \
	.process = IN_PROCESS("sample"), .thread = IN_THREAD("sample"),                            \
	.region = IN_REGION("sample", "time_ns"),                                                  \
	.addresses = " AND touch.address >= :low AND touch.address < :high",                       \
	.time = " AND sample.time_ns >= :from AND sample.time_ns < :to",                           \
	.rows = " AND touch.rowid BETWEEN :first_touch AND :last_touch" TIME_OF_ROWS, .tail = ""

/* In the order of rows, unless the index of time leads to fewer of them. */
static const struct conditions touch_conditions = {
	.head = TOUCH_HEAD
	" FROM main.touch CROSS JOIN main.sample ON sample.id = sample_id" TOUCH_REST,
	TOUCH_CONDITIONS,
};
static const struct conditions timed_touch_conditions = {
	.head = TOUCH_HEAD
	" FROM main.sample CROSS JOIN main.touch ON sample.id = sample_id" TOUCH_REST,
	TOUCH_CONDITIONS,
};

/* The site of a block outside of the selection: its stack is asked for. */
static int ask_site(const struct replay *replay, sqlite3_stmt *stack_of, int64_t id,
		    uint32_t *ret_site)
{
	sqlite3_reset(stack_of);
	statement_integer(stack_of, 1, id);
	int r = statement_step(stack_of);
	int64_t stack_id = r > 0 ? sqlite3_column_int64(stack_of, 0) : 0;

	if (!row_is_below(stack_id, replay->limits.stacks))
		return -EBADMSG;
	return r <= 0 ? r : tally_site(replay->tally, stack_id, ret_site);
}

static int find_site(const struct replay *replay, sqlite3_stmt *stack_of, const struct owner *owner,
		     uint32_t *ret_site)
{
	const struct replay_sites *sites = replay->sites;
	uint64_t at = (uint64_t)owner->id - (uint64_t)sites->first_id;

	*ret_site = 0;
	if (owner->kind != OWNER_heap)
		return 0;
	if (owner->id >= sites->first_id && at < sites->n && sites->sites[at]) {
		*ret_site = sites->sites[at];
		return 0;
	}
	return ask_site(replay, stack_of, owner->id, ret_site);
}

static int add_touch(const struct replay *replay, sqlite3_stmt *row, sqlite3_stmt *stack_of)
{
	struct sample_touch touch = {
		.sample = sqlite3_column_int64(row, TOUCH_SAMPLE),
		.weight = sqlite3_column_int64(row, TOUCH_WEIGHT),
		.process_row = sqlite3_column_int64(row, TOUCH_PROCESS),
		.thread_row = sqlite3_column_int64(row, TOUCH_THREAD),
		.source = statement_string(row, TOUCH_SOURCE),
		.role = (enum trace_role)sqlite3_column_int(row, TOUCH_ROLE),
		.share = sqlite3_column_double(row, TOUCH_SHARE),
		.address = (uint64_t)sqlite3_column_int64(row, TOUCH_ADDRESS),
		.is_resolved = sqlite3_column_type(row, TOUCH_ADDRESS) != SQLITE_NULL,
		.frame = sqlite3_column_int64(row, TOUCH_FRAME),
		.size = or_null(row, TOUCH_SIZE),
		.is_write = sqlite3_column_int(row, TOUCH_WRITE) != 0,
		.owner = { .kind = (enum owner_kind)sqlite3_column_int(row, TOUCH_KIND),
			   .phase = (enum owner_phase)sqlite3_column_int(row, TOUCH_PHASE),
			   .id = sqlite3_column_int64(row, TOUCH_OWNER) },
		.is_access = sample_kind_is_access(sqlite3_column_int(row, TOUCH_SOURCE_KIND)),
		.source_row = sqlite3_column_int64(row, TOUCH_SOURCE_ROW),
		.data_src = sqlite3_column_int64(row, TOUCH_DATA_SRC),
		.latency = (uint32_t)sqlite3_column_int64(row, TOUCH_LATENCY),
		.node_number = (uint32_t)sqlite3_column_int64(row, TOUCH_NODE),
	};
	int r = distance(replay->selection->from_ns, sqlite3_column_int64(row, TOUCH_TIME),
			 &touch.time_ns);

	if (r == 0)
		r = find_site(replay, stack_of, &touch.owner, &touch.owner.site);
	return r < 0 ? r : tally_any_touch(replay->tally, &touch);
}

/*
 * The index of time pays for a part of the run; all rows are read faster in their own order, and always where there
 * are no indexes.
 */
static bool is_short(const struct replay *replay)
{
	int64_t run_end_ns = run_end(replay);
	int64_t to_ns =
		replay->selection->to_ns < run_end_ns ? replay->selection->to_ns : run_end_ns;

	if (compact_is_database(db_handle(replay->db)))
		return false;
	return 4 * ((double)to_ns - (double)replay->selection->from_ns) < (double)run_end_ns;
}

int replay_touches(const struct replay *replay)
{
	static const char stack_sql[] =
		"SELECT coalesce(stack_id, 0) FROM main.allocation WHERE id = ?";
	auto_statement sqlite3_stmt *row =
		prepare(replay, !replay->rows && is_short(replay) ? &timed_touch_conditions
								  : &touch_conditions);
	auto_statement sqlite3_stmt *stack_of = NULL;
	int r = row ? statement_prepare(db_handle(replay->db), stack_sql, &stack_of)
		    : statement_kept(db_handle(replay->db));

	while (r == 0 && (r = statement_step(row)) == 1)
		r = add_touch(replay, row, stack_of);
	return r;
}
