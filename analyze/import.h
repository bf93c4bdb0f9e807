#pragma once
/*
 * A trace file into a database.
 *
 * The import reads the trace segment by segment, merges events, samples and records by time
 * (merge.h), keeps what is alive (memory.h), and writes rows. Tasks, modules, stacks and samples
 * (tasks.h, modules.h, stacks.h, samples.h) are told of everything in this order:
 *
 *	records, nodes, perf frames	as read from the file, ahead of time
 *	stacks_row()			in time order, for every allocation
 *	samples_advance(T)		before an event stamped at T is applied
 *	samples_event()			after it was applied
 *	*_write(), samples_finish()	after the last event
 *
 * struct owner_block and struct owner carry `site`, the import's number of the block's call site,
 * through to the sink's touch, so that the sums of a site need no look-up.
 */
#include <stdbool.h>
#include <stdint.h>

#include "analyze/input/run-discovery.h"
#include "analyze/symbols/search-paths.h"
#include "common/progress.h"
#include "store/database.h"

/* What a recording that the database has with its totals only is good for. */
enum import_enough {
	IMPORT_ENOUGH, /* it is skipped */
	IMPORT_ENOUGH_OF_FAILED, /* it is skipped if its command failed, and else replaced */
	IMPORT_NOT_ENOUGH, /* it is replaced */
};

struct beside;
struct feed_growing;
struct import_options {
	bool force; /* replace the run when the database has this recording already */
	enum import_enough totals; /* replace one of which only the totals are there */
	bool is_undrawn; /* its rows will go: no pictures are made of them */
	int64_t first_new_run; /* runs from this id on are never replaced; 0: none is meant */
	struct import_name name;
	/* of the series that made the run: "ok" or what was wrong; NULL: none */
	const char *verdict;
	/* the trace is still being written, and has its name at the end only; NULL: it is whole */
	const struct feed_growing *growing;
	const char *shown_path; /* run.trace; NULL: the path that is read */
	bool compact; /* a database that is made has no plain tables (compact.h) */
	/*
	 * Somebody waits for an answer: what is made is compact and without pictures, and any form
	 * that is there will do.
	 */
	bool is_for_answer;
	/* a perf.data recorded beside the trace (beside.h); NULL: none */
	const struct beside *beside;
	progress_show progress; /* may be NULL */
	const struct symbol_places *places; /* may be NULL */
	/*
	 * enum decode_estimator: how samples of time and registers are divided; 0:
	 * DECODE_ESTIMATORS. A recording that the database has by others is read anew.
	 */
	unsigned estimators;
	void *context;
	/*
	 * Called when the totals of a run are written, once for each: it adds what they show (the
	 * table finding). Returns 0 or a negative errno. NULL: nobody does.
	 */
	int (*conclude)(struct db *db, int64_t run_id);
	/*
	 * Called when all of a trace but the rows of its blocks is written, and nothing is
	 * committed: questions about totals need not wait. It may read db, and its views. NULL:
	 * nobody asks.
	 */
	void (*on_totals)(void *totals_context, struct db *db);
	void *totals_context;
};

/* The estimators of a text such as "window,block"; 0: it is no such list. */
unsigned import_estimators(const char *list);

/*
 * Whether a run of a database was made as the options want it. The answer is in its facts; what was
 * made before they told it was made with DECODE_ESTIMATORS.
 */
bool import_is_as_wanted(struct db *db, int64_t run_id, const struct import_options *options);

/* Say that a phase without a measure begins. */
void import_begin_phase(const struct import_options *options, const char *phase);

/* What came of it. */
struct import_result {
	int64_t run_id;
	bool is_skipped; /* the database has this recording already */
	bool ended_cleanly;
	bool is_failure; /* by the verdict, else by the command's exit status: known, and not 0 */
	uint64_t n_events;
	uint64_t n_allocations;
	uint64_t n_samples;
	uint64_t n_lost; /* sum of all losses */
	int64_t duration_ns;
	char problem[400]; /* what a person should know now, one line; "" */
};

/*
 * Add the recording of a trace file to a database that was begun. The caller commits. Returns 0, or
 * what feed_open() returns, or a negative errno of the database.
 */
int import_trace(struct db *db, const char *path, const struct import_options *options,
		 struct import_result *ret_result);

/*
 * Remove all that the database has of a run; what is shared between runs stays. 0 or a negative
 * errno.
 */
int import_delete_run(struct db *db, int64_t run_id);

/*
 * Leave a run its totals only (run.detail): its many rows go. For a run that was just imported, by
 * the same transaction. Returns 0 or a negative errno.
 */
int import_drop_rows(struct db *db, int64_t run_id);
