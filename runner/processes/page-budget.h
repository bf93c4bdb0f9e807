#pragma once
/*
 * What asking for the pages of a process may cost it: a share of the time that it has had, and that
 * is the time that has passed less what it waited for a processor. So nothing is decided for longer
 * than the budget needs at the soonest: it is asked again then. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What touching each page of some memory of ours costs, in ns of CPU time for PAGE_SWEEP_PAGES of
 * them: the median over such chunks, for what else a machine does falls on few of them.
 */
#define PAGE_SWEEP_PAGES 64u
uint64_t page_sweep_ns(volatile char *memory, size_t n_pages, size_t page_bytes, bool writes);

/* Of the first thread of a process, in ns. */
struct page_clock {
	uint64_t now_ns; /* CLOCK_MONOTONIC */
	uint64_t ran_ns;
	uint64_t waited_ns; /* for a processor; both 0: the kernel does not tell */
};

/* All of a recording: how much may be spent. */
struct page_share {
	uint32_t ppm; /* of the time */
	bool is_strict; /* from the first moment on, of what the process has had only */
};

/* Of one process. All zero has not begun. */
struct page_budget {
	struct page_clock begin;
	uint64_t spent_ns;
};

/* Read it of a process (/proc/PID/schedstat). now_ns is read last: the others lie before it. */
struct page_clock page_clock_read(pid_t pid);

/*
 * What the process has had between two clocks, in ns. Its waits count when they end, so those of a
 * time before may be among them; what it ran it has had in any case.
 */
uint64_t page_clock_had_ns(const struct page_clock *begin, const struct page_clock *now);

/* What may still be spent at a time, in ns. */
uint64_t page_budget_left_ns(const struct page_budget *budget, const struct page_share *share,
			     const struct page_clock *now);

/*
 * 0: need_ns may be spent now; else when that can be so at the soonest, in ns from now: if the
 * process waits for nothing.
 */
uint64_t page_budget_wait_ns(const struct page_budget *budget, const struct page_share *share,
			     const struct page_clock *now, uint64_t need_ns);
