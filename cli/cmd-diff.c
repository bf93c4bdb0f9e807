#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/database.h"
#include "common/cleanup.h"
#include "report/diff/diff.h"
#include "store/statement.h"

/* One operand: DATABASE or DATABASE:RUN; a colon may also be part of a file's name. */
struct side {
	char *path; /* owned */
	const char *run; /* NULL: none was named */
	struct db *db;
};

static void close_side(struct side *side)
{
	db_close(side->db);
	free(side->path);
}
#define auto_side __attribute__((cleanup(close_side)))

static int open_side(const struct option_set *options, int i, struct side *side,
		     struct diff_side *ret_side)
{
	const char *operand = options->operands[i];
	const char *colon = strrchr(operand, ':');

	side->path = strdup(operand);
	if (!side->path)
		return cmd_fail("out of memory");
	if (colon && colon[1] && access(operand, F_OK) != 0) {
		side->path[colon - operand] = '\0';
		side->run = colon + 1;
	}
	int status = database_open(side->path, options, &side->db);
	if (status != CMD_DONE)
		return status;
	ret_side->db = db_handle(side->db);
	int r = diff_runs(ret_side->db, side->run, &ret_side->runs, &ret_side->n_runs);
	if (r == -ENOENT)
		return cmd_fail("%s: no run is called %s; `memsight report %s --list' names them",
				side->path, side->run, side->path);
	if (r == -ENODATA)
		return cmd_fail("%s: the database holds no run", side->path);
	if (r == -ENOMEM)
		return cmd_fail("out of memory");
	return r < 0 ? cmd_fail("%s: %s", side->path, statement_message(ret_side->db)) : CMD_DONE;
}

/* What a run did not record would all be told as new, or as gone. */
static int check(const struct side *side, const struct diff_request *request, int i)
{
	auto_free char *why = diff_why_not(&request->sides[i], request->metric);

	if (!why)
		return CMD_DONE;
	return cmd_fail("%s: %s %s; `memsight report %s --list' names others", side->path,
			side->run ? side->run : "the run", why, side->path);
}

static int write_diff(const struct diff_request *request)
{
	sqlite3 *failed = NULL;
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
	auto_side struct side before = { 0 };
	auto_side struct side after = { 0 };
	struct diff_request request = {
		.metric = (enum profile_metric)profile_metric_find(
			option_choice_name(option_choice(options, OPTION_BY))),
		.limit = database_limit(options),
		.width = option_flag(options, OPTION_FULL) ? 0 : database_text_width(STDOUT_FILENO),
	};

	table_format_parse(option_choice_name(option_choice(options, OPTION_REPORT_FORMAT)),
			   &request.format);
	int status = open_side(options, 0, &before, &request.sides[0]);
	if (status == CMD_DONE)
		status = open_side(options, 1, &after, &request.sides[1]);
	if (status == CMD_DONE)
		status = check(&before, &request, 0);
	if (status == CMD_DONE)
		status = check(&after, &request, 1);
	if (status == CMD_DONE)
		status = write_diff(&request);
	free(request.sides[0].runs);
	free(request.sides[1].runs);
	return status;
}
