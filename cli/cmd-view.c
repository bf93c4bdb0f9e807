#include "cli/cmd.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/browser.h"
#include "cli/database.h"
#include "common/cleanup.h"
#include "store/heatmap/heatmap.h"
#include "store/statement.h"
#include "view/server/export.h"
#include "view/request.h"
#include "view/server/server.h"

/*
 * Threads share memory that was freed: many small heaps would each keep some; and large answers
 * keep none.
 */
#define MAX_ARENAS  2
#define LARGE_BYTES (256 << 10)

/* What the page shows first: the run that --run names; NULL: it chooses. */
static int make_fragment(const struct option_set *options, int64_t run_id, char **ret_fragment)
{
	*ret_fragment = NULL;
	if (option_text(options, OPTION_RUN) &&
	    asprintf(ret_fragment, "#run=%lld", (long long)run_id) < 0)
		return cmd_fail("out of memory");
	return CMD_DONE;
}

static bool has_screen(void)
{
	const char *display = getenv("DISPLAY");
	const char *wayland = getenv("WAYLAND_DISPLAY");

	return isatty(STDOUT_FILENO) && ((display && *display) || (wayland && *wayland));
}

/* Print where the page is, and open it where there is a screen. */
static void tell_address(const struct view_server *server, const struct option_set *options,
			 const char *address, struct browser **ret_browser)
{
	printf("%s\n", address);
	fflush(stdout);
	if (getenv("SSH_CONNECTION"))
		cmd_warn("for a browser on the machine that you come "
			 "from: ssh -L %u:127.0.0.1:%u HOST "
			 "there, then open the address above",
			 view_server_port(server), view_server_port(server));
	if (option_flag(options, OPTION_NO_OPEN) || !has_screen())
		return;
	int r = browser_open(address, ret_browser);
	if (r < 0)
		cmd_warn("no browser was opened (xdg-open: %s): open the address above",
			 strerror(-r));
}

static int explain(const char *path, uint16_t port, int is_socket, int error)
{
	if (error == -ENOSYS)
		return cmd_fail(
			"this memsight was built without libmicrohttpd, so it cannot serve the "
			"page: --export FILE.html writes it into a file");
	if (is_socket && error == -EADDRINUSE)
		return cmd_fail("port %u is taken: leave --port out for one that is free", port);
	if (is_socket && error == -EACCES)
		return cmd_fail("port %u is not for ordinary users: ports from 1024 on are", port);
	if (is_socket)
		return cmd_fail("cannot serve at 127.0.0.1: %s", strerror(-error));
	return cmd_fail("%s: %s", path, strerror(-error));
}

/* What is shown; the pictures, if any, are in a file of ours. */
struct shown {
	char *database;
	char *pictures;
	int64_t run_id;
};

/* What is open stays readable without its name. */
static void finish_shown(struct shown *shown)
{
	if (shown->pictures)
		unlink(shown->pictures);
	free(shown->pictures);
	free(shown->database);
	*shown = (struct shown){ 0 };
}
#define auto_shown __attribute__((cleanup(finish_shown)))

static int serve(const struct option_set *options, struct shown *shown, const char *fragment)
{
	uint64_t port = option_number(options, OPTION_PORT);
	auto_browser struct browser *browser = NULL;
	auto_free char *address = NULL;
	struct view_server *server = NULL;
	sigset_t ends;
	int signal_number = 0, is_socket = 0;

	if (port > UINT16_MAX)
		return cmd_usage("--port: %llu is no port: they go up to 65535",
				 (unsigned long long)port);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);
	const struct view_files files = { shown->database, shown->pictures };
	int r = view_server_start(&files, (uint16_t)port, &server, &is_socket);
	finish_shown(shown);
	if (r < 0)
		return explain(options->operands[0], (uint16_t)port, is_socket, r);
	if (asprintf(&address, "%s%s", view_server_address(server), fragment ? fragment : "") < 0)
		address = NULL;
	tell_address(server, options, address ? address : view_server_address(server), &browser);
	while (sigwait(&ends, &signal_number) != 0)
		continue;
	view_server_stop(server);
	return CMD_DONE;
}

static int write_file(const struct option_set *options, const struct view_files *files,
		      int64_t run_id)
{
	const struct view_export export = {
		.files = *files,
		.run_id = run_id,
		.output = option_text(options, OPTION_EXPORT_PAGE),
		.force = option_flag(options, OPTION_FORCE),
	};
	char message[VIEW_MESSAGE_BYTES];
	int r = view_export_write(&export, message);

	if (r == -EEXIST)
		return cmd_fail("%s is there already: --force overwrites it", export.output);
	if (r == -EPROTO)
		return cmd_fail("%s: %s", options->operands[0], message);
	return r < 0 ? cmd_fail("cannot write %s: %s", export.output, strerror(-r)) : CMD_DONE;
}

/* Of a database that was made with --no-tiles. */
static int compute_pictures(const struct option_set *options, struct shown *shown)
{
	cmd_warn("%s was made without pictures (analyze --no-tiles): computing them now",
		 options->operands[0]);
	int r = picture_compute(shown->database, &shown->pictures);
	return r < 0 ? cmd_fail("cannot compute pictures into a temporary file (TMPDIR names "
				"another folder for it): %s",
				strerror(-r))
		     : CMD_DONE;
}

/* The path of the database (of a trace, the one beside it) and the run that is meant. */
static int find_database(const struct option_set *options, struct shown *shown)
{
	auto_db struct db *db = NULL;
	int status = database_open(options->operands[0], options, &db);

	if (status == CMD_DONE)
		status = database_find_run(db_handle(db), options->operands[0],
					   option_text(options, OPTION_RUN), &shown->run_id);
	if (status != CMD_DONE)
		return status;
	shown->database = strdup(sqlite3_db_filename(db_handle(db), "main"));
	if (!shown->database)
		return cmd_fail("out of memory");
	bool is_missing = picture_is_missing(db_handle(db));
	if (statement_kept(db_handle(db)) == -ENOMEM)
		return cmd_fail("out of memory");
	return is_missing ? compute_pictures(options, shown) : CMD_DONE;
}

int cmd_view(const struct option_set *options)
{
	auto_free char *fragment = NULL;
	auto_shown struct shown shown = { 0 };

	mallopt(M_ARENA_MAX, MAX_ARENAS);
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	int status = find_database(options, &shown);
	if (status != CMD_DONE)
		return status;
	const struct view_files files = { shown.database, shown.pictures };
	if (option_text(options, OPTION_EXPORT_PAGE))
		return write_file(options, &files, shown.run_id);
	status = make_fragment(options, shown.run_id, &fragment);
	return status == CMD_DONE ? serve(options, &shown, fragment) : status;
}
