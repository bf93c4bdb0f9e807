#pragma once
/*
 * Which pages of a process were written since the last look, each by itself: the program's library
 * lends us a userfaultfd of its memory. By that the kernel protects pages, lifts the protection by
 * itself at the first write (UFFD_FEATURE_WP_ASYNC, Linux 6.7), and tells which have lost it. The
 * program runs on. Anonymous private memory only. Huge pages are left alone: a write would part
 * them. When the descriptor is closed, all is as it was. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/processes/page-scan.h"
#include "runner/processes/page-touches.h"

/* Addresses from start up to end. */
struct page_span {
	uint64_t start;
	uint64_t end;
};

/* Of one process. */
struct page_writes {
	int fd; /* the userfaultfd; -1: none */
	struct page_span *spans; /* whose pages were protected by the last look, in order */
	size_t n_spans;
};

#define PAGE_WRITES_NONE ((struct page_writes){ .fd = -1 })

/* What a look has found. All zero is an empty one. */
struct page_writes_look {
	struct page_runs runs; /* as struct trace_writes has them, all parts */
	uint64_t known_bytes;
	uint64_t written_bytes; /* of known_bytes */
	uint64_t new_bytes; /* resident pages that are protected from now on */
	bool is_cut; /* more was to be watched than was allowed */
};

/*
 * Watch a process by a descriptor that it has lent us, which is taken over also on failure. Returns
 * 0, -EINVAL (not a userfaultfd), or what the kernel says to such a watch.
 */
int page_writes_begin(struct page_writes *writes, int fd);

/*
 * Ask for all that was written since the last look, and protect it again; of what is new protect so
 * many resident pages at most. touches are those that were read just now. Returns 0, -ESRCH (gone),
 * -EBUSY (the process has a userfaultfd of its own: its memory must be free for that), -E2BIG (too
 * many mappings to watch), or another negative errno: then end it. ret_look is to be finished in
 * any case.
 */
int page_writes_look(struct page_writes *writes, pid_t pid, const struct page_touches *touches,
		     uint64_t most_new_pages, struct page_writes_look *ret_look);

/* Free what it holds; it is empty then. */
void page_writes_look_finish(struct page_writes_look *look);

/* Nothing is protected any more. Safe on PAGE_WRITES_NONE and twice. */
void page_writes_finish(struct page_writes *writes);

/*
 * Can this kernel do it, and what does a first write to a protected page cost a program, in ns (0:
 * it cannot be told)? Measured on pages of our own. Returns 0 or a negative errno: -ENOTSUP, the
 * kernel is older; else why userfaultfd is refused.
 */
int page_writes_probe(uint64_t *ret_write_ns);
