#include "report/report.h"

#include <errno.h>
#include <string.h>

#include "report/queries.h"
#include "store/statement.h"

static const char named_sql[] = "SELECT id FROM run WHERE CAST(id AS TEXT) = ?1"
				" OR program || '.' || mode || '.' || repetition = ?1"
				" OR program || '.' || mode = ?1 OR program = ?1"
				" ORDER BY CAST(id AS TEXT) = ?1 DESC, repetition, id LIMIT 1";

int report_run_find(sqlite3 *db, const char *selector, int64_t *ret_run_id)
{
	sqlite3_stmt *stmt = NULL;
	const char *sql = selector ? named_sql : "SELECT id FROM run ORDER BY id DESC LIMIT 1";

	int result = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
	if (result != SQLITE_OK) {
		statement_keep(db, result);
		return -EPROTO;
	}
	if (selector)
		sqlite3_bind_text(stmt, 1, selector, -1, SQLITE_STATIC);

	int code = statement_advance(stmt);
	if (code == SQLITE_ROW)
		*ret_run_id = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	if (code == SQLITE_DONE)
		return selector ? -ENOENT : -ENODATA;
	return code == SQLITE_ROW ? 0 : -EPROTO;
}

#define REPORT(name) &report_##name,
const struct report *const reports[] = { REPORTS(REPORT) NULL };

const struct report *report_find(const char *name)
{
	if (strcmp(name, report_own_time.name) == 0)
		return &report_own_time;
	for (const struct report *const *report = reports; *report; report++)
		if (strcmp((*report)->name, name) == 0)
			return *report;
	return NULL;
}
