#pragma once
/*
 * Opening one perf event on every online CPU for one process, its threads and its later children.
 *
 * inherit does not go with cpu = -1 (mmap then gives EINVAL), hence one event for each CPU, each
 * with a ring of its own. Sources do not share rings (PERF_EVENT_IOC_SET_OUTPUT): a trace keeps the
 * records of each source apart and verbatim, so a shared ring would have to be split record by
 * record; its LOST records would not tell which source lost; and a storm of page faults would push
 * out the records of maps. With a ring for each, samples also need no PERF_SAMPLE_IDENTIFIER.
 */
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pmu/pmu-remedy.h"
#include "pmu/pmu-ring.h"

/* Text about what was given up, clauses joined by "; ". */
struct pmu_notes {
	char text[512];
};

/* Add a clause (printf); what does not fit is cut. */
__attribute__((format(printf, 2, 3))) void pmu_notes_add(struct pmu_notes *notes,
							 const char *format, ...);

/* Whom an event is for. */
struct pmu_place {
	pid_t pid;
	int cpu; /* -1: any */
	int leader_fd; /* the event that leads its group; -1: none */
};

/* One try. Returns 0 or a negative errno. The descriptor is close-on-exec. */
int pmu_event_open_at(const struct perf_event_attr *attr, const struct pmu_place *place,
		      int *ret_fd);
int pmu_event_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int *ret_fd);

/*
 * Open, giving up optional features of attr until the kernel accepts (it is asked by trying, never
 * by its version): kernel samples, PERF_FORMAT_LOST, build_id, stack bytes, user registers; of
 * hardware events physical addresses, page sizes, the parts of the weight, call chains and levels
 * of precise_ip (never to 0). attr is left as it was accepted, and each loss noted. Returns 0 or the
 * negative errno of the first try.
 */
int pmu_event_negotiate_at(struct perf_event_attr *attr, const struct pmu_place *place,
			   struct pmu_notes *notes, int *ret_fd);
int pmu_event_negotiate(struct perf_event_attr *attr, pid_t pid, int cpu, struct pmu_notes *notes,
			int *ret_fd);

/*
 * An event on every online CPU: fds[i] and rings[i] belong to cpus[i]. A ladder (pmu-ladder.h) adds
 * more events to each CPU, which write into its ring: fds[rung * n + i].
 */
struct pmu_event_set {
	struct perf_event_attr attr; /* as accepted; of the first rung */
	size_t n;
	size_t n_rungs; /* 1 without a ladder */
	int *fds;
	int *cpus;
	struct pmu_ring *rings;
	uint32_t ring_bytes; /* of each */
	struct pmu_notes notes;
};

/* What every source asks for alike: disabled, inherit, clock, sample_id_all, watermark ... */
void pmu_event_fill_common(struct perf_event_attr *attr);

/*
 * Open the set. attr is what is wanted; the common part (disabled, inherit, clock, sample_id_all,
 * watermark ...) is filled in here. ring_bytes is rounded up to a power of two pages, and halved
 * while the limit of locked memory forbids it. On failure nothing stays open and *ret_refusal
 * explains. Returns 0 or a negative errno.
 */
int pmu_event_set_open(const struct perf_event_attr *attr, pid_t pid, uint32_t ring_bytes,
		       struct pmu_event_set *ret_set, struct pmu_refusal *ret_refusal);

/*
 * Map a ring for each event of a set that was opened. ring_bytes as there; notes tell of halving.
 * Returns 0 or a negative errno.
 */
int pmu_event_set_map(struct pmu_event_set *set, uint32_t ring_bytes);

/* Close everything. Works on a zeroed set, and twice. */
void pmu_event_set_close(struct pmu_event_set *set);

/*
 * Switch a rung on or off, in the inherited threads and children too. Returns 0 or a negative errno.
 */
int pmu_event_set_enable(const struct pmu_event_set *set, size_t rung, bool on);

/*
 * Sum of the kernel's counts of lost records (PERF_FORMAT_LOST) over the set. -EOPNOTSUPP when the
 * kernel does not count.
 */
int pmu_event_set_lost(const struct pmu_event_set *set, uint64_t *ret_lost);
