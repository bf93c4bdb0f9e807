#pragma once
/*
 * The records of a run, written through the trace writer. Each returns 0 or the writer's negative
 * errno. Times are ticks of the recording. One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "pmu/count.h"
#include "runner/processes/image-proc.h"
#include "runner/processes/image.h"
#include "runner/ring/drain.h"
#include "trace/writer.h"

/* The status of PROCESS_END when nobody knows it, and when exec replaced the image. */
#define STORE_STATUS_UNKNOWN  (-1)
#define STORE_STATUS_REPLACED (-2)

int store_process(struct trace_writer *writer, const struct image *image);
/* Which rank of a parallel job an image is. */
int store_rank(struct trace_writer *writer, uint32_t process_id, uint32_t rank);
int store_process_end(struct trace_writer *writer, uint32_t process_id, int status, uint64_t ticks);

/* tid is that of the collector's namespace; start as the program wrote it, or NULL. */
int store_thread(struct trace_writer *writer, uint32_t thread_id, const struct image *image,
		 uint32_t tid, const struct ring_thread_start *start);
int store_thread_end(struct trace_writer *writer, uint32_t thread_id, uint64_t ticks);
int store_thread_name(struct trace_writer *writer, uint32_t thread_id, const char *name,
		      uint64_t ticks);
int store_module(struct trace_writer *writer, uint32_t process_id,
		 const struct drain_module *module);
int store_text(struct trace_writer *writer, uint32_t process_id, uint64_t id, const char *text,
	       size_t n_bytes);
int store_heap_range(struct trace_writer *writer, uint32_t process_id,
		     const struct drain_heap_range *range);
int store_map(struct trace_writer *writer, uint32_t process_id, uint64_t ticks,
	      const struct image_map *map);

/* A count of something that was not recorded; nothing is written for 0. */
struct store_loss {
	uint64_t count;
	uint64_t from_ticks; /* 0: not known */
	uint64_t to_ticks;
	uint32_t process_id; /* 0: the whole run */
	const char *source;
	const char *reason;
};
int store_loss(struct trace_writer *writer, const struct store_loss *loss);

/* A counter of one process (0: of the run). */
int store_counter(struct trace_writer *writer, uint32_t process_id, const char *name,
		  const char *unit, uint64_t value);

/* An event that was counted over the run. */
int store_count(struct trace_writer *writer, const struct pmu_counter *counter,
		const struct pmu_count *count);

int store_fact(struct trace_writer *writer, const char *key, const char *value, uint64_t ticks,
	       bool at_end);
int store_clock(struct trace_writer *writer, const struct clock_pair *pair);

/* What comes next of the n bytes of a look at pages, which has a record for each part. */
static inline struct trace_string trace_next_part(const void *bytes, size_t n, size_t *at)
{
	struct trace_string part = {
		.bytes = (const char *)bytes + *at,
		.n_bytes = n - *at < TRACE_PAGES_PART_BYTES ? (uint32_t)(n - *at)
							    : TRACE_PAGES_PART_BYTES,
	};

	*at += part.n_bytes;
	return part;
}
