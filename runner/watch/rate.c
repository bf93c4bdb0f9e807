/* What follows from the number of hits and from time: pauses, and turns of what is hot. */
#include <time.h>

#include "common/array.h"
#include "common/clock.h"
#include "runner/watch/arming.h"

#define SLICES_PER_SECOND 10u
#define TURNS_PER_SECOND  4u
#define NS_PER_SECOND	  UINT64_C(1000000000)
#define TIME_DIVISOR	  5u /* all watches may cost a fifth of the program's CPU time ... */
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
		ticks = watches->ticks_per_second; /* the first time */
	return ticks * NS_PER_SECOND / watches->ticks_per_second;
}

/*
 * What a hit costs is known from the start only, and may be several times that when others are at
 * work, too. Where we came late there were more of them than found room in a ring.
 */
static uint64_t cost_of(const struct watches *watches, uint64_t n_hits, uint64_t passed_ns)
{
	uint64_t ns = n_hits * watches->hit_ns;
	bool is_all = ns > passed_ns / ALL_DIVISOR ||
		      (watches->ring_hits && n_hits >= watches->ring_hits);

	return is_all && ns < passed_ns ? passed_ns : ns;
}

static void spend(struct watches *watches, uint64_t passed_ns)
{
	for (unsigned i = 0; i < WATCH_MAX_ITEMS; i++) {
		struct watch_item *item = &watches->items[i];

		item->spent_ns += cost_of(watches, item->round_hits, passed_ns);
		item->round_hits = 0;
	}
}

/* CPU time of all processes that live; 0: nobody tells. */
static uint64_t program_time(const struct images *images)
{
	uint64_t sum = 0;

	for (const struct image *image = images->first; image; image = image->next) {
		struct timespec time;
		clockid_t clock;

		if (image->pid > 0 && clock_getcpuclockid(image->pid, &clock) == 0 &&
		    clock_gettime(clock, &time) == 0)
			sum += (uint64_t)time.tv_sec * NS_PER_SECOND + (uint64_t)time.tv_nsec;
	}
	return sum;
}

/*
 * The program's time since the last round. While others have the CPUs none passes: what it would
 * pay for would be all that the program gets.
 */
static uint64_t pass(struct watches *watches, const struct images *images, uint64_t now_ticks)
{
	uint64_t ns = program_time(images), before_ns = watches->program_ns, passed_ns;

	if (ns == 0) {
		passed_ns = to_ns(watches, now_ticks - watches->round_ticks);
	} else {
		passed_ns = ns > before_ns ? ns - before_ns : 0;
		if (passed_ns > NS_PER_SECOND)
			passed_ns = NS_PER_SECOND;
	}
	watches->program_ns = ns;
	watches->round_ticks = now_ticks;
	watches->slice_ns += passed_ns;
	return passed_ns;
}

/* What time has paid for. What is left of an item that is over stays: it may be armed again. */
static void pay(struct watches *watches)
{
	uint64_t paid = watches->slice_ns / TIME_DIVISOR, n = 0;

	watches->slice_ns = 0;

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

static void bound_rate(struct watches *watches, const struct images *images, uint64_t now_ticks)
{
	bool is_new =
		now_ticks - watches->slice_ticks > watches->ticks_per_second / SLICES_PER_SECOND;

	if (watches->rate == 0 || !array_find(watches->items, WATCH_MAX_ITEMS, it, it->is_armed))
		return;
	spend(watches, pass(watches, images, now_ticks));
	if (is_new) {
		pay(watches);
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
	bound_rate(watches, images, now_ticks);
	if (watches->hot &&
	    now_ticks - watches->hot_ticks > watches->ticks_per_second / TURNS_PER_SECOND) {
		watches->hot_ticks = now_ticks;
		turn_hot(watches, images);
	}
}
