#include "report/user-query.h"

#include <errno.h>

#include "report/text/fit-text.h"

/* A statement without columns, as PRAGMA x = y or ATTACH, is stepped once. */
static int write_statement(FILE *out, sqlite3_stmt *stmt, const struct table_style *style)
{
	if (sqlite3_column_count(stmt) > 0)
		return table_write(out, stmt, style, NULL);
	return sqlite3_step(stmt) == SQLITE_DONE ? 0 : -EPROTO;
}

struct statements {
	sqlite3 *db;
	const char *sql;
	const struct table_style *style;
};

static int write_statements(FILE *out, void *user)
{
	const struct statements *statements = user;
	sqlite3 *db = statements->db;
	const char *sql = statements->sql;
	size_t n_statements = 0;

	while (*sql) {
		sqlite3_stmt *stmt = NULL;
		if (sqlite3_prepare_v2(db, sql, -1, &stmt, &sql) != SQLITE_OK)
			return -EPROTO;
		if (!stmt)
			continue; /* white space or a comment */

		n_statements++;
		int r = write_statement(out, stmt, statements->style);
		sqlite3_finalize(stmt);
		if (r < 0)
			return r;
	}
	return n_statements ? 0 : -EINVAL;
}

int query_write(FILE *out, sqlite3 *db, const char *sql, const struct table_style *style)
{
	struct statements statements = { db, sql, style };

	return fit_lines_write(out, style->format == TABLE_TEXT ? style->width : 0,
			       write_statements, &statements);
}
