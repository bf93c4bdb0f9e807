#include "pmu/count.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/parse.h"
#include "common/text.h"
#include "pmu/catalogue/catalogue.h"
#include "pmu/event-set.h"
#include "pmu/event.h"

/* The kernel's own events by perf's names (perf-list(1)). */
static const struct kernel_event {
	const char *name;
	uint32_t type;
	uint64_t config;
} kernel_events[] = {
	{ "page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS },
	{ "faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS },
	{ "minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN },
	{ "major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ },
	{ "context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES },
	{ "cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS },
	{ "cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK },
	{ "task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK },
	{ "alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS },
	{ "emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS },
	{ "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES },
	{ "cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES },
	{ "ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES },
	{ "bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES },
	{ "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
	{ "cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES },
	{ "cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES },
	{ "branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
	{ "branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES },
	{ "stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND },
	{ "stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND },
	{ NULL, 0, 0 },
};

const char *pmu_counter_kernel_name(size_t i)
{
	return i < sizeof(kernel_events) / sizeof(kernel_events[0]) ? kernel_events[i].name : NULL;
}

static const struct kernel_event *find_kernel_event(const char *name)
{
	for (const struct kernel_event *event = kernel_events; event->name; event++) {
		if (strcmp(event->name, name) == 0)
			return event;
	}
	return NULL;
}

/*
 * The next name of a list; a comma between slashes belongs to it. Returns what is behind it, or
 * NULL.
 */
static const char *next_name(const char *list, char name[PMU_COUNTER_NAME_BYTES])
{
	bool is_inside = false;
	size_t n = 0;

	for (; *list && (is_inside || *list != ','); list++) {
		is_inside ^= *list == '/';
		if (n + 1 < PMU_COUNTER_NAME_BYTES)
			name[n++] = *list;
	}
	name[n] = '\0';
	return *list ? list + 1 : NULL;
}

/* What perf_event_open is to be asked for. Returns 0 or a negative errno with refusal. */
static int find(const char *name, struct perf_event_attr *attr, struct pmu_refusal *refusal)
{
	const struct kernel_event *known = find_kernel_event(name);
	struct pmu_event events[PMU_MAX_EVENTS];
	struct pmu_host host;

	*attr = (struct perf_event_attr){ .size = sizeof(*attr) };
	if (known) {
		attr->type = known->type;
		attr->config = known->config;
		return 0;
	}
	pmu_host_read(&host);
	int n = pmu_catalogue_find(&host, name, 0, events, refusal);
	if (n < 0)
		return n;
	attr->type = events[0].type;
	attr->config = events[0].config;
	attr->config1 = events[0].config1;
	attr->config2 = events[0].config2;
	attr->exclude_user = events[0].exclude_user;
	attr->exclude_kernel = events[0].exclude_kernel;
	return 0;
}

static int complain(const char *name, const struct pmu_refusal *refusal, char *message,
		    size_t n_bytes)
{
	struct parse_nearest nearest = { .word = name };

	for (const struct kernel_event *event = kernel_events; event->name; event++)
		parse_nearest_offer(&nearest, event->name);
	if (nearest.name)
		snprintf(message, n_bytes, "there is no event '%s'; did you mean %s?", name,
			 nearest.name);
	else
		snprintf(message, n_bytes, "event '%s': %s%s%s", name,
			 refusal->why[0] ? refusal->why : "not known", refusal->fix[0] ? "; " : "",
			 refusal->fix);
	return -ENOENT;
}

int pmu_counters_check(const char *list, char *message, size_t n_bytes)
{
	char name[PMU_COUNTER_NAME_BYTES];
	size_t n = 0;

	while (list) {
		struct perf_event_attr attr;
		struct pmu_refusal refusal = { 0 };

		list = next_name(list, name);
		if (!name[0])
			return text_refuse(-EINVAL, message, n_bytes, "an event's name is missing");
		if (find(name, &attr, &refusal) < 0)
			return complain(name, &refusal, message, n_bytes);
		if (++n > PMU_MAX_COUNTERS)
			return text_refuse(-E2BIG, message, n_bytes, "at most %d events",
					   PMU_MAX_COUNTERS);
	}
	return 0;
}

/* As an ordinary user may: without the kernel's part, if that is what is refused. */
static int open_event(struct perf_event_attr *attr, pid_t pid, int *ret_fd)
{
	int err = pmu_event_open(attr, pid, -1, ret_fd);

	if ((err != -EACCES && err != -EPERM) || attr->exclude_kernel)
		return err;
	attr->exclude_kernel = 1;
	return pmu_event_open(attr, pid, -1, ret_fd);
}

static void explain(struct pmu_counter *counter, int error)
{
	struct pmu_permissions permissions;

	pmu_permissions_read(&permissions);
	pmu_remedy(PMU_STEP_OPEN, -error, &permissions, &counter->refusal);
}

/* What is opened on a thread is what its later threads and processes inherit. */
static int open_counter(struct pmu_counter *counter, pid_t tid, bool is_running, int *ret_fd)
{
	struct perf_event_attr attr;
	int r = find(counter->name, &attr, &counter->refusal);

	*ret_fd = -1;
	if (r < 0)
		return 0; /* the refusal says why */
	attr.disabled = 1;
	attr.enable_on_exec = !is_running;
	attr.inherit = 1;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	r = open_event(&attr, tid, ret_fd);
	counter->is_user_only = attr.exclude_kernel;
	if (r < 0)
		*ret_fd = -1;
	return r;
}

/* One that has ended since counts nothing. */
static int add_thread(void *user, pid_t tid)
{
	struct pmu_counter *counter = user;
	int fd, r = grow_array_of(&counter->more, counter->n_more, 1, sizeof(*counter->more));

	r = r ?: open_counter(counter, tid, true, &fd);
	if (r < 0)
		return r == -ESRCH ? 0 : r;
	if (fd < 0)
		return -ENODEV;
	counter->more[counter->n_more++] = fd;
	return 0;
}

static void cut_more(void *user, size_t n)
{
	struct pmu_counter *counter = user;

	while (counter->n_more > n)
		close(counter->more[--counter->n_more]);
}

static void close_counter(struct pmu_counter *counter)
{
	cut_more(counter, 0);
	free(counter->more);
	counter->more = NULL;
	cleanup_close(&counter->fd);
}

/* Threads that are born all the time may be counted twice, or not: no number is better. */
static int add_process(struct pmu_counter *counter, pid_t pid)
{
	int r = pmu_each_thread(
		pid, false,
		&(struct pmu_each_thread){ add_thread, cut_more, &counter->n_more, counter });

	if (r <= 0)
		return r;
	pmu_refuse(&counter->refusal, -EAGAIN,
		   "the process starts threads all the time, which may count twice");
	return -EAGAIN;
}

static struct pmu_counter *next_counter(const char **list, struct pmu_counters *counters)
{
	if (!*list || counters->n == PMU_MAX_COUNTERS)
		return NULL;
	struct pmu_counter *counter = &counters->counters[counters->n++];
	*list = next_name(*list, counter->name);
	counter->fd = -1;
	return counter;
}

int pmu_counters_open(const char *list, pid_t pid, struct pmu_counters *ret_counters)
{
	struct pmu_counter *counter;
	int r;

	*ret_counters = (struct pmu_counters){ 0 };
	while ((counter = next_counter(&list, ret_counters)))
		if ((r = open_counter(counter, pid, false, &counter->fd)) < 0)
			explain(counter, r);
	return 0;
}

int pmu_counters_attach(const char *list, const pid_t *pids, size_t n_pids,
			struct pmu_counters *ret_counters)
{
	struct pmu_counter *counter;

	*ret_counters = (struct pmu_counters){ 0 };
	while ((counter = next_counter(&list, ret_counters))) {
		int r = 0;

		for (size_t i = 0; r == 0 && i < n_pids; i++)
			r = add_process(counter, pids[i]);
		if (counter->n_more > 0)
			counter->fd = counter->more[--counter->n_more];
		if (r == 0)
			continue;
		close_counter(counter); /* a part of the threads would be sold as all */
		if (!counter->refusal.why[0])
			explain(counter, r);
	}
	return 0;
}

void pmu_counters_begin(const struct pmu_counters *counters)
{
	for (size_t i = 0; i < counters->n; i++) {
		const struct pmu_counter *counter = &counters->counters[i];

		if (counter->fd >= 0)
			ioctl(counter->fd, PERF_EVENT_IOC_ENABLE, 0);
		for (size_t k = 0; k < counter->n_more; k++)
			ioctl(counter->more[k], PERF_EVENT_IOC_ENABLE, 0);
	}
}

static int add_count(int fd, struct pmu_count *count)
{
	uint64_t words[3]; /* value, enabled, running: PERF_FORMAT_* of open_counter() */

	if (fd < 0)
		return -EBADF;
	if (read(fd, words, sizeof(words)) != (ssize_t)sizeof(words))
		return -EIO;
	count->value += words[0];
	count->enabled_ns += words[1];
	count->running_ns += words[2];
	return 0;
}

int pmu_counter_read(const struct pmu_counter *counter, struct pmu_count *ret_count)
{
	*ret_count = (struct pmu_count){ 0 };
	int r = add_count(counter->fd, ret_count);
	for (size_t i = 0; r == 0 && i < counter->n_more; i++)
		r = add_count(counter->more[i], ret_count);
	return r;
}

void pmu_counters_close(struct pmu_counters *counters)
{
	for (size_t i = 0; i < counters->n; i++)
		close_counter(&counters->counters[i]);
	counters->n = 0;
}
