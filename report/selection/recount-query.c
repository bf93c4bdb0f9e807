#include "report/selection/recount-internal.h"

#include <errno.h>
#include <stdbool.h>

#include "store/compact/compact.h"
#include "store/database.h"
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

bool replay_is_short(const struct replay *replay)
{
	int64_t run_end_ns = replay_run_end(replay);
	int64_t to_ns =
		replay->selection->to_ns < run_end_ns ? replay->selection->to_ns : run_end_ns;

	if (compact_is_database(db_handle(replay->db)))
		return false;
	return 4 * ((double)to_ns - (double)replay->selection->from_ns) < (double)run_end_ns;
}

int replay_read_access(const struct replay *replay, sqlite3_stmt *row, struct touch *ret)
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
