#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyze/analyze.h"
#include "cli/cmd.h"
#include "cli/database.h"
#include "cli/options/selection-options.h"
#include "cli/top/live-page.h"
#include "common/cleanup.h"
#include "common/text-stream.h"
#include "store/statement.h"
#include "view/request.h"
#include "view/server/export.h"
#include "view/server/server.h"

/*
 * Opens a browser at an address that others on this machine must not see: not as an argument, which
 * anybody can list, but through a file that only this user can read and that leads there.
 */

#define SUFFIX ".html"

struct browser {
	char *path; /* of the file that leads to the address */
};

/* Take the file away; the browser stays. Accepts NULL, returns NULL. */
static struct browser *browser_forget(struct browser *browser)
{
	if (!browser)
		return NULL;
	if (browser->path)
		unlink(browser->path);
	free_all(browser->path, browser);
	return NULL;
}

static void browser_cleanup(struct browser **browser)
{
	*browser = browser_forget(*browser);
}
#define auto_browser __attribute__((cleanup(browser_cleanup)))

static const char *folder(void)
{
	static const char *const variables[] = { "XDG_RUNTIME_DIR", "TMPDIR" };

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *path = getenv(variables[i]);
		if (path && path[0] == '/' && access(path, W_OK) == 0)
			return path;
	}
	return "/tmp";
}

/* The address is of our own making: digits, letters and none of HTML's. */
static int write_start_page(struct browser *browser, const char *address)
{
	auto_fclose FILE *file = NULL;
	char *path = NULL;

	if (asprintf(&path, "%s/memsight-view-XXXXXX" SUFFIX, folder()) < 0)
		return -ENOMEM;
	int fd = mkostemps(path, (int)strlen(SUFFIX), O_CLOEXEC);
	if (fd < 0)
		return free(path), -errno;
	browser->path = path;
	file = fdopen(fd, "w");
	if (!file)
		return close(fd), -ENOMEM;
	fprintf(file,
		"<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\""
		" content=\"no-referrer\"><meta http-equiv=\"refresh\" content=\"0;"
		" url=%s\"><title>memsight</title><a href=\"%s\">memsight view</a>\n",
		address, address);
	return fflush(file) == 0 ? 0 : -errno;
}

static int start(const char *path)
{
	char *const words[] = { "xdg-open", (char *)path, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	pid_t pid = -1;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
						      POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_init(&actions);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	int r = posix_spawnp(&pid, words[0], &actions, &attributes, words, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return -r;
}

/*
 * Start xdg-open, in a session of its own, with what it says thrown away. Returns 0 or a negative
 * errno (no xdg-open, no folder for the file).
 */
static int browser_open(const char *address, struct browser **ret_browser)
{
	auto_browser struct browser *browser = calloc(1, sizeof(*browser));
	int r = browser ? write_start_page(browser, address) : -ENOMEM;

	r = r ?: start(browser->path);
	if (r < 0)
		return r;
	*ret_browser = steal_ptr(&browser);
	return 0;
}

/* What is shown. */
struct shown {
	char *database;
	char *folder, *both; /* of two traces: the database of both, in a folder of its own */
	const char *labels[2];
	int64_t run_id;
	int64_t from_ns, to_ns; /* of the run: what is selected at first; 0 to INT64_MAX: all */
};

/*
 * Threads share memory that was freed: many small heaps would each keep some; and large answers
 * keep none.
 */
#define MAX_ARENAS  2
#define LARGE_BYTES (256 << 10)

/* What the page shows first, behind the address: of two traces their differences. */
static int make_fragment(const struct option_set *options, const struct shown *shown,
			 char **ret_fragment)
{
	auto_free char *text = NULL;
	size_t n_bytes = 0;
	FILE *out = text_stream_open(&text, &n_bytes);

	if (!out)
		return cmd_fail("out of memory");
	bool is_part = shown->from_ns > 0 || shown->to_ns < INT64_MAX;
	if (options->n_operands == 2)
		fputs("&diff.a=1&diff.b=2&page=diff", out);
	if (shown->from_ns > 0)
		fprintf(out, "&from=%lld", (long long)shown->from_ns);
	if (is_part || option_text(options, OPTION_RUN))
		fprintf(out, "&run=%lld", (long long)shown->run_id);
	if (shown->to_ns < INT64_MAX)
		fprintf(out, "&to=%lld", (long long)shown->to_ns);
	if (text_stream_close(out, &text) < 0)
		return cmd_fail("out of memory");
	if (text[0])
		text[0] = '#';
	*ret_fragment = steal_ptr(&text);
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
			 "from: ssh -L %u:127.0.0.1:%u HOST there, then open the address above",
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

/* What is open stays readable without its name. */
static void finish_shown(struct shown *shown)
{
	if (shown->both)
		unlink(shown->both);
	if (shown->folder)
		rmdir(shown->folder);
	free_all(shown->both, shown->folder, shown->database);
	*shown = (struct shown){ 0 };
}
#define auto_shown __attribute__((cleanup(finish_shown)))

static struct view_files files_of(const struct option_set *options, const struct shown *shown)
{
	return (struct view_files){
		.database = shown->database,
		.editor = option_text(options, OPTION_EDITOR),
		.labels = { shown->labels[0], shown->labels[1] },
	};
}

static int write_file(const struct option_set *options, const struct shown *shown)
{
	const struct view_export export = {
		.files = files_of(options, shown),
		.run_id = shown->run_id,
		.from_ns = shown->from_ns,
		.to_ns = shown->to_ns,
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

/* ---- Two traces ---- */

/* What `memsight analyze' makes of both: they stay two runs, also of one program. */
static int analyze_both(const struct option_set *options, const char *database)
{
	char *const words[] = { "memsight",
				"analyze",
				"--all",
				"--output",
				(char *)database,
				"--",
				(char *)options->operands[0],
				(char *)options->operands[1],
				NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid = -1;
	int status = 0;

	/* our own output is the address alone */
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
	int r = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, words, environ);
	posix_spawn_file_actions_destroy(&actions);

	if (r != 0)
		return cmd_fail("cannot start memsight analyze: %s", strerror(r));
	TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
	return status == 0 ? CMD_DONE : CMD_FAILED; /* it has said why */
}

/* A folder that only this user can look into; the server opens the file before it goes. */
static int make_both(const struct option_set *options, struct shown *shown)
{
	for (size_t i = 0; i < 2; i++)
		if (!analyze_is_trace(options->operands[i]))
			return cmd_usage("view: two are compared as traces (.mst), and %s is none; "
					 "`memsight analyze -o BOTH.db A.mst B.mst' makes a "
					 "database of both",
					 options->operands[i]);
	if (asprintf(&shown->folder, "%s/memsight-view-XXXXXX", folder()) < 0 ||
	    !mkdtemp(shown->folder))
		return cmd_fail("cannot make a folder for the database of both: %s",
				strerror(errno));
	if (asprintf(&shown->both, "%s/both.db", shown->folder) < 0)
		return cmd_fail("out of memory");
	return analyze_both(options, shown->both);
}

/* The run and the part of it that are meant. */
static int find_part(const struct option_set *options, sqlite3 *db, struct shown *shown)
{
	struct selection selection;
	int status = selection_options_read(options, db, &selection);
	auto_free int64_t *runs = (int64_t *)selection.runs;

	if (status != CMD_DONE)
		return status;
	if (selection.n_runs > 1)
		return cmd_usage("view: --run names one run, the page has the others, too");
	shown->run_id = runs[0];
	shown->from_ns = selection.from_ns;
	shown->to_ns = selection.to_ns;
	return CMD_DONE;
}

static int read_labels(const struct option_set *options, struct shown *shown)
{
	const char *const *labels = option_texts(options, OPTION_LABEL);

	for (size_t i = 0; labels && labels[i]; i++) {
		if (i == 2)
			return cmd_usage("view: --label names the first two runs");
		shown->labels[i] = labels[i];
	}
	return CMD_DONE;
}

/* The path of the database (of a trace, the one beside it) and what is meant of it. */
static int find_database(const struct option_set *options, struct shown *shown)
{
	auto_db struct db *db = NULL;
	int status = options->n_operands == 2 ? make_both(options, shown) : CMD_DONE;

	if (status == CMD_DONE)
		status = database_open(shown->both ? shown->both : options->operands[0], options,
				       &db);
	status = status ?: find_part(options, db_handle(db), shown);
	if (status != CMD_DONE)
		return status;
	shown->database = strdup(sqlite3_db_filename(db_handle(db), "main"));
	return shown->database ? CMD_DONE : cmd_fail("out of memory");
}

/* ---- Serving ---- */

/* Analyse a trace and show it; what is wrong with it has been said. */
static bool show_trace(struct view_server *server, const struct option_set *options,
		       const struct live_order *order)
{
	auto_db struct db *db = NULL;

	if (database_open(order->trace, options, &db) != CMD_DONE)
		return false;
	const struct view_files files = {
		.database = sqlite3_db_filename(db_handle(db), "main"),
		.editor = option_text(options, OPTION_EDITOR),
	};
	int r = view_server_show(server, order->part, &files);
	if (r < 0)
		cmd_fail("%s: %s", order->trace, strerror(-r));
	return r == 0;
}

/*
 * Until a signal; beside a recording what it leaves is analysed. That may take long, and ends as it
 * does without a page: the signals do what they do.
 */
static void wait_for_end(struct view_server *server, const struct option_set *options,
			 struct live_page *live, const sigset_t *ends)
{
	static const struct timespec look = { .tv_nsec = 100000000 };
	struct live_order order;

	for (;;) {
		int signal_number =
			live ? sigtimedwait(ends, NULL, &look) : sigwaitinfo(ends, NULL);

		if (signal_number > 0)
			return;
		if (!live || !live_page_next(live, &order))
			continue;
		sigprocmask(SIG_UNBLOCK, ends, NULL);
		bool is_shown = show_trace(server, options, &order);
		sigprocmask(SIG_BLOCK, ends, NULL);
		live_page_done(live, order.part, is_shown);
	}
}

/* The database, or the recording. */
static int serve(const struct option_set *options, struct shown *shown, const char *fragment,
		 struct live_page *live)
{
	uint64_t port = option_number(options, OPTION_PORT);
	auto_browser struct browser *browser = NULL;
	auto_free char *address = NULL;
	struct view_server *server = NULL;
	sigset_t ends;
	int is_socket = 0;

	if (port > UINT16_MAX)
		return cmd_usage("--port: %llu is no port: they go up to 65535",
				 (unsigned long long)port);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);
	const struct view_files files = files_of(options, shown);
	const struct view_shown first = { live ? NULL : &files,
					  live ? live_page_source(live) : NULL };
	int r = view_server_start(&first, (uint16_t)port, &server, &is_socket);
	finish_shown(shown);
	if (r < 0)
		return explain(options->operands[0], (uint16_t)port, is_socket, r);
	if (asprintf(&address, "%s%s", view_server_address(server), fragment ? fragment : "") < 0)
		address = NULL;
	tell_address(server, options, address ? address : view_server_address(server), &browser);
	wait_for_end(server, options, live, &ends);
	view_server_stop(server);
	return CMD_DONE;
}

static int serve_live(const struct option_set *options)
{
	struct shown nothing = { 0 };
	struct live_page *live = NULL;

	if (options->n_operands != 1 || option_text(options, OPTION_WINDOW) ||
	    option_text(options, OPTION_FROM) || option_text(options, OPTION_TO) ||
	    option_text(options, OPTION_RUN) || option_text(options, OPTION_EXPORT_PAGE))
		return cmd_usage("view: --live is of one recording that is under way: without "
				 "--run, --window, --from, --to and --export");
	int status = live_page_open(options->operands[0], &live);
	status = status ?: serve(options, &nothing, NULL, live);
	live_page_close(live);
	return status;
}

int cmd_view(const struct option_set *options)
{
	auto_free char *fragment = NULL;
	auto_shown struct shown shown = { 0 };

	if (options->n_operands == 2 &&
	    (option_text(options, OPTION_WINDOW) || option_text(options, OPTION_FROM) ||
	     option_text(options, OPTION_TO)))
		return cmd_usage("view: --window, --from and --to are of one trace, and two are "
				 "compared");
	mallopt(M_ARENA_MAX, MAX_ARENAS);
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	if (option_flag(options, OPTION_LIVE))
		return serve_live(options);
	int status = read_labels(options, &shown) ?: find_database(options, &shown);
	if (status != CMD_DONE)
		return status;
	if (option_text(options, OPTION_EXPORT_PAGE))
		return write_file(options, &shown);
	status = make_fragment(options, &shown, &fragment);
	return status == CMD_DONE ? serve(options, &shown, fragment, NULL) : status;
}
