#include "cli/database.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "analyze/analyze.h"
#include "cli/cmd-analyze.h"
#include "cli/cmd.h"
#include "cli/options/symbol-options.h"
#include "common/cleanup.h"
#include "common/parse.h"
#include "report/report.h"
#include "store/query-value.h"
#include "store/statement.h"

#define DEFAULT_COLUMNS 100 /* of what is no terminal */
#define LEAST_COLUMNS	40
#define MAX_COLUMNS	100000

/* With the functions of reports. */
static int hand_over(const char *path, struct db *db, struct db **ret_db)
{
	if (report_functions_register(db_handle(db)) != SQLITE_OK) {
		int status = cmd_fail("%s: %s", path, statement_message(db_handle(db)));
		db_close(db);
		return status;
	}
	*ret_db = db;
	return CMD_DONE;
}

static void answer_early(void *context, struct db *db)
{
	struct database_early *early = context;

	cmd_end_progress(&early->progress);
	/* It has the functions of reports: cmd_conclude_import() was called before. */
	early->answer(early->context, db);
}

int database_open(const char *path, const struct option_set *options, struct db **ret_db)
{
	struct database_early nobody = { 0 };

	return database_open_early(path, options, &nobody, ret_db);
}

int database_open_early(const char *path, const struct option_set *options,
			struct database_early *early, struct db **ret_db)
{
	struct symbol_places places;
	struct import_options import = {
		.progress = cmd_show_progress,
		.context = &early->progress,
		.conclude = cmd_conclude_import,
		.on_totals = early->answer ? answer_early : NULL,
		.totals_context = early,
		.places = &places,
		.is_for_answer = true,
		.force = symbol_options_are_given(options),
	};
	struct db *db = NULL;

	early->progress = (struct cmd_progress){ 0 };
	int status = symbol_options_read(options, &places);
	if (status != CMD_DONE)
		return status;
	if (import.force && !analyze_is_trace(path))
		cmd_warn("%s is a database: --debug-dir, --sysroot, "
			 "--symbols and --no-demangle matter "
			 "when a trace is analysed",
			 path);
	cmd_survive_size_limit();
	int r = db_open_any(path, &import, &db);
	cmd_end_progress(&early->progress);
	if (r == -EBADMSG)
		return cmd_fail("%s is neither a trace nor a database of memsight, nor a perf.data",
				path);
	if (r == -EUCLEAN || r == -EPROTOTYPE)
		return cmd_fail_trace(path, r);
	if (r == -EACCES && access(path, R_OK) < 0)
		return cmd_fail("cannot read %s: %s", path, strerror(EACCES));
	if (r == -EACCES || r == -EROFS)
		return cmd_fail(
			"%s: %s; `memsight analyze -o DATABASE %s' puts the database into a "
			"folder of yours",
			path, strerror(-r), path);
	if (r == -ENOSPC && analyze_is_trace(path))
		return cmd_fail("%s: the disk is full; `memsight analyze -o DATABASE %s' puts the "
				"database elsewhere",
				path, path);
	return r < 0 ? cmd_fail_db(path, r) : hand_over(path, db, ret_db);
}

char *database_nearest(sqlite3 *db, const char *names_sql, const char *word)
{
	auto_statement sqlite3_stmt *row = report_sql_prepare(db, names_sql, 0, -1);
	struct parse_nearest nearest = { .word = word };
	auto_free char *kept = NULL;

	while (row && statement_advance(row) == SQLITE_ROW) {
		const char *name = statement_string(row, 0);
		parse_nearest_offer(&nearest, name);
		if (nearest.name != name)
			continue;
		free(kept);
		nearest.name = kept = strdup(name);
		if (!kept)
			break;
	}
	return steal_ptr(&kept);
}

/* Also of a command's other database. */
static int fail_run(sqlite3 *db, const char *path, const char *run)
{
	auto_free char *meant = database_nearest(db, DATABASE_RUNS, run);

	if (meant)
		return cmd_fail("%s: no run is called %s; did you mean %s?", path, run, meant);
	return cmd_fail("%s: no run is called %s; `memsight report %s --list' names them", path,
			run, path);
}

int database_find_run(sqlite3 *db, const char *path, const char *selector, int64_t *ret_run_id)
{
	switch (report_run_find(db, selector, ret_run_id)) {
	case 0:
		return CMD_DONE;
	case -ENOENT:
		return fail_run(db, path, selector);
	case -ENODATA:
		return cmd_fail("%s: the database holds no run", path);
	default:
		return cmd_fail("%s: %s", path, statement_message(db));
	}
}

int64_t database_limit(const struct option_set *options)
{
	uint64_t limit = option_number(options, OPTION_LIMIT);

	if (option_origin(options, OPTION_LIMIT) == OPTION_UNSET)
		return 0;
	return limit && limit < INT64_MAX ? (int64_t)limit : -1;
}

bool database_has_colours(void)
{
	const char *terminal = getenv("TERM");
	const char *refused = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0 &&
	       !(refused && *refused);
}

unsigned database_terminal_width(int fd)
{
	struct winsize size;

	return !isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) != 0 ? 0 : size.ws_col;
}

unsigned database_text_width(int fd)
{
	const char *given = getenv("COLUMNS");
	unsigned long columns = given ? strtoul(given, NULL, 10) : 0;

	if (columns == 0 || columns > MAX_COLUMNS)
		columns = database_terminal_width(fd);
	if (columns == 0)
		return DEFAULT_COLUMNS;
	return columns < LEAST_COLUMNS ? LEAST_COLUMNS : (unsigned)columns;
}

unsigned database_line_width(const struct option_set *options)
{
	bool is_whole =
		option_flag(options, OPTION_FULL) || option_flag(options, OPTION_FULL_NAMES);

	return is_whole ? 0 : database_text_width(STDOUT_FILENO);
}

void database_close_side(struct database_side *side)
{
	free(side->runs.runs);
	db_close(side->db);
	free(side->path);
}

int database_open_side(const char *operand, const struct option_set *options,
		       struct database_side *side)
{
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
	side->runs.db = db_handle(side->db);
	int r = diff_runs(side->runs.db, side->run, &side->runs.runs, &side->runs.n_runs);
	if (r == -ENOENT)
		return fail_run(side->runs.db, side->path, side->run);
	if (r == -ENODATA)
		return cmd_fail("%s: the database holds no run", side->path);
	if (r == -ENOMEM)
		return cmd_fail("out of memory");
	return r < 0 ? cmd_fail("%s: %s", side->path, statement_message(side->runs.db)) : CMD_DONE;
}

int database_suppressions(const struct option_set *options, struct suppressions **ret_suppressions)
{
	const char *path = option_text(options, OPTION_SUPPRESSIONS);
	unsigned line = 0;
	int r = path ? suppressions_read(path, ret_suppressions, &line) : 0;

	if (r < 0 && line)
		return cmd_fail("%s:%u: is not \"leak:PATTERN\"", path, line);
	return r < 0 ? cmd_fail("cannot read %s: %s", path, strerror(-r)) : CMD_DONE;
}
