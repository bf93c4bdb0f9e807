#include "trace/perf-columns.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "trace/varint.h"

#define WORD_BYTES	8u
#define MAX_WORDS	128u /* of a record that is compared: one with a stack of KiB is not */
#define SLOTS		64u
#define SMALL_BITS	28 /* larger differences are not coded: 7 bits each make no repeats */
#define WORDS_IN_A_BYTE 4u
#define CODE_BITS	2u
#define ROOM_BYTES	(2 * TRACE_VARINT_SLACK) /* for numbers beside it */

/* Of a word: as in the record that it is compared with, a small difference to it, or as it is. */
enum word_code { CODE_SAME, CODE_SMALL, CODE_WORD, CODE_MASK = 3 };

/* The last record of those with a second word: samples have the address of an instruction there. */
struct slot {
	uint64_t words[MAX_WORDS];
	uint32_t number; /* in the frame, from 1; 0: none */
};

struct trace_perf_kept {
	struct slot slots[SLOTS];
	struct slot *last;
};

/* ---- Into columns ---- */

void trace_perf_columns_finish(struct trace_perf_columns *columns)
{
	for (unsigned i = 0; i < TRACE_PERF_COUNT; i++)
		free(columns->bytes[i]);
	free(columns->kept);
	*columns = (struct trace_perf_columns){ 0 };
}

void trace_perf_columns_clear(struct trace_perf_columns *columns)
{
	for (unsigned i = 0; columns->kept && i < SLOTS; i++)
		columns->kept->slots[i].number = 0;
	if (columns->kept)
		columns->kept->last = NULL;
	memset(columns->n, 0, sizeof(columns->n));
	columns->n_raw = 0;
	columns->n_records = 0;
}

size_t trace_perf_columns_bytes(const struct trace_perf_columns *columns)
{
	size_t n = 0;

	for (unsigned i = 0; i < TRACE_PERF_COUNT; i++)
		n += columns->n[i];
	return n;
}

size_t trace_perf_columns_room(const struct trace_perf_columns *columns)
{
	size_t n = 0;

	for (unsigned i = 0; i < TRACE_PERF_COUNT; i++)
		n += columns->n_allocated[i];
	return n;
}

static int reserve(struct trace_perf_columns *columns, enum trace_perf_column column, size_t n)
{
	return grow_array_by(&columns->bytes[column], columns->n[column], n + ROOM_BYTES,
			     &columns->n_allocated[column], 1);
}

static void put_varint(struct trace_perf_columns *columns, enum trace_perf_column column,
		       uint64_t value)
{
	uint8_t *to = columns->bytes[column] + columns->n[column];

	columns->n[column] += (size_t)(trace_varint_put(to, value) - to);
}

static int put_whole(struct trace_perf_columns *columns, const uint8_t *record, size_t n_bytes)
{
	if (reserve(columns, TRACE_PERF_CODES, 0) < 0 ||
	    reserve(columns, TRACE_PERF_SMALL, 0) < 0 ||
	    reserve(columns, TRACE_PERF_WORDS, n_bytes) < 0)
		return -ENOMEM;
	put_varint(columns, TRACE_PERF_CODES, 0);
	put_varint(columns, TRACE_PERF_SMALL, n_bytes);
	memcpy(columns->bytes[TRACE_PERF_WORDS] + columns->n[TRACE_PERF_WORDS], record, n_bytes);
	columns->n[TRACE_PERF_WORDS] += n_bytes;
	return 0;
}

/* Code words against others, which become them. False: too much of it has to be stored as it is. */
static bool code_words(struct trace_perf_columns *columns, uint64_t *kept, const uint8_t *record,
		       unsigned n_words)
{
	uint8_t *codes = columns->bytes[TRACE_PERF_CODES] + columns->n[TRACE_PERF_CODES];
	uint8_t *small = columns->bytes[TRACE_PERF_SMALL] + columns->n[TRACE_PERF_SMALL];
	uint8_t *words = columns->bytes[TRACE_PERF_WORDS] + columns->n[TRACE_PERF_WORDS];
	const unsigned n_codes = (n_words + WORDS_IN_A_BYTE - 1) / WORDS_IN_A_BYTE;
	unsigned n_left = n_words / 3;

	memset(codes, 0, n_codes);
	for (unsigned i = 0; i < n_words; i++) {
		uint64_t word;

		memcpy(&word, record + i * WORD_BYTES, sizeof(word));
		if (word == kept[i])
			continue;
		uint64_t difference = trace_zigzag((int64_t)(word - kept[i]));
		enum word_code code = difference >> SMALL_BITS ? CODE_WORD : CODE_SMALL;

		kept[i] = word;
		codes[i / WORDS_IN_A_BYTE] |= (uint8_t)(code << i % WORDS_IN_A_BYTE * CODE_BITS);
		if (code == CODE_SMALL) {
			small = trace_varint_put(small, difference);
			continue;
		}
		if (n_left-- == 0)
			return false;
		memcpy(words, &word, sizeof(word));
		words += sizeof(word);
	}
	columns->n[TRACE_PERF_CODES] += n_codes;
	columns->n[TRACE_PERF_SMALL] = (size_t)(small - columns->bytes[TRACE_PERF_SMALL]);
	columns->n[TRACE_PERF_WORDS] = (size_t)(words - columns->bytes[TRACE_PERF_WORDS]);
	return true;
}

static bool is_alike(const struct slot *slot, const uint8_t *record)
{
	return slot && slot->number && memcmp(slot->words, record, WORD_BYTES) == 0;
}

/*
 * A record that may be compared with earlier ones, and serve later ones: best with the last one of
 * its instruction.
 */
static int put_compared(struct trace_perf_columns *columns, const uint8_t *record, unsigned n_words)
{
	struct trace_perf_kept *kept = columns->kept;
	const size_t n_codes = columns->n[TRACE_PERF_CODES];
	uint32_t number = 0;
	uint64_t key;

	if (reserve(columns, TRACE_PERF_CODES, n_words) < 0 ||
	    reserve(columns, TRACE_PERF_SMALL, n_words * sizeof(uint32_t)) < 0 ||
	    reserve(columns, TRACE_PERF_WORDS, n_words * sizeof(uint64_t)) < 0)
		return -ENOMEM;
	memcpy(&key, record + WORD_BYTES, sizeof(key));
	struct slot *slot = &kept->slots[key * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (SLOTS - 1)];
	if (is_alike(slot, record)) {
		number = slot->number;
	} else if (is_alike(kept->last, record)) {
		number = kept->last->number;
		memcpy(slot->words, kept->last->words, n_words * sizeof(slot->words[0]));
	}
	kept->last = slot;
	slot->number = columns->n_records + 1;
	if (number) {
		put_varint(columns, TRACE_PERF_CODES, columns->n_records + 1 - number);
		if (code_words(columns, slot->words, record, n_words))
			return 0;
		columns->n[TRACE_PERF_CODES] = n_codes;
	}
	memcpy(slot->words, record, n_words * sizeof(slot->words[0]));
	return put_whole(columns, record, n_words * WORD_BYTES);
}

/* Bytes of the record at the begin of n_bytes; all of them where that is none. */
static size_t record_bytes(const uint8_t *record, size_t n_bytes)
{
	struct perf_event_header head;

	if (n_bytes < sizeof(head))
		return n_bytes;
	memcpy(&head, record, sizeof(head));
	return head.size < 2 * WORD_BYTES || head.size % WORD_BYTES || head.size > n_bytes
		       ? n_bytes
		       : head.size;
}

int trace_perf_columns_add(struct trace_perf_columns *columns, const void *records, size_t n_bytes)
{
	const uint8_t *record = records;
	int r = 0;

	if (!columns->kept && !(columns->kept = calloc(1, sizeof(*columns->kept))))
		return -ENOMEM;
	for (size_t n; r == 0 && n_bytes > 0; record += n, n_bytes -= n) {
		n = record_bytes(record, n_bytes);
		if (n % WORD_BYTES == 0 && n > WORD_BYTES && n <= MAX_WORDS * WORD_BYTES)
			r = put_compared(columns, record, (unsigned)(n / WORD_BYTES));
		else
			r = put_whole(columns, record, n);
		columns->n_raw += r == 0 ? n : 0;
		columns->n_records += r == 0;
	}
	return r;
}

void trace_perf_columns_parts(struct trace_perf_columns *columns,
			      struct iovec parts[TRACE_PERF_PARTS])
{
	columns->head = (struct trace_perf_head){
		.n_bytes = (uint32_t)columns->n_raw,
		.n_records = columns->n_records,
		.codes_bytes = (uint32_t)columns->n[TRACE_PERF_CODES],
		.small_bytes = (uint32_t)columns->n[TRACE_PERF_SMALL],
	};
	parts[0] = (struct iovec){ &columns->head, sizeof(columns->head) };
	for (unsigned i = 0; i < TRACE_PERF_COUNT; i++)
		parts[1 + i] = (struct iovec){ columns->bytes[i], columns->n[i] };
}

/* ---- Out of columns ---- */

int64_t trace_perf_columns_check(const uint8_t *body, size_t n_bytes)
{
	struct trace_perf_head head;

	if (n_bytes < sizeof(head))
		return -EBADMSG;
	memcpy(&head, body, sizeof(head));
	/* Each record has a code. */
	if (head.n_bytes > TRACE_FRAME_MAX_BYTES || head.n_records > head.codes_bytes ||
	    (uint64_t)head.codes_bytes + head.small_bytes > n_bytes - sizeof(head))
		return -EBADMSG;
	return head.n_bytes;
}

/* A column while it is read; next may pass end by less than TRACE_VARINT_SLACK. */
struct column_at {
	const uint8_t *next;
	const uint8_t *end;
};

struct reading {
	struct column_at columns[TRACE_PERF_COUNT];
	uint8_t *records;
	uint32_t *starts; /* of the records so far, and where the last one ends */
	uint32_t n; /* records so far */
	uint32_t n_bytes; /* of all */
};

static bool get_varint(struct column_at *column, uint64_t *ret_value)
{
	if (column->next >= column->end)
		return false;
	column->next = trace_varint_get(column->next, ret_value);
	return column->next && column->next <= column->end;
}

static size_t left_of(const struct column_at *column)
{
	return (size_t)(column->end - column->next);
}

static int read_whole(struct reading *reading)
{
	struct column_at *words = &reading->columns[TRACE_PERF_WORDS];
	uint32_t start = reading->starts[reading->n];
	uint64_t n;

	if (!get_varint(&reading->columns[TRACE_PERF_SMALL], &n) || n > left_of(words) ||
	    n > reading->n_bytes - start)
		return -EBADMSG;
	memcpy(reading->records + start, words->next, n);
	words->next += n;
	reading->starts[++reading->n] = start + (uint32_t)n;
	return 0;
}

static bool read_word(struct reading *reading, enum word_code code, uint64_t *word)
{
	struct column_at *words = &reading->columns[TRACE_PERF_WORDS];
	uint64_t value;

	switch (code) {
	case CODE_SAME:
		return true;
	case CODE_SMALL:
		if (!get_varint(&reading->columns[TRACE_PERF_SMALL], &value))
			return false;
		*word += (uint64_t)trace_unzigzag(value);
		return true;
	case CODE_WORD:
		if (left_of(words) < WORD_BYTES)
			return false;
		memcpy(word, words->next, WORD_BYTES);
		words->next += WORD_BYTES;
		return true;
	default:
		return false;
	}
}

static int read_compared(struct reading *reading, uint32_t other)
{
	struct column_at *codes = &reading->columns[TRACE_PERF_CODES];
	uint32_t from = reading->starts[other], to = reading->starts[reading->n];
	uint32_t n_bytes = reading->starts[other + 1] - from;
	uint32_t n_words = n_bytes / WORD_BYTES;
	uint32_t n_codes = (n_words + WORDS_IN_A_BYTE - 1) / WORDS_IN_A_BYTE;

	if (n_bytes % WORD_BYTES || n_bytes > reading->n_bytes - to || n_codes > left_of(codes))
		return -EBADMSG;
	for (uint32_t i = 0; i < n_words; i++) {
		unsigned code =
			codes->next[i / WORDS_IN_A_BYTE] >> i % WORDS_IN_A_BYTE * CODE_BITS &
			CODE_MASK;
		uint64_t word;

		memcpy(&word, reading->records + from + i * WORD_BYTES, sizeof(word));
		if (!read_word(reading, (enum word_code)code, &word))
			return -EBADMSG;
		memcpy(reading->records + to + i * WORD_BYTES, &word, sizeof(word));
	}
	codes->next += n_codes;
	reading->starts[++reading->n] = to + n_bytes;
	return 0;
}

int trace_perf_columns_decode(const uint8_t *body, size_t n_bytes, uint8_t *records)
{
	struct trace_perf_head head;
	const uint8_t *end = body + n_bytes;
	int r = 0;

	memcpy(&head, body, sizeof(head));
	auto_free uint32_t *starts = calloc((size_t)head.n_records + 1, sizeof(*starts));
	const uint8_t *codes = body + sizeof(head), *small = codes + head.codes_bytes;
	const uint8_t *words = small + head.small_bytes;
	struct reading reading = {
		.columns = { { codes, small }, { small, words }, { words, end } },
		.records = records,
		.starts = starts,
		.n_bytes = head.n_bytes,
	};

	if (!starts)
		return -ENOMEM;
	while (r == 0 && reading.n < head.n_records) {
		uint64_t back;

		if (!get_varint(&reading.columns[TRACE_PERF_CODES], &back) || back > reading.n)
			return -EBADMSG;
		r = back ? read_compared(&reading, reading.n - (uint32_t)back)
			 : read_whole(&reading);
	}
	for (unsigned i = 0; i < TRACE_PERF_COUNT; i++)
		if (left_of(&reading.columns[i]))
			r = -EBADMSG;
	return r == 0 && starts[reading.n] != head.n_bytes ? -EBADMSG : r;
}
