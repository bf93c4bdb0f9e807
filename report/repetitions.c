#include "report/queries.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/human-number.h"
#include "common/statistics.h"

/*
 * Repetitions that failed or were cut off are counted, and leave no value. Counters that were
 * multiplexed are scaled up to the time that they were meant to count.
 */
/* clang-format off */
#define VALUES \
	"WITH good(id, program, mode, repetition, is_good) AS (" \
	"  SELECT id, program, mode, repetition, " REPORT_RUN_IS_GOOD \
	"  FROM run WHERE :run = 0 OR (program, mode) =" \
	"  (SELECT program, mode FROM run WHERE id = :run))," \
	" told(run_id, place, name, unit, value) AS (" \
	"  SELECT id, 1, 'wall time', 'ns', wtime_ns FROM runs" \
	"  UNION ALL SELECT id, 2, 'user time', 'ns', user_ns FROM run" \
	"  UNION ALL SELECT id, 3, 'system time', 'ns', system_ns FROM run" \
	"  UNION ALL SELECT id, 4, 'max rss', 'bytes', max_rss FROM run" \
	"  UNION ALL SELECT id, 5, 'minor faults', 'page faults', minor_faults FROM run" \
	"  UNION ALL SELECT id, 6, 'major faults', 'page faults', major_faults FROM run" \
	"  UNION ALL SELECT run_id, 7, replace(name, '_', ' ')," \
	"   CASE name WHEN 'allocations' THEN 'blocks' ELSE 'bytes' END, value FROM total" \
	"   WHERE name IN ('allocations', 'bytes', 'peak_bytes') AND" \
	"   " REPORT_SQL_HAS_BLOCKS("total.run_id") "  UNION ALL SELECT run_id, 8, name, unit," \
	" sum(CASE WHEN running_ns > 0 AND running_ns <" \
	"   enabled_ns THEN 1.0 * value * enabled_ns / running_ns ELSE value END) FROM counter" \
	"   WHERE NOT (name = 'wall clock' AND unit = 'ns')" \
	"   GROUP BY run_id, name, unit)," \
	" kept(id, program, mode, repetition, is_good, place, name, unit, value, told) AS (" \
	"  SELECT id, program, mode, repetition, is_good, place, name, unit," \
	"  CASE WHEN is_good THEN value END, value FROM good JOIN told ON told.run_id = good.id" \
	"  WHERE value IS NOT NULL) "
/* clang-format on */
#define GROUPED " FROM kept GROUP BY program, mode, place, name, unit"
#define GROUPS	GROUPED " ORDER BY program, mode, place, name LIMIT :limit"

const char report_stat_values_sql[] = VALUES
	"SELECT program, mode, EXISTS (SELECT 1 FROM run JOIN fact ON fact.run_id = run.id WHERE"
	" run.program = kept.program AND run.mode = kept.mode AND key = 'memsight.natural' AND"
	" fact.value = 'yes') AS is_natural, repetition, name, unit, value FROM kept"
	" ORDER BY program, is_natural DESC, mode, place, name, unit, repetition LIMIT :limit";

static const char stat_sql[] = VALUES
	"SELECT program || '.' || mode AS run, name, unit, count(value) AS n,"
	" sum(NOT is_good) AS failed, median(value) AS median, interval_low(value) AS low,"
	" interval_high(value) AS high, min(value) AS min, max(value) AS max, avg(value) AS mean,"
	" deviation(value) AS sd, outliers(value, repetition) AS outliers" GROUPS;

static const char stat_text_sql[] = VALUES
	"SELECT program || '.' || mode AS run, name, count(value) AS n, sum(NOT is_good) AS failed,"
	" unit_text(median(value), unit) AS median, unit_text(interval_low(value), unit) || ' - '"
	" || unit_text(interval_high(value), unit)"
	"  AS \"95 %\", unit_text(min(value), unit) AS min, unit_text(max(value), unit) AS max,"
	" unit_text(avg(value), unit) AS mean, unit_text(deviation(value), unit) AS sd,"
	" outliers(value, repetition) AS outliers" GROUPS;

const struct report report_stat = {
	.name = "stat",
	.title = "Repetitions of each PROGRAM.MODE",
	.nothing = "No run is there.",
	.note = "n: repetitions that succeeded and have this number; failed: left out; 95"
		" %: interval of the median, by bootstrap (fewer than 6 values have none);"
		" sd: standard deviation; outliers: repetitions beyond Tukey's fences",
	.sql = stat_sql,
	.n_sql = VALUES "SELECT count(*) FROM (SELECT 1" GROUPED ")",
	.text_sql = stat_text_sql,
	KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT, TABLE_COUNT),
};

const char report_series_values_sql[] = VALUES
	"SELECT program, mode, name AS metric, unit, id AS run, told AS value, is_good FROM kept"
	" ORDER BY place, name, program, mode, repetition, id";

/* clang-format off */
const char report_series_statistics_sql[] = VALUES "SELECT program, mode, name AS metric, unit,"
	" count(value) AS n, sum(NOT is_good) AS n_failed, median(value) AS median,"
	" interval_low(value) AS low, interval_high(value) AS high, quartile_low(value) AS q1,"
	" quartile_high(value) AS q3, min(value) AS least, max(value) AS most FROM kept GROUP BY"
	" program, mode, place, name, unit ORDER BY program, mode, place, name";
/* clang-format on */

/* ---- Aggregates: all keep the values, and look at them at the end ---- */

struct kept {
	double value;
	char *name; /* of outliers() */
};

struct values {
	struct kept *items;
	size_t n;
	size_t n_allocated;
	bool has_failed;
};

static void take_value(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	struct values *values = sqlite3_aggregate_context(context, sizeof(*values));
	const char *name = n_args > 1 ? (const char *)sqlite3_value_text(args[1]) : NULL;
	struct kept kept = { .value = sqlite3_value_double(args[0]) };

	if (!values || values->has_failed || sqlite3_value_type(args[0]) == SQLITE_NULL)
		return;
	values->has_failed = grow_one(&values->items, values->n, &values->n_allocated) < 0;
	if (name && !values->has_failed)
		values->has_failed = !(kept.name = strdup(name));
	if (!values->has_failed)
		values->items[values->n++] = kept;
}

static void free_values(struct values *values)
{
	array_free(values->items, values->n, it, free(it->name));
	*values = (struct values){ 0 };
}

/* What was taken, sorted; NULL without any, or without memory. To be freed. */
static double *sorted_of(sqlite3_context *context, const struct values *values)
{
	double *sorted = values && values->n && !values->has_failed
				 ? calloc(values->n, sizeof(*sorted))
				 : NULL;

	if (values && (values->n || values->has_failed) && !sorted)
		sqlite3_result_error_nomem(context);
	for (size_t i = 0; sorted && i < values->n; i++)
		sorted[i] = values->items[i].value;
	if (sorted)
		statistics_sort(sorted, values->n);
	return sorted;
}

/* Beyond the fences, by name, in the order of rows. */
static void tell_outliers(sqlite3_context *context, const struct values *values,
			  const double *sorted)
{
	sqlite3_str *text = sqlite3_str_new(NULL);
	double low, high;

	statistics_fences(sorted, values->n, &low, &high);
	for (size_t i = 0; i < values->n; i++) {
		const struct kept *kept = &values->items[i];
		if (kept->name && (kept->value < low || kept->value > high))
			sqlite3_str_appendf(text, "%s%s", sqlite3_str_length(text) ? " " : "",
					    kept->name);
	}
	char *finished = sqlite3_str_finish(text);
	if (finished)
		sqlite3_result_text(context, finished, -1, sqlite3_free);
}

static void tell_median(sqlite3_context *context, const struct values *values, const double *sorted)
{
	sqlite3_result_double(context, statistics_quantile(sorted, values->n, 0.5));
}

static void tell_quartile_low(sqlite3_context *context, const struct values *values,
			      const double *sorted)
{
	sqlite3_result_double(context, statistics_quantile(sorted, values->n, 0.25));
}

static void tell_quartile_high(sqlite3_context *context, const struct values *values,
			       const double *sorted)
{
	sqlite3_result_double(context, statistics_quantile(sorted, values->n, 0.75));
}

static void tell_deviation(sqlite3_context *context, const struct values *values,
			   const double *sorted)
{
	if (values->n > 1)
		sqlite3_result_double(context, statistics_deviation(sorted, values->n));
}

static void tell_bound(sqlite3_context *context, const struct values *values, const double *sorted,
		       bool is_high)
{
	double low, high;

	if (values->n < STATISTICS_INTERVAL_VALUES)
		return;
	statistics_interval(sorted, values->n, &low, &high);
	sqlite3_result_double(context, is_high ? high : low);
}

static void tell_low(sqlite3_context *context, const struct values *values, const double *sorted)
{
	tell_bound(context, values, sorted, false);
}

static void tell_high(sqlite3_context *context, const struct values *values, const double *sorted)
{
	tell_bound(context, values, sorted, true);
}

static const struct aggregate {
	const char *name;
	int n_args;
	void (*tell)(sqlite3_context *, const struct values *, const double *);
} aggregates[] = {
	{ "median", 1, tell_median },
	{ "deviation", 1, tell_deviation },
	{ "interval_low", 1, tell_low },
	{ "interval_high", 1, tell_high },
	{ "quartile_low", 1, tell_quartile_low },
	{ "quartile_high", 1, tell_quartile_high },
	{ "outliers", 2, tell_outliers },
};

static void finish_values(sqlite3_context *context)
{
	const struct aggregate *aggregate = sqlite3_user_data(context);
	struct values *values = sqlite3_aggregate_context(context, 0);
	auto_free double *sorted = sorted_of(context, values);

	if (sorted)
		aggregate->tell(context, values, sorted);
	if (values)
		free_values(values);
}

/* A value as people read its unit. */
static void unit_text(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	const char *unit = (const char *)sqlite3_value_text(args[1]);
	double value = sqlite3_value_double(args[0]);

	(void)n_args;
	if (sqlite3_value_type(args[0]) == SQLITE_NULL || !unit || fabs(value) > 9e18)
		return;
	enum table_kind kind = strcmp(unit, "ns") == 0	    ? TABLE_DURATION
			       : strcmp(unit, "bytes") == 0 ? TABLE_BYTES
							    : TABLE_COUNT;
	struct format_text text = table_value_text(value, kind);
	sqlite3_result_text(context, text.text, -1, SQLITE_TRANSIENT);
}

int report_stat_register(sqlite3 *db)
{
	int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
	int code = sqlite3_create_function(db, "unit_text", 2, flags, NULL, unit_text, NULL, NULL);

	for (size_t i = 0; code == SQLITE_OK && i < sizeof(aggregates) / sizeof(aggregates[0]); i++)
		code = sqlite3_create_function(db, aggregates[i].name, aggregates[i].n_args, flags,
					       (void *)&aggregates[i], NULL, take_value,
					       finish_values);
	return code;
}

/*
 * Each run beside the natural run of the same program and block: a drift of the machine is in both.
 * user_ns and system_ns are the command's own, as wait4 told them.
 */
/* clang-format off */
#define PAIRS \
	"WITH told(id, program, mode, repetition, is_natural, has_tracer, has_sampler, wall, cpu," \
	"  rss) AS (SELECT id, program, mode, repetition," \
	"  EXISTS (SELECT 1 FROM fact WHERE run_id = run.id AND key = 'memsight.natural'" \
	"   AND value = 'yes')," \
	"  EXISTS (SELECT 1 FROM fact WHERE run_id = run.id AND key = 'memsight.alloc'" \
	"   AND value = 'yes')," \
	"  EXISTS (SELECT 1 FROM source WHERE run_id = run.id AND error = 0" \
	" AND measures NOT IN ('tasks', 'pages'))," \
	"  (SELECT wtime_ns FROM runs WHERE runs.id = run.id), user_ns + system_ns, max_rss" \
	" FROM run" \
	"  WHERE " REPORT_RUN_IS_GOOD ")," \
	" pair(program, mode, against, has_tracer, has_sampler, wall, cpu, rss) AS (" \
	"  SELECT run.program, run.mode, natural.mode, run.has_tracer, run.has_sampler," \
	"  1.0 * run.wall / natural.wall, 1.0 * run.cpu / nullif(natural.cpu, 0)," \
	"  run.rss - natural.rss FROM told AS run JOIN told AS natural USING (program," \
	" repetition)" \
	"  WHERE natural.is_natural AND NOT run.is_natural AND natural.wall > 0" \
	"  AND (:run = 0 OR (run.program, run.mode) =" \
	"   (SELECT program, mode FROM run WHERE id = :run))) "
/* clang-format on */

#define OVERHEAD_GROUPS                                                                            \
	" FROM pair GROUP BY program, mode, against ORDER BY program, mode, against LIMIT :limit"
#define RECORDED                                                                                   \
	"CASE WHEN has_tracer AND has_sampler THEN 'allocations + samples'"                        \
	" WHEN has_tracer THEN 'allocations' WHEN has_sampler THEN 'samples' ELSE 'nothing' END"

/* clang-format off */
static const char overhead_sql[] = PAIRS "SELECT program || '.' || mode AS run, against, " RECORDED
	" AS recorded, count(*) AS pairs, median(wall) AS wall_ratio, interval_low(wall) AS"
	" wall_low, interval_high(wall) AS wall_high, median(cpu) AS cpu_ratio, interval_low(cpu)"
	" AS cpu_low, interval_high(cpu) AS cpu_high,"
	" median(rss) AS rss_more" OVERHEAD_GROUPS;
/* clang-format on */

#define RATIO(name, ratio)                                                                         \
	"SELECT program, mode, '" name "' AS metric, against AS base, count(" ratio ") AS n,"      \
	" median(" ratio ") AS ratio, interval_low(" ratio ") AS low, interval_high(" ratio        \
	") AS high FROM pair GROUP BY program, mode, against"

const char report_series_overhead_sql[] = PAIRS RATIO("wall time", "wall") " UNION ALL " RATIO(
	"CPU time", "cpu") " ORDER BY 1, 2, 4, 3";

/* printf() would make 0.000 of an interval that few pairs do not have. */
#define INTERVAL(name)                                                                             \
	" CASE WHEN interval_low(" name                                                            \
	") IS NOT NULL THEN printf('%.3f - %.3f', interval_low(" name "), interval_high(" name     \
	")) END AS \"95 %\","

/* clang-format off */
static const char overhead_text_sql[] =
	PAIRS "SELECT program || '.' || mode AS run, against, " RECORDED
	" AS recorded, count(*) AS pairs, printf('%.3f', median(wall)) AS \"wall time\","
	INTERVAL("wall") " printf('%.3f', median(cpu)) AS \"CPU time\"," INTERVAL("cpu")
	" unit_text(median(rss), 'bytes') AS \"max rss\"" OVERHEAD_GROUPS;
/* clang-format on */

const struct report report_overhead = {
	.own_time = &report_own_time,
	.name = "overhead",
	.title = "Each mode against the natural runs of the same block",
	.nothing = "There are no pairs: a series needs a mode with `dry = yes', and runs that "
		   "succeeded.",
	.note = "ratios of a run to the natural run of its block, median over the pairs,"
		" with its 95 % interval by bootstrap (fewer than 6 pairs have none); max"
		" rss: how much more the command had",
	.sql = overhead_sql,
	.text_sql = overhead_text_sql,
	KINDS(TABLE_PLAIN, TABLE_PLAIN, TABLE_PLAIN, TABLE_COUNT),
};
