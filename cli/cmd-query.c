#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/database.h"
#include "report/report.h"

static int run_query(sqlite3 *db, const struct option_set *options)
{
	bool is_for_eyes = isatty(STDOUT_FILENO) || getenv("COLUMNS");
	struct table_style style = {
		.width = is_for_eyes && !option_flag(options, OPTION_FULL)
				 ? database_text_width(STDOUT_FILENO)
				 : 0,
	};

	table_format_parse(option_choice_name(option_choice(options, OPTION_QUERY_FORMAT)),
			   &style.format);
	int r = query_write(stdout, db, options->operands[1], &style);
	if (r == -EPROTO)
		return cmd_fail("query: %s", sqlite3_errmsg(db));
	if (r == -EINVAL)
		return cmd_usage("query: no SQL statement in \"%s\"", options->operands[1]);
	if (r < 0 || fflush(stdout) != 0)
		return cmd_fail("cannot write the rows: %s", strerror(r < 0 ? -r : errno));
	return CMD_DONE;
}

int cmd_query(const struct option_set *options)
{
	struct db *db = NULL;
	int status = database_open(options->operands[0], options, &db);

	if (status == CMD_DONE)
		status = run_query(db_handle(db), options);
	db_close(db);
	return status;
}
