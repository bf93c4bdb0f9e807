#include "cli/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/database.h"
#include "cli/heatmap-errors.h"
#include "cli/options/selection-options.h"
#include "common/cleanup.h"
#include "common/parse.h"
#include "common/text-stream.h"
#include "report/report.h"
#include "report/known-leaks.h"
#include "store/query-value.h"
#include "store/statement.h"

/* The option that asks for a report, which has its name. OPTION_COUNT: it is not asked for. */
static enum option_id wanted_by(const struct option_set *options, const char *report)
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = option_row((enum option_id)id);
		if (!option_is_of(row->id, COMMAND_REPORT) || strcmp(row->name, report) != 0)
			continue;
		if (row->type == OPTION_FLAG)
			return option_flag(options, row->id) ? row->id : OPTION_COUNT;
		if (row->id == OPTION_COLD)
			return option_text(options, row->id) ? row->id : OPTION_COUNT;
	}
	return OPTION_COUNT;
}

/* What is asked for on the command line is meant, whatever a preset or a file asks for always. */
static bool is_stronger(const struct option_set *options, enum option_id id, enum option_id than)
{
	const struct option_value *value = &options->values[id], *other = &options->values[than];

	return value->origin > other->origin ||
	       (value->origin == other->origin && other->of_preset && !value->of_preset);
}

/* --cold=60s is another report than --cold. */
static int choose_cold(const struct option_set *options, const struct report **ret_report)
{
	const char *text = option_text(options, OPTION_COLD);
	int64_t ns = 0;

	if (!text || strcmp(text, "-") == 0)
		return CMD_DONE;
	if (parse_duration(text, &ns) < 0 || ns <= 0)
		return cmd_usage("report: --cold: '%s' is not a time such as 60s", text);
	*ret_report = &report_cold_for;
	return CMD_DONE;
}

static int choose_report(const struct option_set *options, const struct report **ret_report)
{
	enum option_id chosen = OPTION_COUNT;

	for (const struct report *const *next = reports, *report; (report = *next); next++) {
		enum option_id id = wanted_by(options, report->name);

		if (id == OPTION_COUNT ||
		    (chosen != OPTION_COUNT && is_stronger(options, chosen, id)))
			continue;
		if (chosen != OPTION_COUNT && !is_stronger(options, id, chosen))
			return cmd_usage("report: --%s and --%s exclude each other: ask for one",
					 option_row(chosen)->name, report->name);
		chosen = id;
	}
	*ret_report = report_find(chosen == OPTION_COUNT ? "summary" : option_row(chosen)->name);
	return chosen == OPTION_COLD ? choose_cold(options, ret_report) : CMD_DONE;
}

/* The exit status that --fail asks for. */
static int judge(sqlite3 *db, const struct option_set *options, const struct report *report,
		 int64_t run_id)
{
	if (!option_flag(options, OPTION_FAIL) || strcmp(report->name, "leaks") != 0)
		return CMD_DONE;
	return report_count_leaks(db, run_id) > 0 ? CMD_FAILED : CMD_DONE;
}

static enum table_format format_of(const struct option_set *options)
{
	enum table_format format = TABLE_TEXT;

	table_format_parse(option_choice_name(option_choice(options, OPTION_REPORT_FORMAT)),
			   &format);
	return format;
}

struct job {
	struct db *db;
	const struct option_set *options;
	const struct report *report;
	const struct suppressions *suppressions;
	struct selection selection; /* its runs are owned */
	unsigned cells[2];
	FILE *out;
	/* of an answer that was given early: */
	bool is_answered;
	bool is_broken; /* nobody reads it */
	int status;
};

static int write_one(const struct job *job, int64_t run_id)
{
	static const unsigned full_names = REPORT_NAMES_FULL;
	const struct option_set *options = job->options;
	sqlite3 *db = db_handle(job->db);
	struct report_request request = {
		.run_id = run_id,
		.limit = database_limit(options),
		.format = format_of(options),
		.width = database_line_width(options),
		.name = options->operands[0],
		.is_coloured = database_has_colours(),
		.by = (enum profile_metric)profile_metric_find(
			option_choice_name(option_choice(options, OPTION_BY))),
		.paths = { option_texts(options, OPTION_EXCLUDE),
			   option_flag(options, OPTION_FULL_NAMES) ? PATHS_WHOLE : PATHS_ASKED },
		.suppressions = job->suppressions,
		.is_full = option_flag(options, OPTION_FULL),
		.selection = &job->selection,
		.source = option_text(options, OPTION_OF_SOURCE),
		.cells = { job->cells[0], job->cells[1] },
	};

	if (option_flag(options, OPTION_FULL_NAMES))
		report_names_set(db, &full_names);
	if (job->report == &report_cold_for)
		parse_duration(option_text(options, OPTION_COLD), &request.cold_ns);

	int r = report_write(job->out, db, job->report, &request);
	int status = r < 0 ? heat_complain(options, r) : CMD_DONE;
	if (status != CMD_DONE)
		return status;
	if (r == -EPROTO)
		return cmd_fail("%s: %s", options->operands[0], statement_message(db));
	if (r < 0 || fflush(job->out) != 0)
		return cmd_fail("cannot write the report: %s", strerror(r < 0 ? -r : errno));
	return judge(db, options, job->report, run_id);
}

/* Whether a region is there, and whether all that was done in it is known. */
static int check_region(const struct job *job)
{
	const char *name = job->selection.region;
	int64_t n_made = 0, n_stored = 0;

	if (!name)
		return CMD_DONE;
	int r = selection_count_trips(job->db, &job->selection, &n_made, &n_stored);
	if (r < 0)
		return cmd_fail("cannot read the regions: %s", strerror(-r));
	if (n_made == 0)
		return cmd_fail(
			"%s: no region is called %s; `memsight report %s --regions' names them",
			job->options->operands[0], name, job->options->operands[0]);
	if (n_stored < n_made)
		cmd_warn("only %lld of the %lld trips through %s are "
			 "stored one by one: the report is about those",
			 (long long)n_stored, (long long)n_made, name);
	return CMD_DONE;
}

/* Whether the rows are there that the report is made from. */
static int check_rows(const struct job *job)
{
	static const char trace_sql[] =
		"SELECT trace FROM run WHERE id = :run AND detail = 'totals'";
	const char *path = job->options->operands[0];
	sqlite3 *db = db_handle(job->db);

	if (!job->report->needs_rows && !selection_is_part(&job->selection))
		return CMD_DONE;
	for (size_t i = 0; i < job->selection.n_runs; i++) {
		auto_free char *trace = report_sql_text(db, trace_sql, job->selection.runs[i]);
		if (trace)
			return cmd_fail("%s: of run %lld only the totals are "
					"here, and this takes its rows: "
					"`memsight analyze -o %s %s' brings them",
					path, (long long)job->selection.runs[i], path, trace);
	}
	return CMD_DONE;
}

static bool narrows_by_itself(const struct report *report)
{
	return report->scope == REPORT_OF_PICTURE || report->scope == REPORT_OF_SPAN;
}

/* The rows of a part are counted first. */
static int write_selected(struct job *job)
{
	int status = check_region(job) ?: check_rows(job);

	if (status != CMD_DONE)
		return status;
	job->selection.wants = job->report->wants;
	if (selection_is_part(&job->selection) && !narrows_by_itself(job->report)) {
		int r = selection_apply(job->db, &job->selection);
		if (r == -ENOMEM)
			return cmd_fail("out of memory");
		if (r < 0)
			return cmd_fail("%s: %s", job->options->operands[0],
					statement_message(db_handle(job->db)));
	}
	return write_one(job, job->selection.runs[0]);
}

/* One report after the other; each names its run. */
static int write_each(struct job *job)
{
	const int64_t *runs = job->selection.runs;
	size_t n_runs = job->selection.n_runs;
	int status = CMD_DONE;

	for (size_t i = 0; i < n_runs; i++) {
		job->selection.runs = runs + i;
		job->selection.n_runs = 1;
		if (i > 0)
			putchar('\n');
		int one = write_selected(job);
		status = one != CMD_DONE ? one : status;
	}
	job->selection.runs = runs;
	job->selection.n_runs = n_runs;
	return status;
}

static int write_report(struct job *job)
{
	bool is_sum = option_flag(job->options, OPTION_SUM);
	const char *name = job->report->name;

	/* Of the only run it is what was taken out of its times. */
	bool is_series = strcmp(name, "stat") == 0 ||
			 (strcmp(name, "overhead") == 0 &&
			  report_sql_number(db_handle(job->db),
					    "SELECT count(*) > 1 FROM run WHERE :run = 0", 0));

	if (strcmp(name, "list") == 0 || (is_series && !option_text(job->options, OPTION_RUN)))
		return write_one(job, 0);
	int status = selection_options_read(job->options, db_handle(job->db), &job->selection);
	if (status != CMD_DONE)
		return status;
	if (job->selection.n_runs > 1 && is_sum && job->report->scope != REPORT_OF_SUM)
		return cmd_usage("report: --%s of several runs cannot be added up: leave --sum out",
				 name);
	if (job->selection.n_runs > 1 && is_sum)
		return write_selected(job);
	if (job->selection.n_runs > 1 && format_of(job->options) != TABLE_TEXT)
		return cmd_usage("report: several runs as csv or json: ask for each, or add --sum");
	size_t n_runs = job->selection.n_runs;
	job->selection.n_runs = 1;
	bool is_part = selection_is_part(&job->selection);
	job->selection.n_runs = n_runs;
	if (is_part && job->report->scope == REPORT_OF_RUN)
		return cmd_usage("report: --%s is of a whole run: leave --window, --from, --to, "
				 "--process, --thread, --addr and --region out",
				 name);
	if (narrows_by_itself(job->report) && (job->selection.tid || job->selection.region))
		return cmd_usage("report: --%s obeys %s: leave --thread and --region out", name,
				 job->report->scope == REPORT_OF_PICTURE
					 ? "--from, --to, --process and --addr"
					 : "--from, --to and --process");
	if (job->report->scope == REPORT_OF_SPAN && job->selection.high)
		return cmd_usage("report: --%s obeys --from, --to and --process: leave --addr out",
				 name);
	return n_runs > 1 ? write_each(job) : write_selected(job);
}

/* Whether a report asks for nothing but the totals of a whole trace. */
static bool is_early(const struct job *job)
{
	static const char *const names[] = {
		"summary", "sites", "flat", "peak", "leaks", "timeline"
	};
	static const enum option_id parts[] = { OPTION_RUN,  OPTION_WINDOW,  OPTION_FROM,
						OPTION_TO,   OPTION_PROCESS, OPTION_THREAD,
						OPTION_ADDR, OPTION_REGION };

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (option_origin(job->options, parts[i]) != OPTION_UNSET)
			return false;
	}
	/* Without a standard output its number is some file's by then. */
	if (fcntl(STDOUT_FILENO, F_GETFD) < 0)
		return false;
	/* Profiles of time are made of samples. */
	if (option_origin(job->options, OPTION_BY) > OPTION_FROM_DEFAULT)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(job->report->name, names[i]) == 0)
			return true;
	}
	return false;
}

/*
 * Print the report while the database is still being written. Who stops reading must not end that:
 * a broken pipe ends the command when all is committed.
 */
static void answer(void *context, struct db *db)
{
	struct job *job = context;
	auto_free char *text = NULL;
	size_t n_bytes = 0;

	job->out = text_stream_open(&text, &n_bytes);
	job->db = db;
	job->status = job->out ? write_report(job) : cmd_fail("out of memory");
	job->is_answered = true;
	job->db = NULL;
	free((void *)job->selection.runs);
	job->selection = (struct selection){ 0 };
	if (!job->out)
		return;
	bool is_whole = text_stream_close(job->out, &text) == 0;
	void (*handler)(int) = signal(SIGPIPE, SIG_IGN);
	if (!is_whole || fwrite(text, 1, n_bytes, stdout) != n_bytes || fflush(stdout) != 0) {
		job->is_broken = errno == EPIPE && handler != SIG_IGN;
		if (!job->is_broken)
			job->status = cmd_fail("cannot write the report: %s", strerror(errno));
	}
	if (!job->is_broken)
		signal(SIGPIPE, handler);
}

static int open_database(struct job *job)
{
	const char *path = job->options->operands[0];
	struct database_early early = { .answer = answer, .context = job };

	if (!is_early(job))
		return database_open(path, job->options, &job->db);
	return database_open_early(path, job->options, &early, &job->db);
}

int cmd_report(const struct option_set *options)
{
	struct suppressions *suppressions = NULL;
	struct job job = { .options = options, .out = stdout };

	int status = choose_report(options, &job.report);
	status = status ?: cells_read(options, job.cells);
	status = status ?: database_suppressions(options, &suppressions);
	job.suppressions = suppressions;
	status = status ?: open_database(&job);
	if (status == CMD_DONE)
		status = job.is_answered ? job.status : write_report(&job);
	free((void *)job.selection.runs);
	suppressions_free(suppressions);
	db_close(job.db);
	if (job.is_broken) {
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
	return status;
}
