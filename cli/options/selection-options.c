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
	if (status == CMD_DONE)
		status = read_time(options, OPTION_TO, &ret_selection->to_ns);
	if (status == CMD_DONE && ret_selection->to_ns <= ret_selection->from_ns)
		status = cmd_usage("--to lies before --from");
	if (status == CMD_DONE)
		status = read_addresses(options, ret_selection);
	return status == CMD_DONE ? read_runs(options, db, ret_selection) : status;
}
