#include "store/row-limit.h"

#include <stdio.h>

#include "store/statement.h"

#define IDS_OF_ROW 4
#define LEAST_IDS  65536

int64_t row_limit(sqlite3 *db, const char *table)
{
	auto_statement sqlite3_stmt *row = NULL;
	char sql[80];
	int64_t n = 0;

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
	int result = sqlite3_prepare_v2(db, sql, -1, &row, NULL);
	if (result != SQLITE_OK)
		statement_keep(db, result);
	else if (statement_advance(row) == SQLITE_ROW)
		n = sqlite3_column_int64(row, 0);
	return n * IDS_OF_ROW + LEAST_IDS;
}
