#include "store/totals/timeline.h"

void timeline_init(struct timeline *timeline)
{
	*timeline = (struct timeline){ .n = 1, .interval_ns = TIMELINE_FIRST_NS };
}

/* Join the second slot into the first, which is just before it. */
static struct timeline_slot joined(const struct timeline_slot *a, const struct timeline_slot *b)
{
	return (struct timeline_slot){
		.live_bytes = b->live_bytes,
		.max_live_bytes = a->max_live_bytes > b->max_live_bytes ? a->max_live_bytes
									: b->max_live_bytes,
		.n_allocations = a->n_allocations + b->n_allocations,
		.n_frees = a->n_frees + b->n_frees,
		.n_samples = a->n_samples + b->n_samples,
		.n_faults = a->n_faults + b->n_faults,
	};
}

static void double_interval(struct timeline *timeline)
{
	unsigned n = (timeline->n + 1) / 2;

	for (unsigned i = 0; i < n; i++) {
		struct timeline_slot *pair = &timeline->slots[2 * i];
		timeline->slots[i] = 2 * i + 1 < timeline->n ? joined(pair, pair + 1) : *pair;
	}
	timeline->n = n;
	timeline->interval_ns *= 2;
	timeline->from_ns = 0;
	timeline->last = 0;
}

struct timeline_slot *timeline_find(struct timeline *timeline, int64_t time_ns)
{
	if (time_ns < 0)
		time_ns = 0;
	while (time_ns / timeline->interval_ns >= TIMELINE_MAX)
		double_interval(timeline);

	unsigned i = (unsigned)(time_ns / timeline->interval_ns);
	for (; timeline->n <= i; timeline->n++)
		timeline->slots[timeline->n] = (struct timeline_slot){
			.live_bytes = timeline->live_bytes,
			.max_live_bytes = timeline->live_bytes,
		};
	timeline->last = i;
	timeline->from_ns = (int64_t)i * timeline->interval_ns;
	return &timeline->slots[i];
}

void timeline_change(struct timeline *timeline, int64_t time_ns, uint64_t live_bytes)
{
	timeline_at(timeline, time_ns);

	struct timeline_slot *slot = &timeline->slots[timeline->n - 1];
	timeline->live_bytes = live_bytes;
	slot->live_bytes = live_bytes;
	if (live_bytes > slot->max_live_bytes)
		slot->max_live_bytes = live_bytes;
}
