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
 * Split a line into words as a shell does: blanks part them; '...' is literal; inside "..." a
 * backslash takes the next of \ " $ `; outside quotes it takes any character. No expansion.
 * words gets at most max_words pointers into buffer, which is rewritten; their number goes to
 * *ret_n. Returns 0, -EINVAL (a quote is not closed) or -E2BIG.
 */
int parse_words(char *buffer, char **words, size_t max_words, size_t *ret_n);

/*
 * How many characters must be inserted, removed, replaced or swapped with their neighbour to turn
 * one name into the other (restricted Damerau-Levenshtein distance). Names above 63 bytes count as
 * 64 away from everything.
 */
unsigned parse_distance(const char *one, const char *other);
