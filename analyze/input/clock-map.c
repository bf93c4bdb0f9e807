#include "analyze/input/clock-map.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

int clock_ranges_add(struct clock_ranges *ranges, uint64_t start, uint64_t size, uint64_t time_ns)
{
	int r = grow_one(&ranges->items, ranges->n, &ranges->n_allocated);

	if (r < 0 || size == 0 || start + size < start)
		return r;
	ranges->items[ranges->n++] =
		(struct clock_range){ .start = start, .end = start + size, .time_ns = time_ns };
	return 0;
}

DEFINE_ORDER(compare_ranges, struct clock_range, BY(start));

/* Where ranges lie over each other, which of them is meant depends on the time. */
void clock_ranges_sort(struct clock_ranges *ranges)
{
	uint64_t end = 0;
	size_t longest = 0;

	if (ranges->n > 1)
		qsort(ranges->items, ranges->n, sizeof(*ranges->items), compare_ranges);
	for (size_t i = 0; i < ranges->n; i++) {
		if (i > 0 && ranges->items[i].start < end)
			ranges->items[i].is_shared = ranges->items[longest].is_shared = true;
		if (ranges->items[i].end > end) {
			end = ranges->items[i].end;
			longest = i;
		}
	}
}

const struct clock_range *clock_ranges_find(const struct clock_ranges *ranges, uint64_t address)
{
	size_t low = array_n_until(ranges->items, ranges->n, start, address);

	if (low == 0)
		return NULL;
	const struct clock_range *range = &ranges->items[low - 1];
	return address < range->end && !range->is_shared ? range : NULL;
}

void clock_ranges_finish(struct clock_ranges *ranges)
{
	free(ranges->items);
	*ranges = (struct clock_ranges){ 0 };
}

void clock_bounds_high(struct clock_bounds *bounds, uint64_t perf_ns, uint64_t raw_ns)
{
	int64_t offset = (int64_t)(raw_ns - perf_ns);

	if (!bounds->has_high || offset < bounds->high)
		bounds->high = offset;
	bounds->has_high = true;
	bounds->n++;
}

void clock_bounds_low(struct clock_bounds *bounds, uint64_t perf_ns, uint64_t raw_ns)
{
	int64_t offset = (int64_t)(raw_ns - perf_ns);

	if (!bounds->has_low || offset > bounds->low)
		bounds->low = offset;
	bounds->has_low = true;
	bounds->n++;
}

struct clock_offset clock_bounds_offset(const struct clock_bounds *bounds)
{
	struct clock_offset offset = {
		.offset_ns = bounds->has_high ? bounds->high : bounds->low,
		.error_ns = UINT64_MAX,
		.is_known = bounds->has_high || bounds->has_low,
	};

	if (bounds->has_high && bounds->has_low)
		offset.error_ns = (uint64_t)llabs(bounds->high - bounds->low) + 1;
	return offset;
}

void merge_clock_init(struct merge_clock *clock, uint64_t start_ticks, uint64_t ticks_per_second)
{
	*clock = (struct merge_clock){
		.start_ticks = start_ticks,
		.ns_per_tick = ticks_per_second ? 1e9 / (double)ticks_per_second : 1,
	};
}

void merge_clock_finish(struct merge_clock *clock)
{
	free(clock->pairs);
	clock->pairs = NULL;
	clock->n = clock->n_allocated = 0;
}

/* The signed distance of two stamps, whatever they hold. */
static int64_t distance(uint64_t from, uint64_t to)
{
	return (int64_t)(to - from);
}

/* Absurd stamps end here, so that times can be subtracted. */
#define MAX_NS (INT64_C(1) << 61)

/* Times that are held are far from that. */
#define HELD_MAX_TICKS (UINT64_C(1) << 48)
#define HELD_MAX_SLOPE 1024.0

static int64_t to_ns(double ns)
{
	if (ns >= (double)MAX_NS)
		return MAX_NS;
	if (ns <= -(double)MAX_NS)
		return -MAX_NS;
	return (int64_t)(ns < 0 ? ns - 0.5 : ns + 0.5);
}

int merge_clock_add(struct merge_clock *clock, const struct trace_clock *record)
{
	const struct merge_clock_pair *before = clock->n ? &clock->pairs[clock->n - 1] : NULL;

	if (before && (record->ticks <= before->ticks || record->raw_ns <= before->raw_ns)) {
		clock->n_refused += record->ticks != before->ticks;
		return 0;
	}
	if (grow_one(&clock->pairs, clock->n, &clock->n_allocated) < 0)
		return -ENOMEM;
	if (!before && clock->start_ticks == 0) /* the header is damaged: the run starts here */
		clock->start_ticks = record->ticks;
	if (!before) {
		double since = (double)distance(clock->start_ticks, record->ticks);
		clock->start_raw_ns = record->raw_ns - (uint64_t)to_ns(since * clock->ns_per_tick);
	}
	clock->held_ticks = 0; /* the last line ends now */
	if (record->error_ns > clock->error_ns)
		clock->error_ns = record->error_ns;
	clock->pairs[clock->n++] = (struct merge_clock_pair){ record->ticks, record->raw_ns, 0 };
	if (clock->n > 1) {
		struct merge_clock_pair *line = &clock->pairs[clock->n - 2];
		line->slope = (double)(line[1].raw_ns - line->raw_ns) /
			      (double)(line[1].ticks - line->ticks);
	}
	return 0;
}

/* -1: line i begins behind ticks; 1: it ended before; 0: it holds. The outer lines are endless. */
static int side_of(const struct merge_clock *clock, size_t i, uint64_t ticks)
{
	if (i > 0 && distance(clock->pairs[i].ticks, ticks) < 0)
		return -1;
	return i + 2 < clock->n && distance(clock->pairs[i + 1].ticks, ticks) >= 0 ? 1 : 0;
}

/* The pair where the line for ticks starts. There are two pairs or more. */
static const struct merge_clock_pair *line_of(struct merge_clock *clock, uint64_t ticks)
{
	size_t low = 0;
	size_t high = clock->n - 2;

	if (side_of(clock, clock->last, ticks) == 0)
		return &clock->pairs[clock->last];
	while (low < high) {
		size_t middle = (low + high + 1) / 2;
		if (side_of(clock, middle, ticks) < 0)
			high = middle - 1;
		else
			low = middle;
	}
	clock->last = low;
	return &clock->pairs[low];
}

/* The next answers are likely to be of the same line. */
static void hold(struct merge_clock *clock, const struct merge_clock_pair *line)
{
	bool is_last = line == &clock->pairs[clock->n - 2];
	int64_t ns = distance(clock->start_raw_ns, line->raw_ns);

	clock->held_ticks = 0;
	if (!(line->slope > 0 && line->slope < HELD_MAX_SLOPE) || ns < -MAX_NS / 2 ||
	    ns > MAX_NS / 2)
		return;
	clock->held_from = line->ticks;
	clock->held_ns = ns;
	clock->held_slope = line->slope;
	clock->held_ticks = is_last ? HELD_MAX_TICKS : line[1].ticks - line->ticks;
	if (clock->held_ticks > HELD_MAX_TICKS)
		clock->held_ticks = HELD_MAX_TICKS;
}

int64_t merge_clock_find(struct merge_clock *clock, uint64_t ticks)
{
	if (clock->n < 2) {
		bool is_held = clock->ns_per_tick > 0 && clock->ns_per_tick < HELD_MAX_SLOPE;

		clock->held_from = clock->start_ticks;
		clock->held_ns = 0;
		clock->held_slope = clock->ns_per_tick;
		clock->held_ticks = is_held ? HELD_MAX_TICKS : 0;
		return to_ns((double)distance(clock->start_ticks, ticks) * clock->ns_per_tick);
	}

	const struct merge_clock_pair *line = line_of(clock, ticks);
	hold(clock, line);
	int64_t since_ns = to_ns((double)distance(line->ticks, ticks) * line->slope);
	int64_t ns;

	if (__builtin_add_overflow(distance(clock->start_raw_ns, line->raw_ns), since_ns, &ns))
		return since_ns < 0 ? -MAX_NS : MAX_NS;
	return ns > MAX_NS ? MAX_NS : ns < -MAX_NS ? -MAX_NS : ns;
}

int64_t merge_clock_of_raw(struct merge_clock *clock, uint64_t raw_ns)
{
	if (clock->n == 0 && clock->start_raw_ns == 0) /* no pair: the first sample is time 0 */
		clock->start_raw_ns = raw_ns;
	int64_t ns = distance(clock->start_raw_ns, raw_ns);
	return ns > MAX_NS ? MAX_NS : ns < -MAX_NS ? -MAX_NS : ns;
}
