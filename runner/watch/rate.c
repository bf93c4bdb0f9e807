/* What follows from the number of hits and from time: pauses, and turns of what is hot. */
#include "common/clock.h"
#include "runner/watch/arming.h"

#define SLICES_PER_SECOND 10u
#define TURNS_PER_SECOND  4u
#define NS_PER_SECOND	  UINT64_C(1000000000)
#define TIME_DIVISOR	  5u /* all watches may cost a fifth of the program's time ... */
#define ALL_DIVISOR                                                                                \
	10u /* hits that take a tenth of the time by that measure are taken to take all */
#define BURST_NS                                                                                   \
	(250 * UINT64_C(1000000)) /* ... and each so much at once, so that bursts are whole */
#define HASTE_NS (BURST_NS / 10)

void watches_hit(struct watches *watches, uint64_t address)
{
	for (unsigned i = 0; i < WATCH_MAX_ITEMS; i++) {
		struct watch_item *item = &watches->items[i];

		if (item->is_armed && address - item->address < item->n_bytes) {
			item->slice_hits++;
			item->round_hits++;
		}
	}
}

static uint64_t to_ns(const struct watches *watches, uint64_t ticks)
{
	if (ticks > watches->ticks_per_second)
		ticks = watches->ticks_per_second; /* the first time, or nothing was hit for long */
	return ticks * NS_PER_SECOND / watches->ticks_per_second;
}

/*
 * What a hit costs is known from the start only, and may be several times that when others are at
 * work, too.
 */
static void spend(struct watches *watches, uint64_t now_ticks)
{
	uint64_t passed_ns = to_ns(watches, now_ticks - watches->round_ticks);

	for (unsigned i = 0; i < WATCH_MAX_ITEMS; i++) {
		struct watch_item *item = &watches->items[i];
		uint64_t ns = item->round_hits * watches->hit_ns;

		if (ns > passed_ns / ALL_DIVISOR && ns < passed_ns)
			ns = passed_ns;
		item->spent_ns += ns;
		item->round_hits = 0;
	}
	watches->round_ticks = now_ticks;
}

/* What time has paid for. What is left of an item that is over stays: it may be armed again. */
static void pay(struct watches *watches, uint64_t ticks)
{
	uint64_t paid = to_ns(watches, ticks) / TIME_DIVISOR, n = 0;

	for (unsigned i = 0; i < WATCH_MAX_ITEMS; i++)
		n += watches->items[i].spent_ns > 0;
	for (unsigned i = 0; i < WATCH_MAX_ITEMS && n > 0; i++) {
		uint64_t *spent_ns = &watches->items[i].spent_ns;

		*spent_ns -= *spent_ns < paid / n ? *spent_ns : paid / n;
	}
}

bool watches_want_haste(const struct watches *watches)
{
	for (unsigned i = 0; watches->stream && watches->rate && i < WATCH_MAX_ITEMS; i++) {
		const struct watch_item *item = &watches->items[i];

		if (item->is_armed && !item->is_paused && item->spent_ns > HASTE_NS)
			return true;
	}
	return false;
}

static bool is_over_rate(const struct watches *watches, const struct watch_item *item)
{
	return item->slice_hits > watches->rate / SLICES_PER_SECOND || item->spent_ns > BURST_NS;
}

static void bound_rate(struct watches *watches, uint64_t now_ticks)
{
	bool is_new =
		now_ticks - watches->slice_ticks > watches->ticks_per_second / SLICES_PER_SECOND;

	spend(watches, now_ticks);
	if (watches->rate == 0)
		return;
	if (is_new) {
		pay(watches, now_ticks - watches->slice_ticks);
		watches->slice_ticks = now_ticks;
	}
	for (unsigned i = 0; i < WATCH_MAX_ITEMS; i++) {
		struct watch_item *item = &watches->items[i];

		if (!item->is_armed)
			continue;
		if (!item->is_paused && is_over_rate(watches, item))
			watches_pause(watches, item);
		else if (item->is_paused && is_new && item->spent_ns <= BURST_NS)
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
