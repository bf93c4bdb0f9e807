#pragma once
/*
 * What is alive at the moment that the merge has reached: process images and threads with their
 * live blocks and mappings. Times are ns since the run's start. Everything here is read only for
 * the sample side, except the fields that are said to be its own.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/heap.h"
#include "analyze/mappings.h"
#include "schemas/trace-format.h"

struct live_process {
	uint32_t number; /* process_id of the trace; 0: known from samples only */
	int64_t row_id; /* process.id */
	uint32_t pid; /* in the collector's namespace, as in perf records */
	struct live_process *parent; /* the image that forked, or before exec; NULL */
	struct live_process *older; /* the image before this one with the same pid; NULL */
	int64_t start_ns;
	int64_t end_ns; /* INT64_MAX: not ended yet */
	bool is_fork;
	bool is_traced;
	struct heap heap;
	struct mappings mappings;
	struct modules *modules; /* the address side's own (modules.h); NULL until it sets it */
};

/* The last block that a thread gave back: touches of it by the allocator right behind. */
struct live_freed {
	uint64_t id; /* allocation.id within the run; 0: none */
	uint64_t address;
	uint64_t size;
	uint32_t stack;
	int64_t time_ns;
};

struct live_thread {
	uint32_t index; /* in live.threads, from 0 */
	uint32_t number; /* thread_id of the trace; 0: known from samples only */
	int64_t row_id; /* thread.id */
	struct live_process *process;
	uint32_t tid; /* in the collector's namespace, as in perf records */
	struct live_thread *older; /* the incarnation before this one with the same tid; NULL */
	int64_t start_ns;
	int64_t end_ns; /* INT64_MAX: not ended yet */
	uint64_t stack_start; /* 0: not known */
	uint64_t stack_end;
	uint64_t fs_base; /* 0: not known */
	bool is_main;
	uint64_t n_events; /* that the merge has passed */
	struct live_freed freed; /* by its last event; id 0 when that was no free */
	void *pending; /* the sample side's own: not NULL asks for samples_on_event() */
};

struct live {
	struct live_thread **threads; /* by index; pointers stay valid */
	size_t n_threads;
	struct live_process **processes;
	size_t n_processes;
	struct live_map *by_number; /* private */
	struct heap_pool *pool;
};

/* Returns 0 or -ENOMEM. */
int live_init(struct live *live);
void live_finish(struct live *live);

/* Add an image or a thread; the caller fills in the rest. Returns NULL without memory. */
struct live_process *live_add_process(struct live *live, uint32_t number, uint32_t pid,
				      int64_t start_ns);
struct live_thread *live_add_thread(struct live *live, uint32_t number, uint32_t tid,
				    struct live_process *process, int64_t start_ns);

/* By the trace's numbers; NULL: not defined (damage). */
struct live_process *live_process(const struct live *live, uint32_t number);
struct live_thread *live_thread(const struct live *live, uint32_t number);

/* The image that had this pid, or the thread that had this tid, at a time; NULL: not known. */
struct live_process *live_process_at(const struct live *live, uint32_t pid, int64_t time_ns);
struct live_thread *live_thread_at(const struct live *live, uint32_t tid, int64_t time_ns);
