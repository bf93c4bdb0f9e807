#include "store/row-limit.h"

#include <stdio.h>

#include "store/statement.h"

#define IDS_OF_ROW 4
#define LEAST_IDS  65536

int64_t row_limit(sqlite3 *db, const char *table)
{
	char sql[80];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
	return statement_number(db, 0, sql, "") * IDS_OF_ROW + LEAST_IDS;
}
