#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analyze/report.h"
#include "cli/database.h"

/* Options that choose what to show; none: the summary. */
static const struct {
	enum option_id option;
	const char *report;
} choices[] = {
	{ OPTION_LIST, "list" },       { OPTION_SITES, "sites" },
	{ OPTION_LEAKS, "leaks" },     { OPTION_UNUSED, "unused" },
	{ OPTION_LOSSES, "losses" },   { OPTION_PROCESSES, "processes" },
	{ OPTION_REGIONS, "regions" }, { OPTION_MARKS, "marks" },
};

static int choose_report(const struct option_set *options, const struct report **ret_report)
{
	const char *name = NULL;

	for (size_t i = 0; i < sizeof(choices) / sizeof(*choices); i++) {
		if (!option_flag(options, choices[i].option))
			continue;
		if (name)
			return cmd_usage("report: --%s and --%s exclude each other: ask for one",
					 name, choices[i].report);
		name = choices[i].report;
	}
	*ret_report = report_find(name ? name : "summary");
	return CMD_DONE;
}

static enum table_format format_of(const struct option_set *options)
{
	enum table_format format = TABLE_TEXT;

	table_format_parse(option_choice_name(option_choice(options, OPTION_REPORT_FORMAT)),
			   &format);
	return format;
}

static int find_run(sqlite3 *db, const char *path, const char *selector, int64_t *ret_run_id)
{
	switch (report_run_find(db, selector, ret_run_id)) {
	case 0:
		return CMD_DONE;
	case -ENOENT:
		return cmd_fail("%s: no run is called %s; `memsight report %s --list' names them",
				path, selector, path);
	case -ENODATA:
		return cmd_fail("%s: the database holds no run", path);
	default:
		return cmd_fail("%s: %s", path, sqlite3_errmsg(db));
	}
}

static int write_report(sqlite3 *db, const struct option_set *options, const struct report *report)
{
	const char *path = options->operands[0];
	uint64_t limit = option_number(options, OPTION_LIMIT);
	struct report_request request = {
		.limit = limit ? (int64_t)limit : -1,
		.format = format_of(options),
		.width = database_terminal_width(),
		.name = path,
	};
	int status = CMD_DONE;

	if (strcmp(report->name, "list") != 0)
		status = find_run(db, path, option_text(options, OPTION_RUN), &request.run_id);
	if (status != CMD_DONE)
		return status;

	int r = report_write(stdout, db, report, &request);
	if (r == -EPROTO)
		return cmd_fail("%s: %s", path, sqlite3_errmsg(db));
	if (r < 0 || fflush(stdout) != 0)
		return cmd_fail("cannot write the report: %s", strerror(r < 0 ? -r : errno));
	return CMD_DONE;
}

int cmd_report(const struct option_set *options)
{
	const struct report *report = NULL;
	struct db *db = NULL;

	int status = choose_report(options, &report);
	if (status != CMD_DONE)
		return status;
	status = database_open(options->operands[0], &db);
	if (status == CMD_DONE)
		status = write_report(db_handle(db), options, report);
	db_close(db);
	return status;
}
