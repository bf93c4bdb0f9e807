#include "pmu/event-set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "pmu/cpus.h"

static void explain(const struct pmu_event_set *set, enum pmu_step step, int error,
		    struct pmu_refusal *ret_refusal)
{
	struct pmu_permissions permissions;

	pmu_permissions_read(&permissions);
	permissions.wants_kernel = set->attr.exclude_user;
	pmu_remedy(step, -error, &permissions, ret_refusal);
}

void pmu_event_fill_common(struct perf_event_attr *attr)
{
	attr->size = sizeof(*attr);
	attr->disabled = 1;
	attr->inherit = 1;
	attr->sample_id_all = 1;
	attr->use_clockid = 1;
	attr->clockid = CLOCK_MONOTONIC_RAW;
	attr->read_format |= PMU_READ_FORMAT_LOST;
	/* 0 bytes means half of the ring, also after the ring had to be halved: one wake-up for
	 * each record would cost more than the sample itself. */
	attr->watermark = 1;
	attr->wakeup_watermark = 0;
}

static int allocate(struct pmu_event_set *set, size_t n)
{
	set->n_rungs = 1;
	set->fds = calloc(n, sizeof(*set->fds));
	set->cpus = calloc(n, sizeof(*set->cpus));
	set->rings = calloc(n, sizeof(*set->rings));
	return set->fds && set->cpus && set->rings ? 0 : -ENOMEM;
}

/* The first CPU decides what is conceded; the others get the same. */
static int open_on(struct pmu_event_set *set, pid_t pid, int cpu)
{
	int r;

	struct perf_event_attr attr = set->attr;

	attr.sample_period = pmu_event_set_mark(set, attr.sample_period, set->n);
	if (set->n == 0)
		r = pmu_event_negotiate(&set->attr, pid, cpu, &set->notes, &set->fds[0]);
	else
		r = pmu_event_open(&attr, pid, cpu, &set->fds[set->n]);
	if (r == 0)
		set->cpus[set->n++] = cpu;
	return r;
}

static int open_everywhere(struct pmu_event_set *set, pid_t pid)
{
	auto_free int *cpus = NULL;
	int n_cpus = pmu_cpus_online(&cpus);
	int r = n_cpus < 0 ? n_cpus : allocate(set, (size_t)n_cpus);

	for (int i = 0; r == 0 && i < n_cpus; i++) {
		r = open_on(set, pid, cpus[i]);
		if (r == -ENODEV && n_cpus > 1) { /* went offline since */
			pmu_notes_add(&set->notes, "CPU %d is offline", cpus[i]);
			r = 0;
		}
	}
	return r == 0 && set->n == 0 ? -ENODEV : r;
}

/* Close events of other threads from the one with this number on. */
static void close_more(void *user, size_t first)
{
	struct pmu_event_set *set = user;

	while (set->n_more > first)
		close(set->more[--set->n_more]);
}

/* The events of a thread, which write into the rings that are there. */
static int add_thread(void *user, pid_t tid)
{
	struct pmu_event_set *set = user;
	struct perf_event_attr attr = set->attr;
	size_t first = set->n_more;
	int r = grow_array_of(&set->more, set->n_more, set->n, sizeof(*set->more));

	attr.enable_on_exec = 0;
	for (size_t i = 0; r == 0 && i < set->n; i++) {
		r = pmu_event_open(&attr, tid, set->cpus[i], &set->more[set->n_more]);
		if (r == 0 &&
		    ioctl(set->more[set->n_more++], PERF_EVENT_IOC_SET_OUTPUT, set->fds[i]) < 0)
			r = -errno;
	}
	if (r < 0)
		close_more(set, first);
	return r == -ESRCH ? 0 : r; /* it has ended since */
}

struct task_list {
	pid_t *tids; /* those that have events, or had */
	size_t n;
};

static bool has_task(const struct task_list *list, pid_t tid)
{
	return array_find(list->tids, list->n, it, *it == tid);
}

/* One look at the threads there are. How many were new, or a negative errno. */
static int look_for_new(const char *path, struct task_list *list,
			const struct pmu_each_thread *each)
{
	auto_folder DIR *folder = opendir(path);
	int n_new = 0, r = folder ? 0 : -errno;

	for (pid_t tid; r >= 0 && (tid = io_next_number(folder));) {
		if (has_task(list, tid))
			continue;
		r = grow_array_of(&list->tids, list->n, 1, sizeof(*list->tids));
		if (r < 0)
			break;
		list->tids[list->n++] = tid;
		n_new++;
		r = each->add(each->user, tid);
	}
	return r < 0 ? r : n_new;
}

/* 0, how many were born while others were added, or a negative errno. */
static int add_each_once(pid_t pid, bool has_first, const struct pmu_each_thread *each)
{
	struct task_list list = { NULL, 0 };
	int n_new, n_born = 0, r = grow_array_of(&list.tids, 0, 1, sizeof(*list.tids));
	char path[64];

	if (r == 0 && has_first)
		list.tids[list.n++] = pid;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	r = r ?: look_for_new(path, &list, each);
	while (r >= 0 && (n_new = look_for_new(path, &list, each)) != 0) {
		r = n_new < 0 ? n_new : 0;
		n_born += n_new;
	}
	free(list.tids);
	return r < 0 ? r : n_born;
}

int pmu_each_thread(pid_t pid, bool has_first, const struct pmu_each_thread *each)
{
	size_t n_before = *each->n;

	for (int i = 1;; i++) {
		int r = add_each_once(pid, has_first, each);

		if (r == 0 || (r > 0 && i == PMU_THREAD_TRIES))
			return r;
		each->cut(each->user, n_before);
		if (r < 0)
			return r;
	}
}

static int add_process(struct pmu_event_set *set, pid_t pid, bool has_first,
		       const struct pmu_each_thread *each)
{
	int n_born = pmu_each_thread(pid, has_first, each);

	if (n_born > 0)
		pmu_notes_add(&set->notes,
			      "threads are born all the time: %d may be sampled twice or not",
			      n_born);
	return n_born < 0 ? n_born : 0;
}

int pmu_event_set_each_thread(struct pmu_event_set *set, const struct access_options *options,
			      bool has_first, const struct pmu_each_thread *each)
{
	int r = options->is_running ? add_process(set, options->pid, has_first, each) : 0;

	for (size_t i = 0; r == 0 && i < options->n_more_pids; i++)
		r = add_process(set, options->more_pids[i], false, each);
	if (r < 0)
		each->cut(each->user, 0);
	return r;
}

static struct pmu_each_thread grow_more(struct pmu_event_set *set)
{
	return (struct pmu_each_thread){ add_thread, close_more, &set->n_more, set };
}

int pmu_event_set_add_threads(struct pmu_event_set *set, const struct access_options *options)
{
	const struct pmu_each_thread each = grow_more(set);

	return pmu_event_set_each_thread(set, options, true, &each);
}

int pmu_event_set_open_beside(const struct pmu_event_set *set, const struct access_options *options,
			      struct pmu_event_set *ret_beside)
{
	struct pmu_event_set beside = *set; /* its fds[] are where the records go */
	const struct pmu_each_thread each = grow_more(&beside);

	beside.more = NULL;
	beside.n_more = 0;
	beside.n_rungs = 0;
	beside.is_replaced = true;
	int r = options->is_running ? pmu_event_set_each_thread(&beside, options, false, &each)
				    : add_thread(&beside, options->pid);
	if (r == 0 && beside.n_more == 0)
		r = -ESRCH;
	if (r < 0)
		pmu_event_set_discard(&beside);
	else
		*ret_beside = beside;
	return r;
}

int pmu_event_set_prepare(const struct pmu_event_set *set, uint64_t period, const pid_t *pids,
			  size_t n_pids, struct pmu_event_set *ret_next)
{
	struct pmu_event_set next = *set; /* its fds[] are where the records go */
	const struct pmu_each_thread each = grow_more(&next);
	int r = 0;

	next.more = NULL;
	next.n_more = 0;
	next.attr.sample_period = period;
	for (size_t i = 0; r == 0 && i < n_pids; i++) {
		r = add_process(&next, pids[i], false, &each);
		/* It has ended since, or another user's program is run in it. */
		if (r == -ENOENT || r == -EACCES || r == -EPERM)
			r = 0;
	}
	if (r < 0)
		pmu_event_set_discard(&next);
	else
		*ret_next = next;
	return r;
}

void pmu_event_set_discard(struct pmu_event_set *next)
{
	close_more(next, 0);
	free(next->more);
	next->more = NULL;
}

static void unmap_rings(struct pmu_event_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		pmu_ring_finish(&set->rings[i]);
}

static int map_rings(struct pmu_event_set *set, unsigned pages_log2)
{
	for (size_t i = 0; i < set->n; i++) {
		int r = pmu_ring_init(&set->rings[i], set->fds[i], pages_log2);

		if (r < 0) {
			unmap_rings(set);
			return r;
		}
	}
	return 0;
}

static unsigned pages_log2_for(uint32_t bytes)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned pages_log2 = 0;

	while (page_bytes << pages_log2 < bytes)
		pages_log2++;
	return pages_log2;
}

/* EPERM: the limit of locked memory, which all recordings of a user share. Smaller may still go. */
int pmu_event_set_map(struct pmu_event_set *set, uint32_t ring_bytes)
{
	unsigned wanted = pages_log2_for(ring_bytes);
	unsigned pages_log2 = wanted;
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	int r = map_rings(set, pages_log2);

	while ((r == -EPERM || r == -ENOMEM) && pages_log2 > 0)
		r = map_rings(set, --pages_log2);
	if (r < 0)
		return r;
	set->ring_bytes = (uint32_t)(page_bytes << pages_log2);
	if (pages_log2 < wanted)
		pmu_notes_add(&set->notes,
			      "rings of %u instead of %u KiB for each CPU: limit of locked memory",
			      set->ring_bytes / 1024, (unsigned)((page_bytes << wanted) / 1024));
	return 0;
}

int pmu_event_set_open(const struct perf_event_attr *attr, pid_t pid, uint32_t ring_bytes,
		       struct pmu_event_set *ret_set, struct pmu_refusal *ret_refusal)
{
	struct pmu_event_set set = { .attr = *attr, .mark_step = ret_set->mark_step };
	enum pmu_step step = PMU_STEP_OPEN;

	pmu_event_fill_common(&set.attr);
	int r = open_everywhere(&set, pid);
	if (r == 0) {
		step = PMU_STEP_MAP;
		r = pmu_event_set_map(&set, ring_bytes);
	}
	if (r < 0) {
		explain(&set, step, r, ret_refusal);
		pmu_event_set_close(&set);
		return r;
	}
	*ret_set = set;
	return 0;
}

void pmu_event_set_close(struct pmu_event_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		pmu_ring_finish(&set->rings[i]);
	for (size_t i = 0; i < set->n * set->n_rungs; i++)
		close(set->fds[i]);
	close_more(set, 0);
	if (set->has_anchor)
		close(set->anchor);
	free_all(set->more, set->fds, set->cpus, set->rings);
	*set = (struct pmu_event_set){ 0 };
}

int pmu_event_set_enable(const struct pmu_event_set *set, size_t rung, bool on)
{
	unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;

	for (size_t i = 0; i < set->n && !set->is_replaced; i++)
		if (ioctl(set->fds[rung * set->n + i], request, 0) < 0)
			return -errno;
	for (size_t i = 0; i < set->n_more; i++)
		if (ioctl(set->more[i], request, 0) < 0)
			return -errno;
	return 0;
}

int pmu_event_set_period(const struct pmu_event_set *set, size_t rung, const uint64_t *periods,
			 size_t n)
{
	for (size_t i = 0; i < set->n; i++)
		if (ioctl(set->fds[rung * set->n + i], PERF_EVENT_IOC_PERIOD, &periods[i % n]) < 0)
			return -errno;
	return 0;
}

int pmu_event_set_anchor(struct pmu_event_set *set, pid_t pid)
{
	struct perf_event_attr attr = set->attr;

	attr.inherit = 0;
	attr.enable_on_exec = 0;
	int r = pmu_event_open(&attr, pid, set->cpus[0], &set->anchor);
	set->has_anchor = r == 0;
	return r;
}

ssize_t pmu_event_set_drain(struct pmu_event_set *set, pmu_sink sink, void *context,
			    struct pmu_losses *losses)
{
	ssize_t sum = 0;

	for (size_t i = 0; i < set->n; i++) {
		ssize_t n = pmu_ring_drain(&set->rings[i], sink, context, losses);

		if (n < 0)
			return n;
		sum += n;
	}
	return sum;
}

static int read_lost(int fd, uint64_t *sum)
{
	uint64_t values[2];
	ssize_t n = read(fd, values, sizeof(values));

	if (n < 0)
		return -errno;
	if (n != sizeof(values))
		return -EIO;
	*sum += values[1];
	return 0;
}

int pmu_event_set_lost(const struct pmu_event_set *set, uint64_t *ret_lost)
{
	uint64_t sum = 0;
	int r = 0;

	/* read() then gives struct { u64 value; u64 lost; }: no other bit of read_format is set. */
	if (set->attr.read_format != PMU_READ_FORMAT_LOST)
		return -EOPNOTSUPP;
	for (size_t i = 0; r == 0 && i < set->n * set->n_rungs; i++)
		r = read_lost(set->fds[i], &sum);
	for (size_t i = 0; r == 0 && i < set->n_more; i++)
		r = read_lost(set->more[i], &sum);
	if (r == 0)
		*ret_lost = sum + set->n_lost_before;
	return r;
}

int pmu_event_set_replace(struct pmu_event_set *set, struct pmu_event_set *next, bool is_on)
{
	int r = 0;

	for (size_t rung = 0; r == 0 && rung < set->n_rungs; rung++)
		r = pmu_event_set_enable(set, rung, false);
	for (size_t i = 0; i < set->n_more; i++)
		read_lost(set->more[i], &set->n_lost_before);
	close_more(set, 0);
	free(set->more);
	set->more = next->more;
	set->n_more = next->n_more;
	set->attr = next->attr;
	set->is_replaced = true;
	next->more = NULL;
	next->n_more = 0;
	return r == 0 && is_on ? pmu_event_set_enable(set, 0, true) : r;
}
