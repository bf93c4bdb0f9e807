/*
 * A plug-in for `memsight record --load`: counters of perf_event of the calling thread, opened when
 * a thread is first asked. Where there is no PMU (most virtual machines) cycles and instructions
 * are missing, and task-time stands in.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memsight-plugin.h"

static const struct event {
	const char *name;
	const char *unit;
	const char *about;
	const char *instead;
	uint32_t type;
	uint64_t config;
} events[] = {
	{ "cycles", "cycles", "of the processor, in user mode", "task-time", PERF_TYPE_HARDWARE,
	  PERF_COUNT_HW_CPU_CYCLES },
	{ "instructions", "instructions", "executed in user mode", "task-time", PERF_TYPE_HARDWARE,
	  PERF_COUNT_HW_INSTRUCTIONS },
	{ "task-time", "ns", "time on a processor (task-clock)", NULL, PERF_TYPE_SOFTWARE,
	  PERF_COUNT_SW_TASK_CLOCK },
	{ "migrations", "moves", "to another processor", NULL, PERF_TYPE_SOFTWARE,
	  PERF_COUNT_SW_CPU_MIGRATIONS },
};
#define N_EVENTS (sizeof(events) / sizeof(events[0]))

/* Of the calling thread; its number + 1, so that 0 is none yet. */
static _Thread_local int fds[N_EVENTS];
static _Thread_local pid_t owner; /* a forked child has copies, which count its parent */

static int open_event(const struct event *event)
{
	struct perf_event_attr attr = {
		.type = event->type,
		.size = sizeof(attr),
		.config = event->config,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static int read_event(void *user, int64_t *ret_value)
{
	const struct event *event = user;
	int *fd = &fds[event - events];
	uint64_t value;

	if (owner != getpid()) {
		memset(fds, 0, sizeof(fds));
		owner = getpid();
	}
	if (*fd == 0) {
		int opened = open_event(event);
		if (opened < 0)
			return opened;
		*fd = opened + 1;
	}
	if (read(*fd - 1, &value, sizeof(value)) != sizeof(value))
		return -EIO;
	*ret_value = (int64_t)value;
	return 0;
}

int memsight_register_perf(struct memsight_plugin *plugin);
void memsight_deregister_perf(void);

int memsight_register_perf(struct memsight_plugin *plugin)
{
	int r = 0;

	for (unsigned i = 0; i < N_EVENTS && r == 0; i++) {
		int fd = open_event(&events[i]);
		const struct memsight_component component = {
			.name = events[i].name,
			.unit = events[i].unit,
			.about = events[i].about,
			.kind = MEMSIGHT_COUNTER,
			.read = read_event,
			.user = (void *)&events[i],
			.missing = fd >= 0 ? NULL : strerror(-fd),
			.instead = events[i].instead,
		};
		if (fd >= 0)
			close(fd);
		r = memsight_add(plugin, &component);
	}
	return r;
}

/* Those of the calling thread; the kernel closes the others with the process. */
void memsight_deregister_perf(void)
{
	for (unsigned i = 0; i < N_EVENTS; i++) {
		if (fds[i] > 0)
			close(fds[i] - 1);
		fds[i] = 0;
	}
}
