#pragma once
/*
 * A series on a cluster: one Slurm job array whose elements make the runs that are missing, each by
 * `memsight run --only`, and one job behind it that makes the database. The output folder must be
 * on a file system that the nodes share.
 *
 *	OUTPUT/slurm/runs.lst names of the runs, one a line: element i makes lines i, i + n, i + 2n
 *	... OUTPUT/slurm/job.sh what an element executes OUTPUT/slurm/jobs.lst ids of the jobs that
 *	were submitted: "array ID", "analyze ID" OUTPUT/slurm/A_I.log what element I of array A had
 *	to say
 */
#include "series/results-folder.h"

#define SERIES_SLURM_ELEMENTS 1000 /* Slurm's default MaxArraySize is 1001 */

struct series_slurm {
	const struct series_plan *plan;
	const struct series_folder *folder;
	char *const *
		/* of this series again, NULL behind the last: memsight run ... --only is added */
		command;
	const char *memsight; /* path of the program */
	const char *arguments; /* for sbatch, as a shell takes them; NULL: none */
	uint64_t n_parallel; /* at most so many elements at once; 0: as many as there is room for */
	bool retry; /* failed runs, too */
};

/* What was submitted. */
struct series_submission {
	size_t n_runs;
	size_t n_elements;
	char array_id[32];
	char analyze_id[32];
};

/*
 * Submit what is missing. Returns 0 (also with nothing to do: n_runs is 0), -EALREADY (jobs of this
 * series are still there), or another negative errno, each with one line in message: what sbatch
 * said.
 */
int series_slurm_submit(const struct series_slurm *slurm, struct series_submission *ret_submission,
			char *message);

/* How many of the series' jobs Slurm still has. */
struct series_slurm_state {
	size_t n_waiting;
	size_t n_running;
	char why[64]; /* Slurm's reason for the first that waits; "" */
	char array_id[32]; /* of the last submission; "": there was none */
};

/* Ask Slurm. Returns 0 or a negative errno with one line in message. */
int series_slurm_state(const struct series_folder *folder, struct series_slurm_state *ret_state,
		       char *message);
