#pragma once
/*
 * Events that are counted over a whole run, not sampled: one descriptor for each, opened on the
 * command before it starts and inherited by all that it starts; or one for each thread of processes
 * that run already.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pmu/remedy.h"

#define PMU_MAX_COUNTERS       32
#define PMU_COUNTER_NAME_BYTES 160

struct pmu_counter {
	char name[PMU_COUNTER_NAME_BYTES]; /* as asked for */
	int fd; /* -1: not open */
	int *more; /* of the other threads of processes that run already */
	size_t n_more;
	bool is_user_only; /* the kernel's part is not permitted to this user */
	struct pmu_refusal refusal; /* why not */
};

struct pmu_counters {
	struct pmu_counter counters[PMU_MAX_COUNTERS];
	size_t n;
};

/* What one of them counted. */
struct pmu_count {
	uint64_t value; /* as counted in running_ns */
	uint64_t enabled_ns;
	/* < enabled_ns: the kernel took turns, value is to be scaled up; 0: says nothing */
	uint64_t running_ns;
};

/*
 * Split "page-faults,cycles,MEM_LOAD_RETIRED:L3_MISS" (commas inside of cpu/.../ are part of a
 * name) and look each name up: the kernel's software and generic hardware events by perf's names,
 * then the catalogue. Returns 0; -ENOENT or -EINVAL with a line in message (n_bytes) naming what is
 * unknown; -E2BIG. Opens nothing.
 */
int pmu_counters_check(const char *list, char *message, size_t n_bytes);

/*
 * Open all on a process that has not exec'd yet; they begin with its exec. One that is refused
 * stays closed and says why. list is checked already. Returns 0 or a negative errno.
 */
int pmu_counters_open(const char *list, pid_t pid, struct pmu_counters *ret_counters);

/*
 * Open all on processes that run already, all of their threads; they begin with
 * pmu_counters_begin(). The rest as above.
 */
int pmu_counters_attach(const char *list, const pid_t *pids, size_t n_pids,
			struct pmu_counters *ret_counters);
void pmu_counters_begin(const struct pmu_counters *counters);

/* Read one that is open. Returns 0 or a negative errno. */
int pmu_counter_read(const struct pmu_counter *counter, struct pmu_count *ret_count);

/* The kernel's own events by perf's names, one after the other; NULL behind the last. */
const char *pmu_counter_kernel_name(size_t i);

void pmu_counters_close(struct pmu_counters *counters); /* safe on a zeroed one: it has none */
