#pragma once
/* access.dat of a folder as items of the folder's feed, in step with its logs. */
#include "analyze/input/heimdallr/clock-align.h"
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
