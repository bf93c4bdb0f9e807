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

/*
 * Keep an interval, and divide it by who lives now, which is its end. Times in ns. Returns 0; 1
 * when there are too many blocks, and it has no rows of call sites; -EBADMSG when it is damaged, or
 * another negative errno.
 */
int memory_writes(struct memory *memory, uint32_t process, const struct write_look *look,
		  int64_t begin_ns, int64_t end_ns);
