#include "series/process.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>

#include "common/cleanup.h"
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
	int fd;

	fill(&signals);
	if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
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

void series_process_kill_children(pid_t pid)
{
	kill_below(pid, 0);
}
