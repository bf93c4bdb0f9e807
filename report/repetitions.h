#pragma once
/* SQL over a row of run: whether its values count. */
#define REPORT_RUN_IS_GOOD                                                                         \
	"ended_cleanly AND coalesce((SELECT value = 'ok' FROM fact WHERE fact.run_id = run.id"     \
	" AND key = 'series.result'), coalesce(exit_status, 0) = 0)"

#include <sqlite3.h>

/*
 * SQL functions for statistics over repetitions; NULLs are left out. Aggregates: median(x),
 * deviation(x) (NULL below two values), interval_low(x) and interval_high(x) (95 %, of the median,
 * seeded; NULL below STATISTICS_INTERVAL_VALUES), quartile_low(x), quartile_high(x), outliers(x,
 * name): the names of values beyond Tukey's fences, NULL: none. unit_text(x, unit). Returns an
 * SQLite code.
 */
int report_stat_register(sqlite3 *db);
