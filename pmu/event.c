#include "pmu/event.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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
	bool had = attr->read_format & PMU_READ_FORMAT_LOST;

	attr->read_format &= ~PMU_READ_FORMAT_LOST;
	return had;
}

static bool drop_build_id(struct perf_event_attr *attr)
{
	bool had = attr->build_id;

	attr->build_id = 0;
	return had;
}

/* Inherited together with PERF_SAMPLE_READ since Linux 6.12. */
static bool drop_read(struct perf_event_attr *attr)
{
	bool had = attr->sample_type & PERF_SAMPLE_READ;

	attr->sample_type &= ~(uint64_t)PERF_SAMPLE_READ;
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
	{ false, drop_read, "calls in forked children may be missing before Linux 6.12" },
	{ false, drop_build_id, "no build ids with maps from this kernel" },
	{ false, drop_stack, "no stack bytes with samples" },
	{ false, drop_registers, "no registers with samples: addresses are not known" },
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

/* No such event on this machine, whoever asks. */
static bool is_absence(int error)
{
	return error == -ENOENT || error == -ENODEV || error == -EOPNOTSUPP;
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
 * Returns what was dropped, or 0. The kernel looks at rights first. So what is not there is known
 * where they are dropped: *error becomes that.
 */
static unsigned concede(const struct perf_event_attr *wanted, const struct pmu_place *place,
			int *error, int *ret_fd)
{
	struct perf_event_attr attr = *wanted;
	unsigned mask = 0;
	int r = *error;
	size_t i;

	while ((i = drop_next(&attr, mask, r)) < N_CONCESSIONS) {
		mask |= 1u << i;
		r = pmu_event_open_at(&attr, place, ret_fd);
		if (r == 0)
			return mask;
		if (is_permission_error(*error) && is_absence(r))
			*error = r;
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

	if (error == 0) {
		*ret_fd = fd;
		return 0;
	}
	unsigned mask = concede(attr, place, &error, &fd);
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
