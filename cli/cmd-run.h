#pragma once
/* What the files of `memsight run` share. */
#include "cli/cmd.h"
#include "cli/series-modes.h"
#include "series/plan.h"
#include "series/results-folder.h"

/* A series under way. */
struct cmd_series {
	const struct option_set *options;
	struct series *series;
	struct series_plan plan;
	struct series_modes modes;
	struct series_folder folder;
	char message[SERIES_MESSAGE_BYTES];
};

/* Say what went wrong; returns the exit status. */
int cmd_run_fail(const struct cmd_series *run, int err);

/* --executor slurm: submit what is missing. The folder is open, the plan is laid out. */
int cmd_run_slurm(struct cmd_series *run);

/* --status: how far the series is. The same. */
int cmd_run_status(struct cmd_series *run);
