#include "cli/top/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io.h"
#include "common/parse.h"
#include "schemas/control.h"

#define TRACE_SUFFIX ".mst"
#define TRACE_NAME   "top" TRACE_SUFFIX
#define POLL_NS	     20000000
#define START_POLLS  3000 /* a minute */
#define END_POLLS    150 /* 3 s, for a program that was asked to end */
#define MAX_SAVED    10000

static void pause_shortly(void)
{
	const struct timespec moment = { .tv_nsec = POLL_NS };

	nanosleep(&moment, NULL);
}

/* Keep the end of what is said. */
static void listen_to(struct top_session *session)
{
	char buffer[SESSION_SAID_BYTES / 2];
	ssize_t n;

	while (session->said_fd >= 0 && (n = read(session->said_fd, buffer, sizeof(buffer))) > 0) {
		size_t too_many = session->n_said + (size_t)n > sizeof(session->said)
					  ? session->n_said + (size_t)n - sizeof(session->said)
					  : 0;

		session->n_said -= too_many;
		memmove(session->said, session->said + too_many, session->n_said);
		memcpy(session->said + session->n_said, buffer, (size_t)n);
		session->n_said += (size_t)n;
	}
}

/* Whether the recorder has. A guard is not its parent. */
static bool has_recorder_ended(struct top_session *session)
{
	struct pollfd wait = { .fd = session->recorder_fd, .events = POLLIN };
	int status;
	pid_t pid = waitpid(session->recorder, &status, WNOHANG);

	if (pid == session->recorder)
		session->exit_status =
			WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (pid >= 0)
		return pid == session->recorder;
	if (session->recorder_fd >= 0)
		return poll(&wait, 1, 0) > 0;
	return kill(session->recorder, 0) < 0 && errno == ESRCH;
}

bool session_has_ended(struct top_session *session)
{
	struct control_request request = { .verb = CONTROL_STATUS };
	struct control_reply reply;

	listen_to(session);
	if (session->has_ended)
		return true;
	if (session->recorder) {
		session->has_ended = has_recorder_ended(session);
	} else if (session->totals_fd >= 0) {
		session->has_ended =
			control_ask(&session->recording, &request, &reply) < 0 || reply.has_stopped;
	}
	return session->has_ended;
}

/* ---- Begin ---- */

struct words {
	char *items[1024];
	size_t n;
};

static void add_word(struct words *words, const char *word)
{
	/* One place stays for the NULL at the end. */
	if (words->n + 1 < sizeof(words->items) / sizeof(words->items[0]))
		words->items[words->n++] = (char *)word;
}

/* Where the program's and the recorder's words go while the screen is ours, and what they read. */
static void redirect(posix_spawn_file_actions_t *actions, int said_fd)
{
	if (said_fd < 0) {
		posix_spawn_file_actions_adddup2(actions, STDERR_FILENO, STDOUT_FILENO);
		return;
	}
	posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(actions, said_fd, STDERR_FILENO);
}

static int spawn(struct top_session *session, struct words *words, int said_fd)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;

	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	redirect(&actions, said_fd);
	int err = posix_spawn(&session->recorder, "/proc/self/exe", &actions, &attributes,
			      words->items, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	if (err == 0)
		return CMD_DONE;
	session->recorder = 0;
	return cmd_fail("top: cannot start memsight record: %s", strerror(err));
}

/* ---- End of what we have begun ---- */

static void stop_recording(struct top_session *session)
{
	struct control_request request = { .verb = CONTROL_STOP };
	struct control_reply reply;

	if (session->is_own_program && session->recording.status.command_pid)
		kill((pid_t)session->recording.status.command_pid, SIGTERM);
	for (unsigned i = 0;
	     session->is_own_program && i < END_POLLS && !session_has_ended(session); i++)
		pause_shortly();
	if (session->is_own_program && !session_has_ended(session) &&
	    session->recording.status.command_pid)
		kill((pid_t)session->recording.status.command_pid, SIGKILL);
	if (!session_has_ended(session) && session->totals_fd >= 0)
		control_ask(&session->recording, &request, &reply);
	if (!session_has_ended(session) && session->totals_fd < 0)
		kill(session->recorder, SIGTERM);
	while (!session_has_ended(session))
		pause_shortly();
}

static void remove_trace(struct top_session *session)
{
	char path[PATH_MAX + 16];

	if (!session->folder[0])
		return;
	unlink(session->trace);
	snprintf(path, sizeof(path), "%s.partial", session->trace);
	unlink(path);
	rmdir(session->folder);
}

/* The guard's life: until top says a word, or is gone. Then what it has begun is ended. */
static void guard(struct top_session *session, int fd)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	char word;
	ssize_t n;

	/* Who reads what top prints must not wait for us. */
	for (int i = STDIN_FILENO; i <= STDERR_FILENO && nothing >= 0; i++)
		dup2(nothing, i);
	do {
		n = read(fd, &word, 1);
	} while (n < 0 && errno == EINTR);
	if (n > 0)
		return;
	for (unsigned i = 0; i < START_POLLS && !session_has_ended(session); i++) {
		if (control_find(session->trace, &session->recording) == 0 &&
		    (session->recording.status.command_pid || !session->is_own_program))
			break;
		pause_shortly();
	}
	if (!session_has_ended(session))
		stop_recording(session);
	remove_trace(session);
}

/* Without one (no memory for a process) top works as well, but must not be killed. */
static void set_guard(struct top_session *session)
{
	int ends[2];

	session->recorder_fd = (int)syscall(SYS_pidfd_open, session->recorder, 0);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return;
	session->guard = fork();
	if (session->guard == 0) {
		close(ends[0]);
		guard(session, ends[1]);
		_exit(0);
	}
	close(ends[1]);
	session->guard_fd = ends[0];
	if (session->guard < 0) {
		session->guard = 0;
		cleanup_close(&session->guard_fd);
	}
}

static int start(struct top_session *session, struct words *words, bool has_screen)
{
	int ends[2] = { -1, -1 };

	if (has_screen && pipe2(ends, O_CLOEXEC) < 0)
		return cmd_fail("top: cannot make a pipe: %s", strerror(errno));
	session->said_fd = ends[0];
	int status = spawn(session, words, ends[1]);
	cleanup_close(&ends[1]);
	/* The other end stays one that waits: programs expect that of theirs. */
	if (has_screen)
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
	if (status == CMD_DONE)
		set_guard(session);
	return status;
}

/* The trace that was asked for, or one that goes when top ends. */
static int choose_trace(struct top_session *session, const struct option_set *options)
{
	const char *output = option_text(options, OPTION_TOP_OUTPUT);
	const char *base = getenv("TMPDIR");

	if (output && cmd_check_new(output, options) != CMD_DONE)
		return CMD_FAILED;
	if (output) {
		snprintf(session->trace, sizeof(session->trace), "%s", output);
		return CMD_DONE;
	}
	snprintf(session->folder, sizeof(session->folder), "%s/memsight-top-XXXXXX",
		 base && *base ? base : "/tmp");
	if (!mkdtemp(session->folder)) {
		int err = errno;

		session->folder[0] = '\0';
		return cmd_fail("top: cannot make a folder for the trace (TMPDIR names another "
				"place): %s",
				strerror(err));
	}
	if (snprintf(session->trace, sizeof(session->trace), "%s/" TRACE_NAME, session->folder) >=
	    (int)sizeof(session->trace))
		return cmd_fail("top: TMPDIR is too long");
	return CMD_DONE;
}

/* memsight record or attach, with the operands; the totals alone need no samples. */
static int begin_recording(struct top_session *session, const struct option_set *options,
			   bool has_screen)
{
	struct words words = { .n = 0 };
	int status = choose_trace(session, options);

	if (status != CMD_DONE)
		return status;
	add_word(&words, "memsight");
	add_word(&words, session->is_own_program ? "record" : "attach");
	add_word(&words, "--quiet");
	add_word(&words, "--no-config");
	add_word(&words, "--live-totals");
	add_word(&words, "--output");
	add_word(&words, session->trace);
	add_word(&words, "--old-after");
	add_word(&words, option_text(options, OPTION_OLD_AFTER));
	if (session->folder[0]) {
		add_word(&words, "--source");
		add_word(&words, "none");
	}
	if (option_flag(options, OPTION_FORCE))
		add_word(&words, "--force");
	add_word(&words, "--");
	for (int i = 0; i < options->n_operands; i++)
		add_word(&words, options->operands[i]);
	return start(session, &words, has_screen);
}

/* Whether it is a recording, or a process of one, that top can look at as it is. */
static int take_totals(struct top_session *session, const char *what)
{
	struct control_reply reply;
	int err = control_totals(&session->recording, &reply, &session->totals_fd);

	if (err < 0)
		return cmd_fail("top: %s: the recorder does not answer: %s", what, strerror(-err));
	if (reply.error == -ENODATA)
		return cmd_fail("top: the recording of %s keeps no live totals: begin it with "
				"`memsight record --live-totals', or with `memsight top'",
				what);
	if (reply.error < 0)
		return cmd_fail("top: %s: %s", what, reply.message);
	session->began_ns = clock_ns(CLOCK_MONOTONIC) - reply.wall_ns;
	session->recording.status = reply;
	return CMD_DONE;
}

/* Our recorder has begun, or has ended and said why. */
static int wait_for_recording(struct top_session *session)
{
	for (unsigned i = 0; i < START_POLLS && !session_has_ended(session); i++) {
		/* Who quits early must not leave a program of which nobody knows the number. */
		if (control_find(session->trace, &session->recording) == 0 &&
		    (session->recording.status.command_pid || !session->is_own_program))
			return take_totals(session, session->trace);
		pause_shortly();
	}
	if (!session->has_ended)
		return cmd_fail("top: the recorder does not begin");
	/* Where there is no trace it has said why. */
	if (access(session->trace, F_OK) < 0)
		return session->exit_status ? session->exit_status : CMD_FAILED;
	return cmd_fail("top: the program ended before its totals could be looked at: `memsight "
			"record' is for short ones");
}

static bool is_trace_name(const char *what)
{
	size_t n = strlen(what);

	return n > strlen(TRACE_SUFFIX) &&
	       strcmp(what + n - strlen(TRACE_SUFFIX), TRACE_SUFFIX) == 0;
}

/* A process, by its number, that nobody records yet. */
static bool is_process(const char *what)
{
	uint64_t pid;

	return parse_number(what, &pid) == 0 && pid > 0 && pid <= INT32_MAX;
}

int session_begin(struct top_session *session, const struct option_set *options, bool has_screen)
{
	const char *what = options->operands[0];

	*session = (struct top_session){
		.totals_fd = -1, .said_fd = -1, .recorder_fd = -1, .guard_fd = -1
	};
	if (options->n_operands == 1 && !option_text(options, OPTION_TOP_OUTPUT)) {
		int err = control_find(what, &session->recording);

		if (err == 0)
			return take_totals(session, what);
		if (err == -ENOENT && is_trace_name(what))
			return cmd_fail("top: %s: no recording of this user writes this trace; "
					"`memsight ctl' lists them",
					what);
		if (err != -ENOENT)
			return cmd_fail("top: cannot look for recordings: %s", strerror(-err));
	}
	session->is_own_program = options->n_operands > 1 || !is_process(what);
	int status = begin_recording(session, options, has_screen);
	return status == CMD_DONE ? wait_for_recording(session) : status;
}

/* ---- While it runs ---- */

void session_save(struct top_session *session, char *message, size_t n_bytes)
{
	struct control_request request = { .verb = CONTROL_SNAPSHOT };
	auto_free char *folder = realpath(".", NULL);
	struct control_reply reply = { .error = -EEXIST };
	int err = 0;

	for (unsigned i = 1;
	     err == 0 && i < MAX_SAVED && (reply.error == -EEXIST || reply.error == -EBUSY); i++) {
		snprintf(request.text, sizeof(request.text), "%s/memsight-top.%u-%u.mst",
			 folder ? folder : "", session->recording.status.command_pid, i);
		err = control_ask(&session->recording, &request, &reply);
	}
	if (err < 0)
		snprintf(message, n_bytes, "the recording has ended");
	else if (reply.error < 0)
		snprintf(message, n_bytes, "%s", reply.message);
	else
		snprintf(message, n_bytes, "saved %s", reply.path);
}

/* ---- End ---- */

int session_end(struct top_session *session)
{
	if (session->guard_fd >= 0)
		send(session->guard_fd, "q", 1, MSG_NOSIGNAL);
	cleanup_close(&session->guard_fd);
	while (session->guard && waitpid(session->guard, NULL, 0) < 0 && errno == EINTR)
		continue;
	if (session->recorder && !session->has_ended) {
		stop_recording(session);
		session->exit_status = CMD_DONE; /* somebody has quit: that is no failure */
	}
	io_write_all(STDERR_FILENO, session->said, session->n_said);
	remove_trace(session);
	cleanup_close(&session->recorder_fd);
	cleanup_close(&session->totals_fd);
	cleanup_close(&session->said_fd);
	return session->recorder ? session->exit_status : CMD_DONE;
}
