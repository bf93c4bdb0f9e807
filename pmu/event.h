#pragma once
/* Opening one perf event, and what of it can be given up. */
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Linux 6.0; Debian 12's header has it, older ones do not. */
#define PMU_READ_FORMAT_LOST (UINT64_C(1) << 4)

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
 * of precise_ip (never to 0). attr is left as it was accepted, and each loss noted. Returns 0 or
 * the negative errno of the first try.
 */
int pmu_event_negotiate_at(struct perf_event_attr *attr, const struct pmu_place *place,
			   struct pmu_notes *notes, int *ret_fd);
int pmu_event_negotiate(struct perf_event_attr *attr, pid_t pid, int cpu, struct pmu_notes *notes,
			int *ret_fd);
