#pragma once
#include "cli/options/option.h"
#include "store/selection/selection.h"

struct sqlite3;

/*
 * The part of a database that --run, --window, --from, --to, --process, --thread, --addr and
 * --region ask for. Says what is wrong in one line and returns an exit status; ret_selection->runs
 * is allocated, and the caller frees it.
 */
int selection_options_read(const struct option_set *options, struct sqlite3 *db,
			   struct selection *ret_selection);
