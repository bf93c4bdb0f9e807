#pragma once
/*
 * Where samples come from. One table of access sources, one file each (source-NAME.c); whoever adds
 * a source adds a file and a line. An open source is a stream:
 *
 *	struct access_options options = { .pid = child, .enable_on_exec = true };
 *	pmu_choice_parse("auto", &choice, message); pmu_choice_resolve(&choice, &options);
 *	for each: pmu_stream_open(choice.items[i].source, &options, &stream, &refusal)
 *	every few ms, and once more after the last process has ended:
 *		pmu_stream_read(stream, sink, context);
 *	pmu_stream_losses(stream, &losses); pmu_stream_close(stream);
 *
 * A stream belongs to one thread at a time. Nothing here prints or exits.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pmu/host.h"
#include "pmu/remedy.h"
#include "schemas/trace-format.h"

#define PMU_MAX_SOURCES	    16
#define PMU_DEFAULT_FREQ_HZ 997 /* prime: no lock-step with a program's own 1 ms or 10 ms timers */

struct hardware_kind;
struct perf_event_attr;
struct plan_uprobe;

/* Whose accesses or time a source samples. */
enum access_mode {
	ACCESS_MODE_USER,
	ACCESS_MODE_KERNEL,
	ACCESS_MODE_BOTH,
};

struct access_options {
	pid_t pid; /* whose threads and later children; still stopped, so nothing is missed */
	bool is_running; /* pid runs already: its other threads, too. Not of hardware sources */
	const pid_t *more_pids; /* with is_running: further processes, all of their threads */
	size_t n_more_pids;
	bool enable_on_exec; /* begin at its next exec; otherwise with pmu_stream_enable() */
	uint64_t freq_hz; /* of timed sources, at most 100,000; 0: PMU_DEFAULT_FREQ_HZ */
	uint64_t period; /* in the source's unit, instead of freq_hz; 0: by freq_hz or the source */
	/* of hardware sources: libpfm4's name, rXXXX, sysfs alias, "loads" ...; */
	const char *load_event;
	const char *store_event; /* NULL: the best that is known for this processor */
	uint32_t min_latency; /* cycles: sample no loads that were faster; 0: the source's least */
	enum access_mode mode;
	bool has_jitter; /* timed sources: change between periods near freq_hz (pmu_stream_turn) */
	uint32_t n_levels; /* and to such as are 3, 9 ... times as long; 0 or 1: to none */
	uint64_t min_period; /* what the kernel allows, in the source's unit; 0: not known */
	bool has_call_chain; /* with the user's call chain by frame pointers */
	bool is_private; /* watch: no registers, which hold the program's data */
	uint32_t stack_bytes; /* of user stack with each timed sample, a multiple of 8; 0: none */
	/* for each CPU, rounded up to a power of two pages; 0: by the source */
	uint32_t ring_bytes;
	/* where uprobes are to be, file by file */
	const struct plan_uprobe *uprobes;
	size_t n_uprobes;
	uint64_t tracepoint; /* of them all; set by their source */
	/* whose events hardware sources look for; NULL: this machine's */
	const struct pmu_host *host;
};

/*
 * Takes n_bytes of whole perf_event records, one behind the other, 8-byte aligned, n_samples of
 * them PERF_RECORD_SAMPLE. They lie in the kernel's ring: valid until the sink returns. A negative
 * result stops the reading, keeps these records in the ring for the next time and is handed on.
 */
typedef int (*pmu_sink)(void *context, const void *records, size_t n_bytes, uint32_t n_samples);

/* What a source did not tell. Adds up over all CPUs, threads and children since the opening. */
struct pmu_losses {
	uint64_t n_taken; /* samples given to sinks */
	uint64_t n_records; /* of any type given to sinks */
	uint64_t n_lost; /* records that found the ring full */
	bool n_lost_is_exact; /* the kernel's own count (PERF_FORMAT_LOST, 6.0); otherwise from
				    LOST records, which miss what was lost after the last record */
	uint64_t n_lost_samples; /* dropped by the hardware or driver (LOST_SAMPLES) */
	uint64_t n_throttles; /* times the kernel stopped the event for a tick */
	uint64_t throttled_ns; /* time without samples because of that, added over CPUs */
	uint64_t throttled_from_ns; /* CLOCK_MONOTONIC_RAW of the first; 0: none */
	uint64_t throttled_to_ns; /* of the last */
	uint64_t n_bad_bytes; /* thrown away since no record could be told in them */
	uint64_t n_behind; /* times that a ring was found more than three quarters full */
	/* AUX records that say so of their bytes: */
	uint64_t n_aux_truncated; /* the AUX area was full */
	uint64_t n_aux_partial; /* they have gaps */
	uint64_t n_aux_collisions; /* samples were due while the one before was under way */
};

/*
 * Takes bytes of an AUX area as the hardware wrote them; aux->n_bytes of them at `bytes`, valid
 * until the sink returns. A negative result stops the reading, keeps them for the next time and is
 * handed on.
 */
typedef int (*pmu_aux_sink)(void *context, const struct trace_aux *aux, const void *bytes);

struct access_stream;
struct pmu_turn;

/* What a source is for; decides what "auto" takes. */
enum access_role {
	ACCESS_ROLE_ACCESS, /* samples of loads and stores: auto takes the first that opens */
	ACCESS_ROLE_FAULTS, /* first touch of pages: beside any access source */
	ACCESS_ROLE_TASKS, /* maps, names, births and ends: beside all others */
	ACCESS_ROLE_WATCH, /* debug registers: where somebody asks for it, see watch.h */
	ACCESS_ROLE_CALLS, /* functions by uprobes: where somebody asks for it, see uprobes.h */
	ACCESS_ROLE_PAGES, /* marks of pages, which the collector reads: no samples */
};

struct access_source {
	const char *name; /* as in --source and in the trace */
	const char *unit; /* of one sample's period: what its counts are counts of */
	const char *about; /* one line for a person */
	enum access_role role;
	uint16_t kind; /* enum trace_sample_kind: what one sample says */
	uint8_t direction; /* enum trace_direction */
	/* Opened with this one whenever it is chosen: its other half, or NULL. */
	const struct access_source *companion;
	bool is_timed; /* samples CPU time: its rate is in Hz */
	bool is_opt_in; /* never taken by auto */

	/* Would open() work for the caller itself? 0, or a negative errno with why and remedy. */
	int (*probe)(const struct access_source *source, const struct access_options *options,
		     struct pmu_refusal *ret_refusal);
	int (*open)(const struct access_source *source, const struct access_options *options,
		    struct access_stream **ret_stream, struct pmu_refusal *ret_refusal);
	int (*enable)(struct access_stream *stream, bool on); /* NULL: it is on */
	/* NULL: there are no samples to read. */
	ssize_t (*read)(struct access_stream *stream, pmu_sink sink, void *context);
	/* NULL: none, exactly. */
	int (*losses)(struct access_stream *stream, struct pmu_losses *ret_losses);
	void (*describe)(const struct access_stream *stream, struct trace_source *ret_source);
	/* NULL: nothing but kind and direction is to be told. */
	void (*detail)(const struct access_stream *stream, struct trace_source_detail *ret_detail,
		       const char **ret_event);
	/* NULL: no AUX area. */
	ssize_t (*read_aux)(struct access_stream *stream, pmu_aux_sink sink, void *context);
	/* NULL: nothing was given up. */
	const char *(*notes)(const struct access_stream *stream);
	/* NULL: nothing. What is worth knowing but was not given up; see pmu_stream_remarks(). */
	const char *(*remarks)(const struct access_stream *stream);
	/* NULL: CLOCK_MONOTONIC_RAW is in its records; see pmu_stream_perf_clock(). */
	int (*perf_clock)(struct access_stream *stream, struct trace_perf_clock *ret_clock);
	/* NULL: `unit` is. */
	const char *(*counted)(const struct access_stream *stream);
	/* NULL: there is nothing to wait for. */
	size_t (*fds)(const struct access_stream *stream, const int **ret_fds);
	void (*close)(struct access_stream *stream);

	/* NULL: it has one period. */
	int (*turn)(struct access_stream *stream, size_t level, uint64_t random,
		    struct pmu_turn *ret_turn);
	uint64_t (*period)(const struct access_stream *stream);
	/* NULL: it stays as it is. */
	int (*begin_period)(struct access_stream *stream, uint64_t period, const pid_t *pids,
			    size_t n_pids);
	int (*end_period)(struct access_stream *stream, bool is_taken);

	const struct hardware_kind *hardware; /* of the sources of the hardware: hardware-event.h */

	/* For the sources that are one plain perf event: what to ask the kernel for. */
	void (*configure)(const struct access_options *options, struct perf_event_attr *attr);
	uint32_t ring_bytes; /* for each CPU, where memory may be locked freely */
	/* where perf_event_mlock_kb binds: all sources fit into 516 KiB */
	uint32_t small_ring_bytes;
};

/* All sources in order of preference; ends in NULL. */
extern const struct access_source *const pmu_sources[];

/* The source of that name, or NULL. */
const struct access_source *pmu_source_find(const char *name);

/*
 * Open a source for options->pid on every online CPU. Returns 0 and a stream to be closed by the
 * caller, or a negative errno and in *ret_refusal why, and what the user can do.
 */
int pmu_stream_open(const struct access_source *source, const struct access_options *options,
		    struct access_stream **ret_stream, struct pmu_refusal *ret_refusal);

/* Accepts NULL, returns NULL. What is still in the rings is gone: read first. */
struct access_stream *pmu_stream_close(struct access_stream *stream);

/*
 * Start or stop sampling, in the inherited threads and children too. Returns 0 or negative errno.
 */
int pmu_stream_enable(struct access_stream *stream, bool on);

/*
 * What a stream was turned to. Samples carry their own period, but those of the thread that was
 * opened on: they carry a mark, and from raw_ns on have its period. There are n marks, of different
 * CPUs. A period of that thread begins with each turn, and nothing younger than `least` is sampled,
 * so the first sample on each CPU stands for period + least.
 */
#define PMU_TURN_CPUS 8u /* that have periods of their own */

struct pmu_turn {
	uint64_t raw_ns; /* CLOCK_MONOTONIC_RAW */
	uint64_t least;
	size_t n;
	uint64_t marks[PMU_TURN_CPUS];
	uint64_t periods[PMU_TURN_CPUS];
};

/*
 * Go on with another period of a level, as a random number says (period-ladder.h); levels above the
 * highest are the highest. A stream that has one period stays as it is; so does one that is
 * switched off. Returns 1 when it turned, 0 or a negative errno.
 */
int pmu_stream_turn(struct access_stream *stream, size_t level, uint64_t random,
		    struct pmu_turn *ret_turn);

/*
 * Another period while it runs, of all threads of these processes and their later children: from
 * pmu_stream_end_period() on, unless is_taken is false. Between the two no thread may be born: the
 * caller looks, and begins anew. It is exact then, and the stream turns no more. Each sample has
 * the period that held when it was taken. Returns 0; -EOPNOTSUPP: of this stream it cannot be
 * changed; or another negative errno (-EMFILE: more files than the caller may open).
 */
int pmu_stream_begin_period(struct access_stream *stream, uint64_t period, const pid_t *pids,
			    size_t n_pids);
int pmu_stream_end_period(struct access_stream *stream, bool is_taken);

/* The mean period of now, in the source's unit: one over its rate; 0: not known. */
uint64_t pmu_stream_period(const struct access_stream *stream);

/*
 * Give what the rings hold now to the sink, CPU after CPU (within a CPU in order of time; over CPUs
 * in no order). Never waits; returns after the records that were there when it began, so a fast
 * program cannot keep it. Returns the bytes given, or the sink's negative result.
 */
ssize_t pmu_stream_read(struct access_stream *stream, pmu_sink sink, void *context);

/*
 * The same for the AUX areas of a source whose samples lie there (Arm SPE); 0 for any other. Read
 * the records first: they tell of the bytes.
 */
ssize_t pmu_stream_read_aux(struct access_stream *stream, pmu_aux_sink sink, void *context);

/* The ledger so far. Returns 0 or a negative errno of reading the kernel's counters. */
int pmu_stream_losses(struct access_stream *stream, struct pmu_losses *ret_losses);

/*
 * What was really opened, after all fallbacks: perf type and config, sample_type, regs_user,
 * period, stack_bytes. head, source_id and the string lengths are left 0 for the caller; name, unit
 * are those of the source.
 */
void pmu_stream_describe(const struct access_stream *stream, struct trace_source *ret_source);

/*
 * More about it: kind, direction, precise, perf_config1 and 2, read_format, regs_intr, min_latency
 * ... head, source_id and the string lengths are left 0 for the caller. *ret_event: the event's
 * name as asked for or found, or ""; owned by the stream. The note is pmu_stream_notes().
 */
void pmu_stream_detail(const struct access_stream *stream, struct trace_source_detail *ret_detail,
		       const char **ret_event);

/* The same for a source that was refused with that negative errno. */
void pmu_source_describe_refused(const struct access_source *source,
				 const struct access_options *options, int error,
				 struct trace_source *ret_source);

/*
 * What its counts are counts of: the source's unit, or of a timed source what is left of it by what
 * was accepted ("ns of CPU time" with the kernel's, "ns of kernel CPU time" with nothing else).
 */
const char *pmu_stream_unit(const struct access_stream *stream);

/*
 * Times of a source whose SOURCE.clock_id is UINT32_MAX are of perf's own clock: read it and
 * CLOCK_MONOTONIC_RAW at one moment, for a PERF_CLOCK record (head and source_id are left to the
 * caller). To be done when the source has been opened, about once a second, and before it is
 * closed. Returns 1; 0 for any other source (nothing to write); or a negative errno.
 */
int pmu_stream_perf_clock(struct access_stream *stream, struct trace_perf_clock *ret_clock);

/* What is worth knowing of how it samples, though nothing was given up; or "". */
const char *pmu_stream_remarks(const struct access_stream *stream);

/* What was given up while opening, one clause after another joined by "; ", or "". */
const char *pmu_stream_notes(const struct access_stream *stream);

/* File descriptors that poll() as readable when a ring is half full; owned by the stream. */
size_t pmu_stream_fds(const struct access_stream *stream, const int **ret_fds);
