#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analyze/report.h"
#include "analyze/suppressions.h"
#include "cli/database.h"

/* The option that asks for a report has its name; the summary has none. */
static bool is_wanted(const struct option_set *options, const char *report)
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = option_row((enum option_id)id);
		if (row->type == OPTION_FLAG && option_is_of(row->id, COMMAND_REPORT) &&
		    strcmp(row->name, report) == 0)
			return option_flag(options, row->id);
	}
	return false;
}

static int choose_report(const struct option_set *options, const struct report **ret_report)
{
	const char *name = NULL;

	for (const struct report *report = reports; report->name; report++) {
		if (!is_wanted(options, report->name))
			continue;
		if (name)
			return cmd_usage("report: --%s and --%s exclude each other: ask for one",
					 name, report->name);
		name = report->name;
	}
	*ret_report = report_find(name ? name : "summary");
	return CMD_DONE;
}

static int read_suppressions(const struct option_set *options,
			     struct suppressions **ret_suppressions)
{
	const char *path = option_text(options, OPTION_SUPPRESSIONS);
	unsigned line = 0;
	int r = path ? suppressions_read(path, ret_suppressions, &line) : 0;

	if (r < 0 && line)
		return cmd_fail("%s:%u: is not \"leak:PATTERN\"", path, line);
	return r < 0 ? cmd_fail("cannot read %s: %s", path, strerror(-r)) : CMD_DONE;
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

static int write_report(sqlite3 *db, const struct option_set *options, const struct report *report,
			const struct suppressions *suppressions)
{
	const char *path = options->operands[0];
	uint64_t limit = option_number(options, OPTION_LIMIT);
	struct report_request request = {
		.limit = limit ? (int64_t)limit : -1,
		.format = format_of(options),
		.width = database_terminal_width(),
		.name = path,
		.is_coloured = database_has_colours(),
		.by = (enum profile_metric)profile_metric_find(
			option_choice_name(option_choice(options, OPTION_BY))),
		.excluded = option_texts(options, OPTION_EXCLUDE),
		.suppressions = suppressions,
	};
	int status = CMD_DONE;

	if (strcmp(report->name, "list") != 0)
		status = database_find_run(db, path, option_text(options, OPTION_RUN),
					   &request.run_id);
	if (status != CMD_DONE)
		return status;

	int r = report_write(stdout, db, report, &request);
	if (r == -EPROTO)
		return cmd_fail("%s: %s", path, sqlite3_errmsg(db));
	if (r < 0 || fflush(stdout) != 0)
		return cmd_fail("cannot write the report: %s", strerror(r < 0 ? -r : errno));
	return judge(db, options, report, request.run_id);
}

int cmd_report(const struct option_set *options)
{
	const struct report *report = NULL;
	struct suppressions *suppressions = NULL;
	struct db *db = NULL;

	int status = choose_report(options, &report);
	if (status == CMD_DONE)
		status = read_suppressions(options, &suppressions);
	if (status == CMD_DONE)
		status = database_open(options->operands[0], &db);
	if (status == CMD_DONE)
		status = write_report(db_handle(db), options, report, suppressions);
	suppressions_free(suppressions);
	db_close(db);
	return status;
}
