#pragma once
/*
 * Memory and CPU time of one process at one moment, cheap enough for ten times a second and every
 * process of the tree.
 *
 * RSS and its anonymous part come from /proc/PID/statm, CPU time from /proc/PID/stat (steps of
 * 10 ms). Pages per node would need /proc/PID/numa_maps, which walks every page table entry with
 * mmap_lock held, that is, it can hold up the program: it is only read where there is more than one
 * node, and at most so often that it takes RUN_NODES_SHARE of the time.
 *
 * Measured on 1 GiB of 4 KiB pages: statm 5 us, stat 8 us, numa_maps 9.3 ms, smaps_rollup 13.8 ms,
 * a whole sample without nodes 25 us.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "schemas/trace-format.h"

#define RUN_MAX_NODES	64
#define RUN_NODES_SHARE 100 /* numa_maps takes at most one part in 100 of the time */

/* As in the trace: 12 bytes each, behind struct trace_process_sample. */
struct run_node_bytes {
	uint32_t node;
	uint64_t bytes;
} __attribute__((packed));
_Static_assert(sizeof(struct run_node_bytes) == 12, "pairs of trace_process_sample");

/* Kept by the caller for each process: zero but for pid at first. */
struct run_process_sampler {
	pid_t pid;
	unsigned n_nodes; /* of the host; 0: not asked yet */
	uint64_t nodes_not_before_ns; /* CLOCK_MONOTONIC: numa_maps is too expensive until then */
};

/*
 * Fill a sample: all but head, ticks and process_id, which are the caller's. nodes gets at most
 * max_nodes pairs (ret_sample->node_bytes tells how many bytes of them); none where only one node
 * exists, or when it is not their turn. Returns 0, -ESRCH when the process is gone, or another
 * negative errno.
 */
int run_process_sample(struct run_process_sampler *sampler, struct trace_process_sample *ret_sample,
		       struct run_node_bytes *ret_nodes, size_t max_nodes);

/* Number of NUMA nodes with memory on this host, at least 1. */
unsigned run_count_nodes(void);

/*
 * Add up the N<node>=<pages> of a numa_maps text, each line times its kernelpagesize_kB. Returns
 * the number of pairs filled (nodes in ascending order, without empty ones).
 */
size_t run_parse_numa_maps(const char *text, struct run_node_bytes *ret_nodes, size_t max_nodes);
