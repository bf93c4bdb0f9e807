#pragma once
#include "cli/heimdallr-variables.h"
#include "cli/options/option.h"
#include "runner/run.h"

/*
 * Record, tell of it, and do what options ask for at the end, for `record' and `attach'. Returns
 * the exit status.
 */
int cmd_record_run(struct run_options *run, const struct option_set *options,
		   const struct heimdallr *heimdallr);
