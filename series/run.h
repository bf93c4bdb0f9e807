#pragma once
/* Carries a plan out, run after run; goes on where an earlier call stopped. */
#include "series/execute.h"

/* What a person watches. */
struct series_progress {
	size_t n_done; /* of n_all, without those of earlier calls */
	size_t n_earlier; /* done by earlier calls */
	size_t n_all;
	const char *name; /* PROGRAM.MODE.N of the run that begins or has ended */
	const struct series_outcome *outcome; /* NULL: it begins */
	int64_t elapsed_ns; /* since this call began */
	int64_t left_ns; /* expected; < 0: not known */
};

struct series_observer {
	void *user;
	void (*progress)(void *user, const struct series_progress *progress);
	void (*warn)(void *user, const char *line);
};

struct series_request {
	const struct series_plan *plan;
	struct series_folder *folder;
	/* The options of a mode. */
	const struct run_options *modes;
	series_prepare prepare; /* may be NULL */
	void *user; /* of prepare */
	bool fail_fast; /* stop at the first run that fails */
	bool retry; /* do failed runs of earlier calls again */
	const char *const *only; /* names of the runs to do, NULL behind the last; NULL: all */
	struct series_observer observer;
};

struct series_totals {
	size_t n_all;
	size_t n_done; /* by this call */
	size_t n_bad; /* of all: failed, timed out */
	bool was_stopped; /* by a signal; fail_fast shows in n_done and n_bad */
};

/*
 * Execute what is missing. A run that fails is a result like another; it does not stop the series.
 * Returns 0, or a negative errno (disk full, no memory) with one line in message.
 */
int series_run(const struct series_request *request, struct series_totals *ret_totals,
	       char *message);
