#pragma once
/*
 * One run of a series, in a process of its own: its standard input, output and error, folder and
 * environment are those of the workload, and whatever happens to it the series goes on.
 */
#include <sys/types.h>

#include "runner/run.h"
#include "series/plan.h"
#include "series/results-folder.h"

/*
 * In the run's own process and folder, before it is recorded: what of a mode's options depends on
 * the program. 0, or a negative errno that was explained on standard error.
 */
typedef int (*series_prepare)(void *user, size_t mode, struct run_options *options);

/* What a run needs besides its plan. */
struct series_execution {
	const struct series_plan *plan;
	const struct series_item *item;
	const struct series_folder *folder; /* closed in the run's process */
	const char *path; /* of the run's own folder */
	/* of the mode; command, output, names and facts are filled in */
	struct run_options options;
	series_prepare prepare; /* may be NULL */
	void *user;
	size_t position; /* of the run in the plan, from 1 */
	int64_t timeout_ns;
};

/* What became of it. */
struct series_outcome {
	enum series_result result;
	int exit_status; /* of the workload, or 128 + signal; 127, 126: it could not be started */
	uint64_t wall_ns; /* from the start of the command to its end */
	int64_t start_unix_s;
	char problem[SERIES_MESSAGE_BYTES]; /* one line; "" */
};

/*
 * Execute a run and wait for its end. stop_fd becomes readable when the series is to end (-1:
 * never): the run is then ended, too. Returns 0 and the outcome; -ECANCELED (stopped); or another
 * negative errno.
 */
int series_execute(const struct series_execution *execution, int stop_fd,
		   struct series_outcome *ret_outcome);

/* Write run.ini into the run's folder. 0 or a negative errno. */
int series_execution_note(const struct series_execution *execution,
			  const struct series_outcome *outcome);

/* In a child of the series: signals as the series found them. Call it before anything else. */
void series_process_begin(void);

/*
 * Block the signals that end a series; a signalfd tells of them. Returns it, or a negative errno.
 */
int series_process_signals(void);
