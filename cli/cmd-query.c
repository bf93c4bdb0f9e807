#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/database.h"
#include "common/cleanup.h"
#include "report/report.h"

/* What SQLite says of a name that is not there, and where those that are there stand. */
static const struct unknown {
	const char *begin;
	const char *names_sql;
} unknowns[] = {
	{ "no such table: ", DATABASE_TABLES },
	{ "no such column: ",
	  "SELECT DISTINCT columns.name FROM sqlite_master AS tables,"
	  " pragma_table_info(tables.name) AS columns WHERE tables.type IN ('table', 'view')" },
	{ "no such function: ", "SELECT DISTINCT name FROM pragma_function_list" },
};

static int fail_query(sqlite3 *db)
{
	auto_free char *message = strdup(sqlite3_errmsg(db));

	for (size_t i = 0; message && i < sizeof(unknowns) / sizeof(unknowns[0]); i++) {
		size_t n = strlen(unknowns[i].begin);
		if (strncmp(message, unknowns[i].begin, n) != 0)
			continue;
		const char *dot = strrchr(message + n, '.');
		const char *word = dot ? dot + 1 : message + n;
		auto_free char *meant = database_nearest(db, unknowns[i].names_sql, word);
		/* There may be such a column, in a table that the statement does not read. */
		if (meant && strcasecmp(meant, word) != 0)
			return cmd_fail("query: %s; did you mean %s?", message, meant);
		return cmd_fail("query: %s; docs/database.md lists what is there", message);
	}
	return cmd_fail("query: %s", message ? message : "out of memory");
}

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
		return fail_query(db);
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

	status = status ?: run_query(db_handle(db), options);
	db_close(db);
	return status;
}
