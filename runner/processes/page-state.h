#pragma once
/*
 * Which pages of a process are resident, swapped or were never touched, as the kernel knows it: by
 * the ioctl PAGEMAP_SCAN of /proc/PID/pagemap (Linux 6.7), else by reading that file. The process
 * runs on meanwhile. Whoever may read its /proc/PID/maps may ask. One thread.
 *
 * Measured on 1 GiB of 4 KiB pages that are all there: 1 ms of CPU time, and 0.07 ms of huge pages.
 * Before Linux 6.11, and where others may have mapped pages of its memory, it is 4 ms.
 * That a page is of a file takes a look at each page, 6 times as long: it is asked for in maps of
 * files only. Whether others have mapped it, too, is asked of pages of files and, on request, of
 * all in a process of at most PAGE_STATE_MAX_SHARED pages.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/processes/page-scan.h"
#include "schemas/trace-format.h"

#define PAGE_STATE_MAX_SHARED (UINT64_C(1) << 16)

/* All zero is an empty one. */
struct page_state {
	struct trace_pages record; /* what /proc/PID/status says, page_bytes and way */
	struct page_runs runs; /* as struct trace_pages has them, all parts */
	char *maps;
	size_t n_map_bytes;
	uint64_t resident_bytes; /* of all runs, but for pages of zeros */
	uint64_t small_bytes; /* of these, not known to be huge */
	uint64_t mapped_bytes; /* of all maps */
};

/* What is asked beside. */
#define PAGE_STATE_RELATED 0x1u /* others may have its memory, by fork */
#define PAGE_STATE_NODES   0x2u /* the NUMA node of each resident page: 40 ns a page */
/* Pss, by /proc/PID/smaps_rollup, of at most PAGE_STATE_MAX_SHARED pages: three looks' time */
#define PAGE_STATE_PSS 0x4u
/*
 * Each page is named by the kernel. Else large maps are asked for what is not just there: a map
 * that the process unmaps and maps again meanwhile may then count as resident.
 */
#define PAGE_STATE_EACH 0x8u

/*
 * Look at all pages of a process; asked: PAGE_STATE_*. Returns 0, -ESRCH when it is gone or went
 * meanwhile, -EACCES or -EPERM when it may not be asked, -E2BIG when its state needs more than 64
 * MiB, or another negative errno. To be finished in any case. All zero before, but for record.way:
 * TRACE_PAGES_TABLE does without the ioctl.
 */
int page_state_read(pid_t pid, unsigned asked, struct page_state *ret_state);

/*
 * Whether its pages are as many as VmRSS before or behind it, or between: within half a percent, or
 * a part of what the kernel counts in batches. Else memory has come and gone within the look.
 */
bool page_state_fits(const struct page_state *state);

/* Free what it holds; it is empty then. */
void page_state_finish(struct page_state *state);

/* By which way this kernel tells of the pages of a process of ours; or a negative errno. */
int page_state_way(void);
