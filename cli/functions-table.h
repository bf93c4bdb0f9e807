#pragma once
/*
 * The functions of a program that `memsight record` is to choose: as regions to be recorded, and
 * with --functions-dry-run as a table.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "analyze/functions/functions.h"
#include "analyze/functions/plan.h"
#include "cli/options/option.h"

/* Are functions chosen? Refuses what goes with no choice, or with no recording: CMD_USAGE. */
int functions_check(const struct option_set *options, bool *ret_is_chosen);

/* The option of `report` that shows what is chosen; NULL: nothing is. */
const char *functions_report(const struct option_set *options);

/* Whose functions: of a command that would be run, or of processes. */
struct functions_of {
	const char *name; /* of the command, or as the processes were named */
	const pid_t *pids; /* NULL: it is a command */
	size_t n;
};

/* What is chosen, and what programs are told of it. found outlives the plan. */
int functions_choose(const struct option_set *options, const struct functions_of *of,
		     struct found_functions *found, struct functions_plan *plan);

/*
 * Print the table for the command that the options name, or for the files that a process has
 * mapped. The exit status.
 */
int functions_dry_run(const struct option_set *options);
