#pragma once
/* What `memsight record' does for an instrumented copy that calls it: --copy FILE. */
#include "cli/options/option.h"

/*
 * Take the options that the file of --copy holds, behind those of the command line and of
 * variables; nothing without --copy. Call it behind option_parse(). Returns 0; -EINVAL with one
 * line in options->message; -ENOMEM.
 */
int copy_options_take(struct option_set *options);

/*
 * Nothing could be recorded, and status says with what that would end. With --copy the command
 * is run in our place, unrecorded, since nobody who starts a copy waits for memsight. Returns only
 * without --copy, or where the command cannot be started: the status to exit with.
 */
int copy_run_unrecorded(const struct option_set *options, int status);
