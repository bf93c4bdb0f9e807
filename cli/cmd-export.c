#include "cli/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/cmd-analyze.h"
#include "cli/database.h"
#include "cli/options/selection-options.h"
#include "common/atomic-file.h"
#include "common/cleanup.h"
#include "report/export/anonymise.h"
#include "report/export/export.h"
#include "store/query-value.h"
#include "store/selection/selection.h"
#include "store/statement.h"

static int write_to(FILE *file, sqlite3 *db, const struct export_format *format,
		    const struct export_request *request)
{
	int r = export_write(file, db, format, request);

	return r == 0 && (fflush(file) != 0 || ferror(file)) ? -EIO : r;
}

/* The writers know that something was not written, and not why. */
static int reason_of(int error, FILE *file)
{
	struct statvfs disk;

	return error == -EIO && file && fstatvfs(fileno(file), &disk) == 0 && disk.f_bavail == 0
		       ? -ENOSPC
		       : error;
}

/* Beside the place, then named: what fails leaves what was there. */
static int write_new(const struct new_file *target, sqlite3 *db, const struct export_format *format,
		     const struct export_request *request)
{
	auto_free char *name = NULL;

	if (asprintf(&name, "%s.XXXXXX", target->path) < 0) {
		name = NULL;
		return -ENOMEM;
	}
	int fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	auto_fclose FILE *file = fdopen(fd, "w");
	int r = !file || fchmod(fd, target->mode) < 0 ? -errno : 0;
	if (!file)
		close(fd);
	r = r ?: reason_of(write_to(file, db, format, request), file);
	r = r ?: new_file_publish(name, target->path, target->replaces);
	if (r < 0)
		unlink(name);
	return r;
}

/* As open(2) would make it; that of a file which is replaced. */
static mode_t mode_of(const char *path)
{
	mode_t mask = umask(0);
	struct stat status;

	umask(mask);
	return stat(path, &status) == 0 ? status.st_mode & 0777 : 0666 & ~mask;
}

static int write_file(const struct option_set *options, sqlite3 *db,
		      const struct export_format *format, const struct export_request *request)
{
	const char *given = option_text(options, OPTION_EXPORT_FILE);
	auto_free char *real = realpath(given, NULL);
	const char *path = real ? real : given;
	struct stat status;

	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
		auto_fclose FILE *file = fopen(path, "we");
		return file ? write_to(file, db, format, request) : -errno;
	}
	const struct new_file target = { path, mode_of(path), option_flag(options, OPTION_FORCE) };
	return write_new(&target, db, format, request);
}

static int write_stdout(sqlite3 *db, const struct export_format *format,
			const struct export_request *request)
{
	int r = export_write(stdout, db, format, request);

	return r == 0 && fflush(stdout) != 0 ? -errno : r;
}

static int fail_view(sqlite3 *db, const struct option_set *options)
{
	const char *view = option_text(options, OPTION_VIEW);
	auto_free char *meant = database_nearest(db, DATABASE_TABLES, view);

	if (meant)
		return cmd_fail("%s has no table or view %s; did you mean %s?",
				options->operands[0], view, meant);
	return cmd_fail("%s has no table or view %s; docs/database.md names them",
			options->operands[0], view);
}

static int complain(sqlite3 *db, const struct option_set *options, int error)
{
	const char *path = option_text(options, OPTION_EXPORT_FILE);

	if (error == -EEXIST)
		return cmd_fail("%s is there already: --force overwrites it", path);
	if (error == -EPROTO)
		return cmd_fail("%s: %s", options->operands[0], statement_message(db));
	if (error == -ESRCH)
		return fail_view(db, options);
	if (error == -ENOSPC)
		return cmd_fail("cannot write %s: the disk is full; -o names another place",
				path ? path : "the export");
	return cmd_fail("cannot write %s: %s", path ? path : "the export", strerror(-error));
}

/* The line is gone before anything else is said. */
static void end_progress(struct export_progress *progress)
{
	if (progress)
		cmd_end_progress(progress->context);
}

/* The run, and the part of it that formats of totals are to be of. */
static int select_part(struct db *handle, const struct option_set *options,
		       const struct export_format *format, int64_t *ret_run_id)
{
	sqlite3 *db = db_handle(handle);
	struct selection selection = { 0 };
	int status = selection_options_read(options, db, &selection);
	auto_free const int64_t *runs = selection.runs;

	if (status != CMD_DONE)
		return status;
	selection.wants = SELECTION_TIMELINE;
	*ret_run_id = runs[0];
	if (selection.n_runs > 1)
		return cmd_usage("export: one run at a time: --run names it");
	if (!selection_is_part(&selection))
		return CMD_DONE;
	if (format->is_whole)
		return cmd_usage(
			"export: %s is of a whole run: leave --window, --from and --to out",
			format->name);
	return selection_apply(handle, &selection) < 0
		       ? cmd_fail("%s: %s", options->operands[0], statement_message(db))
		       : CMD_DONE;
}

/* Call trees and events have no place for an interval. */
static void say_picked(sqlite3 *db, int64_t run_id)
{
	int64_t n = report_sql_number(
		db, "SELECT value FROM total WHERE run_id = :run AND name = 'picked_blocks'",
		run_id);

	if (n > 0)
		cmd_warn("numbers of blocks and bytes are estimates from %lld picked blocks "
			 "(--sample-bytes)",
			 (long long)n);
}

static int export_run(struct db *handle, const struct option_set *options,
		      struct export_progress *progress)
{
	sqlite3 *db = db_handle(handle);
	const struct export_format *format =
		export_find(option_choice_name(option_choice(options, OPTION_EXPORT_FORMAT)));
	const char *path = option_text(options, OPTION_EXPORT_FILE);
	struct export_request request = {
		.metric = (enum profile_metric)profile_metric_find(
			option_choice_name(option_choice(options, OPTION_BY))),
		.paths = { option_texts(options, OPTION_EXCLUDE),
			   option_flag(options, OPTION_FULL_NAMES) ? PATHS_WHOLE : PATHS_ASKED },
		.view = option_text(options, OPTION_VIEW),
		.progress = progress,
	};

	int status = select_part(handle, options, format, &request.run_id);
	if (status != CMD_DONE)
		return status;
	int r = path && strcmp(path, "-") != 0 ? write_file(options, db, format, &request)
					       : write_stdout(db, format, &request);
	end_progress(progress);
	if (r < 0)
		return complain(db, options, r);
	say_picked(db, request.run_id);
	return CMD_DONE;
}

static int write_anonymised(sqlite3 *db, const struct option_set *options,
			    struct export_progress *progress)
{
	const char *path = option_text(options, OPTION_EXPORT_FILE);
	const char *of = options->operands[0];
	int r = anonymise(db, path, option_flag(options, OPTION_FORCE), progress);

	end_progress(progress);
	switch (r) {
	case 0:
		return CMD_DONE;
	case -EPROTO:
		return cmd_fail("%s: %s", of, statement_message(db));
	case -EALREADY:
		return cmd_fail("%s has no names any more: it is such a copy itself", of);
	case -EEXIST:
		return cmd_fail("%s is there already: --force overwrites it", path);
	default:
		return cmd_fail("cannot write %s: %s", path, strerror(-r));
	}
}

static int export_shown(struct db *db, const struct option_set *options, bool is_stdout)
{
	struct cmd_progress line = { .work = "exporting" };
	struct export_progress progress = { .show = cmd_show_progress, .context = &line };
	struct export_progress *shown = is_stdout && isatty(STDOUT_FILENO) ? NULL : &progress;

	return option_flag(options, OPTION_ANONYMISE)
		       ? write_anonymised(db_handle(db), options, shown)
		       : export_run(db, options, shown);
}

int cmd_export(const struct option_set *options)
{
	bool is_anonymised = option_flag(options, OPTION_ANONYMISE);
	enum option_choice choice = option_choice(options, OPTION_EXPORT_FORMAT);
	const struct export_format *format = export_find(option_choice_name(choice));
	struct db *db = NULL;

	const char *path = option_text(options, OPTION_EXPORT_FILE);
	bool is_stdout = !path || strcmp(path, "-") == 0;
	if (format->is_binary && is_stdout && isatty(STDOUT_FILENO))
		return cmd_usage("export: %s is not for a terminal: name a file with --output",
				 format->name);
	if (is_anonymised && is_stdout)
		return cmd_usage("export: --anonymise writes a database: name it with --output");
	int status = is_stdout ? CMD_DONE : cmd_check_new(path, options);
	status = status ?: database_open(options->operands[0], options, &db);
	status = status ?: export_shown(db, options, is_stdout);
	db_close(db);
	return status;
}
