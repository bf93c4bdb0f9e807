#pragma once
#include "report/report.h"

/*
 * The flat and the hierarchical profile of report_request.by, without report_request.excluded.
 * report_profile_prepare() makes the tables of profile.h that the queries of both reports read.
 * Return 0, -EIO, -EPROTO, -ENOMEM.
 */
int report_profile_prepare(sqlite3 *db, const struct report_request *request);
int report_flat_write(FILE *out, sqlite3 *db, const struct report_request *request);
int report_calls_write(FILE *out, sqlite3 *db, const struct report_request *request);

extern const char report_flat_sql[];
extern const char report_calls_sql[];
