#include "cli/cmd.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/view/server.h"
#include "cli/database.h"
#include "common/cleanup.h"

/* Threads share memory that was freed: many small heaps would each keep some. */
#define MAX_ARENAS 2

/* What the page shows first: the run that --run names. */
static int find_fragment(struct db *db, const struct option_set *options, char **ret_fragment)
{
	const char *selector = option_text(options, OPTION_RUN);
	int64_t run_id = 0;

	*ret_fragment = NULL;
	int status = database_find_run(db_handle(db), options->operands[0], selector, &run_id);
	if (status != CMD_DONE)
		return status;
	int r = selector ? asprintf(ret_fragment, "#run=%lld", (long long)run_id) : 0;
	return r < 0 ? cmd_fail("out of memory") : CMD_DONE;
}

static bool has_screen(void)
{
	const char *display = getenv("DISPLAY");
	const char *wayland = getenv("WAYLAND_DISPLAY");

	return isatty(STDOUT_FILENO) && ((display && *display) || (wayland && *wayland));
}

static void open_browser(const char *address)
{
	char *const words[] = { "xdg-open", (char *)address, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid = -1;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
	int r = posix_spawnp(&pid, words[0], &actions, NULL, words, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		cmd_warn("no browser was opened (xdg-open: %s): open the address above",
			 strerror(r));
}

static void tell_address(const struct view_server *server, const struct option_set *options,
			 const char *fragment)
{
	const char *address = view_server_address(server);
	auto_free char *whole = NULL;

	if (asprintf(&whole, "%s%s", address, fragment ? fragment : "") < 0)
		whole = NULL;
	printf("%s\n", whole ? whole : address);
	fflush(stdout);
	if (getenv("SSH_CONNECTION"))
		cmd_warn(
			"for a browser on the machine that you come from: ssh -L %u:127.0.0.1:%u HOST "
			"there, then open the address above",
			view_server_port(server), view_server_port(server));
	if (!option_flag(options, OPTION_NO_OPEN) && has_screen())
		open_browser(whole ? whole : address);
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

static int serve(const struct option_set *options, const char *path, const char *fragment)
{
	uint64_t port = option_number(options, OPTION_PORT);
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
	int r = view_server_start(path, (uint16_t)port, &server, &is_socket);
	if (r < 0)
		return explain(options->operands[0], (uint16_t)port, is_socket, r);
	tell_address(server, options, fragment);
	while (sigwait(&ends, &signal_number) != 0)
		continue;
	view_server_stop(server);
	return CMD_DONE;
}

int cmd_view(const struct option_set *options)
{
	auto_db struct db *db = NULL;
	auto_free char *fragment = NULL;
	auto_free char *path = NULL;

	mallopt(M_ARENA_MAX, MAX_ARENAS);
	int status = database_open(options->operands[0], options, &db);
	if (status == CMD_DONE)
		status = find_fragment(db, options, &fragment);
	if (status != CMD_DONE)
		return status;
	/* Of a trace it is the database beside it. */
	path = strdup(sqlite3_db_filename(db_handle(db), "main"));
	if (!path)
		return cmd_fail("out of memory");
	db = db_close(db);
	return serve(options, path, fragment);
}
