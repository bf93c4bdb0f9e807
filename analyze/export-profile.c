/* Profiles as text: folded stacks, and callgrind's format. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "analyze/export.h"
#include "analyze/report-sql.h"
#include "analyze/statement.h"

/* A name must not end its line or its place in the path. */
static void write_name(FILE *out, const char *name, const char *forbidden)
{
	for (; *name; name++) {
		bool is_bad = (unsigned char)*name < 0x20;
		for (const char *c = forbidden; *c && !is_bad; c++)
			is_bad = *name == *c;
		fputc(is_bad ? '_' : *name, out);
	}
}

static void write_path(FILE *out, const struct paths *paths, const struct path_step *steps,
		       size_t n, int64_t value)
{
	for (size_t i = 0; i < n; i++) {
		fputs(i ? ";" : "", out);
		write_name(out, paths->functions[steps[i].function].name, ";");
	}
	fprintf(out, "%s %" PRId64 "\n", n ? "" : "(no call stack)", value);
}

int export_folded_write(FILE *out, sqlite3 *db, const struct export_request *request)
{
	auto_paths struct paths *paths = NULL;
	struct path_step steps[PATHS_MAX_DEPTH];
	int code = SQLITE_DONE;
	int r = paths_open(db, request->excluded, &paths);
	if (r < 0)
		return r;
	sqlite3_stmt *stmt = report_sql_prepare(
		db, profile_metric_row_of(db, request->run_id, request->metric)->sql,
		request->run_id, -1);

	while (stmt && (code = statement_advance(stmt)) == SQLITE_ROW && !ferror(out)) {
		int64_t value = (int64_t)llround(sqlite3_column_double(stmt, 1));
		size_t n = paths_walk(paths, sqlite3_column_int64(stmt, 0), steps);
		if (value)
			write_path(out, paths, steps, n, value);
	}
	sqlite3_finalize(stmt);
	return ferror(out) ? -EIO : stmt && code == SQLITE_DONE ? 0 : -EPROTO;
}

/* ---- Callgrind: valgrind's manual, "Callgrind Format Specification" ---- */

/* The numbers of names come from the table: each stands with its name wherever it is used. */
static void write_function(FILE *out, const struct profile *profile, uint32_t number,
			   const char *prefix)
{
	const struct path_function *function = &profile->paths->functions[number];

	fprintf(out, "%sob=", prefix);
	write_name(out, *function->module ? function->module : "unknown", "");
	fprintf(out, "\n%s=", *prefix ? "cfi" : "fl");
	write_name(out, function->source ? function->source : "???", "");
	fprintf(out, "\n%sfn=", prefix);
	write_name(out, number ? function->name : "(no call stack)", "");
	fputc('\n', out);
}

/* What it calls. A call that only closes a cycle carries nothing and is left out. */
static void write_calls(FILE *out, const struct profile *profile, const uint32_t *edges, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct profile_edge *edge = &profile->edges[edges[i]];
		if (llround(edge->value) == 0)
			continue;
		write_function(out, profile, edge->callee, "c");
		fprintf(out, "calls=1 0\n0 %lld\n", llround(edge->value));
	}
}

static void write_costs(FILE *out, const struct profile *profile)
{
	size_t n_functions = profile->paths->n_functions;
	uint32_t *order = calloc(profile->n_edges + n_functions + 1, sizeof(*order));
	uint32_t *first = order ? order + profile->n_edges : NULL;

	/* Edges by caller: count, add up, place. */
	for (size_t i = 0; order && i < profile->n_edges; i++)
		first[profile->edges[i].caller]++;
	for (size_t i = 1; order && i <= n_functions; i++)
		first[i] += first[i - 1];
	for (size_t i = profile->n_edges; order && i-- > 0;)
		order[--first[profile->edges[i].caller]] = (uint32_t)i;

	for (uint32_t i = 0; order && i < n_functions; i++) {
		const struct profile_function *function = &profile->functions[i];
		if (function->all.n_sites == 0 || (i == 0 && function->self.value == 0))
			continue;
		write_function(out, profile, i, "");
		fprintf(out, "0 %lld\n", llround(function->self.value));
		if (i)
			write_calls(out, profile, order + first[i], first[i + 1] - first[i]);
		fputc('\n', out);
	}
	free(order);
}

int export_callgrind_write(FILE *out, sqlite3 *db, const struct export_request *request)
{
	const struct profile_metric_row *metric =
		profile_metric_row_of(db, request->run_id, request->metric);
	const struct profile_request wanted = { request->run_id, request->metric,
						request->excluded };
	auto_profile struct profile *profile = NULL;
	int r = profile_open(db, &wanted, &profile);
	if (r < 0)
		return r;

	long long whole = llround(profile->functions[0].all.value);
	fprintf(out,
		"# callgrind format\nversion: 1\ncreator: memsight\npositions: line\n"
		"event: %s : %s\nevents: %s\nsummary: %lld\n\n",
		metric->name, metric->title, metric->name, whole);
	write_costs(out, profile);
	fprintf(out, "totals: %lld\n", whole);
	return ferror(out) ? -EIO : 0;
}
