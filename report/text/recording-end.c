#include "report/text/recording-end.h"

#include <stdio.h>

#include "common/cleanup.h"
#include "common/human-number.h"
#include "store/query-value.h"

/* The one loss of the recorder itself that has a beginning. */
#define OF_STOP                                                                                    \
	" FROM loss WHERE run_id = :run AND source = 'collector' AND process_id IS NULL"           \
	" AND from_ns IS NOT NULL"

char *report_stop_text(sqlite3 *db, int64_t run_id)
{
	auto_free char *reason = report_sql_text(db, "SELECT reason" OF_STOP, run_id);
	int64_t at = report_sql_number(db, "SELECT from_ns" OF_STOP, run_id);
	char *text = NULL;
	int n = 0;

	if (reason) {
		n = asprintf(&text, "recording stopped at %s: %s", format_duration(at).text,
			     reason);
	} else if (report_sql_number(db, "SELECT NOT ended_cleanly FROM run WHERE id = :run",
				     run_id)) {
		at = report_sql_number(db, "SELECT committed_ns FROM run WHERE id = :run", run_id);
		n = asprintf(&text, "the trace was cut off at %s", format_duration(at).text);
	}
	return n < 0 ? NULL : text;
}
