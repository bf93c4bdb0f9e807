#pragma once
#include "report/report.h"

/*
 * Why a report has nothing to show: the sentence `nothing' (NULL: "Nothing to show."), and where
 * the recording holds nothing of what it needs, the reason that the database knows. Returns 0, -EIO
 * or -EPROTO.
 */
int report_why_write(FILE *out, sqlite3 *db, const struct report_request *request,
		     enum report_needs needs, const char *nothing);
