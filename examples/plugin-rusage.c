/*
 * A plug-in for `memsight record --load`: what the kernel counts for the calling thread
 * (getrusage(2), RUSAGE_THREAD), and for the process its largest resident memory.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <sys/resource.h>

#include "memsight-plugin.h"

enum field { USER_NS, SYSTEM_NS, MINOR_FAULTS, MAJOR_FAULTS, WAITS, PREEMPTIONS, MAX_RSS };

static int64_t ns_of(const struct timeval *time)
{
	return (int64_t)time->tv_sec * 1000000000 + (int64_t)time->tv_usec * 1000;
}

static int read_field(void *user, int64_t *ret_value)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage) < 0)
		return -errno;
	switch ((enum field)(uintptr_t)user) {
	case USER_NS:
		*ret_value = ns_of(&usage.ru_utime);
		return 0;
	case SYSTEM_NS:
		*ret_value = ns_of(&usage.ru_stime);
		return 0;
	case MINOR_FAULTS:
		*ret_value = usage.ru_minflt;
		return 0;
	case MAJOR_FAULTS:
		*ret_value = usage.ru_majflt;
		return 0;
	case WAITS:
		*ret_value = usage.ru_nvcsw;
		return 0;
	case PREEMPTIONS:
		*ret_value = usage.ru_nivcsw;
		return 0;
	case MAX_RSS:
		*ret_value = (int64_t)usage.ru_maxrss * 1024;
		return 0;
	}
	return -EINVAL;
}

static const struct {
	const char *name;
	const char *unit;
	const char *about;
	enum memsight_component_kind kind;
	enum field field;
} fields[] = {
	{ "user-time", "ns", "CPU time of the thread in its own code", MEMSIGHT_COUNTER, USER_NS },
	{ "system-time", "ns", "CPU time of the thread in the kernel", MEMSIGHT_COUNTER,
	  SYSTEM_NS },
	{ "soft-faults", "faults", "page faults of the thread without the disk", MEMSIGHT_COUNTER,
	  MINOR_FAULTS },
	{ "hard-faults", "faults", "page faults of the thread that read the disk", MEMSIGHT_COUNTER,
	  MAJOR_FAULTS },
	{ "waits", "switches", "times that the thread gave its processor up", MEMSIGHT_COUNTER,
	  WAITS },
	{ "preemptions", "switches", "times that it was taken away", MEMSIGHT_COUNTER,
	  PREEMPTIONS },
	{ "max-rss", "bytes", "largest resident memory of the process so far", MEMSIGHT_MAX,
	  MAX_RSS },
};

int memsight_register_rusage(struct memsight_plugin *plugin);

int memsight_register_rusage(struct memsight_plugin *plugin)
{
	int r = 0;

	for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]) && r == 0; i++) {
		const struct memsight_component component = {
			.name = fields[i].name,
			.unit = fields[i].unit,
			.about = fields[i].about,
			.kind = fields[i].kind,
			.read = read_field,
			.user = (void *)(uintptr_t)fields[i].field,
			.where = MEMSIGHT_AT_SAMPLES, /* getrusage(2) is a system call alone */
		};
		r = memsight_add(plugin, &component);
	}
	return r;
}
