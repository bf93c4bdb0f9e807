#pragma once
/*
 * A part of a run, from one time to another, counted anew (report/selection/selection.h) into a connection of its own.
 * Counting takes long, so the last part is kept for the questions that follow. One thread at a time.
 */
#include <stdint.h>

struct db;
struct view_context;

struct view_span {
	int64_t run_id;
	int64_t from_ns; /* since the run's start */
	int64_t to_ns; /* not included; INT64_MAX: the end */
};

struct view_part {
	struct view_span span;
	struct db *db; /* its temporary tables hide the aggregates */
};

/*
 * Have context->part hold a span: count it, unless it does already; an older one is freed. Gives up when the
 * context's patience is over. Returns 0 or a negative errno, perhaps with a message in the context.
 */
int view_part_take(struct view_context *context, const struct view_span *span);

struct view_part *view_part_free(struct view_part *part); /* accepts NULL, returns NULL */
