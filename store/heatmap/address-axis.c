#include "store/heatmap/address-axis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/heatmap/heatmap.h"

#define PAGE	    UINT64_C(4096)
#define HOLE	    UINT64_C(65536)
#define MAX_WAITING 32768u
#define MAX_KEPT    65536u /* ranges while they are collected */
#define MAX_RANGES  1024u /* of an axis */
#define N_SEEN	    4096u
#define LITTLE	    64u
#define FRACTION    64u /* a hole of less than this part of its neighbours stays */

void picture_ranges_init(struct picture_ranges *ranges)
{
	*ranges = (struct picture_ranges){ .hole = HOLE };
}

void picture_ranges_finish(struct picture_ranges *ranges)
{
	free(ranges->items);
	free(ranges->waiting);
	free(ranges->seen);
	*ranges = (struct picture_ranges){ 0 };
}

static int compare(const void *a, const void *b)
{
	const struct picture_range *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

/* Whether the hole between two neighbours stays on the axis. */
static bool is_joined(const struct picture_range *a, const struct picture_range *b, uint64_t hole)
{
	uint64_t part = (a->end - a->start) / FRACTION + (b->end - b->start) / FRACTION;

	return b->start <= a->end || b->start - a->end <= (hole > part ? hole : part);
}

/* Join sorted ranges in place over holes of at most so many bytes. Returns how many are left. */
static size_t join(struct picture_range *items, size_t n, uint64_t hole)
{
	size_t n_left = 0;

	for (size_t i = 0; i < n; i++) {
		struct picture_range *last = n_left ? &items[n_left - 1] : NULL;
		if (!last || !is_joined(last, &items[i], hole)) {
			items[n_left++] = items[i];
			continue;
		}
		last->end = items[i].end > last->end ? items[i].end : last->end;
		last->holds |= items[i].holds;
	}
	return n_left;
}

static int sort_in(struct picture_ranges *ranges)
{
	size_t n = ranges->n + ranges->n_waiting;
	struct picture_range *items = reallocarray(ranges->items, n + 1, sizeof(*items));

	if (!items)
		return -ENOMEM;
	ranges->items = items;
	if (ranges->n_waiting > 0)
		memcpy(items + ranges->n, ranges->waiting, ranges->n_waiting * sizeof(*items));
	ranges->n_waiting = 0;
	qsort(items, n, sizeof(*items), compare);
	ranges->n = join(items, n, ranges->hole);
	while (ranges->n > MAX_KEPT) {
		ranges->hole *= 2;
		ranges->n = join(items, ranges->n, ranges->hole);
	}
	return 0;
}

static bool was_seen(struct picture_ranges *ranges, uint64_t first, uint64_t last,
		     enum picture_holding what)
{
	uint64_t mark = first | (uint64_t)what;
	uint64_t *seen =
		&ranges->seen[(first / PAGE * 2 + (what == PICTURE_HOLDS_BLOCKS)) % N_SEEN];

	if (first == last && *seen == mark)
		return true;
	*seen = mark;
	return false;
}

/* Thousands of processes may have little each. */
static int reserve(struct picture_ranges *ranges)
{
	int r = grow_array(&ranges->waiting, ranges->n_waiting, &ranges->n_allocated,
			   sizeof(*ranges->waiting));

	if (r < 0 || ranges->seen || ranges->n_waiting < LITTLE)
		return r;
	ranges->seen = calloc(N_SEEN, sizeof(*ranges->seen));
	return ranges->seen ? 0 : -ENOMEM;
}

int picture_ranges_add(struct picture_ranges *ranges, uint64_t address, uint64_t size,
		       enum picture_holding what)
{
	uint64_t last = picture_last_byte(address, size);
	uint64_t first_page = (address < last ? address : last) & ~(PAGE - 1);
	uint64_t last_page = last & ~(PAGE - 1);

	if (ranges->seen && was_seen(ranges, first_page, last_page, what))
		return 0;
	int r = ranges->n_waiting == MAX_WAITING ? sort_in(ranges) : reserve(ranges);
	if (r < 0)
		return r;
	ranges->waiting[ranges->n_waiting++] =
		(struct picture_range){ first_page, last_page + PAGE, what };
	return 0;
}

int picture_ranges_settle(struct picture_ranges *ranges)
{
	int r = sort_in(ranges);

	while (r == 0 && ranges->n > MAX_RANGES) {
		ranges->hole *= 2;
		ranges->n = join(ranges->items, ranges->n, ranges->hole);
	}
	return r;
}

/* ---- Places on the axis ---- */

/* The last band that begins at or below a value of one of its two numbers. */
static const struct picture_band *find(const struct picture_band *bands, size_t n, uint64_t value,
				       bool is_y)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if ((is_y ? bands[middle].y : bands[middle].start) <= value)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 ? &bands[low - 1] : NULL;
}

bool picture_place(const struct picture_band *bands, size_t n, uint64_t address, uint64_t *ret_y)
{
	const struct picture_band *band = find(bands, n, address, false);

	if (!band || address >= band->end)
		return false;
	*ret_y = band->y + (address - band->start);
	return true;
}

bool picture_address(const struct picture_band *bands, size_t n, uint64_t y, uint64_t *ret_address)
{
	const struct picture_band *band = find(bands, n, y, true);

	if (!band || y - band->y >= band->end - band->start)
		return false;
	*ret_address = band->start + (y - band->y);
	return true;
}
