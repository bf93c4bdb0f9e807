#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyze/anonymise.h"
#include "analyze/export.h"
#include "analyze/statement.h"
#include "cli/database.h"
#include "common/cleanup.h"

/* Write to a new file; what fails leaves none. */
static int write_file(const char *path, sqlite3 *db, const struct export_format *format,
		      const struct export_request *request)
{
	auto_fclose FILE *file = fopen(path, "we");

	if (!file)
		return -errno;
	int r = export_write(file, db, format, request);
	if (r == 0 && (fflush(file) != 0 || ferror(file)))
		r = -EIO;
	if (r < 0)
		unlink(path);
	return r;
}

static int write_stdout(sqlite3 *db, const struct export_format *format,
			const struct export_request *request)
{
	int r = export_write(stdout, db, format, request);

	return r == 0 && fflush(stdout) != 0 ? -errno : r;
}

static int complain(sqlite3 *db, const struct option_set *options, int error)
{
	const char *path = option_text(options, OPTION_EXPORT_FILE);

	if (error == -EPROTO)
		return cmd_fail("%s: %s", options->operands[0], statement_message(db));
	if (error == -ESRCH)
		return cmd_fail("%s has no table or view %s; docs/database.md names them",
				options->operands[0], option_text(options, OPTION_VIEW));
	return cmd_fail("cannot write %s: %s", path ? path : "the export", strerror(-error));
}

static int export_run(sqlite3 *db, const struct option_set *options)
{
	const struct export_format *format =
		export_find(option_choice_name(option_choice(options, OPTION_EXPORT_FORMAT)));
	const char *path = option_text(options, OPTION_EXPORT_FILE);
	struct export_request request = {
		.metric = (enum profile_metric)profile_metric_find(
			option_choice_name(option_choice(options, OPTION_BY))),
		.excluded = option_texts(options, OPTION_EXCLUDE),
		.view = option_text(options, OPTION_VIEW),
	};

	int status = database_find_run(db, options->operands[0], option_text(options, OPTION_RUN),
				       &request.run_id);
	if (status != CMD_DONE)
		return status;
	int r = path ? write_file(path, db, format, &request) : write_stdout(db, format, &request);
	return r < 0 ? complain(db, options, r) : CMD_DONE;
}

static int write_anonymised(sqlite3 *db, const struct option_set *options)
{
	const char *path = option_text(options, OPTION_EXPORT_FILE);
	const char *of = options->operands[0];
	int r = anonymise(db, path);

	switch (r) {
	case 0:
		return CMD_DONE;
	case -EPROTO:
		return cmd_fail("%s: %s", of, statement_message(db));
	case -EALREADY:
		return cmd_fail("%s has no names any more: it is such a copy itself", of);
	case -EEXIST:
		return cmd_fail("%s is there already: remove it, or name another file", path);
	default:
		return cmd_fail("cannot write %s: %s", path, strerror(-r));
	}
}

int cmd_export(const struct option_set *options)
{
	bool is_anonymised = option_flag(options, OPTION_ANONYMISE);
	enum option_choice choice = option_choice(options, OPTION_EXPORT_FORMAT);
	const struct export_format *format = export_find(option_choice_name(choice));
	struct db *db = NULL;

	if (format->is_binary && !option_text(options, OPTION_EXPORT_FILE) && isatty(STDOUT_FILENO))
		return cmd_usage("export: %s is not for a terminal: name a file with --output",
				 format->name);
	if (is_anonymised && !option_text(options, OPTION_EXPORT_FILE))
		return cmd_usage("export: --anonymise writes a database: name it with --output");
	int status = database_open(options->operands[0], options, &db);
	if (status == CMD_DONE)
		status = is_anonymised ? write_anonymised(db_handle(db), options)
				       : export_run(db_handle(db), options);
	db_close(db);
	return status;
}
