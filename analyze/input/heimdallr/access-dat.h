#pragma once
/* access.dat of a folder as items of the folder's feed, in step with its logs. */
#include "analyze/input/clock-map.h"
#include "analyze/input/heimdallr/folder.h"
#include "analyze/input/record-list.h"

struct heimdallr_access;

/*
 * first_ns: of the logs' first line, 0 without any: where its clock is put if nothing aligns it.
 * Returns 0, or why it cannot be read as a negative errno: -EBADMSG, no perf.data.
 */
int heimdallr_access_open(const struct heimdallr_folder *folder, uint64_t first_ns,
			  struct heimdallr_access **ret_access);
struct heimdallr_access *heimdallr_access_close(struct heimdallr_access *access); /* accepts NULL */

/* The earliest time of it, in CLOCK_MONOTONIC_RAW; 0: there is none. */
uint64_t heimdallr_access_start(const struct heimdallr_access *access);

/* When the thread of log i was born, or the last exec of it, likewise; 0: perf did not see it. */
uint64_t heimdallr_access_birth(const struct heimdallr_access *access, size_t i);

/* Tell how its clock goes. Returns 0 or -ENOMEM. */
int heimdallr_access_clock(const struct heimdallr_access *access, struct record_list *records);

/*
 * The next item of what is older than raw_ns. Returns 1, 0: all of that was given, or a negative
 * errno.
 */
int heimdallr_access_next(struct heimdallr_access *access, uint64_t raw_ns,
			  struct trace_item *ret_item);

/* What could not be used, and how sure times are. Returns 0 or -ENOMEM. */
int heimdallr_access_losses(const struct heimdallr_access *access, struct record_list *records);

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

/*
 * Reads access.dat and the logs. ret_births[i], of n_logs: when perf saw the thread of log i being
 * born, or its program begun by the last exec (env, nice and the like came before it), in perf's
 * clock; 0: it did not. Returns 0, as perf_data_open(), or a negative errno.
 */
int heimdallr_align(const struct heimdallr_folder *folder, struct clock_offset *ret_offset,
		    uint64_t *ret_births);
