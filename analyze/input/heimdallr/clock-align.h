#pragma once
/*
 * How times of access.dat (perf's own clock) become those of the logs (CLOCK_MONOTONIC_RAW).
 *
 * Nothing in the folder has both at one moment, but much is known of what came first. A thread is
 * born, a program begun by exec, and memory mapped, before a line of the log tells of a block of
 * that thread or in that memory; a block is accessed before its free is logged: each bounds the
 * distance of the clocks from above. (That a block is born before it is accessed does not: calloc
 * clears it before it is logged.) A thread ends behind its last line: that bounds it from below.
 * The least of the upper bounds is taken, since of many delays the shortest is next to nothing; its
 * error is the distance down to the lower bound.
 */
#include "analyze/input/clock-bounds.h"
#include "analyze/input/heimdallr/folder.h"

/*
 * Reads access.dat and the logs. ret_births[i], of n_logs: when perf saw the thread of log i being
 * born, or its program begun by the last exec (env, nice and the like came before it), in perf's
 * clock; 0: it did not. Returns 0, as perf_data_open(), or a negative errno.
 */
int heimdallr_align(const struct heimdallr_folder *folder, struct clock_offset *ret_offset,
		    uint64_t *ret_births);
