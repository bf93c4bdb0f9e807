#pragma once
/* Shared by import.c, import-records.c, import-run.c. */
#include "analyze/archive/archive.h"
#include "analyze/import.h"
#include "analyze/input/clock-map.h"
#include "analyze/input/input.h"
#include "analyze/input/merge.h"
#include "analyze/live/guesses/guesses.h"
#include "analyze/live/live-memory.h"
#include "analyze/live/name-table.h"
#include "analyze/live/owners.h"
#include "analyze/live/recording-gaps.h"
#include "analyze/live/regions.h"
#include "analyze/live/pages/resident.h"
#include "analyze/live/pages/touches.h"
#include "analyze/process/globals.h"
#include "analyze/process/modules.h"
#include "analyze/process/processes.h"
#include "analyze/process/stacks.h"
#include "analyze/samples/samples.h"
#include "analyze/symbols/objects.h"
#include "store/losses.h"
#include "store/row-writer.h"
#include "store/totals/totals.h"
#include "trace/reader.h"

/* A record that takes effect at its time, between the events. */
enum import_moment_kind {
	IMPORT_FORK,
	IMPORT_MAP,
	IMPORT_UNLOAD,
	IMPORT_HEAP, /* mapping.path is "KIND\nPLACE" */
	IMPORT_PAGES,
	IMPORT_TOUCHES,
	IMPORT_WRITES,
	IMPORT_END,
	IMPORT_WINDOW_BEGIN, /* process is its number */
	IMPORT_WINDOW_END,
};

struct import_moment {
	int64_t time; /* ticks since the run's start */
	uint64_t order; /* as read */
	enum import_moment_kind kind;
	uint32_t process;
	uint32_t parent;
	int32_t status; /* of an end */
	struct mapping mapping; /* its path is allocated */
	struct pages_look *look; /* of IMPORT_PAGES, _TOUCHES and _WRITES, allocated */
};

/* The row of `run`, while it is found out. */
struct import_run {
	char *program;
	char *mode;
	char *command;
	char *directory;
	int64_t repetition;
	int64_t start_unix_ns;
	int64_t exit_status; /* INT64_MIN: not known, as the next ones */
	int64_t user_ns;
	int64_t system_ns;
	int64_t max_rss;
	int64_t collector_cpu_ns;
	int64_t minor_faults;
	int64_t major_faults;
	int64_t exit_ns;
	char recording_id[64];
};

struct import {
	struct db *db;
	const char *path;
	const struct import_options *options;
	int64_t run_id;
	struct feed feed;
	struct merge_clock clock;
	int64_t skew; /* MERGE_SKEW_NS in ticks */
	struct tasks *tasks;
	struct objects *objects;
	struct modules *modules;
	struct stacks *stacks;
	struct globals *globals;
	struct owners *owners;
	struct samples *samples;
	const int64_t *next_sample_ns; /* theirs */
	const size_t *n_waiting_samples;
	struct texts texts;
	struct regions *regions;
	struct withheld *withheld;
	struct rows *marks;
	struct key_map thunks; /* as sample_context has them */
	struct tally tally;
	struct memory *memory;
	struct guesses *guesses;
	struct merge *merge;
	struct losses losses;
	/* of which parts have been read; by their kind, from IMPORT_PAGES on */
	struct pages_look looks[IMPORT_WRITES - IMPORT_PAGES + 1];
	struct key_map last_peaks; /* by process: ticks of its last look for a peak */
	struct import_run run;
	struct import_moment *moments; /* sorted from first_moment on, up to a commit */
	size_t first_moment;
	size_t n_moments;
	size_t n_moments_allocated;
	uint64_t n_orphans; /* events of threads that nobody defined */
	uint32_t open_window; /* its number; 0: none */
	uint32_t last_window; /* that has ended */
	int64_t now_ns; /* that the merge has reached */
	int64_t last_ns; /* of anything that has a time */
	struct picture_build *pictures; /* NULL: none are made */
	char problem[400]; /* of import_result */
	char *archive; /* folder with its files; NULL: there is none */
	int64_t first_access_ns; /* page fault or sampled access; INT64_MAX: none */
};

/* A time of the trace in ns since the run's start; remembers the latest. */
int64_t import_time(struct import *import, uint64_t ticks);

/*
 * Find the last look for a peak of each process, beforehand: only that one is divided by call
 * sites. A file that cannot be read has none, nor has one that grows: there each look is divided,
 * and takes the place of the one before. Returns 0 or -ENOMEM.
 */
int import_find_peaks(struct import *import);

/* The same stamp in ticks since the run's start: for order, see merge.h. */
int64_t import_order(const struct import *import, uint64_t ticks);

/* A record as read. Returns 0 or a negative errno. */
int import_record(struct import *import, const struct trace_record *record);

/* Keep a moment for its time. The path of its mapping is copied. 0 or -ENOMEM. */
int import_add_moment(struct import *import, const struct import_moment *moment);

/* What the program says of itself, after the parts that it needs; 0 or a negative errno. */
int import_open_notes(struct import *import);
void import_close_notes(struct import *import);
int import_text_record(struct import *import, const struct trace_record *record);
int import_window_record(struct import *import, const struct trace_record *record);
int import_mark_record(struct import *import, const struct trace_record *record);
int import_apply_window(struct import *import, const struct import_moment *moment);
int import_apply_note(struct import *import, uint32_t thread, const struct merge_event *event);
int import_finish_notes(struct import *import);

/* The sample side: needs all the other parts. Returns 0 or a negative errno. */
int import_open_samples(struct import *import);

/* Something happens at time_ns: what was sampled before is attributed first. 0 or an errno. */
static inline int import_advance_samples(struct import *import, int64_t time_ns)
{
	return *import->next_sample_ns < time_ns ? samples_advance(import->samples, time_ns) : 0;
}

/* An event of a thread was applied, and made block (NULL: none). 0 or a negative errno. */
static inline int import_tell_event(struct import *import, uint32_t thread, uint8_t op,
				    const struct owner_block *block)
{
	if (*import->n_waiting_samples == 0 || !samples_is_waiting(import->samples, thread))
		return 0;
	return samples_event(import->samples, thread, op, block);
}

/* Say which estimators samples are divided by: a fact of the run. 0 or a negative errno. */
int import_write_estimators(struct import *import);

/* Find the run's place: run_id is set, or *ret_is_skipped when it is there and stays. */
int import_begin_run(struct import *import, bool *ret_is_skipped);

/* Count what the reader found damaged, and write the row of `run`. */
int import_end_run(struct import *import);

/* Text of n_bytes as an allocated string; NULL without memory. */
