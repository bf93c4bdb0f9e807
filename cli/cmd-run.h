#pragma once
/* What the files of `memsight run` share. */
#include "cli/cmd.h"
#include "cli/heimdallr-variables.h"
#include "cli/options/option.h"
#include "runner/run-options.h"
#include "series/config-file.h"
#include "series/plan.h"
#include "series/results-folder.h"

/* The options of a mode: keys of a config file through the option table of `record`. */
struct series_mode_set {
	struct option_set options;
	struct heimdallr heimdallr;
};

/* One for each mode of a series. */
struct series_modes {
	struct series_mode_set *sets;
	struct run_options *options;
	size_t n;
};

/* A series under way. */
struct cmd_series {
	const struct option_set *options;
	struct series *series;
	struct series_plan plan;
	struct series_modes modes;
	struct series_folder folder;
	char message[SERIES_MESSAGE_BYTES];
};

/* --executor slurm: submit what is missing. The folder is open, the plan is laid out. */
int cmd_run_slurm(struct cmd_series *run);

/* --status: how far the series is. The same. */
int cmd_run_status(struct cmd_series *run);
