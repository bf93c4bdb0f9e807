#pragma once
/*
 * Which pages of a process were touched in an interval, and whose they may be (--source pages).
 *
 * The kernel counts touched pages in each mapping. So of a call site it is known how many of its
 * pages were touched at least and at most: none where nothing in its mappings was; all that others
 * cannot have been. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/live/live-memory.h"
#include "analyze/live/pages/look.h"

/* Rows of intervals, of touches and of writes. Owned by the memory. intervals.c */
struct touches;
int touches_open(struct db *db, int64_t run_id, struct touches **ret_touches);
struct touches *touches_close(struct touches *touches); /* accepts NULL */

/* Write what is still held back of an image, of all of them. 0 or a negative errno. */
int touches_end(struct touches *touches, uint32_t process);
int touches_flush(struct touches *touches);

/*
 * Divide an interval by who lives now, which is its end. Times in ns; begin_ns: from there on each
 * touch was seen; read_ns: all marks were read. Returns 0; 1 when there are too many blocks, and it
 * has no rows of call sites; -EBADMSG when it is damaged, or another negative errno.
 */
struct touch_times {
	int64_t begin_ns;
	int64_t end_ns;
	int64_t read_ns;
};
int memory_touches(struct memory *memory, uint32_t process, const struct pages_look *look,
		   const struct touch_times *times);

/* The same of written pages: which they are is known, page by page (by userfaultfd). writes.c */
int memory_writes(struct memory *memory, uint32_t process, const struct pages_look *look,
		  int64_t begin_ns, int64_t end_ns);
