#pragma once
/*
 * What samples.c has read and not attributed yet, in order of time: perf records of all sources and
 * CPUs, and the samples of --private. One thread.
 *
 * A perf record waits as bytes: of a sample only its head is read before its turn comes. Parsed
 * ones would take 216 bytes more each, which a hostile file could multiply.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash-map.h"
#include "schemas/trace-format.h"

enum queued_kind {
	QUEUED_PERF, /* a perf record */
	QUEUED_PRIVATE, /* struct trace_access[] of one sample */
	QUEUED_HARDWARE, /* struct hardware_access of one */
};

/* Bytes of a frame; they go when the last entry of theirs is taken. */
struct record_buffer {
	size_t n_entries;
	uint32_t source; /* index of samples.c */
	enum queued_kind kind;
	_Alignas(8) uint8_t bytes[];
};

struct queued_sample {
	int64_t time_ns;
	struct record_buffer *buffer;
	uint32_t offset; /* in the buffer's bytes */
	uint32_t n_bytes;
	uint32_t node_number; /* of a page fault: the page's node + 1; 0: not told */
};

/* All zero is empty. */
struct sample_queue {
	struct queued_sample *entries; /* from first on; sorted up to n_sorted */
	struct queued_sample *others; /* room for as many, to sort them */
	size_t first;
	size_t n_sorted;
	size_t n;
	size_t n_allocated;
	size_t n_others_allocated;
	size_t n_looked; /* sample_queue_look(): entries that are next, and stay so */
	int64_t next_ns; /* of the earliest entry; INT64_MAX: none. 0 before sample_queue_init() */
};

void sample_queue_init(struct sample_queue *queue);
void sample_queue_finish(struct sample_queue *queue);

/* A buffer with a copy of bytes, without entries, of source 0 and perf; NULL: no memory. */
struct record_buffer *record_buffer_create(const void *bytes, size_t n_bytes);

/* Free a buffer if it has no entries. */
void record_buffer_settle(struct record_buffer *buffer);

/* Add an entry, behind those of its time. 0 or -ENOMEM. */
int sample_queue_add(struct sample_queue *queue, const struct queued_sample *entry);

/*
 * The earliest entry before time_ns, or NULL. Its buffer stays until sample_queue_drop() of it,
 * which comes before the next call.
 */
const struct queued_sample *sample_queue_peek(struct sample_queue *queue, int64_t time_ns);
void sample_queue_drop(struct sample_queue *queue);

/*
 * Up to n_most entries from the one that was peeked at on, in their order; *ret_n of them. They are
 * the next ones for as long as n_looked, which becomes *ret_n, is above 0.
 */
const struct queued_sample *sample_queue_look(struct sample_queue *queue, size_t n_most,
					      size_t *ret_n);

/*
 * What a sample stands for. Samples carry their period, but for those of the thread that its source
 * was opened on: they carry a mark, and the trace tells which periods that thread had when (PERIOD
 * records). One thread.
 */

#define SAMPLE_MAX_MARKS 64u /* more than a source has events with periods of their own */

struct sample_turns {
	struct trace_period *items; /* in the order of the trace, which is that of time */
	size_t n;
	size_t n_allocated;
	uint64_t marks[SAMPLE_MAX_MARKS]; /* that there are */
	size_t n_marks;
	size_t *seen; /* for each CPU: the turn of the last sample with a mark, + 1 */
	size_t n_cpus;
	struct key_map events; /* of threads born later, by thread, CPU and period */
};

/* Where a sample comes from. */
struct sample_origin {
	uint64_t raw_ns;
	uint32_t cpu;
	uint32_t tid;
	uint64_t carried; /* a period or a mark */
};

/* 0 or -ENOMEM. */
int sample_turns_add(struct sample_turns *turns, const struct trace_period *record);

/*
 * The time that a sample stands for which carries a period or a mark, of source samples in order of
 * time. A thread that is born later has an event for each CPU and rung: no sample of one comes
 * before the least period of the time that it was on. So the first one of each but the thread's
 * first event stands for that, too. Without memory, a first one stands for its period only.
 */
uint64_t sample_turns_weight(struct sample_turns *turns, const struct sample_origin *origin);

void sample_turns_finish(struct sample_turns *turns);
