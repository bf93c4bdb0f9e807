/* What follows from the number of hits and from time: pauses, and turns of what is hot. */
#include "common/clock.h"
#include "runner/watch-arming.h"

#define SLICES_PER_SECOND 10u
#define TURNS_PER_SECOND  4u

void watches_hit(struct watches *watches, uint64_t address)
{
	for (unsigned i = 0; i < WATCH_MAX_ITEMS; i++) {
		struct watch_item *item = &watches->items[i];

		if (item->is_armed && address - item->address < item->n_bytes)
			item->slice_hits++;
	}
}

static void bound_rate(struct watches *watches, uint64_t now_ticks)
{
	bool is_new =
		now_ticks - watches->slice_ticks > watches->ticks_per_second / SLICES_PER_SECOND;

	if (watches->rate == 0)
		return;
	if (is_new)
		watches->slice_ticks = now_ticks;
	for (unsigned i = 0; i < WATCH_MAX_ITEMS; i++) {
		struct watch_item *item = &watches->items[i];

		if (!item->is_armed)
			continue;
		if (!item->is_paused && item->slice_hits > watches->rate / SLICES_PER_SECOND)
			watches_pause(watches, item);
		else if (item->is_paused && is_new)
			watches_resume(watches, item);
		if (is_new)
			item->slice_hits = 0;
	}
}

/* The registers that are free look at other lines now. */
static void turn_hot(struct watches *watches, const struct images *images)
{
	struct watch_hot_word words[PMU_WATCH_REGISTERS];
	unsigned n, i = WATCH_MAX_TARGETS;

	for (unsigned k = i; k < WATCH_MAX_ITEMS; k++) {
		if (watches->items[k].is_armed)
			watches_end_item(watches, &watches->items[k], clock_ticks(watches->clock));
	}
	n = watch_hot_choose(watches->hot, words,
			     watches->n_registers - (unsigned)__builtin_popcount(watches->used));
	for (unsigned k = 0; k < n; k++) {
		const struct watch_found found = {
			.image = images_find_id(images, words[k].process_id),
			.address = words[k].address,
		};

		if (found.image)
			watches_arm(watches, &watches->items[i++], &found);
	}
}

void watches_round(struct watches *watches, const struct images *images, uint64_t now_ticks)
{
	if (!watches->stream)
		return;
	bound_rate(watches, now_ticks);
	if (watches->hot &&
	    now_ticks - watches->hot_ticks > watches->ticks_per_second / TURNS_PER_SECOND) {
		watches->hot_ticks = now_ticks;
		turn_hot(watches, images);
	}
}
