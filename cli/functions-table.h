#pragma once
/*
 * The functions of a program that `memsight record` is to choose: as regions to be recorded, and
 * with --functions-dry-run as a table.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "analyze/functions/functions.h"
#include "analyze/functions/loaded-files.h"
#include "analyze/functions/plan.h"
#include "cli/options/option.h"
#include "runner/run-options.h"

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

/* What is chosen, for as long as it is recorded. Zeroed: nothing. */
struct functions_chosen {
	struct loaded_files files;
	struct found_functions found;
	struct functions_plan plan;
	struct run_functions functions;
};
void functions_chosen_finish(struct functions_chosen *chosen);
#define auto_functions_chosen __attribute__((cleanup(functions_chosen_finish)))

/*
 * Choose as the options say, if they say anything. CMD_DONE: *ret_functions is what a run is told,
 * NULL where nothing is chosen; it is part of `chosen`. is_quiet: no remark on what cannot be done.
 */
int functions_choose(const struct option_set *options, const struct functions_of *of, bool is_quiet,
		     struct functions_chosen *chosen, const struct run_functions **ret_functions);

/*
 * Print the table for the command that the options name, or for the files that a process has
 * mapped. The exit status.
 */
int functions_dry_run(const struct option_set *options);
