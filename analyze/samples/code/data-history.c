#include "analyze/samples/code/data-history.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"

#define WORD_BYTES 8u
#define MARGIN_NS  20000 /* as in code-history.c */

/*
 * So many readings around one must have seen no change, those that could tell; with none before it,
 * for it to count, there must be as many (0 of 100: at most 3 % change, rule of three).
 */
#define AROUND	 100u
#define MIN_TOLD 10u

/* A loop of an image: what those of its readings that can tell have told, in order. */
struct loop {
	uint32_t *n_changed; /* of the first so many; n_told + 1 of them */
	size_t n_told;
	size_t n_allocated;
};

/* One sample's reading. */
struct reading {
	uint32_t loop; /* its number */
	uint32_t n_told; /* in it, before */
	int64_t before_ns; /* INT64_MIN: nothing was read before */
	int64_t after_ns;
	bool has_changed;
};

/* A word of it. */
struct word {
	uint64_t bytes;
	size_t older; /* number of the one read there before; 0: none */
	size_t reading;
};

struct data_history {
	struct reading *readings;
	size_t n_readings;
	size_t n_readings_allocated;
	struct word *words; /* as they were read; numbered from 1 */
	size_t n_words;
	size_t n_words_allocated;
	struct loop *loops;
	size_t n_loops;
	size_t n_loops_allocated;
	struct key_map lowest; /* (process, ip) -> the largest loop that it was seen in */
	struct key_map loop_numbers; /* (process, its lowest address) -> from 1 */
	struct key_map newest; /* (process, address) -> number of the last word there */
	bool is_damaged;
};

struct data_history *data_history_create(void)
{
	return calloc(1, sizeof(struct data_history));
}

struct data_history *data_history_destroy(struct data_history *history)
{
	if (!history)
		return NULL;
	key_map_finish(&history->lowest);
	key_map_finish(&history->loop_numbers);
	key_map_finish(&history->newest);
	array_free(history->loops, history->n_loops, it, free(it->n_changed));
	free_all(history->readings, history->words, history);
	return NULL;
}

static int add_word(struct data_history *history, uint32_t process, uint64_t address,
		    uint64_t bytes)
{
	const struct word word = {
		.bytes = bytes,
		.older = key_map_get(&history->newest, process, address),
		.reading = history->n_readings - 1,
	};

	return array_add(history->words, history->n_words, history->n_words_allocated, word)
		       ?: key_map_put(&history->newest, process, address, history->n_words);
}

/* As the last one there; what the trace does not have (any more) is not known. */
static int add_same(struct data_history *history, uint32_t process, uint64_t address)
{
	uint64_t last = key_map_get(&history->newest, process, address);

	return last ? add_word(history, process, address, history->words[last - 1].bytes) : 0;
}

/* What is left of a frame's ranges and their words. */
struct held_rest {
	const uint8_t *ranges, *words, *end;
};

/* The ranges of the reading that came last. Returns 0: cut off words, 1, or a negative errno. */
static int take_ranges(struct data_history *history, uint32_t process, uint32_t n_ranges,
		       struct held_rest *rest)
{
	int r = 1;

	for (; n_ranges > 0; n_ranges--, rest->ranges += sizeof(uint64_t)) {
		uint64_t range, word;

		memcpy(&range, rest->ranges, sizeof(range));
		bool is_same = range & TRACE_HELD_SAME;
		uint64_t address = range & ~(TRACE_HELD_SAME | (TRACE_HELD_WORDS - 1));
		size_t n_words = (size_t)(range & (TRACE_HELD_WORDS - 1)) + 1;

		if (!is_same && (size_t)(rest->end - rest->words) < n_words * WORD_BYTES)
			return 0;
		for (; r > 0 && n_words > 0; n_words--, address += WORD_BYTES) {
			if (!is_same)
				memcpy(&word, rest->words, sizeof(word));
			rest->words += is_same ? 0 : sizeof(word);
			r = (is_same ? add_same(history, process, address)
				     : add_word(history, process, address, word))
				    ?: 1;
		}
		if (r < 0)
			return r;
	}
	return 1;
}

static bool can_tell(const struct reading *reading)
{
	return reading->before_ns > INT64_MIN;
}

/* What a reading tells of its loop. */
static int tell(struct loop *loop, struct reading *reading)
{
	int r = grow_array_by(&loop->n_changed, loop->n_told, 2, &loop->n_allocated,
			      sizeof(*loop->n_changed));

	if (r < 0)
		return r;
	if (loop->n_told == 0)
		loop->n_changed[0] = 0;
	reading->n_told = (uint32_t)loop->n_told;
	if (can_tell(reading)) {
		loop->n_changed[loop->n_told + 1] =
			loop->n_changed[loop->n_told] + reading->has_changed;
		loop->n_told++;
	}
	return 0;
}

/*
 * Windows of one instruction begin at different addresses, where they go different ways: those of a
 * search tree. They are of the largest loop that any of them has gone through so far.
 */
static int take_reading(struct data_history *history, const struct sample_clock *clock,
			uint32_t process, const struct trace_held *held)
{
	uint64_t lowest = key_map_get(&history->lowest, process, held->ip);
	struct reading reading = {
		.before_ns = held->before_raw_ns ? clock->from_raw(clock->user, held->before_raw_ns)
						 : INT64_MIN,
		.after_ns = clock->from_raw(clock->user, held->after_raw_ns),
		.has_changed = held->has_changed,
	};
	int r = 0;

	if (held->loop && (!lowest || held->loop < lowest))
		r = key_map_put(&history->lowest, process, held->ip, lowest = held->loop);
	struct loop *loop =
		key_map_item(&history->loop_numbers, process, lowest, history->loops,
			     history->n_loops, history->n_loops_allocated, (struct loop){ 0 });
	if (r < 0 || !loop)
		return -ENOMEM;
	reading.loop = (uint32_t)(loop - history->loops) + 1;
	return tell(loop, &reading)
		       ?: array_add(history->readings, history->n_readings,
				    history->n_readings_allocated, reading);
}

int data_history_add(struct data_history *history, const struct sample_clock *clock,
		     uint32_t process, const struct trace_code *head, const void *bytes)
{
	struct trace_held held;
	uint64_t n_ranges = 0, n = head->address;
	int r = 1;

	if (history->is_damaged || n > head->n_bytes / sizeof(held))
		return 0;
	const uint8_t *heads = bytes, *end = heads + head->n_bytes;
	struct held_rest rest = { heads + n * sizeof(held), NULL, end };
	for (uint64_t i = 0; i < n; i++) {
		memcpy(&held, heads + i * sizeof(held), sizeof(held));
		n_ranges += held.n_ranges;
	}
	if (n_ranges > (size_t)(end - rest.ranges) / sizeof(uint64_t))
		return 0;
	rest.words = rest.ranges + n_ranges * sizeof(uint64_t);
	for (uint64_t i = 0; r > 0 && i < n; i++) {
		memcpy(&held, heads + i * sizeof(held), sizeof(held));
		r = take_reading(history, clock, process, &held)
			    ?: take_ranges(history, process, held.n_ranges, &rest);
	}
	return r < 0 ? r : 0;
}

void data_history_end(struct data_history *history)
{
	key_map_finish(&history->newest);
	history->is_damaged = true;
}

/* ---- Questions ---- */

/* Whether of those around that could tell enough did, and none saw a change. */
static bool is_steady(const struct loop *loop, const struct reading *reading, size_t n_wanted)
{
	size_t first = reading->n_told > AROUND / 2 ? reading->n_told - AROUND / 2 : 0;
	size_t end = first + AROUND < loop->n_told ? first + AROUND : loop->n_told;

	if (end - first < AROUND)
		first = end > AROUND ? end - AROUND : 0;
	return end - first >= n_wanted && loop->n_changed[end] == loop->n_changed[first];
}

static bool is_usable(const struct data_history *history, const struct reading *reading,
		      int64_t time_ns)
{
	bool is_between = can_tell(reading) && reading->before_ns + MARGIN_NS < time_ns;

	return !reading->has_changed && is_steady(&history->loops[reading->loop - 1], reading,
						  is_between ? MIN_TOLD : AROUND);
}

/* The first reading of the word behind that time, at samples in the same loop. */
static const struct word *find_word(const struct data_history *history,
				    const struct data_question *question, uint64_t loop,
				    uint64_t address)
{
	const struct word *found = NULL;

	for (size_t i = key_map_get(&history->newest, question->process, address); i;
	     i = history->words[i - 1].older) {
		const struct word *word = &history->words[i - 1];
		const struct reading *reading = &history->readings[word->reading];

		if (reading->after_ns < question->time_ns + MARGIN_NS)
			break;
		if (reading->loop == loop &&
		    reading->after_ns - question->time_ns <= DATA_HISTORY_NS)
			found = word;
	}
	return found && is_usable(history, &history->readings[found->reading], question->time_ns)
		       ? found
		       : NULL;
}

size_t data_history_bytes(const struct data_history *history, const struct data_question *question,
			  void *ret_bytes, size_t n_bytes)
{
	uint64_t lowest = key_map_get(&history->lowest, question->process, question->ip);
	uint64_t loop = key_map_get(&history->loop_numbers, question->process, lowest);
	uint8_t *to = ret_bytes;
	size_t n = 0;

	while (lowest && loop && n < n_bytes) {
		uint64_t at = question->address + n;
		const struct word *word = find_word(history, question, loop, at & ~UINT64_C(7));
		size_t within = (size_t)(at % WORD_BYTES), part = WORD_BYTES - within;

		if (!word)
			break;
		part = part < n_bytes - n ? part : n_bytes - n;
		memcpy(to + n, (const uint8_t *)&word->bytes + within, part);
		n += part;
	}
	return n;
}
