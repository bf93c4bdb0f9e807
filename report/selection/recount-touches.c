#include "report/selection/recount-internal.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "store/compact/compact.h"
#include "store/database.h"
#include "store/row-limit.h"
#include "store/row-writer.h"
#include "store/statement.h"
#include "store/touch.h"

sqlite3_stmt *replay_prepare(const struct replay *replay,
			     const struct replay_conditions *conditions)
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

int64_t replay_run_end(const struct replay *replay)
{
	return db_integer_of(replay->db, 0, "SELECT duration_ns FROM main.run WHERE id = ?1", "i",
			     replay->run_id);
}

int64_t replay_or_null(sqlite3_stmt *row, int column)
{
	return sqlite3_column_type(row, column) == SQLITE_NULL ? ROWS_NULL
							       : sqlite3_column_int64(row, column);
}

int replay_distance(int64_t from, int64_t to, int64_t *ret_distance)
{
	return __builtin_sub_overflow(to, from, ret_distance) ? -EBADMSG : 0;
}

/*
 * The index of time pays for a part of the run; all rows are read faster in their own order, and
 * always where there are no indexes.
 */
static bool replay_is_short(const struct replay *replay)
{
	int64_t run_end_ns = replay_run_end(replay);
	int64_t to_ns =
		replay->selection->to_ns < run_end_ns ? replay->selection->to_ns : run_end_ns;

	if (compact_is_database(db_handle(replay->db)))
		return false;
	return 4 * ((double)to_ns - (double)replay->selection->from_ns) < (double)run_end_ns;
}

/* The columns of REPLAY_ACCESS_HEAD, what they do not tell is 0. Returns 0 or -EBADMSG. */
static int replay_read_access(const struct replay *replay, sqlite3_stmt *row, struct touch *ret)
{
	*ret = (struct touch){
		.sample = sqlite3_column_int64(row, ACCESS_SAMPLE),
		.weight = sqlite3_column_int64(row, ACCESS_WEIGHT),
		.process_row = sqlite3_column_int64(row, ACCESS_PROCESS),
		.thread_row = sqlite3_column_int64(row, ACCESS_THREAD),
		.measures = source_measures_read(statement_string(row, ACCESS_MEASURES)),
		.role = (enum trace_role)sqlite3_column_int64(row, ACCESS_ROLE),
		.share = sqlite3_column_double(row, ACCESS_SHARE),
		.address = (uint64_t)sqlite3_column_int64(row, ACCESS_ADDRESS),
		.is_resolved = sqlite3_column_type(row, ACCESS_ADDRESS) != SQLITE_NULL,
		.size = replay_or_null(row, ACCESS_SIZE),
		.is_write = sqlite3_column_int(row, ACCESS_WRITE) != 0,
		.owner = { .kind = (enum owner_kind)sqlite3_column_int(row, ACCESS_KIND),
			   .id = sqlite3_column_int64(row, ACCESS_OWNER) },
	};
	return replay_distance(replay->selection->from_ns, sqlite3_column_int64(row, ACCESS_TIME),
			       &ret->time_ns);
}

static const struct replay_conditions sample_conditions = {
	.head = "SELECT sample.time_ns, sample.weight, sample.thread_id, source.measures"
		" FROM main.sample JOIN main.source ON source.id = source_id"
		" WHERE source.run_id = :run",
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
	auto_statement sqlite3_stmt *row = replay_prepare(replay, &sample_conditions);
	int r = row ? 0 : statement_kept(db_handle(replay->db));

	while (r == 0 && (r = statement_step(row)) == 1) {
		struct sample_event taken = {
			.measures = source_measures_read(statement_string(row, 3)),
			.weight = sqlite3_column_int64(row, 1),
			.thread_row = sqlite3_column_int64(row, 2),
		};
		r = replay_distance(replay->selection->from_ns, sqlite3_column_int64(row, 0),
				    &taken.time_ns);
		if (r < 0 || !row_is_below(taken.thread_row, replay->limits.threads))
			return -EBADMSG;
		*replay->n_clock += taken.measures == MEASURES_TIME;
		tally_sample(replay->tally, &taken);
		r = 0;
	}
	return r;
}

/* Addresses are those that a sample touched. */
static const struct replay_conditions stack_conditions = {
	.head = "INSERT INTO temp.sample_stack SELECT source.measures, stack_id, weight"
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
	auto_statement sqlite3_stmt *row = replay_prepare(replay, &stack_conditions);

	return row ? statement_step(row) : statement_kept(db_handle(replay->db));
}

/* Behind the columns of any access. */
enum {
	TOUCH_PHASE = REPLAY_ACCESS_COLUMNS,
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
	REPLAY_ACCESS_HEAD                                                                         \
	","                                                                                        \
	" phase, touch.frame_id, source_id, source.kind, data_src,"                                \
	" (SELECT latency FROM main.access_detail AS detail WHERE detail.sample_id = sample.id"    \
	"  AND source.kind BETWEEN 4 AND 6)," FAULT_NODE
#define TOUCH_REST                                                                                 \
	" JOIN main.source ON source.id = source_id WHERE sample.run_id = :run"                    \
	" AND touch.run_id = :run"

/* In the order of rows, unless the index of time leads to fewer of them. */
static const struct replay_conditions touch_conditions = {
	.head = TOUCH_HEAD
	" FROM main.touch CROSS JOIN main.sample ON sample.id = sample_id" TOUCH_REST,
	REPLAY_ACCESS_CONDITIONS,
	.tail = "",
};
static const struct replay_conditions timed_touch_conditions = {
	.head = TOUCH_HEAD
	" FROM main.sample CROSS JOIN main.touch ON sample.id = sample_id" TOUCH_REST,
	REPLAY_ACCESS_CONDITIONS,
	.tail = "",
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
	struct touch touch;
	int r = replay_read_access(replay, row, &touch);

	touch.frame = sqlite3_column_int64(row, TOUCH_FRAME);
	touch.owner.phase = (enum owner_phase)sqlite3_column_int(row, TOUCH_PHASE);
	touch.is_access = sample_kind_is_access(sqlite3_column_int(row, TOUCH_SOURCE_KIND));
	touch.source_row = sqlite3_column_int64(row, TOUCH_SOURCE_ROW);
	touch.data_src = sqlite3_column_int64(row, TOUCH_DATA_SRC);
	touch.latency = (uint32_t)sqlite3_column_int64(row, TOUCH_LATENCY);
	touch.node_number = (uint32_t)sqlite3_column_int64(row, TOUCH_NODE);
	if (r == 0)
		r = find_site(replay, stack_of, &touch.owner, &touch.owner.site);
	return r < 0 ? r : tally_any_touch(replay->tally, &touch);
}

int replay_touches(const struct replay *replay)
{
	static const char stack_sql[] =
		"SELECT coalesce(stack_id, 0) FROM main.allocation WHERE id = ?";
	auto_statement sqlite3_stmt *row = replay_prepare(
		replay, !replay->rows && replay_is_short(replay) ? &timed_touch_conditions
								 : &touch_conditions);
	auto_statement sqlite3_stmt *stack_of = NULL;
	int r = row ? statement_prepare(db_handle(replay->db), stack_sql, &stack_of)
		    : statement_kept(db_handle(replay->db));

	while (r == 0 && (r = statement_step(row)) == 1)
		r = add_touch(replay, row, stack_of);
	return r;
}

/*
 * Lines that threads share: who was first depends on the order of accesses, so these are put in
 * order.
 */

/*
 * By time, then by sample: rows lie in that order but for the samples whose owner was found late.
 * What is left, two touches of one sample, is told apart by what they say, since touches have no id
 * of their own.
 */
#define IN_ORDER                                                                                   \
	" ORDER BY sample.time_ns, sample.id, touch.address, role, owner_kind, owner_id,"          \
	" is_write, touch.size, share"
#define LINE_REST                                                                                  \
	" JOIN main.source ON source.id = source_id WHERE sample.run_id = :run"                    \
	" AND touch.run_id = :run AND touch.address IS NOT NULL AND role IN (0, 1)"

static const struct replay_conditions line_conditions = {
	.head = REPLAY_ACCESS_HEAD
	" FROM main.touch CROSS JOIN main.sample ON sample.id = sample_id" LINE_REST,
	REPLAY_ACCESS_CONDITIONS,
	.tail = IN_ORDER,
};
static const struct replay_conditions timed_line_conditions = {
	.head = REPLAY_ACCESS_HEAD
	" FROM main.sample CROSS JOIN main.touch ON sample.id = sample_id" LINE_REST,
	REPLAY_ACCESS_CONDITIONS,
	.tail = IN_ORDER,
};

int replay_lines(const struct replay *replay)
{
	bool is_timed = !replay->rows && replay_is_short(replay);
	auto_statement sqlite3_stmt *row =
		replay_prepare(replay, is_timed ? &timed_line_conditions : &line_conditions);
	int r = row ? 0 : statement_kept(db_handle(replay->db));

	while (r == 0 && (r = statement_step(row)) == 1) {
		struct touch touch;
		r = replay_read_access(replay, row, &touch);
		if (r == 0)
			r = tally_line(replay->tally, &touch);
	}
	return r;
}
