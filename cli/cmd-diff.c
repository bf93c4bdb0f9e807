#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/database.h"
#include "common/cleanup.h"
#include "report/diff/diff.h"
#include "report/report.h"
#include "store/statement.h"

/* Natural runs have times and no call sites: what they took is all there is to compare. */
static bool are_natural(const struct diff_request *request)
{
	auto_free char *before = diff_why_not(&request->sides[0], PROFILE_BYTES);
	auto_free char *after = diff_why_not(&request->sides[1], PROFILE_BYTES);

	return before && after && request->metric == PROFILE_BYTES && request->format == TABLE_TEXT;
}

static int write_natural(const struct diff_request *request)
{
	int r = diff_write_runs(stdout, request);

	if (r < 0)
		return cmd_fail("cannot write the differences: %s", strerror(-r));
	puts("No allocations were recorded of either: there are no call sites to compare.");
	return CMD_DONE;
}

/* What a run did not record would all be told as new, or as gone. */
static int check(const struct database_side *side, const struct diff_request *request, int i)
{
	auto_free char *why = diff_why_not(&request->sides[i], request->metric);

	if (!why)
		return CMD_DONE;
	return cmd_fail("%s: %s %s; `memsight report %s --list' names others", side->path,
			side->run ? side->run : "the run", why, side->path);
}

static int write_diff(const struct diff_request *request, bool has_full_names)
{
	static const unsigned full_names = REPORT_NAMES_FULL;
	sqlite3 *failed = NULL;

	for (int i = 0; i < 2 && has_full_names; i++)
		report_names_set(request->sides[i].db, &full_names);
	int r = diff_write(stdout, request, &failed);

	if (r == -EPROTO)
		return cmd_fail("%s: %s", sqlite3_db_filename(failed, "main"),
				statement_message(failed));
	if (r < 0 || fflush(stdout) != 0)
		return cmd_fail("cannot write the differences: %s", strerror(r < 0 ? -r : errno));
	return CMD_DONE;
}

int cmd_diff(const struct option_set *options)
{
	auto_side struct database_side before = { 0 };
	auto_side struct database_side after = { 0 };
	struct diff_request request = {
		.metric = (enum profile_metric)profile_metric_find(
			option_choice_name(option_choice(options, OPTION_BY))),
		.limit = database_limit(options),
		.width = database_line_width(options),
	};

	table_format_parse(option_choice_name(option_choice(options, OPTION_REPORT_FORMAT)),
			   &request.format);
	const char *const *labels = option_texts(options, OPTION_LABEL);
	if (labels && *labels && (!labels[1] || labels[2]))
		return cmd_usage("diff: name both sides: --label BEFORE --label AFTER");
	int status = database_open_side(options->operands[0], options, &before);
	status = status ?: database_open_side(options->operands[1], options, &after);
	request.sides[0] = before.runs;
	request.sides[1] = after.runs;
	for (int i = 0; i < 2 && labels && *labels; i++)
		request.sides[i].label = labels[i];
	if (status == CMD_DONE && are_natural(&request))
		return write_natural(&request);
	status = status ?: check(&before, &request, 0);
	status = status ?: check(&after, &request, 1);
	return status ?: write_diff(&request, option_flag(options, OPTION_FULL_NAMES));
}
