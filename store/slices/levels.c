#include "store/slices/levels.h"

#include <errno.h>

#include "store/database.h"
#include "store/statement.h"

struct slice_span slice_span_none(void)
{
	return (struct slice_span){
		.first_ns = INT64_MAX,
		.last_ns = INT64_MIN,
		.first_row = INT64_MAX,
		.last_row = INT64_MIN,
		.first_sample = INT64_MAX,
		.last_sample = INT64_MIN,
	};
}

static void widen(int64_t *first, int64_t *last, int64_t other_first, int64_t other_last)
{
	*first = other_first < *first ? other_first : *first;
	*last = other_last > *last ? other_last : *last;
}

void slice_span_add(struct slice_span *span, const struct slice_span *other)
{
	widen(&span->first_ns, &span->last_ns, other->first_ns, other->last_ns);
	widen(&span->first_row, &span->last_row, other->first_row, other->last_row);
	widen(&span->first_sample, &span->last_sample, other->first_sample, other->last_sample);
}

static void finish_group(struct slice_group *group)
{
	slice_blocks_finish(&group->blocks);
	slice_touches_finish(&group->touches);
}

static int begin_group(struct slice_levels *levels, struct slice_group *group)
{
	finish_group(group);
	group->n = 0;
	group->span = slice_span_none();
	group->blocks.threads.first_row = levels->first_thread;
	return levels->is_blocks ? 0 : slice_touches_init(&group->touches, levels->first_thread);
}

int slice_levels_init(struct slice_levels *levels)
{
	int r = statement_prepare(db_handle(levels->db),
				  "INSERT INTO slice(run_id, is_blocks, level, number, first_ns,"
				  " last_ns, first_row, last_row, first_sample, last_sample, data)"
				  " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				  &levels->insert);

	levels->blob = slice_blob_open();
	levels->reader = slice_reader_open();
	if (r == 0 && (!levels->blob || !levels->reader))
		r = -ENOMEM;
	for (unsigned i = 0; i < SLICE_LEVELS && r == 0; i++)
		r = begin_group(levels, &levels->groups[i]);
	return r;
}

void slice_levels_finish(struct slice_levels *levels)
{
	for (unsigned i = 0; i < SLICE_LEVELS; i++)
		finish_group(&levels->groups[i]);
	slice_blob_close(levels->blob);
	slice_reader_close(levels->reader);
	sqlite3_finalize(levels->insert);
}

static int insert(struct slice_levels *levels, unsigned level, const uint8_t *bytes, size_t n_bytes)
{
	const struct slice_group *group = &levels->groups[level];
	const struct slice_span *span = &group->span;
	const int64_t values[] = {
		levels->run_id,	    levels->is_blocks, level,		group->number,
		span->first_ns,	    span->last_ns,     span->first_row, span->last_row,
		span->first_sample, span->last_sample,
	};
	int n = sizeof(values) / sizeof(values[0]);

	for (int i = 0; i < n; i++)
		statement_integer(levels->insert, i + 1, values[i]);
	sqlite3_bind_blob64(levels->insert, n + 1, bytes, n_bytes, SQLITE_STATIC);
	return statement_run(levels->insert);
}

/* What was packed becomes a part of a group. */
static int add(struct slice_levels *levels, struct slice_group *group, int64_t ref_ns,
	       const uint8_t *bytes, size_t n_bytes)
{
	struct slice_blocks_sum blocks = { &group->blocks, ref_ns, INT64_MAX };
	struct slice_touches_sum touches = { &group->touches.tally, &group->touches.n_clock, 0,
					     INT64_MAX, INT64_MAX };
	const struct slice_visitor of_blocks = { SLICE_OF_BLOCKS, slice_blocks_add, &blocks };
	const struct slice_visitor of_touches = { SLICE_OF_TOUCHES, slice_touches_add, &touches };

	return slice_read(levels->reader, bytes, n_bytes,
			  levels->is_blocks ? &of_blocks : &of_touches);
}

static int write_group(struct slice_levels *levels, unsigned level)
{
	struct slice_group *group = &levels->groups[level];
	const uint8_t *bytes;
	size_t n_bytes;
	int r = levels->is_blocks
			? slice_blocks_pack(&group->blocks, levels->blob, group->span.first_ns)
			: slice_touches_pack(&group->touches, levels->blob);

	if (r == 0)
		r = slice_blob_bytes(levels->blob, &bytes, &n_bytes);
	if (r == 0)
		r = insert(levels, level, bytes, n_bytes);
	if (r == 0 && level + 1 < SLICE_LEVELS) {
		struct slice_group *next = &levels->groups[level + 1];
		slice_span_add(&next->span, &group->span);
		next->n++;
		r = add(levels, next, group->span.first_ns, bytes, n_bytes);
	}
	slice_blob_clear(levels->blob);
	group->number++;
	return r < 0 ? r : begin_group(levels, group);
}

int slice_levels_close(struct slice_levels *levels)
{
	int r = write_group(levels, 0);

	for (unsigned i = 1; i < SLICE_LEVELS && r == 0; i++) {
		if (levels->groups[i].n == SLICE_FANOUT)
			r = write_group(levels, i);
	}
	return r;
}

int slice_levels_flush(struct slice_levels *levels)
{
	int r = 0;

	for (unsigned i = 1; i < SLICE_LEVELS && r == 0; i++) {
		if (levels->groups[i].n > 0)
			r = write_group(levels, i);
	}
	return r;
}
