#pragma once
/* What the blocks of each call site held over time (table site_curve). */
#include <stdint.h>

struct db;
struct picture_curves;

/* duration_ns: of the run. NULL without memory. */
struct picture_curves *picture_curves_open(int64_t duration_ns);
struct picture_curves *picture_curves_close(struct picture_curves *curves); /* accepts NULL */

/*
 * A call site has so many bytes more at a time, not before those that were told before it. 0 or
 * -ENOMEM.
 */
int picture_curves_change(struct picture_curves *curves, int64_t stack_id, uint64_t time,
			  int64_t by);

/* After the last one. Returns 0 or a negative errno. */
int picture_curves_write(struct picture_curves *curves, struct db *db, int64_t run_id);
