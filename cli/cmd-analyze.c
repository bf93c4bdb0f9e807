#include "cli/cmd-analyze.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/analyze.h"
#include "analyze/format.h"
#include "cli/cmd.h"
#include "cli/symbol-options.h"
#include "common/cleanup.h"

/* What to say of an error when it was the trace's. */
static const struct {
	int error;
	const char *text;
} trace_errors[] = {
	{ -EBADMSG, "is not a trace of memsight" },
	{ -EPROTONOSUPPORT,
	  "was recorded by a newer version of memsight: analyse it with that one" },
};

/* ... and of the database's. */
static const struct {
	int error;
	const char *text;
} db_errors[] = {
	{ -EBADMSG, "is not a database of memsight; name another one with --output" },
	{ -EPROTONOSUPPORT, "was written by a newer version of memsight: use that one" },
	{ -ESTALE, "was written by an older version of memsight: analyse its trace again" },
	{ -EBUSY, "is being written by another memsight: try again when that has ended" },
	{ -EEXIST, "has appeared meanwhile: analyse again" },
	{ -ENOSPC, "cannot be written: the disk is full; what was there is as before" },
};

int cmd_fail_trace(const char *path, int error)
{
	for (size_t i = 0; i < sizeof(trace_errors) / sizeof(trace_errors[0]); i++) {
		if (trace_errors[i].error == error)
			return cmd_fail("%s %s", path, trace_errors[i].text);
	}
	return cmd_fail("cannot read %s: %s", path, strerror(-error));
}

int cmd_fail_db(const char *path, int error)
{
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

void cmd_show_progress(void *context, uint64_t n_bytes, uint64_t n_all_bytes)
{
	int *last_percent = context;
	int percent = n_all_bytes ? (int)(100 * n_bytes / n_all_bytes) : 0;

	if (percent == *last_percent || !isatty(STDERR_FILENO))
		return;
	*last_percent = percent;
	fprintf(stderr, "\ranalysing: %3d %%\r", percent);
}

void cmd_end_progress(const int *last_percent)
{
	if (*last_percent >= 0)
		fprintf(stderr, "\r                \r");
}

/* One line about what became of a trace. */
static void print_result(const char *trace, const char *db_path, const struct import_result *result)
{
	if (result->is_skipped) {
		printf("%s: is in %s already (--force: read it anew)\n", trace, db_path);
		return;
	}
	printf("%s: %s events, %s allocations, %s samples in ", trace,
	       format_count((int64_t)result->n_events).text,
	       format_count((int64_t)result->n_allocations).text,
	       format_count((int64_t)result->n_samples).text);
	printf("%s", format_duration(result->duration_ns).text);
	if (!result->ended_cleanly)
		printf(", cut off");
	if (result->n_lost > 0)
		printf(", %s lost (memsight report --losses)",
		       format_count((int64_t)result->n_lost).text);
	printf(" -> %s\n", db_path);
	if (result->problem[0])
		cmd_warn("%s", result->problem);
}

/* Every trace into the database beside it. */
static int analyze_each(char **traces, int n, const struct import_options *options)
{
	for (int i = 0; i < n; i++) {
		struct import_result result;
		auto_free char *db_path = analyze_default_path(traces[i]);
		if (!db_path)
			return cmd_fail("out of memory");
		size_t failed = 0;

		int r = analyze_beside(traces[i], options, &result, &failed);
		cmd_end_progress(options->context);
		if (r < 0)
			return failed == 0 ? cmd_fail_trace(traces[i], r) : cmd_fail_db(db_path, r);
		print_result(traces[i], db_path, &result);
	}
	return CMD_DONE;
}

/* All traces into one database. */
static int analyze_all(const char *db_path, char **traces, int n,
		       const struct import_options *options)
{
	auto_free struct import_result *results = calloc((size_t)n, sizeof(*results));
	size_t failed;
	if (!results)
		return cmd_fail("out of memory");

	struct analyze_request request = {
		.db_path = db_path,
		.traces = (const char *const *)traces,
		.n = (size_t)n,
		.options = options,
	};
	int r = analyze_traces(&request, results, &failed);
	cmd_end_progress(options->context);
	if (r < 0)
		return failed < (size_t)n ? cmd_fail_trace(traces[failed], r)
					  : cmd_fail_db(db_path, r);
	for (int i = 0; i < n; i++)
		print_result(traces[i], db_path, &results[i]);
	return CMD_DONE;
}

int cmd_analyze(const struct option_set *options)
{
	const char *db_path = option_text(options, OPTION_DATABASE);
	int last_percent = -1;
	struct import_options import = {
		.force = option_flag(options, OPTION_FORCE),
		.progress = cmd_show_progress,
		.context = &last_percent,
	};

	struct symbol_places places;
	int status = symbol_options_read(options, &places);
	if (status != CMD_DONE)
		return status;
	import.places = &places;
	cmd_survive_size_limit();
	if (db_path)
		return analyze_all(db_path, options->operands, options->n_operands, &import);
	return analyze_each(options->operands, options->n_operands, &import);
}
