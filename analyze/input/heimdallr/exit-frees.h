#pragma once
/*
 * Where Heimdallr's frees of the blocks that are live at exit begin.
 *
 * When a program exits, Heimdallr's tracer logs a free of every block that is still there: handler
 * by handler in order of their ids, for each in order of addresses (its std::map), without call
 * stacks. So these are the last lines of the logs. Where stacks were recorded a line without one
 * tells; else the longest such sequence at the end, behind the last allocation, is taken for it:
 * frees by the program itself right before its exit, in that very order, cannot be told from it.
 */
#include <stdint.h>

#include "analyze/input/heimdallr/log.h"

struct heimdallr_exit {
	uint64_t n_frees;
	uint64_t time_ns; /* of the first of them; 0: there are none */
};

/*
 * Let the logs of one process, in order of ids, end where those frees begin. Returns 0 or a
 * negative errno.
 */
int heimdallr_exit_find(struct heimdallr_log *logs, size_t n, struct heimdallr_exit *ret_exit);
