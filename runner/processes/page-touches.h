#pragma once
/*
 * Which pages of a process were touched since their marks were cleared: the processor sets a mark
 * when it first uses a page, /proc/PID/clear_refs clears all of a process, and `Referenced' of
 * /proc/PID/smaps counts them in each mapping. Whoever runs as the user of the process may do both,
 * and the process runs on. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/processes/page-scan.h"

/* An anonymous private mapping that may be written. */
struct page_area {
	uint64_t start;
	uint64_t end;
	bool is_watched; /* its writes, by a userfaultfd of ours or of the program */
	bool has_huge; /* huge pages are among its pages */
};

/* All zero is an empty one. */
struct page_touches {
	struct page_runs runs; /* as struct trace_touches has them, all parts */
	uint64_t resident_bytes;
	uint64_t touched_bytes;
	uint64_t small_bytes; /* of touched_bytes, not in huge pages: each page has cost a mark */
	struct page_area *areas; /* in order of address */
	size_t n_areas;
	size_t n_areas_allocated;
};

/*
 * Read all marks; with_nodes: and how many resident pages each mapping has on each NUMA node, by
 * /proc/PID/numa_maps, 35 ns a page. Returns 0, -ESRCH when it is gone, -EACCES or -EPERM when it
 * may not be asked, or another negative errno. To be finished in any case.
 */
int page_touches_read(pid_t pid, bool with_nodes, struct page_touches *ret_touches);

/* Free what it holds; it is empty then. */
void page_touches_finish(struct page_touches *touches);

/*
 * Clear all marks, and have processors forget the translations of the process that they keep: a
 * page with one would not be marked again, and these are the hottest. What is touched behind this
 * is marked. Results as above; -EBUSY, and nothing is cleared, where the process has files open by
 * which it uses such marks itself.
 */
int page_touches_clear(pid_t pid);

/*
 * What a mark costs a program on this machine, in ns for each page of 4 KiB: measured on pages of
 * our own in some ms. 0: it cannot be told.
 */
uint64_t page_touches_mark_ns(void);
