#pragma once
#include <stddef.h>
#include <stdint.h>

/*
 * Read a whole text as an unsigned decimal number: digits only, no sign, no blanks.
 * Returns 0, -EINVAL (not a number) or -ERANGE (above UINT64_MAX). Thread-safe, locale-free.
 */
int parse_number(const char *text, uint64_t *ret_number);

/*
 * Read a whole text as a number of bytes: a number and K M G T (powers of 1024, as in GNU tools),
 * KiB MiB GiB TiB (the same), kB KB MB GB TB (powers of 1000), or B; letters in either case.
 * Returns 0, -EINVAL or -ERANGE. Thread-safe, locale-free.
 */
int parse_size(const char *text, uint64_t *ret_bytes);

/*
 * A time with its unit, as "1.5s", "200ms", "10us", "7ns", "2min", "1h"; 0 needs none. Returns 0,
 * -EINVAL, or -ERANGE above 2^63 - 1 ns.
 */
int parse_duration(const char *text, int64_t *ret_ns);

/*
 * Split a line into words as a shell does: blanks part them; '...' is literal; inside "..." a
 * backslash takes the next of \ " $ `; outside quotes it takes any character. No expansion.
 * words gets at most max_words pointers into buffer, which is rewritten; their number goes to
 * *ret_n. Returns 0, -EINVAL (a quote is not closed) or -E2BIG.
 */
int parse_words(char *buffer, char **words, size_t max_words, size_t *ret_n);

/* Finds the name that was probably meant by a mistyped word. */
struct parse_nearest {
	const char *word;
	const char *name; /* the nearest so far; NULL: none is near */
	unsigned distance;
	size_t n_common; /* equal bytes at the beginning: decides between equal distances */
};

/*
 * Compare one more name. Near is one within a third of the word's length (at least 1) in characters
 * that must be inserted, removed, replaced or swapped with their neighbour (restricted
 * Damerau-Levenshtein distance). Words and names above 63 bytes are near to nothing. Start with
 * { .word = word }; the name is kept as a pointer.
 */
void parse_nearest_offer(struct parse_nearest *nearest, const char *name);
