#include "store/compact/frames.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/radix-sort.h"
#include "store/axis.h"
#include "store/touch.h"

#define LARGE_BYTES    65536u
#define NEAR_BYTES     256u /* blocks nearer to each other are in no order */
#define NARROW_BYTES   (1u << 20)
#define NARROW_TOUCHES (1u << 16)
#define LONG_SPANS     2u /* of a chunk's allocations */
#define OWN_FRAME      1024u /* rows of a kind that are not put with those of others */
#define TIER_BITS      6u /* of a kind: the rest of it is the process */
#define ROW_BITS       16u /* of a key that is sorted: the lowest */
#define ADDRESS_BITS   48u /* in which those of programs and kernels differ */
_Static_assert(CHUNK_ROWS == 1u << ROW_BITS, "a row is a part of a key");
_Static_assert(2 * (CHUNK_ROWS / OWN_FRAME + CHUNK_ROWS / CHUNK_FRAME_ROWS) + 64 <= CHUNK_FRAMES,
	       "each large kind has a rest, and others before it");

static int64_t life_of(const struct frame_columns *columns, uint32_t row)
{
	int64_t freed_ns = columns->freed ? columns->freed[row] : columns->times[row];

	return picture_life_ns(columns->times[row], freed_ns == CHUNK_NULL ? INT64_MAX : freed_ns);
}

/* 0 for what is below a limit, and one more for each 4 bits, up to 7. */
static unsigned tier_of(int64_t value, uint64_t limit)
{
	uint64_t ratio = value > 0 && (uint64_t)value >= limit ? (uint64_t)value / limit : 0;
	unsigned bits = ratio ? 64 - (unsigned)__builtin_clzll(ratio) : 0;

	return bits < 28 ? (bits + 3) / 4 : 7;
}

/*
 * Blocks of one kind lie in frames of their own, if they are not too few: those of a process that
 * are large, or live long after the others of the chunk, would make frames reach far.
 */
static uint64_t kind_of(const struct frame_columns *columns, uint32_t row, uint64_t span_ns)
{
	uint64_t process = (uint64_t)columns->processes[row] << TIER_BITS;

	if (columns->pictures)
		return process + (columns->pictures[row] == PICTURE_NOWHERE);
	return process + 8 * tier_of(columns->sizes[row], LARGE_BYTES) +
	       tier_of(life_of(columns, row), LONG_SPANS * span_ns);
}

static uint64_t span_of(const struct frame_columns *columns, uint32_t n)
{
	return 1 + (uint64_t)picture_life_ns(columns->times[0], columns->times[n - 1]);
}

/*
 * Rows of one kind within few addresses, as of a program that frees what it allocates: a picture
 * meets all of them in any order, and that of their ids costs nothing.
 */
static bool is_narrow(const struct frame_columns *columns, uint32_t n)
{
	uint64_t span_ns = span_of(columns, n), kind = kind_of(columns, 0, span_ns);
	uint64_t low = (uint64_t)columns->addresses[0], high = low;
	uint64_t narrow = columns->pictures ? NARROW_TOUCHES : NARROW_BYTES;
	uint32_t i = 0;

	for (; i < n && high - low < narrow && kind_of(columns, i, span_ns) == kind; i++) {
		uint64_t address = (uint64_t)columns->addresses[i];
		low = address < low ? address : low;
		high = address > high ? address : high;
	}
	return i == n && high - low < narrow;
}

/* Places from one to another become frames of about the same number of rows. */
static void close_frames(struct chunk_frames *frames, uint32_t from, uint32_t to)
{
	uint32_t n = (to - from + CHUNK_FRAME_ROWS - 1) / CHUNK_FRAME_ROWS;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t first = from + (uint32_t)((uint64_t)(to - from) * i / n);
		uint32_t end = from + (uint32_t)((uint64_t)(to - from) * (i + 1) / n);
		frames->items[frames->n++] =
			(struct chunk_frame){ .n_rows = (uint16_t)(end - first) };
	}
}

static uint32_t row_of(uint64_t key)
{
	return key & (CHUNK_ROWS - 1);
}

/* Kinds of which there are few share frames. */
static void cut(struct chunk_frames *frames, const uint64_t *keys, const uint64_t *kinds,
		uint32_t n)
{
	uint32_t waiting = 0; /* where small kinds begin */

	for (uint32_t from = 0, to; from < n; from = to) {
		for (to = from; to < n && kinds[row_of(keys[to])] == kinds[row_of(keys[from])];)
			to++;
		if (to - from >= OWN_FRAME) {
			close_frames(frames, waiting, from);
			close_frames(frames, from, to);
			waiting = to;
		} else if (to - waiting > CHUNK_FRAME_ROWS) {
			close_frames(frames, waiting, from);
			waiting = from;
		}
	}
	close_frames(frames, waiting, n);
}

static uint64_t address_of(const struct frame_columns *columns, uint32_t row)
{
	return (uint64_t)columns->addresses[row] & ((UINT64_C(1) << ADDRESS_BITS) - 1);
}

/* By process, kind, and address within. */
static int arrange(struct chunk_frames *frames, const struct frame_columns *columns, uint32_t n)
{
	auto_free uint64_t *room = malloc(3 * (size_t)n * sizeof(*room));
	uint64_t *kinds = room, *keys = room + n, *other = keys + n, differing = 0;
	uint64_t span_ns = span_of(columns, n);
	uint32_t next = 0;

	if (!room)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		kinds[i] = kind_of(columns, i, span_ns);
		differing |= kinds[i] ^ kinds[0];
		uint64_t tiers = kinds[i] & ((1u << TIER_BITS) - 1);
		keys[i] = (tiers << ADDRESS_BITS | address_of(columns, i)) / NEAR_BYTES
				  << ROW_BITS |
			  i;
	}
	keys = radix_sort(keys, other, n, ROW_BITS);
	if (differing >> TIER_BITS) {
		for (uint32_t i = 0; i < n; i++)
			keys[i] = kinds[row_of(keys[i])] >> TIER_BITS << ROW_BITS | row_of(keys[i]);
		keys = radix_sort(keys, keys == other ? room + n : other, n, ROW_BITS);
	}
	cut(frames, keys, kinds, n);
	for (uint32_t i = 0; i < frames->n; i++) {
		for (uint32_t k = 0; k < frames->items[i].n_rows; k++)
			frames->frame_of[row_of(keys[next++])] = (uint8_t)i;
	}
	return 0;
}
_Static_assert(CHUNK_FRAMES <= UINT8_MAX + 1, "numbers of frames fit");

static void widen(struct chunk_frame *frame, const struct frame_columns *columns, uint32_t row)
{
	int64_t process = columns->processes[row], size = columns->sizes ? columns->sizes[row] : 1;
	uint64_t low = (uint64_t)columns->addresses[row];
	uint64_t high = picture_last_byte(low, size > 0 ? (uint64_t)size : 1);
	int64_t from_ns = picture_held_ns(columns->times[row]);
	int64_t life_ns = life_of(columns, row);

	if (columns->freed && columns->freed[row] == CHUNK_NULL) {
		frame->n_alive++;
	} else {
		life_ns = life_ns > 0 ? life_ns : 1;
		frame->to_ns = from_ns + life_ns > frame->to_ns ? from_ns + life_ns : frame->to_ns;
		frame->max_life_ns = life_ns > frame->max_life_ns ? life_ns : frame->max_life_ns;
	}
	frame->process_low = process < frame->process_low ? process : frame->process_low;
	frame->process_high = process > frame->process_high ? process : frame->process_high;
	frame->from_ns = from_ns < frame->from_ns ? from_ns : frame->from_ns;
	frame->low = low < frame->low ? low : frame->low;
	frame->high = high > frame->high ? high : frame->high;
	frame->max_size = size > frame->max_size ? size : frame->max_size;
}

/* Rows go to their frames, which then tell what they hold. */
static void fill(struct chunk_frames *frames, const struct frame_columns *columns, uint32_t n)
{
	uint32_t next[CHUNK_FRAMES]; /* place in a frame */

	for (uint32_t i = 0, first = 0; i < frames->n; first += frames->items[i++].n_rows) {
		struct chunk_frame *frame = &frames->items[i];
		next[i] = first;
		frame->process_low = frame->from_ns = INT64_MAX;
		frame->process_high = frame->to_ns = INT64_MIN;
		frame->low = UINT64_MAX;
	}
	for (uint32_t row = 0; row < n; row++) {
		uint8_t i = frames->frame_of[row];
		frames->rows[next[i]++] = row;
		if (!columns->pictures || columns->pictures[row] != PICTURE_NOWHERE)
			widen(&frames->items[i], columns, row);
	}
}

int chunk_frames_make(struct chunk_frames *frames, const struct frame_columns *columns, uint32_t n)
{
	/* Ids that lie far apart could not be put in order again. */
	bool is_spread = (uint64_t)columns->ids[n - 1] - (uint64_t)columns->ids[0] >= CHUNK_SPREAD;
	bool is_alone = n <= CHUNK_FRAME_ROWS || is_spread || is_narrow(columns, n);
	uint32_t row = 0;

	frames->n = 0;
	if (!is_alone && arrange(frames, columns, n) < 0)
		return -ENOMEM;
	if (is_alone)
		close_frames(frames, 0, n);
	for (uint32_t i = 0; i < frames->n && is_alone; i++) {
		memset(frames->frame_of + row, (int)i, frames->items[i].n_rows);
		row += frames->items[i].n_rows;
	}
	fill(frames, columns, n);
	return 0;
}
