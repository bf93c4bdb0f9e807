#pragma once
/* Shared by trace/cut*.c. Counts from 1 where 0 is none. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "trace/cut.h"
#include "trace/reader.h"
#include "trace/writer.h"

/* An event that is kept as far as is known. */
struct cut_event {
	struct trace_event event;
	uint64_t order; /* in the file: of the program within a thread */
	uint32_t thread; /* its place in cut.threads + 1; 0: free */
	uint32_t next_free; /* place + 1 */
	bool is_kept; /* decided at the end */
};

/* A list of places in cut.events. */
struct cut_list {
	uint32_t *items;
	size_t n;
	size_t n_allocated;
};

/* What maps memory, or takes it away. */
struct cut_map {
	uint64_t ticks;
	uint64_t order;
	uint64_t start, end;
	bool is_end;
	uint64_t from_start, from_end; /* what was moved here; else both 0 */
	uint64_t detail; /* of what is mapped: a move keeps it */
	/* What it was told by, place + 1; the others 0: */
	uint32_t event;
	uint32_t record;
	uint32_t perf;
	bool is_segment; /* of shmat: shmdt does not say how much it takes away */
	bool is_kept;
};

struct cut_fork {
	uint64_t ticks;
	uint32_t child; /* place */
};

struct cut_process {
	uint32_t id;
	uint32_t parent; /* id */
	uint32_t pid;
	bool is_fork;
	bool has_ended;
	bool is_needed; /* it lives, or one that has its memory from it does */
	bool is_kept; /* that, or something that is kept names it */
	struct cut_fork *forks;
	size_t n_forks, n_forks_allocated;
	struct cut_map *maps;
	size_t n_maps, n_maps_allocated;
	struct cut_list pauses; /* pauses and pushes that have not ended */
};

struct cut_thread {
	uint32_t id;
	uint32_t process; /* place */
	bool has_ended;
	bool is_kept;
	struct cut_list regions; /* that it is in */
	struct trace_node *nodes;
	size_t n_nodes, n_nodes_allocated;
};

struct cut_record {
	struct trace_record *bytes; /* a copy */
	uint32_t process; /* id that it is of no use without; 0: none */
	uint32_t thread;
	bool is_dropped;
};

/* What an address of a process was last. */
struct cut_place {
	uint64_t end_ticks; /* of the last end that found no block before it; 0: none */
	uint32_t end_thread;
	int32_t balance; /* births less ends */
	uint32_t birth; /* event + 1 of the last birth; 0: none, or it has ended */
	uint32_t process; /* place */
	uint32_t
		first_end; /* event + 1 of an end in a forked process: of a block of its parent's */
	uint32_t name; /* event + 1 that names what begins here */
};

/* A block that has ended, and that a forked process may have yet. */
struct cut_ghost {
	uint32_t birth, end; /* events + 1 */
	uint32_t process;
};

struct cut_code {
	struct trace_code head;
	uint8_t *bytes;
	uint32_t process; /* id */
};

/* A record of perf that is no sample. */
struct cut_perf {
	uint8_t *bytes;
	uint32_t n_bytes;
	uint32_t source;
	uint32_t type; /* PERF_RECORD_* */
	uint32_t pid, tid;
	uint64_t time_ns; /* CLOCK_MONOTONIC_RAW */
	uint64_t start, end; /* of a map */
	bool is_late; /* behind the cut */
	bool is_dropped;
};

struct cut_source {
	uint32_t id;
	bool has_other_clock;
	uint64_t sample_type, regs_user, regs_intr, read_format, branch_sample_type;
};

struct cut {
	const struct trace_cut *options;
	struct trace_reader *reader;
	struct trace_writer *writer;
	uint64_t order;
	uint64_t n_read_events, n_read_samples; /* of what is before the cut */
	uint64_t n_kept_events;
	uint64_t n_dropped_events, n_dropped_samples; /* before, as the file says */
	bool has_windows;
	bool lacks_births; /* blocks may live of which no event tells */

	struct cut_process *processes;
	size_t n_processes, n_processes_allocated;
	struct key_map processes_by_id;
	struct cut_thread *threads;
	size_t n_threads, n_threads_allocated;
	struct key_map threads_by_id;
	struct key_map threads_by_tid; /* the last one */
	struct cut_record *records;
	size_t n_records, n_records_allocated;
	struct key_map last_records; /* of each kind of which the last one counts; place + 1 */

	struct trace_clock *clocks;
	size_t n_clocks, n_clocks_allocated;

	struct cut_event *events;
	size_t n_events, n_events_allocated;
	uint32_t free_event; /* place + 1 */
	struct cut_event *late; /* what is stamped behind the cut, in order; kept */
	size_t n_late, n_late_allocated;
	struct cut_place *places;
	size_t n_places, n_places_allocated;
	struct key_map places_by_address;
	struct cut_ghost *ghosts;
	size_t n_ghosts, n_ghosts_allocated;

	struct cut_code *codes;
	size_t n_codes, n_codes_allocated;
	struct key_map codes_by_address;
	struct cut_perf *perfs;
	size_t n_perfs, n_perfs_allocated;
	struct cut_source *sources;
	size_t n_sources, n_sources_allocated;
};

/* The process or thread of a number; NULL: nobody has defined it. */
static inline struct cut_process *cut_find_process(const struct cut *cut, uint32_t id)
{
	uint64_t number = key_map_get(&cut->processes_by_id, id, 0);

	return number ? &cut->processes[number - 1] : NULL;
}

static inline struct cut_thread *cut_find_thread(const struct cut *cut, uint32_t id)
{
	uint64_t number = key_map_get(&cut->threads_by_id, id, 0);

	return number ? &cut->threads[number - 1] : NULL;
}

/* Something that stays names a thread by its tid: the thread may have ended. */
static inline void cut_keep_tid(struct cut *cut, uint32_t tid)
{
	uint64_t number = key_map_get(&cut->threads_by_tid, tid, 0);

	if (number)
		cut->threads[number - 1].is_kept = true;
}

/* cut-records.c. Take a RECORDS frame. 0 or a negative errno, as all of these. */
int cut_records(struct cut *cut, const struct trace_item *item);
/* Which processes are needed. Before the rest is decided. */
void cut_decide_processes(struct cut *cut);
/* Write those that are kept: events and threads are decided. */
int cut_write_records(struct cut *cut);

/* cut-memory.c. Take an event of a thread (its place). */
int cut_event(struct cut *cut, uint32_t thread, const struct trace_event *event);
/* A mapping that was there before, by its record (place + 1). */
int cut_mapping(struct cut *cut, uint32_t record, const struct trace_mapping *mapping);
/* One that perf saw being made, in a process (its place). */
int cut_seen_map(struct cut *cut, uint32_t process, uint32_t perf);
/* Decide which events, and which of those mappings, are kept, and mark their threads. */
int cut_decide_events(struct cut *cut);
/* Write events that are kept, in order of each thread. */
int cut_write_events(struct cut *cut);
void cut_finish_memory(struct cut *cut);

/* cut-samples.c. A source's samples look like this. */
int cut_source(struct cut *cut, const struct trace_source *source);
void cut_source_detail(struct cut *cut, const struct trace_source_detail *detail);
/* Take frames of samples, and of code. */
int cut_perf(struct cut *cut, const struct trace_item *item);
int cut_accesses(struct cut *cut, const struct trace_item *item);
int cut_aux(struct cut *cut, const struct trace_item *item);
int cut_code(struct cut *cut, const struct trace_item *item);
/* Which records of perf are kept; maps are decided with the events. */
int cut_decide_perf(struct cut *cut);
/* Write what is left of them: definitions. */
int cut_write_code(struct cut *cut);
int cut_write_perf(struct cut *cut);
void cut_finish_samples(struct cut *cut);
