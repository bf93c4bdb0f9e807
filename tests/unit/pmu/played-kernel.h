#pragma once
/*
 * A kernel for hardware that is not here: perf_event_open of hardware events answers as a kernel of
 * that machine would, and what it accepts is a file in memory that can be mapped as a ring. Linked
 * with --wrap=syscall and --wrap=ioctl.
 */
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MAX_OPENED 1024
#define FILE_BYTES (4u << 20)

struct opened {
	struct perf_event_attr attr;
	int cpu, leader_fd, fd;
	pid_t pid;
	int output_fd; /* whose ring it writes to; 0: its own */
	unsigned long last_request; /* of ioctl() */
};

/* What it answers, and what it has opened. */
struct played_kernel {
	int error; /* of every hardware event */
	uint64_t unknown; /* bits of sample_type: EINVAL */
	uint64_t forbidden; /* bits of sample_type: EACCES */
	int most_precise; /* above: EOPNOTSUPP */
	bool needs_leader; /* load latency with DATA_SRC: ENODATA (intel_pmu_hw_config()) */
	bool has_no_latency; /* the event itself: ENOENT */
	bool has_no_filter; /* exclude_*: EINVAL, as an old amd/ibs.c */
	bool forbids_kernel; /* exclude_kernel 0: EACCES */
	bool is_ibs; /* periods are multiples of 16 */
	struct opened opened[MAX_OPENED];
	int n;
};
extern struct played_kernel kernel;
