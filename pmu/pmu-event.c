#include "pmu/pmu-event.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "pmu/pmu-cpus.h"

/* Linux 6.0; Debian 12's header has it, older ones do not. */
#define READ_FORMAT_LOST (UINT64_C(1) << 4)

void pmu_notes_add(struct pmu_notes *notes, const char *format, ...)
{
	size_t used = strlen(notes->text);
	va_list arguments;

	if (used && used + 3 < sizeof(notes->text)) {
		memcpy(notes->text + used, "; ", 3);
		used += 2;
	}
	va_start(arguments, format);
	vsnprintf(notes->text + used, sizeof(notes->text) - used, format, arguments);
	va_end(arguments);
}

int pmu_event_open_at(const struct perf_event_attr *attr, const struct pmu_place *place,
		      int *ret_fd)
{
	struct perf_event_attr copy = *attr; /* the kernel writes its size into it on E2BIG */
	long fd = syscall(SYS_perf_event_open, &copy, place->pid, place->cpu, place->leader_fd,
			  PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret_fd = (int)fd;
	return 0;
}

int pmu_event_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int *ret_fd)
{
	return pmu_event_open_at(attr, &(struct pmu_place){ pid, cpu, -1 }, ret_fd);
}

/* ---- What can be given up ---- */

/* The hypervisor needs no rights, and AMD's IBS knows no such wish. */
static bool drop_kernel(struct perf_event_attr *attr)
{
	bool had = !attr->exclude_user && !attr->exclude_kernel;

	if (had) /* otherwise nothing but the kernel was asked for */
		attr->exclude_kernel = 1;
	return had;
}

static bool drop_lost_count(struct perf_event_attr *attr)
{
	bool had = attr->read_format & READ_FORMAT_LOST;

	attr->read_format &= ~READ_FORMAT_LOST;
	return had;
}

static bool drop_build_id(struct perf_event_attr *attr)
{
	bool had = attr->build_id;

	attr->build_id = 0;
	return had;
}

static bool drop_stack(struct perf_event_attr *attr)
{
	bool had = attr->sample_type & PERF_SAMPLE_STACK_USER;

	attr->sample_type &= ~(uint64_t)PERF_SAMPLE_STACK_USER;
	attr->sample_stack_user = 0;
	return had;
}

static bool drop_registers(struct perf_event_attr *attr)
{
	bool had = attr->sample_type & PERF_SAMPLE_REGS_USER;

	drop_stack(attr); /* without the stack pointer it is worth nothing */
	attr->sample_type &= ~(uint64_t)PERF_SAMPLE_REGS_USER;
	attr->sample_regs_user = 0;
	return had;
}

/* ---- The same for events of the hardware; no other has these ---- */

static bool drop_physical(struct perf_event_attr *attr)
{
	bool had = attr->sample_type & PERF_SAMPLE_PHYS_ADDR;

	attr->sample_type &= ~(uint64_t)PERF_SAMPLE_PHYS_ADDR;
	return had;
}

static bool drop_page_size(struct perf_event_attr *attr)
{
	bool had = attr->sample_type & PERF_SAMPLE_DATA_PAGE_SIZE;

	attr->sample_type &= ~(uint64_t)PERF_SAMPLE_DATA_PAGE_SIZE;
	return had;
}

/* Linux before 5.12 has one number only. Both together are refused. */
static bool drop_weight_parts(struct perf_event_attr *attr)
{
	bool had = attr->sample_type & PERF_SAMPLE_WEIGHT_STRUCT;

	attr->sample_type &= ~(uint64_t)PERF_SAMPLE_WEIGHT_STRUCT;
	if (had)
		attr->sample_type |= PERF_SAMPLE_WEIGHT;
	return had;
}

static bool drop_raw(struct perf_event_attr *attr)
{
	bool had = attr->sample_type & PERF_SAMPLE_RAW;

	attr->sample_type &= ~(uint64_t)PERF_SAMPLE_RAW;
	return had;
}

static bool drop_call_chain(struct perf_event_attr *attr)
{
	bool had = attr->sample_type & PERF_SAMPLE_CALLCHAIN;

	attr->sample_type &= ~(uint64_t)PERF_SAMPLE_CALLCHAIN;
	return had;
}

/* One step at a time, and never to 0: what comes then has no address. */
static bool lower_precise_from_3(struct perf_event_attr *attr)
{
	bool had = attr->precise_ip == 3;

	if (had)
		attr->precise_ip = 2;
	return had;
}

static bool lower_precise_from_2(struct perf_event_attr *attr)
{
	bool had = attr->precise_ip == 2;

	if (had)
		attr->precise_ip = 1;
	return had;
}

/* In the order of trying: what costs the reader least goes first. */
static const struct concession {
	bool is_permission; /* answers EACCES and EPERM; the others answer what is not known */
	bool (*drop)(struct perf_event_attr *attr); /* false: there was nothing to drop */
	const char *note;
} concessions[] = {
	{ true, drop_kernel,
	  "user code only: kernel samples need kernel.perf_event_paranoid=1 or CAP_PERFMON" },
	{ true, drop_physical, "no physical addresses: they need CAP_PERFMON" },
	{ true, drop_raw, "no raw registers with samples: they need CAP_PERFMON" },
	{ false, drop_lost_count, "losses at the end of a ring are not counted by this kernel" },
	{ false, drop_build_id, "no build ids with maps from this kernel" },
	{ false, drop_stack, "no stack bytes with samples" },
	{ false, drop_registers, "no registers with samples: addresses cannot be told" },
	{ false, lower_precise_from_3, "not the exact instruction at every sample: level 2" },
	{ false, drop_weight_parts, "latency in one number from this kernel" },
	{ false, drop_page_size, "no page sizes from this kernel" },
	{ false, drop_physical, "no physical addresses from this kernel" },
	{ false, drop_call_chain, "no call chains with samples" },
	{ false, lower_precise_from_2, "samples may lie an instruction late: level 1" },
};
#define N_CONCESSIONS (sizeof(concessions) / sizeof(*concessions))

static bool is_permission_error(int error)
{
	return error == -EACCES || error == -EPERM;
}

static void drop_all(struct perf_event_attr *attr, unsigned mask)
{
	for (size_t i = 0; i < N_CONCESSIONS; i++)
		if (mask >> i & 1)
			concessions[i].drop(attr);
}

/* Drop the next thing that an error may be about. Returns its number, or N_CONCESSIONS. */
static size_t drop_next(struct perf_event_attr *attr, unsigned mask, int error)
{
	for (size_t i = 0; i < N_CONCESSIONS; i++)
		if (!(mask >> i & 1) &&
		    concessions[i].is_permission == is_permission_error(error) &&
		    concessions[i].drop(attr))
			return i;
	return N_CONCESSIONS;
}

/*
 * Drop one thing more at a time until it opens; what is refused next may be another kind of thing.
 * Returns what was dropped, or 0.
 */
static unsigned concede(const struct perf_event_attr *wanted, const struct pmu_place *place,
			int error, int *ret_fd)
{
	struct perf_event_attr attr = *wanted;
	unsigned mask = 0;
	size_t i;

	while ((i = drop_next(&attr, mask, error)) < N_CONCESSIONS) {
		mask |= 1u << i;
		error = pmu_event_open_at(&attr, place, ret_fd);
		if (error == 0)
			return mask;
	}
	return 0;
}

/*
 * Take back each single thing without which it opens as well: it was dropped on the way only. From
 * the end, since of two steps of one thing the later is the larger loss.
 */
static unsigned take_back(const struct perf_event_attr *wanted, const struct pmu_place *place,
			  unsigned mask, int *fd)
{
	for (size_t i = N_CONCESSIONS; i-- > 0;) {
		struct perf_event_attr attr = *wanted;
		int better;

		if (!(mask >> i & 1))
			continue;
		drop_all(&attr, mask & ~(1u << i));
		if (pmu_event_open_at(&attr, place, &better) < 0)
			continue;
		close(*fd);
		*fd = better;
		mask &= ~(1u << i);
	}
	return mask;
}

int pmu_event_negotiate_at(struct perf_event_attr *attr, const struct pmu_place *place,
			   struct pmu_notes *notes, int *ret_fd)
{
	int fd = -1;
	int error = pmu_event_open_at(attr, place, &fd);
	unsigned mask;

	if (error == 0) {
		*ret_fd = fd;
		return 0;
	}
	mask = concede(attr, place, error, &fd);
	if (!mask)
		return error;
	mask = take_back(attr, place, mask, &fd);
	drop_all(attr, mask);
	for (size_t i = 0; i < N_CONCESSIONS; i++)
		if (mask >> i & 1)
			pmu_notes_add(notes, "%s", concessions[i].note);
	*ret_fd = fd;
	return 0;
}

int pmu_event_negotiate(struct perf_event_attr *attr, pid_t pid, int cpu, struct pmu_notes *notes,
			int *ret_fd)
{
	return pmu_event_negotiate_at(attr, &(struct pmu_place){ pid, cpu, -1 }, notes, ret_fd);
}

/* ---- Sets: one event for each CPU ---- */

static void explain(enum pmu_step step, int error, struct pmu_refusal *ret_refusal)
{
	struct pmu_permissions permissions;

	pmu_permissions_read(&permissions);
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
	attr->read_format |= READ_FORMAT_LOST;
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

	if (set->n == 0)
		r = pmu_event_negotiate(&set->attr, pid, cpu, &set->notes, &set->fds[0]);
	else
		r = pmu_event_open(&set->attr, pid, cpu, &set->fds[set->n]);
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
	struct pmu_event_set set = { .attr = *attr };
	enum pmu_step step = PMU_STEP_OPEN;
	int r;

	pmu_event_fill_common(&set.attr);
	r = open_everywhere(&set, pid);
	if (r == 0) {
		step = PMU_STEP_MAP;
		r = pmu_event_set_map(&set, ring_bytes);
	}
	if (r < 0) {
		pmu_event_set_close(&set);
		explain(step, r, ret_refusal);
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
	free(set->fds);
	free(set->cpus);
	free(set->rings);
	*set = (struct pmu_event_set){ 0 };
}

int pmu_event_set_enable(const struct pmu_event_set *set, size_t rung, bool on)
{
	unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;

	for (size_t i = 0; i < set->n; i++)
		if (ioctl(set->fds[rung * set->n + i], request, 0) < 0)
			return -errno;
	return 0;
}

int pmu_event_set_lost(const struct pmu_event_set *set, uint64_t *ret_lost)
{
	uint64_t sum = 0;

	/* read() then gives struct { u64 value; u64 lost; }: no other bit of read_format is set. */
	if (set->attr.read_format != READ_FORMAT_LOST)
		return -EOPNOTSUPP;
	for (size_t i = 0; i < set->n * set->n_rungs; i++) {
		uint64_t values[2];
		ssize_t n = read(set->fds[i], values, sizeof(values));

		if (n < 0)
			return -errno;
		if (n != sizeof(values))
			return -EIO;
		sum += values[1];
	}
	*ret_lost = sum;
	return 0;
}
