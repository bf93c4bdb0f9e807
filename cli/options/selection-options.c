#include "cli/options/selection-options.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/database.h"
#include "common/cleanup.h"
#include "common/parse.h"

/* A,B,C: each as report_run_find() takes it. */
static int read_runs(const struct option_set *options, sqlite3 *db, struct selection *selection)
{
	const char *text = option_text(options, OPTION_RUN);
	auto_free char *copy = text ? strdup(text) : NULL;
	auto_free int64_t *runs = calloc((text ? strlen(text) : 0) + 1, sizeof(*runs));
	char *rest = copy;
	size_t n = 0;

	if (!runs || (text && !copy))
		return cmd_fail("out of memory");
	do {
		const char *name = strsep(&rest, ",");
		int status = database_find_run(db, options->operands[0], name, &runs[n++]);
		if (status != CMD_DONE)
			return status;
		for (size_t i = 0; i + 1 < n; i++)
			if (runs[i] == runs[n - 1])
				return cmd_usage("--run: '%s' names run %lld twice", text,
						 (long long)runs[i]);
	} while (rest);
	selection->n_runs = n;
	selection->runs = steal_ptr(&runs);
	return CMD_DONE;
}

static int read_time(const struct option_set *options, enum option_id id, int64_t *ret_ns)
{
	const char *text = option_text(options, id);

	if (text && parse_duration(text, ret_ns) < 0)
		return cmd_usage("--%s: '%s' is not a time (such as 1.5s or 200ms)",
				 option_row(id)->name, text);
	return CMD_DONE;
}

static int read_addresses(const struct option_set *options, struct selection *selection)
{
	const char *text = option_text(options, OPTION_ADDR);
	char *end = NULL;

	if (!text)
		return CMD_DONE;
	errno = 0;
	selection->low = strtoull(text, &end, 16);
	if (end != text && *end == '-' && end[1])
		selection->high = strtoull(end + 1, &end, 16);
	if (errno || *end != '\0' || selection->high <= selection->low)
		return cmd_usage("--addr: '%s' is not LOW-HIGH (such as 7f0000001000-7f0000002000)",
				 text);
	if (selection->high > INT64_MAX)
		return cmd_usage("--addr: '%s' is not in the memory of programs", text);
	return CMD_DONE;
}

/* The times from the begin of one window to the end of another. */
static int find_windows(sqlite3 *db, int64_t from, int64_t to, struct selection *selection)
{
	sqlite3_stmt *query = NULL;
	int status = CMD_DONE;

	if (sqlite3_prepare_v2(db,
			       "SELECT count(*), min(start_ns) FILTER (WHERE number = ?2),"
			       " max(end_ns) FILTER (WHERE number = ?3) FROM window"
			       " WHERE run_id = ?1",
			       -1, &query, NULL) != SQLITE_OK)
		return cmd_fail("%s", sqlite3_errmsg(db));
	sqlite3_bind_int64(query, 1, selection->runs[0]);
	sqlite3_bind_int64(query, 2, from);
	sqlite3_bind_int64(query, 3, to);
	if (sqlite3_step(query) != SQLITE_ROW)
		status = cmd_fail("%s", sqlite3_errmsg(db));
	else if (sqlite3_column_int64(query, 0) == 0)
		status = cmd_fail("--window: the run was recorded as a whole, it has no windows");
	else if (sqlite3_column_type(query, 1) == SQLITE_NULL ||
		 sqlite3_column_type(query, 2) == SQLITE_NULL)
		status = cmd_fail("--window: the run has windows 1 to %lld",
				  (long long)sqlite3_column_int64(query, 0));
	selection->from_ns = sqlite3_column_int64(query, 1);
	selection->to_ns = sqlite3_column_int64(query, 2);
	sqlite3_finalize(query);
	return status;
}

/* The times of the windows that --window names, of one run. */
static int read_windows(const struct option_set *options, sqlite3 *db, struct selection *selection)
{
	const char *text = option_text(options, OPTION_WINDOW);
	auto_free char *first = text ? strdup(text) : NULL;
	char *dash = first ? strchr(first, '-') : NULL;
	uint64_t from = 0, to = 0;

	if (!text)
		return CMD_DONE;
	if (!first)
		return cmd_fail("out of memory");
	if (option_text(options, OPTION_FROM) || option_text(options, OPTION_TO))
		return cmd_usage("--window and --from or --to are two ways to say the same");
	if (selection->n_runs > 1)
		return cmd_usage("--window is of one run: name it by --run");
	if (dash)
		*dash++ = '\0';
	if (parse_number(first, &from) < 0 || parse_number(dash ? dash : first, &to) < 0 ||
	    from == 0 || to < from || to > INT64_MAX)
		return cmd_usage("--window: '%s' is not N or N-M, such as 2 or 2-4", text);
	return find_windows(db, (int64_t)from, (int64_t)to, selection);
}

int selection_options_read(const struct option_set *options, sqlite3 *db,
			   struct selection *ret_selection)
{
	*ret_selection = (struct selection){
		.to_ns = INT64_MAX,
		.pid = (int64_t)option_number(options, OPTION_PROCESS),
		.tid = (int64_t)option_number(options, OPTION_THREAD),
		.region = option_text(options, OPTION_REGION),
	};
	int status = read_time(options, OPTION_FROM, &ret_selection->from_ns);
	status = status ?: read_time(options, OPTION_TO, &ret_selection->to_ns);
	if (status == CMD_DONE && ret_selection->to_ns <= ret_selection->from_ns)
		status = cmd_usage("--to lies before --from");
	status = status ?: read_addresses(options, ret_selection);
	status = status ?: read_runs(options, db, ret_selection);
	return status == CMD_DONE ? read_windows(options, db, ret_selection) : status;
}
