#include "series/execute.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io.h"

#define MAX_BYTES 65536
#define MAX_DEPTH 16

static const int stopping[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

static void fill(sigset_t *signals)
{
	sigemptyset(signals);
	for (size_t i = 0; i < sizeof(stopping) / sizeof(stopping[0]); i++)
		sigaddset(signals, stopping[i]);
}

int series_process_signals(void)
{
	sigset_t signals;

	fill(&signals);
	if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
		return -errno;
	int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

void series_process_begin(void)
{
	sigset_t signals;

	fill(&signals);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

static void kill_below(pid_t pid, int depth)
{
	auto_free char *text = NULL;
	char path[64], *next;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	if (depth == MAX_DEPTH || io_read_file(path, MAX_BYTES, &text, NULL) < 0)
		return;
	next = text;
	for (long child = strtol(next, &next, 10); child > 0; child = strtol(next, &next, 10)) {
		kill_below((pid_t)child, depth + 1);
		kill((pid_t)child, SIGKILL);
	}
}

#define NS_PER_MS INT64_C(1000000)
#define GRACE_MS  5000 /* between TERM and KILL */

/* What the run's process tells before it ends. */
struct report {
	int exit_status;
	int has_trace;
	uint64_t wall_ns;
	char problem[SERIES_MESSAGE_BYTES];
};

static const struct series_workload *workload_of(const struct series_execution *execution)
{
	return execution->plan->programs[execution->item->program].workload;
}

/* ---- In the run's process ---- */

static void log_line(void *user, const char *line)
{
	FILE *log = user;

	fprintf(log, "%s\n", line);
	fflush(log);
}

static int redirect(const char *path, int flags, int fd)
{
	auto_close int file = open(path, flags | O_CLOEXEC, 0666);

	if (file < 0)
		return -errno;
	return dup2(file, fd) < 0 ? -errno : 0;
}

static int redirect_all(const struct series_execution *execution)
{
	const struct series_workload *workload = workload_of(execution);
	const char *directory = workload->directory ? workload->directory : ".";
	char path[2 * PATH_MAX];
	int err = chdir(directory) < 0 ? -errno : 0;

	if (err == 0)
		err = redirect(workload->input ? workload->input : "/dev/null", O_RDONLY, 0);
	snprintf(path, sizeof(path), "%s/stdout", execution->path);
	err = err ?: redirect(path, O_WRONLY | O_CREAT | O_TRUNC, 1);
	snprintf(path, sizeof(path), "%s/stderr", execution->path);
	return err == 0 ? redirect(path, O_WRONLY | O_CREAT | O_TRUNC, 2) : err;
}

static int set_variables(const struct series_texts *texts)
{
	for (size_t i = 0; i < texts->n; i++) {
		if (putenv(texts->texts[i]) != 0)
			return -ENOMEM;
	}
	return 0;
}

static int set_environment(const struct series_execution *execution)
{
	const struct series *series = execution->plan->series;
	int err = set_variables(&series->environment);

	err = err ?: set_variables(&workload_of(execution)->environment);
	return err == 0 ? set_variables(&series->modes[execution->item->mode].environment) : err;
}

/* The trace in a folder, as a pattern: with %% for each %. */
static void escape(const char *folder, char *output, size_t n_bytes)
{
	size_t n = 0;

	for (; *folder && n + sizeof("/" SERIES_TRACE) + 2 < n_bytes; folder++) {
		if (*folder == '%')
			output[n++] = '%';
		output[n++] = *folder;
	}
	snprintf(output + n, n_bytes - n, "/" SERIES_TRACE);
}

/* The names, places and facts of this run, beside what its mode says. */
static void fill_options(const struct series_execution *execution, struct run_options *options,
			 char *output, size_t n_bytes)
{
	const struct series_plan *plan = execution->plan;
	const struct series_mode *mode = &plan->series->modes[execution->item->mode];

	escape(execution->path, output, n_bytes);
	options->command = plan->programs[execution->item->program].words;
	options->program = plan->programs[execution->item->program].name;
	options->mode = mode->name;
	options->repetition = execution->item->repetition;
	options->output = output;
	options->dir = NULL;
	options->force = true;
	if (mode->is_dry) {
		options->is_natural = true;
		options->no_alloc = true;
		options->source = "none";
	}
}

static void record(const struct series_execution *execution, FILE *log, struct report *report)
{
	static const char *const orders[] = { "blocks", "sequential", "shuffle-within-mode" };
	char output[3 * PATH_MAX], seed[24], position[24];
	struct run_fact facts[] = {
		{ "series.name", execution->plan->series->name },
		{ "series.seed", seed },
		{ "series.order", orders[execution->plan->series->order] },
		{ "series.position", position },
	};
	struct run_options options = execution->options;
	struct run_observer observer = { .user = log, .warn = log_line };
	struct run_summary summary;

	snprintf(seed, sizeof(seed), "%" PRIu64, execution->plan->seed);
	snprintf(position, sizeof(position), "%zu", execution->position);
	fill_options(execution, &options, output, sizeof(output));
	options.facts = facts;
	options.n_facts = sizeof(facts) / sizeof(facts[0]);
	if (execution->prepare &&
	    execution->prepare(execution->user, execution->item->mode, &options) < 0) {
		snprintf(report->problem, sizeof(report->problem),
			 "its functions cannot be chosen: see stderr");
		return;
	}
	run_record(&options, &observer, &summary);
	report->exit_status = summary.exit_status;
	report->has_trace = summary.has_trace;
	report->wall_ns = summary.wall_ns;
	snprintf(report->problem, sizeof(report->problem), "%.500s", summary.problem);
	if (summary.problem[0])
		log_line(log, summary.problem);
}

static _Noreturn void be_run(const struct series_execution *execution, int report_fd, pid_t series)
{
	struct report report = { .exit_status = 126 };
	char path[2 * PATH_MAX];
	auto_fclose FILE *log = NULL;

	setpgid(0, 0);
	/* Should the series be killed, the run is nobody's: the recorder hands TERM on to it. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != series) /* killed already */
		_exit(0);
	series_process_begin();
	close(execution->folder->lock_fd);
	snprintf(path, sizeof(path), "%s/memsight.log", execution->path);
	log = fopen(path, "we");
	int err = log ? redirect_all(execution) : -errno;
	err = err ?: set_environment(execution);
	if (err == 0)
		record(execution, log, &report);
	else
		snprintf(report.problem, sizeof(report.problem),
			 "cannot prepare the run (folder, stdin): %s", strerror(-err));
	(void)!write(report_fd, &report, sizeof(report));
	_exit(0);
}

/* ---- In the series ---- */

/* Returns 1 when the process has ended, 0 when the time is up, -ECANCELED when told to stop. */
static int wait_for(int end_fd, int stop_fd, int64_t timeout_ns)
{
	int64_t end = timeout_ns == SERIES_FOREVER
			      ? INT64_MAX
			      : (int64_t)clock_ns(CLOCK_MONOTONIC) + timeout_ns;
	struct pollfd fds[] = { { end_fd, POLLIN, 0 }, { stop_fd, POLLIN, 0 } };

	for (;;) {
		int64_t left =
			end == INT64_MAX ? INT64_MAX : end - (int64_t)clock_ns(CLOCK_MONOTONIC);
		int64_t left_ms = left > 0 ? left / NS_PER_MS + 1 : 0;

		if (poll(fds, 2, left_ms > INT_MAX ? INT_MAX : (int)left_ms) < 0)
			continue;
		if (fds[0].revents)
			return 1;
		if (fds[1].revents)
			return -ECANCELED;
		if (left <= 0)
			return 0;
	}
}

/* The recorder hands TERM on; what does not obey is killed, and the recorder after it. */
static void end_process(pid_t pid, int end_fd)
{
	kill(pid, SIGTERM);
	if (wait_for(end_fd, -1, GRACE_MS * NS_PER_MS) == 1)
		return;
	/* Kill the children of a process with SIGKILL, and theirs. */
	kill_below(pid, 0);
	if (wait_for(end_fd, -1, GRACE_MS * NS_PER_MS) == 1)
		return;
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
}

static enum series_result judge(const struct series_execution *execution,
				const struct report *report, bool is_late)
{
	if (is_late)
		return SERIES_TIMED_OUT;
	if (!report->has_trace || report->exit_status != workload_of(execution)->expected_status)
		return SERIES_FAILED;
	return SERIES_OK;
}

/* Wait for the process, take its report and reap it. */
static int attend(const struct series_execution *execution, pid_t pid, int report_fd, int stop_fd,
		  struct series_outcome *outcome)
{
	struct report report = { .exit_status = 126 };
	auto_close int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	/* Before Linux 5.3: its report, or the pipe's end when it dies without one. */
	int end_fd = pidfd >= 0 ? pidfd : report_fd;
	int r = wait_for(end_fd, stop_fd, execution->timeout_ns);

	if (r != 1)
		end_process(pid, end_fd);
	TEMP_FAILURE_RETRY(waitpid(pid, NULL, 0));
	if (r == -ECANCELED)
		return r;
	if (io_read_full(report_fd, &report, sizeof(report)) != (ssize_t)sizeof(report)) {
		report = (struct report){ .exit_status = 126 };
		snprintf(report.problem, sizeof(report.problem), "the recorder was killed");
	}
	outcome->result = judge(execution, &report, r == 0);
	outcome->exit_status = report.exit_status;
	outcome->wall_ns = report.wall_ns;
	memcpy(outcome->problem, report.problem, sizeof(outcome->problem));
	return 0;
}

/* The workload's check: a shell command in the run's folder. */
static int look_at_output(const struct series_execution *execution, int stop_fd,
			  struct series_outcome *outcome)
{
	const char *check = workload_of(execution)->check;
	int status;

	if (!check || outcome->result != SERIES_OK)
		return 0;
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		series_process_begin();
		close(execution->folder->lock_fd);
		if (chdir(execution->path) == 0 && redirect("stdout", O_RDONLY, 0) == 0 &&
		    redirect("check.log", O_WRONLY | O_CREAT | O_TRUNC, 1) == 0 && dup2(1, 2) == 2)
			execl("/bin/sh", "sh", "-c", check, (char *)NULL);
		_exit(127);
	}
	TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
	/* What ended us may have ended it, too: then it has not said no. */
	if (status != 0 && wait_for(-1, stop_fd, 0) == -ECANCELED)
		return -ECANCELED;
	if (status != 0) {
		outcome->result = SERIES_CHECK_FAILED;
		snprintf(outcome->problem, sizeof(outcome->problem), "`%.300s' says no (check.log)",
			 check);
	}
	return 0;
}

int series_execute(const struct series_execution *execution, int stop_fd,
		   struct series_outcome *ret_outcome)
{
	struct series_outcome outcome = { .start_unix_s = time(NULL) };
	int report[2], err;

	if (pipe2(report, O_CLOEXEC) < 0)
		return -errno;
	auto_close int report_fd = report[0];
	auto_close int child_fd = report[1];
	fflush(NULL);
	pid_t series = getpid();
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		be_run(execution, child_fd, series);
	cleanup_close(&child_fd);
	child_fd = -1;
	err = attend(execution, pid, report_fd, stop_fd, &outcome);
	err = err ?: look_at_output(execution, stop_fd, &outcome);
	if (err == 0)
		*ret_outcome = outcome;
	return err;
}

/* ---- run.ini ---- */

/* As a shell would take it; in one line, as INI wants it. */
static void put_word(FILE *to, const char *word)
{
	fputs(" '", to);
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", to);
		else
			fputc(*word == '\n' ? ' ' : *word, to);
	}
	fputc('\'', to);
}

static void put_words(FILE *to, const char *key, char *const *words)
{
	fprintf(to, "%s =", key);
	for (; words && *words; words++)
		put_word(to, *words);
	fputc('\n', to);
}

/* A text may name a file, and that may have a line's end in it: what stands behind it is no key. */
static void put_line(FILE *to, const char *key, const char *text)
{
	fprintf(to, "%s = ", key);
	for (; *text; text++)
		fputc((unsigned char)*text < ' ' ? ' ' : *text, to);
	fputc('\n', to);
}

static void put_time(FILE *to, int64_t unix_s)
{
	struct tm parts;
	time_t seconds = (time_t)unix_s;
	char text[64];

	if (gmtime_r(&seconds, &parts) &&
	    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts))
		fprintf(to, "started = %s\n", text);
}

static void put_run(FILE *to, const struct series_execution *execution,
		    const struct series_outcome *outcome)
{
	const struct series_plan *plan = execution->plan;
	const struct series_program *program = &plan->programs[execution->item->program];
	const struct series_mode *mode = &plan->series->modes[execution->item->mode];

	fprintf(to, "[run]\nseries = %s\nprogram = %s\nmode = %s\nrepetition = %" PRIu32 "\n",
		plan->series->name, program->name, mode->name, execution->item->repetition);
	fprintf(to, "position = %zu\ndry = %s\n", execution->position, mode->is_dry ? "yes" : "no");
	put_words(to, "command", program->words);
	put_words(to, "environment", plan->series->environment.texts);
	put_words(to, "environment", program->workload->environment.texts);
	put_words(to, "environment", mode->environment.texts);
	if (program->workload->directory)
		put_words(to, "directory", (char *[]){ program->workload->directory, NULL });
	for (size_t i = 0; i < mode->n_settings; i++)
		fprintf(to, "record.%s = %s\n", mode->settings[i].key, mode->settings[i].value);
	put_time(to, outcome->start_unix_s);
	fprintf(to, "wall_ns = %" PRIu64 "\nexit_status = %d\n", outcome->wall_ns,
		outcome->exit_status);
	if (outcome->problem[0])
		put_line(to, "problem", outcome->problem);
	fprintf(to, "result = %s\n", series_result_name(outcome->result));
}

int series_execution_note(const struct series_execution *execution,
			  const struct series_outcome *outcome)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/" SERIES_RUN_FILE, execution->path);

	auto_fclose FILE *file = fopen(path, "we");
	if (!file)
		return -errno;
	put_run(file, execution, outcome);
	return fflush(file) != 0 || fsync(fileno(file)) < 0 ? -errno : 0;
}
