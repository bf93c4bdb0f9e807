#include "cli/cmd-analyze.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/analyze.h"
#include "analyze/batch.h"
#include "analyze/input/perf-data/companion.h"
#include "cli/cmd.h"
#include "cli/options/symbol-options.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/human-number.h"
#include "report/report.h"
#include "schemas/trace-format.h"
#include "trace/reader.h"

/* What to say of an error when it was the trace's. */
static const struct {
	int error;
	const char *text;
} trace_errors[] = {
	{ -EBADMSG, "is neither a trace of memsight nor a perf.data" },
	{ -EUCLEAN, "begins as a perf.data does, but its header is damaged: record again" },
};

/* ... and of the database's. */
static const struct {
	int error;
	const char *text;
} db_errors[] = {
	{ -EBADMSG, "is not a database of memsight; name another one with --output" },
	{ -EPROTONOSUPPORT, "was written by a newer version of memsight: use that one" },
	{ -ESTALE, "was made by an older memsight: analyse its traces again (`memsight analyze "
		   "--force' makes it anew)" },
	{ -EBUSY, "is being written by another memsight: try again when that has ended" },
	{ -EEXIST, "has appeared meanwhile: analyse again" },
	{ -EISDIR, "is a folder: name a database or a trace in it (`memsight analyze FOLDER' makes "
		   "FOLDER/memsight.db of all)" },
	{ -ENOSPC, "cannot be written: the disk is full; what was there is as before "
		   "(`memsight analyze -o FILE TRACE' writes a database elsewhere)" },
};

/* A recording under way, or one whose recorder was killed, has its trace beside the name. */
static bool is_partial(const char *path, int error)
{
	char partial[PATH_MAX];

	return error == -ENOENT &&
	       snprintf(partial, sizeof(partial), "%s.partial", path) < PATH_MAX &&
	       access(partial, R_OK) == 0;
}

static int fail_partial(const char *path)
{
	return cmd_fail(
		"%s is not whole: its recording goes on, or was killed; %s.partial has what "
		"was recorded",
		path, path);
}

int cmd_fail_trace(const char *path, int error)
{
	unsigned major, minor;

	if (is_partial(path, error))
		return fail_partial(path);
	for (size_t i = 0; i < sizeof(trace_errors) / sizeof(trace_errors[0]); i++) {
		if (trace_errors[i].error == error)
			return cmd_fail("%s %s", path, trace_errors[i].text);
	}
	if (error == -EPROTOTYPE && trace_reader_version(path, &major, &minor) == 0)
		return cmd_fail("%s was recorded by another memsight (trace format %u.%u; this one "
				"reads %d.%d): analyse it with that one, or record again",
				path, major, minor, TRACE_VERSION_MAJOR, TRACE_VERSION_MINOR);
	return cmd_fail("cannot read %s: %s", path, strerror(-error));
}

int cmd_fail_db(const char *path, int error)
{
	if (is_partial(path, error))
		return fail_partial(path);
	for (size_t i = 0; i < sizeof(db_errors) / sizeof(db_errors[0]); i++) {
		if (db_errors[i].error == error)
			return cmd_fail("%s %s", path, db_errors[i].text);
	}
	return cmd_fail("cannot use %s: %s", path, strerror(-error));
}

void cmd_survive_size_limit(void)
{
	signal(SIGXFSZ, SIG_IGN);
}

#define SHOWN_EVERY_NS UINT64_C(100000000)
#define RATE_FROM_NS   UINT64_C(1000000000)

#define WORTH_SAYING_BYTES (UINT64_C(16) << 20)

static void print_amount(const struct progress_step *step, double n)
{
	if (step->unit)
		fprintf(stderr, "%s %s", format_count((int64_t)n).text, step->unit);
	else
		fputs(format_bytes((int64_t)n).text, stderr);
}

/* " 42 % of 812 MiB, 35.1 MiB a second, 14.2 s left; database above 2.1 GiB" */
static void print_measure(const struct progress_step *step, uint64_t took_ns)
{
	double n_all = (double)step->n_all;
	double done = (double)step->n_done < n_all ? (double)step->n_done / n_all : 1;

	fprintf(stderr, " %.0f %% of ", 100 * done);
	print_amount(step, n_all);
	if (took_ns >= RATE_FROM_NS && step->n_done > 0) {
		fputs(", ", stderr);
		print_amount(step, 1e9 * (double)step->n_done / (double)took_ns);
		fprintf(stderr, " a second, %s left",
			format_duration((int64_t)((double)took_ns * (1 / done - 1))).text);
	}
	if (step->size_bytes >= WORTH_SAYING_BYTES)
		fprintf(stderr, "; %s %s", step->size_is,
			format_bytes((int64_t)step->size_bytes).text);
}

void cmd_show_progress(void *context, const struct progress_step *step)
{
	struct cmd_progress *progress = context;
	uint64_t now_ns = clock_raw_ns();
	bool is_new = !progress->phase || strcmp(progress->phase, step->phase) != 0;

	if ((!is_new && now_ns - progress->shown_ns < SHOWN_EVERY_NS) || !isatty(STDERR_FILENO))
		return;
	progress->phase = step->phase;
	progress->shown_ns = now_ns;
	if (is_new)
		progress->begin_ns = now_ns;
	fprintf(stderr, "\r\033[K%s", progress->work ? progress->work : "analysing");
	if (progress->n)
		fprintf(stderr, " %zu of %zu", progress->i + 1, progress->n);
	fprintf(stderr, ": %s", step->phase);
	if (step->n_all)
		print_measure(step, now_ns - progress->begin_ns);
	fputc('\r', stderr);
}

void cmd_end_progress(struct cmd_progress *progress)
{
	if (progress->phase)
		fputs("\r\033[K", stderr);
	progress->phase = NULL;
}

int cmd_conclude_import(struct db *db, int64_t run_id)
{
	int r = db_errno(db_handle(db), report_functions_register(db_handle(db)));

	return r < 0 ? r : report_findings_store(db, run_id);
}

/* What the report of a run is about, and where it is. */
static void print_counts(const struct import_result *result)
{
	printf("%s events, %s allocations, %s samples in ",
	       format_count((int64_t)result->n_events).text,
	       format_count((int64_t)result->n_allocations).text,
	       format_count((int64_t)result->n_samples).text);
	printf("%s", format_duration(result->duration_ns).text);
	if (!result->ended_cleanly)
		printf(", cut off");
	if (result->n_lost > 0)
		printf(", %s lost (memsight report --losses)",
		       format_count((int64_t)result->n_lost).text);
}

/* One line about what became of a trace. */
static void print_result(const char *trace, const char *db_path, const struct import_result *result)
{
	if (result->is_skipped) {
		printf("%s: is in %s already (--force: read it anew)\n", trace, db_path);
		return;
	}
	printf("%s: ", trace);
	print_counts(result);
	printf(" -> %s\n", db_path);
	if (result->problem[0])
		cmd_warn("%s", result->problem);
}

/* One trace into the database beside it. */
static int analyze_one(const char *trace, const struct import_options *options)
{
	struct import_result result;
	auto_free char *db_path = analyze_default_path(trace);
	size_t failed = 0;

	if (!db_path)
		return cmd_fail("out of memory");
	int r = analyze_beside(trace, options, &result, &failed);
	cmd_end_progress(options->context);
	if (r < 0)
		return failed == 0 ? cmd_fail_trace(trace, r) : cmd_fail_db(db_path, r);
	print_result(trace, db_path, &result);
	return CMD_DONE;
}

/* ---- Several ---- */

struct job {
	const char *db_path;
	struct cmd_progress progress;
};

static void show_begin(void *context, size_t i, const struct result *what)
{
	struct job *job = context;

	(void)what;
	job->progress.i = i;
	job->progress.phase = NULL;
}

static void show_step(void *context, const struct progress_step *step)
{
	struct job *job = context;

	cmd_show_progress(&job->progress, step);
}

static void show_end(void *context, const struct batch_told *told)
{
	struct job *job = context;
	const char *path = told->what->path;

	cmd_end_progress(&job->progress);
	if (told->error < 0) {
		cmd_fail_trace(path, told->error);
	} else if (told->same_as) {
		printf("%s: is of the same recording as %s, which is in %s: left out\n", path,
		       told->same_as, job->db_path);
	} else if (told->has_rows || told->result.is_skipped) {
		print_result(path, job->db_path, &told->result);
	} else {
		printf("%s: totals only%s: ", path,
		       told->result.is_failure ? " (its command failed)" : "");
		print_counts(&told->result);
		printf(" -> %s\n", job->db_path);
	}
	fflush(stdout);
}

static void fail_operand(const char *operand, int error)
{
	if (error == -ENODATA)
		cmd_fail("%s holds no run: name a trace, a folder with PROGRAM.MODE.N.mst or "
			 "PROGRAM.MODE.N/ in it, or a pattern that matches some",
			 operand);
	else
		cmd_fail_trace(operand, error);
}

/* All that is named into one database. */
static int analyze_all(const struct option_set *options, const struct import_options *import)
{
	const char *named = option_text(options, OPTION_DATABASE);
	auto_results struct results results = { 0 };
	size_t n_failed = 0, n_unknown = 0;

	for (int i = 0; i < options->n_operands; i++) {
		int r = results_add(&results, options->operands[i]);
		if (r < 0)
			fail_operand(options->operands[i], r);
		n_unknown += r < 0;
	}
	if (results.n == 0)
		return CMD_FAILED;
	errno = 0;
	auto_free char *db_path = named ? strdup(named) : results_database(&results);
	if (!db_path && errno == ENOMEM)
		return cmd_fail("out of memory");
	if (!db_path)
		return cmd_usage("analyze: the traces lie in several folders: say with --output "
				 "where their database should be");
	struct job job = { .db_path = db_path, .progress.n = results.n };
	struct batch_request request = {
		.db_path = db_path,
		.mode = DB_ADD,
		.results = &results,
		.all = option_flag(options, OPTION_ALL),
		.options = *import,
		.begin = show_begin,
		.end = show_end,
		.context = &job,
	};
	request.options.progress = show_step;
	request.options.context = &job;
	int r = batch_import(&request, &n_failed);
	if (r < 0)
		return cmd_fail_db(db_path, r);
	if (results.n_without > 0)
		cmd_warn("%zu folder%s called as a run hold%s no trace", results.n_without,
			 results.n_without > 1 ? "s" : "", results.n_without > 1 ? "" : "s");
	return n_failed + n_unknown > 0 ? CMD_FAILED : CMD_DONE;
}

/* Whether the one operand is a file: then its database lies beside it. */
static bool is_one_trace(const struct option_set *options)
{
	struct stat st;

	return options->n_operands == 1 && !option_text(options, OPTION_DATABASE) &&
	       (stat(options->operands[0], &st) < 0 ? !strpbrk(options->operands[0], "*?[")
						    : !S_ISDIR(st.st_mode));
}

/* ---- A perf.data beside it ---- */

static int fail_beside(const char *trace, const char *perf, const struct beside *beside, int error)
{
	switch (error) {
	case -ENXIO:
		return cmd_fail("%s is not of the run of %s: no process of both has the same "
				"program mapped; record both at once",
				perf, trace);
	case -ESTALE:
		return cmd_fail("%s was recorded at another time than %s", perf, trace);
	case -EEXIST:
		return cmd_fail("%s and %s both sampled %s: record the trace with --source none",
				perf, trace, beside->both);
	case -ERANGE:
		return cmd_fail("the clock of %s (%s) cannot be aligned with that of %s: record "
				"it by `perf record -k raw'",
				perf, beside->clock, trace);
	case -EPROTO:
		return cmd_fail("%s is not a perf.data", perf);
	case -EBADMSG:
		return cmd_fail("%s is not a trace of memsight: --perf-data joins a perf.data with "
				"one",
				trace);
	default:
		return cmd_fail("cannot join %s with %s: %s", perf, trace, strerror(-error));
	}
}

/* How well the clocks fit, in one line. */
static void print_beside(const char *perf, const struct beside *beside)
{
	if (beside->n_bounds == 0) {
		printf("%s: %s, as the trace\n", perf, beside->clock);
		return;
	}
	printf("%s: %s, aligned by %s bounds of both: %+.9f s, within %s\n", perf, beside->clock,
	       format_count((int64_t)beside->n_bounds).text, (double)beside->offset.offset_ns / 1e9,
	       format_duration((int64_t)beside->offset.error_ns).text);
}

static int open_beside(const struct option_set *options, const char *perf, struct beside *beside)
{
	if (options->n_operands != 1)
		return cmd_usage("analyze --perf-data: name one trace, recorded beside %s", perf);
	if (access(perf, R_OK) < 0)
		return cmd_fail("cannot read %s: %s", perf, strerror(errno));
	int r = beside_open(options->operands[0], perf, beside);
	if (r < 0)
		return fail_beside(options->operands[0], perf, beside, r);
	print_beside(perf, beside);
	return CMD_DONE;
}

int cmd_analyze(const struct option_set *options)
{
	struct cmd_progress progress = { 0 };
	struct import_options import = {
		.force = option_flag(options, OPTION_FORCE),
		.compact = option_flag(options, OPTION_NO_PLAIN) ||
			   option_flag(options, OPTION_COMPACT),
		.progress = cmd_show_progress,
		.context = &progress,
		.conclude = cmd_conclude_import,
	};

	if (option_flag(options, OPTION_COMPACT))
		cmd_warn("--compact is called --no-plain now");
	if (option_flag(options, OPTION_NO_TILES))
		cmd_warn("--no-tiles does nothing any more: what pictures are drawn from is always "
			 "stored");
	struct symbol_places places;
	int status = symbol_options_read(options, &places);
	if (status != CMD_DONE)
		return status;
	import.places = &places;
	const char *estimators = option_text(options, OPTION_ESTIMATOR);
	if (estimators)
		import.estimators = import_estimators(estimators);
	if (estimators && !import.estimators)
		return cmd_usage("--estimator %s: a list of window, block, look-ahead and operand",
				 estimators);
	auto_beside struct beside beside = { 0 };
	const char *perf = option_text(options, OPTION_PERF_DATA);
	status = perf ? open_beside(options, perf, &beside) : CMD_DONE;
	if (status != CMD_DONE)
		return status;
	import.beside = perf ? &beside : NULL;
	import.force |= perf != NULL;
	cmd_survive_size_limit();
	return is_one_trace(options) ? analyze_one(options->operands[0], &import)
				     : analyze_all(options, &import);
}
