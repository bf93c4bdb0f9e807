#include "common/text.h"
#include "report/chart/heatmap-request.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What of a band is on the part of the axis that is shown. */
struct shown {
	const struct picture_band *band;
	uint64_t low; /* on the axis */
	uint64_t high;
};

struct ticks {
	struct heat_tick *items;
	size_t n;
	uint64_t gap;
};

static bool is_free(const struct ticks *ticks, uint64_t y)
{
	for (size_t i = 0; i < ticks->n; i++) {
		uint64_t other = ticks->items[i].y;
		if ((y > other ? y - other : other - y) < ticks->gap)
			return false;
	}
	return ticks->n < HEAT_MAX_TICKS;
}

/* As view/web/map/axis.js calls it. */
static const char *name_of(const struct picture_band *band)
{
	static const struct {
		/* as it is in the database, or how the kernel calls the mapping */
		const char *kind;
		const char *name;
	} names[] = {
		{ "[heap]", "heap (brk)" },
		{ "[stack]", "stack" },
		{ "tool", "memsight" },
	};
	const char *name = *band->name ? text_base_name(band->name) : band->kind;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i].kind) == 0)
			return names[i].name;
	return name;
}

static void add_band(struct ticks *ticks, const struct shown *shown)
{
	const struct picture_band *band = shown->band;
	struct heat_tick tick = { .y = shown->low, .is_band = true };

	if (!is_free(ticks, shown->low))
		return;
	snprintf(tick.text, sizeof(tick.text), "%llx",
		 (unsigned long long)(band->start + (shown->low - band->y)));
	snprintf(tick.name, sizeof(tick.name), "%.39s", name_of(band));
	ticks->items[ticks->n++] = tick;
}

/* Steps are powers of two, so that whole numbers of the unit are told. */
static void name_offset(char *text, size_t n_bytes, uint64_t offset, uint64_t step)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	size_t unit = 0;

	for (; step >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++) {
		step /= 1024;
		offset /= 1024;
	}
	snprintf(text, n_bytes, "+%llu %s", (unsigned long long)offset, units[unit]);
}

/* Round distances from a band's begin, where it is tall enough to need them. */
static void add_offsets(struct ticks *ticks, const struct shown *shown)
{
	uint64_t step = 1, base = shown->band->y;

	while (step < 2 * ticks->gap || step < (shown->high - shown->low) / 8)
		step *= 2;
	for (uint64_t at = ((shown->low - base) / step + 1) * step; base + at < shown->high;
	     at += step) {
		struct heat_tick tick = { .y = base + at };
		if (shown->high - tick.y < ticks->gap / 2 || !is_free(ticks, tick.y))
			continue;
		name_offset(tick.text, sizeof(tick.text), at, step);
		ticks->items[ticks->n++] = tick;
	}
}

/* The tallest first: where there is no room, the small ones go without a name. */
static int compare_heights(const void *a, const void *b)
{
	const struct shown *x = a, *y = b;
	uint64_t x_size = x->high - x->low, y_size = y->high - y->low;

	if (x_size != y_size)
		return x_size > y_size ? -1 : 1;
	return x->low < y->low ? -1 : x->low > y->low;
}

static int compare_places(const void *a, const void *b)
{
	const struct heat_tick *x = a, *y = b;

	return x->y < y->y ? -1 : x->y > y->y;
}

static size_t find_shown(const struct heat *heat, struct shown *shown)
{
	const struct picture_request *part = &heat->picture->request;
	size_t n = 0;

	for (size_t i = 0; i < heat->n_bands; i++) {
		const struct picture_band *band = &heat->bands[i];
		uint64_t end = band->y + (band->end - band->start);
		uint64_t low = band->y > part->low ? band->y : part->low;
		uint64_t high = end < part->high ? end : part->high;
		if (low < high)
			shown[n++] = (struct shown){ band, low, high };
	}
	qsort(shown, n, sizeof(*shown), compare_heights);
	return n;
}

int heat_ticks(const struct heat *heat, uint64_t gap, struct heat_tick ticks[HEAT_MAX_TICKS])
{
	struct shown *shown = calloc(heat->n_bands + 1, sizeof(*shown));
	struct ticks made = { .items = ticks, .gap = gap ? gap : 1 };

	if (!shown)
		return -ENOMEM;
	size_t n = find_shown(heat, shown);
	for (size_t i = 0; i < n; i++)
		add_band(&made, &shown[i]);
	for (size_t i = 0; i < n; i++)
		add_offsets(&made, &shown[i]);
	free(shown);
	qsort(ticks, made.n, sizeof(*ticks), compare_places);
	return (int)made.n;
}
