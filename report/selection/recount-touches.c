#include "report/selection/recount-internal.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "store/database.h"
#include "store/row-limit.h"
#include "store/row-writer.h"
#include "store/statement.h"
#include "store/touch.h"

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
