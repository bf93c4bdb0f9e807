#pragma once
#include <sqlite3.h>
#include <stdio.h>

#include "report/text/table.h"

/*
 * Run SQL of a user and write the rows of each statement that has columns. The functions of
 * report_functions_register() can be used. db should be opened read-only: nothing here prevents
 * statements that write. Returns 0, -EPROTO for an SQL error (sqlite3_errmsg(db)), -EIO when the
 * stream failed, -EINVAL when there is no statement in the text.
 */
int query_write(FILE *out, sqlite3 *db, const char *sql, const struct table_style *style);
