#include "report/callgraph/profile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "report/callgraph/needs.h"
#include "store/query-value.h"
#include "store/statement.h"

static const struct profile_metric_row metrics[PROFILE_METRIC_COUNT] = {
	[PROFILE_BYTES] = { "bytes", "bytes asked for", REPORT_NEEDS_BLOCKS, TABLE_BYTES,
			    "SELECT stack_id, bytes, 0, variance FROM site WHERE run_id = :run" },
	[PROFILE_BLOCKS] = { "blocks", "blocks", REPORT_NEEDS_BLOCKS, TABLE_COUNT,
			     "SELECT stack_id, n_blocks, 0, n_variance FROM site WHERE run_id ="
			     " :run" },
	[PROFILE_PEAK] = { "peak", "bytes live at the peak", REPORT_NEEDS_BLOCKS, TABLE_BYTES,
			   "SELECT stack_id, bytes, 0, variance FROM site_peak WHERE run_id ="
			   " :run" },
	[PROFILE_LEAKED] = { "leaked", "bytes not freed", REPORT_NEEDS_BLOCKS, TABLE_BYTES,
			     "SELECT stack_id, live_bytes - exec_bytes, 0, live_variance FROM site"
			     " WHERE run_id = :run" },
	[PROFILE_TIME] = { "time", "user CPU time at blocks allocated there", REPORT_NEEDS_CLOCK,
			   TABLE_DURATION,
			   "WITH clock(time) AS (SELECT sum(source.n_samples * coalesce(1.0 *"
			   " weight /"
			   "  nullif(whole.n_samples, 0), source.period)) FROM source"
			   "  JOIN main.source AS whole ON whole.id = source.id"
			   "  LEFT JOIN source_ledger ON source_id = source.id"
			   "  WHERE source.run_id = :run AND source.measures = 'time') SELECT"
			   " stack_id, coalesce(share * clock.time, time_ns), n_samples +"
			   " n_imputed, n_samples_sq + n_imputed, time_ns, share_low * clock.time,"
			   " share_high * clock.time, share IS NOT NULL OR share_high IS NULL FROM"
			   " site, clock"
			   " WHERE run_id = :run" },
	[PROFILE_FAULTS] = { "faults", "page faults at blocks allocated there", REPORT_NEEDS_FAULTS,
			     TABLE_COUNT,
			     "SELECT stack_id, n_faults, 0, 0 FROM site WHERE run_id = :run" },
};

#define SAMPLED_FROM(measures)                                                                     \
	" FROM sample_stack WHERE run_id = :run AND measures = '" measures "'"
#define SAMPLED(measures, n) "SELECT stack_id, weight, " n ", " n SAMPLED_FROM(measures)

/* By the samples' own call stacks: each sample is a whole one of its stack. */
static const struct profile_metric_row sampled_metrics[PROFILE_METRIC_COUNT] = {
	[PROFILE_TIME] = { "time", "user CPU time, by the call stacks of samples",
			   REPORT_NEEDS_CLOCK, TABLE_DURATION, SAMPLED("time", "n") },
	[PROFILE_FAULTS] = { "faults", "page faults, by the call stacks of samples",
			     REPORT_NEEDS_FAULTS, TABLE_COUNT, SAMPLED("fault", "0") },
};

/* Also of a part of the run in which no sample has one: of all the run. */
#define HAS_STACKS(measures)                                                                       \
	"SELECT EXISTS (SELECT 1 FROM main.sample_stack WHERE run_id = :run AND measures ="        \
	" '" measures "')"

static const char *const has_stacks_sql[PROFILE_METRIC_COUNT] = {
	[PROFILE_TIME] = HAS_STACKS("time"),
	[PROFILE_FAULTS] = HAS_STACKS("fault"),
};

const struct profile_metric_row *profile_metric_row(enum profile_metric metric)
{
	return &metrics[metric];
}

const struct profile_metric_row *profile_metric_row_of(sqlite3 *db, int64_t run_id,
						       enum profile_metric metric)
{
	const char *sql = has_stacks_sql[metric];

	if (!sql || !report_sql_number(db, sql, run_id))
		return &metrics[metric];
	return &sampled_metrics[metric];
}

char *profile_title(sqlite3 *db, int64_t run_id, const char *title)
{
	char *sql = sqlite3_mprintf(
		"SELECT replace(%Q, 'user CPU time', coalesce((SELECT substr(min(unit), 7)"
		" FROM main.source WHERE run_id = :run AND error = 0 AND measures = 'time'"
		" AND unit LIKE 'ns of %%'), 'user CPU time'))",
		title);
	char *text = sql ? report_sql_text(db, sql, run_id) : NULL;

	sqlite3_free(sql);
	return text;
}

int profile_metric_find(const char *name)
{
	for (int i = 0; i < PROFILE_METRIC_COUNT; i++)
		if (strcmp(metrics[i].name, name) == 0)
			return i;
	return -EINVAL;
}

struct profile *profile_close(struct profile *profile)
{
	if (!profile)
		return NULL;
	paths_close(profile->paths);
	key_map_finish(&profile->edge_of);
	key_map_finish(&profile->place_of);
	free_all(profile->places, profile->functions, profile->edges, profile);
	return NULL;
}

struct profile_sum profile_row(sqlite3_stmt *row)
{
	bool has_ends = sqlite3_column_count(row) > 4 && sqlite3_column_type(row, 6) != SQLITE_NULL;
	bool has_samples = sqlite3_column_count(row) > 3;
	struct profile_sum sum = {
		.value = sqlite3_column_double(row, 1),
		.n = has_samples ? sqlite3_column_double(row, 2) : 0,
		.n_sq = has_samples ? sqlite3_column_double(row, 3) : 0,
		.told = sqlite3_column_double(row, has_ends ? 4 : 1),
		.n_sites = 1,
		.has_ends = has_ends,
	};

	if (has_ends) {
		sum.low = sqlite3_column_double(row, 5);
		sum.high = sqlite3_column_double(row, 6);
		sum.n_unknown = !sqlite3_column_int(row, 7);
	}
	return sum;
}

void profile_sum_add(struct profile_sum *sum, const struct profile_sum *more)
{
	sum->value += more->value;
	sum->n += more->n;
	sum->n_sq += more->n_sq;
	sum->told += more->told;
	sum->low += more->low;
	sum->high += more->high;
	sum->n_sites += more->n_sites;
	sum->n_unknown += more->n_unknown;
	sum->has_ends |= more->has_ends;
}

static struct profile_edge *edge_at(struct profile *profile, uint32_t caller, uint32_t callee)
{
	return key_map_item(&profile->edge_of, caller, callee, profile->edges, profile->n_edges,
			    profile->n_edges_allocated,
			    (struct profile_edge){ .caller = caller, .callee = callee });
}

/* Charge a line with itself, or with what it calls. */
static int add_place(struct profile *profile, const struct path_step *step, uint32_t callee,
		     double value)
{
	uint64_t a = (uint64_t)step->function << 32 | callee;
	uint64_t b = (uint64_t)step->source << 32 | (uint32_t)step->line;
	struct profile_place *place = key_map_item(
		&profile->place_of, a, b, profile->places, profile->n_places,
		profile->n_places_allocated,
		(struct profile_place){ step->function, callee, step->source, step->line, 0 });

	if (place)
		place->value += value;
	return place ? 0 : -ENOMEM;
}

/* The lines of one path; as add_path() behind it, which leaves no call of a cycle anything. */
static int add_places(struct profile *profile, const struct path_step *steps, size_t n,
		      double value, uint32_t *seen)
{
	uint32_t path = ++seen[0];
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		if (i && seen[steps[i].function] != path)
			r = add_place(profile, &steps[i - 1], steps[i].function, value);
		seen[steps[i].function] = path;
	}
	return r < 0 ? r
		     : add_place(profile, n ? &steps[n - 1] : &(struct path_step){ 0 }, 0, value);
}

/* Along one path. seen[function] is `path` once the function was met on it. */
static int add_path(struct profile *profile, const struct path_step *steps, size_t n,
		    const struct profile_sum *sum, uint32_t *seen)
{
	uint32_t path = ++seen[0];
	uint32_t caller = 0;

	profile_sum_add(&profile->functions[0].all, sum);
	for (size_t i = 0; i < n; i++) {
		uint32_t function = steps[i].function;
		struct profile_edge *edge = edge_at(profile, caller, function);
		if (!edge)
			return -ENOMEM;
		if (seen[function] == path) {
			edge->is_cycle = 1;
		} else {
			edge->value += sum->value;
			profile_sum_add(&profile->functions[function].all, sum);
		}
		seen[function] = path;
		caller = function;
	}
	profile_sum_add(&profile->functions[caller].self, sum);
	return 0;
}

static int add_sites(struct profile *profile, sqlite3_stmt *stmt, int has_places, uint32_t *seen)
{
	struct path_step steps[PATHS_MAX_DEPTH];
	int code = SQLITE_DONE;

	while ((code = statement_advance(stmt)) == SQLITE_ROW) {
		const struct profile_sum sum = profile_row(stmt);
		if (sum.value == 0 && !sum.n_unknown)
			continue;
		size_t n = paths_walk(profile->paths, sqlite3_column_int64(stmt, 0), steps);
		int r = has_places ? add_places(profile, steps, n, sum.value, seen) : 0;
		r = r ?: add_path(profile, steps, n, &sum, seen);
		if (r < 0)
			return r;
	}
	return code == SQLITE_DONE ? 0 : -EPROTO;
}

static int add_all(struct profile *profile, sqlite3 *db, const struct profile_request *request)
{
	size_t n = profile->paths->n_functions;
	auto_free uint32_t *seen = calloc(n, sizeof(*seen));
	auto_statement sqlite3_stmt *stmt = report_sql_prepare(
		db, profile_metric_row_of(db, request->run_id, request->metric)->sql,
		request->run_id, -1);

	profile->functions = calloc(n, sizeof(*profile->functions));
	int r = !stmt ? -EPROTO : !seen || !profile->functions ? -ENOMEM : 0;
	for (size_t i = 0; r == 0 && i < n; i++)
		profile->functions[i].number = (uint32_t)i;
	return r ?: add_sites(profile, stmt, request->has_places, seen);
}

int profile_open(sqlite3 *db, const struct profile_request *request, struct profile **ret_profile)
{
	auto_profile struct profile *profile = calloc(1, sizeof(*profile));

	if (!profile)
		return -ENOMEM;
	int r = paths_open(db, &request->paths, &profile->paths) ?: add_all(profile, db, request);
	if (r < 0)
		return r;
	*ret_profile = steal_ptr(&profile);
	return 0;
}

/* ---- As tables ---- */

/* clang-format off */
static const char tables_sql[] =
	"DROP TABLE IF EXISTS temp.profile_function; DROP TABLE IF EXISTS temp.profile_call;CREATE"
	" TEMP TABLE profile_function(id INTEGER PRIMARY KEY, function TEXT, module TEXT, self"
	" REAL, self_n REAL, self_sq REAL, self_told REAL, self_low REAL, self_high REAL,"
	" self_sites INTEGER, self_unknown INTEGER, total REAL, total_n REAL, total_sq REAL,"
	" total_told REAL, total_low REAL, total_high REAL, total_sites INTEGER, total_unknown"
	" INTEGER);CREATE TEMP TABLE profile_call(caller INTEGER, callee INTEGER, value REAL,"
	" is_cycle INTEGER, PRIMARY KEY(caller, callee)) WITHOUT ROWID;CREATE INDEX"
	" temp.profile_callee ON profile_call(callee);";
/* clang-format on */

/*
 * Several sites share samples: their number bounds the sum of squares, since no share is above 1.
 */
static double squares(const struct profile_sum *sum)
{
	return sum->n_sites > 1 ? sum->n : sum->n_sq;
}

static void bind_sum(sqlite3_stmt *stmt, int first, const struct profile_sum *sum, bool has_ends)
{
	const double values[] = {
		sum->value, sum->n,    squares(sum), sum->told,
		sum->low,   sum->high, sum->n_sites, sum->n_unknown,
	};

	for (int i = 0; i < 8; i++)
		sqlite3_bind_double(stmt, first + i, values[i]);
	if (!has_ends) {
		sqlite3_bind_null(stmt, first + 4);
		sqlite3_bind_null(stmt, first + 5);
	}
}

static int insert_function(const struct profile *profile, const struct profile_function *function,
			   sqlite3_stmt *stmt)
{
	const struct path_function *names = &profile->paths->functions[function->number];
	if (function->number && function->all.n_sites == 0)
		return SQLITE_DONE;
	sqlite3_bind_int64(stmt, 1, function->number);
	sqlite3_bind_text(stmt, 2, function->number ? names->name : "(all)", -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 3, names->module, -1, SQLITE_STATIC);
	bind_sum(stmt, 4, &function->self, function->all.has_ends);
	bind_sum(stmt, 12, &function->all, function->all.has_ends);
	int code = statement_advance(stmt);
	sqlite3_reset(stmt);
	return code;
}

static int insert_functions(const struct profile *profile, sqlite3 *db)
{
	auto_statement sqlite3_stmt *stmt =
		report_sql_prepare(db,
				   "INSERT INTO temp.profile_function VALUES"
				   " (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				   0, -1);
	int code = stmt ? SQLITE_DONE : SQLITE_ERROR;

	for (size_t i = 0; code == SQLITE_DONE && i < profile->paths->n_functions; i++)
		code = insert_function(profile, &profile->functions[i], stmt);
	return code == SQLITE_DONE ? 0 : -EPROTO;
}

static int insert_calls(const struct profile *profile, sqlite3 *db)
{
	auto_statement sqlite3_stmt *stmt =
		report_sql_prepare(db, "INSERT INTO temp.profile_call VALUES (?, ?, ?, ?)", 0, -1);
	int code = stmt ? SQLITE_DONE : SQLITE_ERROR;

	for (size_t i = 0; code == SQLITE_DONE && i < profile->n_edges; i++) {
		const struct profile_edge *edge = &profile->edges[i];
		sqlite3_bind_int64(stmt, 1, edge->caller);
		sqlite3_bind_int64(stmt, 2, edge->callee);
		sqlite3_bind_double(stmt, 3, edge->value);
		sqlite3_bind_int(stmt, 4, edge->is_cycle);
		code = statement_advance(stmt);
		sqlite3_reset(stmt);
	}
	return code == SQLITE_DONE ? 0 : -EPROTO;
}

int profile_tables(const struct profile *profile, sqlite3 *db)
{
	if (sqlite3_exec(db, tables_sql, NULL, NULL, NULL) != SQLITE_OK)
		return -EPROTO;
	return insert_functions(profile, db) ?: insert_calls(profile, db);
}
