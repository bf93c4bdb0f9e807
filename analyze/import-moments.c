/* When things of a trace happen, and what waits for its time. */
#include <errno.h>
#include <string.h>

#include "analyze/import-internal.h"
#include "common/array.h"

int64_t import_time(struct import *import, uint64_t ticks)
{
	int64_t time_ns = merge_clock_of_ticks(&import->clock, ticks);

	if (time_ns > import->last_ns)
		import->last_ns = time_ns;
	return time_ns;
}

int64_t import_order(const struct import *import, uint64_t ticks)
{
	return (int64_t)(ticks - import->clock.start_ticks);
}

static int note_peak(struct import *import, const struct trace_pages *pages)
{
	uint64_t last = key_map_get(&import->last_peaks, pages->process_id, 0);

	if (pages->reason != TRACE_PAGES_PEAK || !pages->is_last || pages->ticks <= last)
		return 0;
	return key_map_put(&import->last_peaks, pages->process_id, 0, pages->ticks);
}

static int look_at(struct import *import, struct merge_clock *clock,
		   const struct trace_record *record)
{
	return record->type == TRACE_RECORD_CLOCK
		       ? merge_clock_add(clock, (const struct trace_clock *)record)
	       : record->type == TRACE_RECORD_PAGES
		       ? note_peak(import, (const struct trace_pages *)record)
		       : 0;
}

int import_find_peaks(struct import *import)
{
	struct merge_clock clock = { 0 };
	static const enum trace_frame_type types[] = { TRACE_FRAME_RECORDS };
	struct trace_reader *reader = NULL;
	struct trace_item item;
	int r = 0;

	if (trace_reader_open(import->path, &reader) < 0)
		return 0;
	merge_clock_init(&clock, trace_reader_header(reader)->start_ticks,
			 trace_reader_header(reader)->ticks_per_second);
	trace_reader_only(reader, types, 1);
	while (r == 0 && trace_reader_next(reader, &item) > 0) {
		const struct trace_record *record = NULL;

		/* Mostly nothing is later than the last one. */
		if (item.type == TRACE_FRAME_COMMIT)
			import->expected_ns = merge_clock_of_ticks(&clock, item.commit->ticks);
		while (r == 0 && item.type == TRACE_FRAME_RECORDS &&
		       (record = trace_record_next(&item, record)))
			r = look_at(import, &clock, record);
	}
	merge_clock_finish(&clock);
	trace_reader_close(reader);
	return r;
}

int import_add_moment(struct import *import, const struct import_moment *moment)
{
	if (grow_one(&import->moments, import->n_moments, &import->n_moments_allocated) < 0)
		return -ENOMEM;
	struct import_moment *copy = &import->moments[import->n_moments];
	*copy = *moment;
	copy->order = import->n_moments;
	if (moment->mapping.path) {
		copy->mapping.path = strdup(moment->mapping.path);
		if (!copy->mapping.path)
			return -ENOMEM;
	}
	import->n_moments++;
	return 0;
}
