#pragma once
/* Lists of classes as --events and memsight_collect_push() have them: "heap,faults". */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* One bit for each line of schemas/events.def. */
enum collect_bits {
#define EVENTS(id, word, bit, meaning)	COLLECT_##id = 1 << (bit),
#define SAMPLES(id, word, bit, meaning) COLLECT_##id = 1 << (bit),
#include "schemas/events.def"
#undef EVENTS
#undef SAMPLES
	COLLECT_ALL = 0xff,
};

#define COLLECT_TEXT_BYTES 64 /* holds all words */

/* The list of bits, "" for none. Not for tracealloc: it formats. */
void collect_format(uint32_t bits, char text[COLLECT_TEXT_BYTES]);

/* Pushes that count; those beyond change nothing. */
#define COLLECT_MAX_DEPTH 7u

/* The bit of a word of n_bytes; 0: there is none of that name. */
static inline uint32_t collect_bit(const char *word, size_t n_bytes)
{
	static const struct {
		char word[15];
		uint8_t n_bytes;
	} words[] = {
#define EVENTS(id, word, bit, meaning)	[bit] = { #word, sizeof(#word) - 1 },
#define SAMPLES(id, word, bit, meaning) [bit] = { #word, sizeof(#word) - 1 },
#include "schemas/events.def"
#undef EVENTS
#undef SAMPLES
	};

	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i].n_bytes == n_bytes && memcmp(words[i].word, word, n_bytes) == 0)
			return UINT32_C(1) << i;
	return 0;
}

/* The bits of a list; blanks around words are read over. *ret_n_unknown may be NULL. */
static inline uint32_t collect_parse(const char *text, size_t n_bytes, uint32_t *ret_n_unknown)
{
	uint32_t n_unknown = 0;
	uint32_t bits = 0;

	for (size_t at = 0; at < n_bytes;) {
		size_t end = at;

		while (end < n_bytes && text[end] != ',' && text[end] != ' ')
			end++;
		if (end > at) {
			uint32_t bit = collect_bit(text + at, end - at);

			bits |= bit;
			n_unknown += bit == 0;
		}
		at = end + 1;
	}
	if (ret_n_unknown)
		*ret_n_unknown = n_unknown;
	return bits;
}
