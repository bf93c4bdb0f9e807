#pragma once
#include "cli/options/option.h"

/*
 * Say why a picture of time x address could not be made (what heat_make() returned), with what to
 * do. Returns an exit status, or CMD_DONE when the error is none of a picture's.
 */
int heat_complain(const struct option_set *options, int error);

/* --cells: columns and rows, 0 without it. Says what is wrong and returns an exit status. */
int cells_read(const struct option_set *options, unsigned ret_cells[2]);
