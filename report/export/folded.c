/* Profiles as text: folded stacks, and callgrind's format. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "report/export/export.h"
#include "store/query-value.h"
#include "store/statement.h"

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
	int r = paths_open(db, &request->paths, &paths);
	if (r < 0)
		return r;
	const struct profile_metric_row *metric =
		profile_metric_row_of(db, request->run_id, request->metric);
	auto_statement sqlite3_stmt *stmt =
		report_sql_prepare(db, metric->sql, request->run_id, -1);
	export_begin(db, request, "writing",
		     metric == profile_metric_row(request->metric) ? EXPORT_N_SITES : NULL);

	while (stmt && (code = statement_advance(stmt)) == SQLITE_ROW && !ferror(out)) {
		int64_t value = (int64_t)llround(sqlite3_column_double(stmt, 1));
		size_t n = paths_walk(paths, sqlite3_column_int64(stmt, 0), steps);
		if (value)
			write_path(out, paths, steps, n, value);
		export_row(out, request);
	}
	return ferror(out) ? -EIO : stmt && code == SQLITE_DONE ? 0 : -EPROTO;
}

/* ---- Callgrind: valgrind's manual, "Callgrind Format Specification" ---- */

struct callgrind {
	FILE *out;
	const struct profile *profile;
	int32_t *first_line; /* by function, in the file that is its own; 0: not known */
	const char *source; /* of the line written last */
};

static void write_source(const struct callgrind *callgrind, const char *key, const char *source)
{
	fprintf(callgrind->out, "%s=", key);
	write_name(callgrind->out, source ? source : "???", "");
	fputc('\n', callgrind->out);
}

/* The name of a place's file as the functions have it: NULL where it is not known. */
static const char *source_of(const struct callgrind *callgrind, const struct profile_place *place)
{
	return place->source ? callgrind->profile->paths->sources[place->source] : NULL;
}

/* Names are written out: each stands wherever it is used. */
static void write_function(const struct callgrind *callgrind, uint32_t number, const char *prefix)
{
	const struct path_function *function = &callgrind->profile->paths->functions[number];

	fprintf(callgrind->out, "%sob=", prefix);
	write_name(callgrind->out, *function->module ? function->module : "unknown", "");
	fputc('\n', callgrind->out);
	write_source(callgrind, *prefix ? "cfi" : "fl", function->source);
	fprintf(callgrind->out, "%sfn=", prefix);
	write_name(callgrind->out, number ? function->name : "(no call stack)", "");
	fputc('\n', callgrind->out);
}

/* A line of the function at hand, and the call from there. How often it was called is not known. */
static void write_place(struct callgrind *callgrind, const struct profile_place *place)
{
	const char *own = callgrind->profile->paths->functions[place->function].source;
	const char *source = source_of(callgrind, place);

	if (place->callee && llround(place->value) == 0)
		return;
	if (source != callgrind->source)
		write_source(callgrind, source == own ? "fe" : "fi", source);
	callgrind->source = source;
	if (place->callee) {
		write_function(callgrind, place->callee, "c");
		fprintf(callgrind->out, "calls=1 %d\n", callgrind->first_line[place->callee]);
	}
	fprintf(callgrind->out, "%d %lld\n", place->line, llround(place->value));
}

DEFINE_ORDER(compare_places, struct profile_place,
	     BY(function) ?: BY(source) ?: BY(line) ?: BY(callee));

/*
 * Where a function begins is not in the database: the first of its lines that is known stands for
 * it.
 */
static void find_first_lines(struct callgrind *callgrind)
{
	for (size_t i = callgrind->profile->n_places; i-- > 0;) {
		const struct profile_place *place = &callgrind->profile->places[i];
		const struct path_function *function =
			&callgrind->profile->paths->functions[place->function];

		if (place->line > 0 && source_of(callgrind, place) == function->source)
			callgrind->first_line[place->function] = place->line;
	}
}

static int write_costs(FILE *out, struct profile *profile)
{
	auto_free int32_t *first_line = calloc(profile->paths->n_functions, sizeof(*first_line));
	struct callgrind callgrind = { out, profile, first_line, NULL };

	if (!first_line)
		return -ENOMEM;
	if (profile->n_places)
		qsort(profile->places, profile->n_places, sizeof(*profile->places), compare_places);
	find_first_lines(&callgrind);
	for (size_t i = 0; i < profile->n_places; i++) {
		const struct profile_place *place = &profile->places[i];

		if (i == 0 || place->function != place[-1].function) {
			fputs(i ? "\n" : "", out);
			write_function(&callgrind, place->function, "");
			callgrind.source = profile->paths->functions[place->function].source;
		}
		write_place(&callgrind, place);
	}
	return 0;
}

int export_callgrind_write(FILE *out, sqlite3 *db, const struct export_request *request)
{
	const struct profile_metric_row *metric =
		profile_metric_row_of(db, request->run_id, request->metric);
	struct profile_request wanted = { request->run_id, request->metric, request->paths, 1 };
	auto_profile struct profile *profile = NULL;

	/* Source is annotated with what its own lines have: those of the program are looked at. */
	if (wanted.paths.fold)
		wanted.paths.fold = PATHS_PROGRAM;
	export_begin(db, request, "adding up call paths", NULL);
	int r = profile_open(db, &wanted, &profile);
	if (r < 0)
		return r;

	auto_free char *title = profile_title(db, request->run_id, metric->title);
	long long whole = llround(profile->functions[0].all.value);
	fprintf(out,
		"# callgrind format\nversion: 1\ncreator: memsight\npositions: line\n"
		"event: %s : %s\nevents: %s\nsummary: %lld\n\n",
		metric->name, title ? title : metric->title, metric->name, whole);
	r = write_costs(out, profile);
	fprintf(out, "\ntotals: %lld\n", whole);
	return ferror(out) ? -EIO : r;
}
