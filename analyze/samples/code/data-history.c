#include "analyze/samples/code/data-history.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "trace/reader.h"

#define WORD_BYTES 8u
#define MARGIN_NS  20000 /* as in code-history.c */

/* A reading later than that behind a sample says nothing of it. */
#define MOST_NS INT64_C(200000000)

/*
 * So many readings around one must have seen no change, those that could tell; with none before it,
 * for it to count, there must be as many (0 of 100: at most 3 % change, rule of three).
 */
#define AROUND	 100u
#define MIN_TOLD 10u

/* One sample's reading. */
struct reading {
	uint64_t ip;
	uint64_t loop;
	uint32_t process;
	uint32_t n_told; /* of those around, that could tell */
	int64_t before_ns; /* INT64_MIN: nothing was read before */
	int64_t after_ns;
	bool has_changed;
	bool is_steady; /* none of those around has changed */
};

/* A word of it. */
struct word {
	uint64_t address;
	uint64_t bytes;
	uint32_t process;
	uint32_t reading;
};

struct data_history {
	struct reading *readings;
	size_t n_readings;
	size_t n_readings_allocated;
	struct word *words; /* by process, address and time of their reading */
	size_t n_words;
	size_t n_words_allocated;
	struct key_map loops; /* (process, ip) -> the loop */
	struct key_map last; /* while reading: (process, address) -> the last word there, from 1 */
};

struct data_history *data_history_destroy(struct data_history *history)
{
	if (!history)
		return NULL;
	key_map_finish(&history->loops);
	key_map_finish(&history->last);
	free_all(history->readings, history->words, history);
	return NULL;
}

static int add_word(struct data_history *history, uint64_t address, uint64_t bytes)
{
	const struct word word = {
		.address = address,
		.bytes = bytes,
		.process = history->readings[history->n_readings - 1].process,
		.reading = (uint32_t)(history->n_readings - 1),
	};

	if (history->n_readings > UINT32_MAX)
		return -ENOMEM;
	return array_add(history->words, history->n_words, history->n_words_allocated, word)
		       ?: key_map_put(&history->last, word.process, address, history->n_words);
}

/* As the last one there; what the trace does not have (any more) is not known. */
static int add_same(struct data_history *history, uint64_t address)
{
	uint32_t process = history->readings[history->n_readings - 1].process;
	uint64_t last = key_map_get(&history->last, process, address);

	return last ? add_word(history, address, history->words[last - 1].bytes) : 0;
}

/* What is left of a frame's ranges and their words. */
struct held_rest {
	const uint8_t *ranges, *words, *end;
};

/* The ranges of the reading that came last. Returns 0: cut off words, 1, or a negative errno. */
static int take_ranges(struct data_history *history, uint32_t n_ranges, struct held_rest *rest)
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
			r = (is_same ? add_same(history, address)
				     : add_word(history, address, word))
				    ?: 1;
		}
		if (r < 0)
			return r;
	}
	return 1;
}

static int take_reading(struct data_history *history, const struct sample_clock *clock,
			uint32_t process, const struct trace_held *held)
{
	const struct reading reading = {
		.ip = held->ip,
		.loop = held->loop,
		.process = process,
		.before_ns = held->before_raw_ns ? clock->from_raw(clock->user, held->before_raw_ns)
						 : INT64_MIN,
		.after_ns = clock->from_raw(clock->user, held->after_raw_ns),
		.has_changed = held->has_changed,
	};

	return array_add(history->readings, history->n_readings, history->n_readings_allocated,
			 reading);
}

/* Readings with all of their ranges, as far as the frame has their words. */
static int take_frame(struct data_history *history, const struct sample_clock *clock,
		      const struct trace_item *item)
{
	struct trace_held held;
	uint64_t n_ranges = 0;
	int r = 1;

	if (item->type != TRACE_FRAME_CODE || item->code.head->kind != TRACE_CODE_HELD ||
	    item->code.head->address > item->n / sizeof(held))
		return 0;
	const uint8_t *heads = item->code.bytes, *end = heads + item->n;
	uint64_t n = item->code.head->address;
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
		r = take_reading(history, clock, item->stream_id, &held)
			    ?: take_ranges(history, held.n_ranges, &rest);
	}
	return r < 0 ? r : 0;
}

/* ---- Which readings count ---- */

static int compare_order(const void *left, const void *right)
{
	const struct reading *a = *(struct reading *const *)left,
			     *b = *(struct reading *const *)right;

	return ORDER(a->process, b->process) ?: ORDER(a->loop, b->loop)
					     ?: ORDER(a->after_ns, b->after_ns);
}

static bool can_tell(const struct reading *reading)
{
	return reading->before_ns > INT64_MIN;
}

/* Readings in one loop of one image, in order of time. */
struct group {
	struct reading **readings;
	size_t n;
	uint32_t *n_changed; /* of the first so many that can tell; n + 1 of them */
	uint32_t n_told;
};

static void count_changes(struct group *group)
{
	group->n_told = 0;
	group->n_changed[0] = 0;
	for (size_t i = 0; i < group->n; i++) {
		if (!can_tell(group->readings[i]))
			continue;
		group->n_changed[group->n_told + 1] =
			group->n_changed[group->n_told] + group->readings[i]->has_changed;
		group->n_told++;
	}
}

static void judge_group(struct group *group)
{
	uint32_t n_told = 0;

	count_changes(group);
	for (size_t i = 0; i < group->n; i++) {
		struct reading *reading = group->readings[i];
		uint32_t first = n_told > AROUND / 2 ? n_told - AROUND / 2 : 0;
		uint32_t end = first + AROUND < group->n_told ? first + AROUND : group->n_told;

		if (end - first < AROUND)
			first = end > AROUND ? end - AROUND : 0;
		reading->n_told = end - first;
		reading->is_steady = group->n_changed[end] == group->n_changed[first];
		n_told += can_tell(reading);
	}
}

/*
 * Windows of one instruction begin at different addresses, where they go different ways: those of a
 * search tree. They are of the largest loop that any of them has gone through.
 */
static int name_loops(struct data_history *history)
{
	struct key_map *lowest = &history->loops;
	int r = 0;

	for (size_t i = 0; r == 0 && i < history->n_readings; i++) {
		const struct reading *reading = &history->readings[i];
		uint64_t loop = key_map_get(lowest, reading->process, reading->ip);

		if (reading->loop && (!loop || reading->loop < loop))
			r = key_map_put(lowest, reading->process, reading->ip, reading->loop);
	}
	for (size_t i = 0; r == 0 && i < history->n_readings; i++) {
		struct reading *reading = &history->readings[i];

		reading->loop = key_map_get(lowest, reading->process, reading->ip);
	}
	return r;
}

static int judge(struct data_history *history)
{
	size_t n = history->n_readings;
	auto_free struct reading **order = calloc(n + 1, sizeof(*order));
	auto_free uint32_t *n_changed = calloc(n + 1, sizeof(*n_changed));

	if (!order || !n_changed)
		return -ENOMEM;
	int r = name_loops(history);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		order[i] = &history->readings[i];
	qsort(order, n, sizeof(struct reading *), compare_order);
	for (size_t i = 0, end = 0; i < n; i = end) {
		struct group group = { .readings = order + i, .n_changed = n_changed };

		while (end < n && order[end]->process == order[i]->process &&
		       order[end]->loop == order[i]->loop)
			end++;
		group.n = end - i;
		judge_group(&group);
	}
	return 0;
}

static int compare_words(const void *left, const void *right, void *user)
{
	const struct data_history *history = user;
	const struct word *a = left, *b = right;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	int64_t a_ns = history->readings[a->reading].after_ns;
	int64_t b_ns = history->readings[b->reading].after_ns;
	return a_ns < b_ns ? -1 : a_ns > b_ns;
}

/* ---- Out of the trace ---- */

static void cleanup_history(struct data_history **history)
{
	data_history_destroy(*history);
}

/* What is lost of a damaged trace may have told of a change. */
static bool is_damaged(const struct trace_reader *reader)
{
	const struct trace_damage *damage = trace_reader_damage(reader);

	return damage->n_damaged_frames || damage->n_skipped_bytes;
}

int data_history_read(const char *path, const struct sample_clock *clock,
		      struct data_history **ret_history)
{
	__attribute__((cleanup(cleanup_history))) struct data_history *history =
		calloc(1, sizeof(*history));
	auto_trace_reader struct trace_reader *reader = NULL;
	static const enum trace_frame_type types[] = { TRACE_FRAME_CODE };
	struct trace_item item;
	int r = history ? trace_reader_open(path, &reader) : -ENOMEM;

	if (r < 0)
		return r;
	trace_reader_only(reader, types, sizeof(types) / sizeof(types[0]));
	while (r >= 0 && (r = trace_reader_next(reader, &item)) > 0)
		r = take_frame(history, clock, &item);
	if (r == 0 && is_damaged(reader))
		history->n_readings = history->n_words = 0;
	key_map_finish(&history->last);
	r = r ?: judge(history);
	if (r < 0)
		return r;
	if (history->n_words)
		qsort_r(history->words, history->n_words, sizeof(*history->words), compare_words,
			history);
	*ret_history = history;
	history = NULL;
	return 0;
}

/* ---- Questions ---- */

static bool is_usable(const struct reading *reading, int64_t time_ns)
{
	bool is_between = can_tell(reading) && reading->before_ns + MARGIN_NS < time_ns;

	return !reading->has_changed && reading->is_steady &&
	       reading->after_ns - time_ns <= MOST_NS &&
	       reading->n_told >= (is_between ? MIN_TOLD : AROUND);
}

/* The first word that was read behind that time, of those at an address or behind it. */
static size_t find_first(const struct data_history *history, uint32_t process, uint64_t address,
			 int64_t time_ns)
{
	size_t low = 0, high = history->n_words;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct word *word = &history->words[middle];
		bool is_before = word->process != process ? word->process < process
				 : word->address != address
					 ? word->address < address
					 : history->readings[word->reading].after_ns < time_ns;

		if (is_before)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The first reading of the word behind that time, at samples in the same loop. */
static const struct word *find_word(const struct data_history *history,
				    const struct data_question *question, uint64_t loop,
				    uint64_t address)
{
	size_t i = find_first(history, question->process, address, question->time_ns + MARGIN_NS);

	for (; i < history->n_words; i++) {
		const struct word *word = &history->words[i];
		const struct reading *reading = &history->readings[word->reading];

		if (word->process != question->process || word->address != address ||
		    reading->after_ns - question->time_ns > MOST_NS)
			return NULL;
		if (reading->loop == loop)
			return is_usable(reading, question->time_ns) ? word : NULL;
	}
	return NULL;
}

size_t data_history_bytes(const struct data_history *history, const struct data_question *question,
			  void *ret_bytes, size_t n_bytes)
{
	uint64_t loop = key_map_get(&history->loops, question->process, question->ip);
	uint8_t *to = ret_bytes;
	size_t n = 0;

	while (loop && n < n_bytes) {
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
