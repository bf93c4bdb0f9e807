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

int import_find_peaks(struct import *import)
{
	static const enum trace_frame_type types[] = { TRACE_FRAME_RECORDS };
	auto_trace_reader struct trace_reader *reader = NULL;
	struct trace_item item;
	int r = 0;

	if (import->options->growing || trace_reader_open(import->path, &reader) < 0)
		return 0;
	trace_reader_only(reader, types, 1);
	while (r == 0 && trace_reader_next(reader, &item) > 0) {
		const struct trace_record *record = NULL;

		while (r == 0 && item.type == TRACE_FRAME_RECORDS &&
		       (record = trace_record_next(&item, record)))
			if (record->type == TRACE_RECORD_PAGES)
				r = note_peak(import, (const struct trace_pages *)record);
	}
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
