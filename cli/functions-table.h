#pragma once
/* memsight record --functions-dry-run: which functions of a program are chosen, as a table. */
#include "cli/options/option.h"

/*
 * Refuse a choice of functions that nothing is asked for with: one line, CMD_USAGE. Else CMD_DONE.
 */
int functions_check(const struct option_set *options);

/*
 * Print the table for the command that the options name, or for the files that a process has
 * mapped. The exit status.
 */
int functions_dry_run(const struct option_set *options);
