#pragma once
/*
 * Which pages of a process were written in an interval (--source pages, by userfaultfd): each page
 * by itself, where it is known. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/live/live-memory.h"

/* An interval, as its records have it. */
struct write_look {
	struct trace_writes head; /* of its first part */
	uint8_t *runs; /* of all parts, and TRACE_VARINT_SLACK bytes more */
	size_t n_run_bytes;
};

/* As touches_gather(). */
int writes_gather(struct write_look *look, const struct trace_record *record);
void writes_look_finish(struct write_look *look);

/* Rows of write_interval and page_write. Owned by the memory. */
struct page_writes;
int page_writes_open(struct db *db, int64_t run_id, struct page_writes **ret_writes);
struct page_writes *page_writes_close(struct page_writes *writes); /* accepts NULL */

/* Write what is still held back of an image, of all of them. 0 or a negative errno. */
int page_writes_end(struct page_writes *writes, uint32_t process);
int page_writes_flush(struct page_writes *writes);

/* Keep an interval. Times in ns. Returns 0, -EBADMSG when it is damaged, or another errno. */
int memory_writes(struct memory *memory, uint32_t process, const struct write_look *look,
		  int64_t begin_ns, int64_t end_ns);
