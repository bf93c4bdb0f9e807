#pragma once
/*
 * The perf side of a recording: opens the access sources on the command while it waits at the gate,
 * stores their records verbatim, takes the code under the samples, and tells the tracker of forks,
 * execs and ends. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/clock.h"
#include "perf/record.h"
#include "pmu/source.h"
#include "runner/processes/tracker.h"
#include "runner/run-options.h"
#include "runner/sampling/code-capture.h"
#include "runner/sampling/data-capture.h"
#include "runner/sampling/page-nodes.h"
#include "runner/sampling/sampling-rate.h"
#include "trace/writer.h"

struct samples_private;
struct watches;

struct samples_stream {
	struct samples *owner;
	struct access_stream *stream;
	const struct access_source *source;
	struct pmu_format format;
	uint32_t source_id; /* in the trace, from 1 */
	uint64_t n_taken; /* samples so far */
	uint64_t n_dropped; /* of them: recording had stopped */
	/* when perf's own clock was read last, where its times are of that */
	uint64_t paired_raw_ns;
};

/*
 * For a source that is stamped by perf's own clock: store how that clock goes. Returns as the
 * writer.
 */
int samples_store_perf_clock(struct samples_stream *stream);

struct samples {
	struct trace_writer *writer;
	struct tracker *tracker;
	struct run_code *code;
	struct run_data *data; /* NULL with --private */
	struct watches *watches; /* of --watch; NULL: none */
	struct page_nodes nodes; /* of page faults, where there are several */
	struct samples_private *private_samples; /* --private: decode at once; else NULL */
	struct samples_stream streams[PMU_MAX_SOURCES];
	size_t n_streams;
	size_t n_sources; /* tried */
	struct samples_rate rate; /* of the timed stream, if there is one */
	struct clock_pair pair;
	uint64_t ticks_per_second;
	uint64_t now_ticks;
	uint8_t *tasks; /* copies of task records, to be put in order of time */
	size_t task_bytes;
	size_t tasks_room;
	uint64_t n_births; /* of threads and processes */
	uint64_t n_new; /* samples that the last reading found */
	uint64_t news_ns; /* CLOCK_MONOTONIC of the last one that found a new map, thread or code */
	uint64_t n_lost_bytes; /* of code and data, when that was last looked at */
	uint64_t n_unusable; /* records that could not be parsed */
	bool is_muted; /* recording has stopped: drop and count */
	uint64_t n_dropped;
	bool lacks_room; /* for now: drop and count */
	uint64_t n_unwritten;
	char sources[128]; /* names of those that run, joined by " + " */
	char passed[256]; /* those that auto passed over and why: "no pebs, ibs: ..."; "" */
	char refusal[512]; /* why the first refused one does not, and what to do; "" */
	char given_up[512]; /* what an open source could not have, "" */
};

/*
 * Is what --source, --freq and --period ask for possible at all? Returns 0, or -EINVAL with one
 * line in message. Tries nothing.
 */
int samples_check(const struct run_options *options, char *message, size_t n_bytes);

/*
 * Can functions be recorded by uprobes? Returns 0, or a negative errno with one line in message
 * that says why not and what to do. Makes one and removes it.
 */
int samples_check_uprobes(char *message, size_t n_bytes);

/*
 * Open what options->source asks for on pid and its later children, to begin at its exec, and write
 * their SOURCE records. A refused source is no failure: it is told in the trace and in refusal.
 * With is_strict it is one, as is whatever an open source had to give up: -EPERM, told in refusal.
 * Returns 0 or a negative errno (-ENOMEM, the writer's). End with samples_close() in any case.
 */
int samples_open(struct samples *samples, const struct run_options *options, pid_t pid);

/* How often is sampled, and why, as facts of the run. Returns 0 or what the sink does. */
typedef int (*samples_fact_sink)(void *context, const char *key, const char *value);
int samples_facts(const struct samples *samples, const struct run_options *options,
		  samples_fact_sink sink, void *context);

/*
 * Store what the rings hold. now_ticks and the pair are of this moment. Task records reach the
 * tracker before this returns. Returns 0 or a negative errno of the writer.
 */
int samples_read(struct samples *samples, uint64_t now_ticks, const struct clock_pair *pair,
		 uint64_t ticks_per_second);

/*
 * Begin to sample a process that was not opened before its exec: its records of tasks and maps, or
 * all other sources. Returns 0 or a negative errno.
 */
int samples_begin(struct samples *samples, bool are_tasks);

/* Switch all sources but the records of tasks off, or on again. */
void samples_pause(struct samples *samples, bool is_paused);

/*
 * Another period of the source that samples by time, for all threads of these processes and their
 * later children, as pmu_stream_begin_period(), from samples_end_period() on. -ENODEV: there is no
 * such source; -EOPNOTSUPP: it cannot be changed; -ENODATA: births of threads are not known.
 */
int samples_begin_period(struct samples *samples, uint64_t period_ns, const pid_t *pids,
			 size_t n_pids);
int samples_end_period(struct samples *samples, bool is_taken);
/* Its mean period now, in ns; 0: there is none. */
uint64_t samples_period_now(const struct samples *samples);

/* Stop sampling; what comes nevertheless is dropped and counted. */
void samples_mute(struct samples *samples);

/* No more will be read: hand on what waits. Returns 0 or the writer's negative errno. */
int samples_flush(struct samples *samples);

/* The sink of all streams: context is the samples_stream. */
int samples_take_records(void *context, const void *records, size_t n_bytes, uint32_t n_samples);

/* A sample that a program's handler wrote (--source signal). */
void samples_take_signal(struct samples *samples, const struct image *image, uint32_t thread_id,
			 const struct ring_sample *sample);

/* The period of --source signal in ns; 0: nobody asked for it. */
uint64_t samples_signal_period(const struct samples *samples);

/* The stream of --watch; NULL: it was not asked for, or refused. */
struct access_stream *samples_watch_stream(const struct samples *samples);

/* An image is gone. */
void samples_forget(struct samples *samples, uint32_t process_id);

/* Whether code is being made, or threads and processes: what ran is told by looking soon. */
bool samples_want_haste(const struct samples *samples);

/* For how long nothing was new: no process, thread, map of code or code that changes. */
uint64_t samples_calm_ns(const struct samples *samples, uint64_t now_ns);

/* When the period of the source that samples by time should be turned (CLOCK_MONOTONIC). */
uint64_t samples_next_turn_ns(const struct samples *samples);

/* Turn it if it is time to, as samples_read() does. Returns 0 or the writer's negative errno. */
int samples_turn(struct samples *samples);

/*
 * File descriptors that become readable when a ring fills up are added to epoll_fd with that tag.
 */
void samples_watch(const struct samples *samples, int epoll_fd, uint64_t tag);

/* Write LOSS records of what the sources lost. Returns the number of samples lost. */
uint64_t samples_store_losses(struct samples *samples);

/* How many samples the sources of a role gave. */
uint64_t samples_count(const struct samples *samples, enum access_role role);

/* Whether a source of the role ran. */
bool samples_has(const struct samples *samples, enum access_role role);

/* Close everything. Safe on a zeroed struct and twice. */
void samples_close(struct samples *samples);
