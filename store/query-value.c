#include "store/query-value.h"

#include <stdbool.h>
#include <string.h>

#include "common/text.h"
#include "store/statement.h"

/* A name that the statement does not have would be an error of the connection. */
static void bind(sqlite3_stmt *stmt, const char *name, int64_t value)
{
	int index = sqlite3_bind_parameter_index(stmt, name);

	if (index > 0)
		sqlite3_bind_int64(stmt, index, value);
}

sqlite3_stmt *report_sql_prepare(sqlite3 *db, const char *sql, int64_t run_id, int64_t limit)
{
	sqlite3_stmt *stmt = NULL;

	int result = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
	if (result != SQLITE_OK) {
		statement_keep(db, result);
		return NULL;
	}
	bind(stmt, ":run", run_id);
	bind(stmt, ":limit", limit);
	return stmt;
}

int64_t report_sql_number(sqlite3 *db, const char *sql, int64_t run_id)
{
	sqlite3_stmt *stmt = report_sql_prepare(db, sql, run_id, -1);
	int64_t number = 0;

	if (stmt && statement_advance(stmt) == SQLITE_ROW)
		number = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return number;
}

char *report_sql_text(sqlite3 *db, const char *sql, int64_t run_id)
{
	sqlite3_stmt *stmt = report_sql_prepare(db, sql, run_id, -1);
	const char *text = NULL;
	char *copy = NULL;

	if (stmt && statement_advance(stmt) == SQLITE_ROW)
		text = statement_string_or_null(stmt, 0);
	if (text)
		copy = strdup(text);
	if (text && !copy)
		statement_keep(db, SQLITE_NOMEM);
	sqlite3_finalize(stmt);
	return copy;
}

char *report_sql_shown(sqlite3_stmt *row, int column)
{
	char *copy = strdup(statement_string(row, column));

	if (!copy)
		statement_keep(sqlite3_db_handle(row), SQLITE_NOMEM);
	return text_hide_controls(copy);
}

struct format_text report_sql_share(sqlite3_stmt *row, int column)
{
	bool is_told = sqlite3_column_type(row, column) != SQLITE_NULL;

	if (sqlite3_column_type(row, column + 1) == SQLITE_NULL)
		return (struct format_text){ "-" };
	return format_share(is_told ? sqlite3_column_double(row, column) : -1,
			    sqlite3_column_double(row, column + 1),
			    sqlite3_column_double(row, column + 2));
}
