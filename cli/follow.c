#include "cli/follow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "analyze/analyze.h"
#include "analyze/input/input.h"
#include "cli/cmd-analyze.h"
#include "cli/cmd.h"
#include "cli/options/symbol-options.h"
#include "common/cleanup.h"
#include "common/io.h"

#define NAME		  "memsight-follow"
#define LEAST_DISK	  10 /* one part of it free: the recorder stops at one in 20 */
#define LOOK_MS		  500
#define IDLE_IO_PRIORITY  (3 << 13) /* ioprio_set(2), which C libraries do not have */
#define USUAL_IO_PRIORITY 0

/* What the recorder says. The first word also has which file it is, where, and where it will be. */
struct word {
	uint64_t n_bytes;
	dev_t device;
	ino_t inode;
	char names[2 * PATH_MAX];
};

/* ---- In the process ---- */

static const int job_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP };
#define N_JOB_SIGNALS (sizeof(job_signals) / sizeof(job_signals[0]))

struct follower {
	int fd; /* the recorder's words */
	int trace_fd;
	const struct word *first;
	const char *name; /* the trace's, at the end */
	sighandler_t handlers[N_JOB_SIGNALS]; /* as they were */
	_Atomic uint64_t file_bytes; /* when it is over; 0: it is recorded */
	uint64_t begin_bytes; /* read by then */
	struct cmd_progress progress;
};

/* Until the recording is over signals of the terminal are for the program that is recorded. */
static void ignore_signals(struct follower *self)
{
	sigset_t signals;

	sigemptyset(&signals);
	for (size_t i = 0; i < N_JOB_SIGNALS; i++) {
		self->handlers[i] = signal(job_signals[i], SIG_IGN);
		sigaddset(&signals, job_signals[i]);
	}
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

/* Take only what nobody else wants: CPU, disk, and, if memory runs out, no memory. */
static int stand_back(void)
{
	const struct sched_param none = { 0 };
	auto_fclose FILE *score = fopen("/proc/self/oom_score_adj", "we");

	if (score)
		fputs("1000", score);
	syscall(SYS_ioprio_set, 1, 0, IDLE_IO_PRIORITY);
	return sched_setscheduler(0, SCHED_IDLE, &none) < 0 ? -errno : 0;
}

/* Somebody waits now. Who may not take the priority back keeps what it has. */
static void hurry(struct follower *self)
{
	const struct sched_param none = { 0 };
	auto_folder DIR *threads = opendir("/proc/self/task");

	for (pid_t tid; threads && (tid = io_next_number(threads));) {
		syscall(SYS_ioprio_set, 1, tid, USUAL_IO_PRIORITY);
		sched_setscheduler(tid, SCHED_OTHER, &none);
	}
	for (size_t i = 0; i < N_JOB_SIGNALS; i++)
		signal(job_signals[i], self->handlers[i]);
}

/*
 * Whether the trace has this name: if not that of the end, the recorder was killed, or had nothing.
 */
static bool has_name(const struct follower *self, const char *name)
{
	struct stat named;

	return stat(name, &named) == 0 && named.st_dev == self->first->device &&
	       named.st_ino == self->first->inode;
}

/* It may have its last name already. Returns 0 or a negative errno. */
static int open_trace(struct follower *self)
{
	const char *names[] = { self->first->names, self->name };

	for (size_t i = 0; i < 2; i++) {
		self->trace_fd = open(names[i], O_RDONLY | O_CLOEXEC);
		if (self->trace_fd >= 0 && has_name(self, names[i]))
			return 0;
	}
	return -ECANCELED;
}

static bool lacks_disk(const struct follower *self)
{
	struct statvfs disk;

	return fstatvfs(self->trace_fd, &disk) == 0 && disk.f_bavail < disk.f_blocks / LEAST_DISK;
}

/* For feed_growing.wait. */
static int64_t wait_for_more(void *context, uint64_t n_bytes)
{
	struct follower *self = context;
	struct stat st;
	struct word word;
	ssize_t n;

	do {
		n = TEMP_FAILURE_RETRY(recv(self->fd, &word, sizeof(word), 0));
		if (n <= 0 && !has_name(self, self->name))
			return -ECANCELED;
		if (n > 0 && lacks_disk(self))
			return -ENOSPC;
	} while (n > 0 && word.n_bytes <= n_bytes);
	if (n <= 0 && !self->file_bytes) {
		hurry(self);
		self->begin_bytes = n_bytes;
		self->file_bytes = fstat(self->trace_fd, &st) == 0 ? (uint64_t)st.st_size : 1;
	}
	return (int64_t)(n > 0 ? word.n_bytes : n_bytes);
}

/* Nobody looks at it before the recording is over. */
static void show(void *context, const struct progress_step *step)
{
	struct follower *self = context;
	struct progress_step shown = *step;

	if (!self->file_bytes)
		return;
	if (step->n_done > self->begin_bytes && self->file_bytes > self->begin_bytes) {
		shown.n_done = step->n_done - self->begin_bytes;
		shown.n_all = self->file_bytes - self->begin_bytes;
	}
	cmd_show_progress(&self->progress, &shown);
}

static int follow(struct follower *self, const struct option_set *options)
{
	char path[64]; /* which stays */
	const struct feed_growing growing = { path, wait_for_more, self };
	struct symbol_places places;
	struct import_result result;
	struct import_options import = {
		.growing = &growing,
		.progress = show,
		.context = self,
		.conclude = cmd_conclude_import,
		.places = &places,
		.is_for_answer = true,
	};
	size_t n_failed;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", self->trace_fd);
	if (symbol_options_read(options, &places) != CMD_DONE)
		return -EINVAL;
	cmd_survive_size_limit();
	int r = analyze_beside(self->name, &import, &result, &n_failed);
	cmd_end_progress(&self->progress);
	return r;
}

/* The exit status is an errno. */
static int run_follower(int fd, const struct option_set *options)
{
	struct word word;
	struct follower self = { .fd = fd, .first = &word };
	ssize_t n = TEMP_FAILURE_RETRY(recv(fd, &word, sizeof(word), 0));

	if (n <= 0)
		return ECANCELED;
	ignore_signals(&self);
	self.name = word.names + strlen(word.names) + 1;
	int r = open_trace(&self) ?: stand_back() ?: follow(&self, options);
	return r < 0 ? -r : 0;
}

/* ---- In the recorder ---- */

void follow_start(const struct option_set *options, struct follow *ret_follow)
{
	struct follow follow = FOLLOW_CLOSED;
	pid_t pid = side_process_start(NAME, NULL, 0, &follow.process);

	if (pid == 0)
		_exit(run_follower(follow.process.fd, options));
	if (pid > 0)
		*ret_follow = follow;
}

/* A word that finds no room is not missed: the next one says more. */
void follow_grown(void *follower, const struct run_growth *growth)
{
	struct follow *follow = follower;
	struct word word = { .n_bytes = growth->n_bytes };
	size_t n = offsetof(struct word, device);
	struct stat st;

	if (!follow->has_begun) {
		if (stat(growth->path, &st) < 0)
			return;
		word.device = st.st_dev;
		word.inode = st.st_ino;
		n = offsetof(struct word, names) + 1 +
		    (size_t)snprintf(word.names, sizeof(word.names), "%s%c%s", growth->path, 0,
				     growth->name);
	}
	follow->has_begun |= send(follow->process.fd, &word, n, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

struct turns {
	uint64_t run_ns;
	uint64_t wait_ns; /* for a CPU */
};

/* Of all threads; those that have ended are left out. */
static struct turns turns_of(pid_t pid)
{
	struct turns all = { 0 }, one;
	char path[80];

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	auto_folder DIR *threads = opendir(path);
	for (pid_t tid; threads && (tid = io_next_number(threads));) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, (int)tid);
		auto_fclose FILE *file = fopen(path, "re");
		if (file && fscanf(file, "%lu %lu", &one.run_ns, &one.wait_ns) == 2) {
			all.run_ns += one.run_ns;
			all.wait_ns += one.wait_ns;
		}
	}
	return all;
}

/* Who may not take its priority back has none beside others that run. */
static bool is_starved(pid_t pid, struct turns *before)
{
	struct turns now = turns_of(pid);
	uint64_t run_ns = now.run_ns - before->run_ns, wait_ns = now.wait_ns - before->wait_ns;
	bool is_known = now.run_ns >= before->run_ns && now.wait_ns >= before->wait_ns;

	*before = now;
	return is_known && sched_getscheduler(pid) == SCHED_IDLE && wait_ns / 4 > run_ns &&
	       wait_ns > LOOK_MS * UINT64_C(1000000) / 2;
}

void follow_finish(struct follow *follow)
{
	struct side_process *process = &follow->process;
	struct pollfd end = { .fd = process->fd, .events = POLLIN };
	bool is_ended = false;

	if (process->pid < 0)
		return;
	shutdown(process->fd, SHUT_WR);
	struct turns turns = turns_of(process->pid);
	while (!is_ended && poll(&end, 1, LOOK_MS) <= 0)
		is_ended = is_starved(process->pid, &turns);
	if (is_ended)
		kill(process->pid, SIGKILL);
	int status = side_process_status(process);
	int error = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	if (error == EOPNOTSUPP)
		cmd_warn("code of the program changes while it runs (a JIT's, or by attaching): "
			 "its analysis needs all of the trace, and begins now");
	else if (error && error != ECANCELED)
		cmd_warn("the analysis beside the recording has failed (%s): it is done now",
			 strerror(error));
	else if (WIFSIGNALED(status) && !is_ended)
		cmd_warn("the analysis beside the recording was ended by a signal: it is done now");
	side_process_finish(process);
}
