/*
 * A small program to try memsight on: reads all text files below a folder, counts their words,
 * then looks words up many times. Its memory is of every kind that a report tells apart:
 *
 *   texts        read once, then only kept: cold, and not given back at the end
 *   buckets      the hash table: hot
 *   words        one small block per different word: hot, many blocks of one line
 *   lower case   a copy of each text: given back at once
 *   history      made for the worst case, never used
 *
 * It tells the recorder by memsight.h which part of its work it is at: regions read, index, look
 * up.
 *
 * usage: word-index [FOLDER [LOOK-UPS]]
 */
#include <ctype.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memsight.h"

#define N_BUCKETS     (1u << 16)
#define MAX_TEXTS     20000
#define HISTORY_BYTES (24u << 20)

struct word {
	struct word *next;
	unsigned count;
	char letters[];
};

static char *texts[MAX_TEXTS];
static size_t n_texts;
static struct word **buckets;
static size_t n_words;

static char *read_text(const char *path, size_t n_bytes)
{
	FILE *file = fopen(path, "r");
	char *text = file ? malloc(n_bytes + 1) : NULL;

	if (text)
		text[fread(text, 1, n_bytes, file)] = '\0';
	if (file)
		fclose(file);
	return text;
}

static int visit(const char *path, const struct stat *status, int kind, struct FTW *where)
{
	(void)where;
	if (kind != FTW_F || status->st_size == 0 || n_texts == MAX_TEXTS)
		return 0;
	char *text = read_text(path, (size_t)status->st_size);
	if (text)
		texts[n_texts++] = text;
	return 0;
}

static struct word **find_word(const char *letters, size_t n)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ (unsigned char)letters[i]) * 16777619u;

	struct word **at = &buckets[hash % N_BUCKETS];
	while (*at && (strncmp((*at)->letters, letters, n) != 0 || (*at)->letters[n] != '\0'))
		at = &(*at)->next;
	return at;
}

static struct word *make_word(const char *letters, size_t n)
{
	struct word *word = malloc(sizeof(*word) + n + 1);

	if (!word)
		abort();
	*word = (struct word){ 0 };
	memcpy(word->letters, letters, n);
	word->letters[n] = '\0';
	n_words++;
	return word;
}

static void count_word(const char *letters, size_t n)
{
	struct word **at = find_word(letters, n);

	if (!*at)
		*at = make_word(letters, n);
	(*at)->count++;
}

static void index_text(const char *text)
{
	memsight_region_push("index");
	size_t n_bytes = strlen(text);
	char *lower = malloc(n_bytes + 1);
	size_t start = 0;

	if (!lower)
		abort();
	for (size_t i = 0; i <= n_bytes; i++) {
		lower[i] = (char)tolower((unsigned char)text[i]);
		if (isalnum((unsigned char)lower[i]))
			continue;
		if (i > start)
			count_word(lower + start, i - start);
		start = i + 1;
	}
	free(lower);
	memsight_region_pop("index");
}

/* Ask random buckets how many of their words were seen more than once. */
static size_t look_up(size_t n_lookups)
{
	uint64_t random = 88172645463325252u;
	size_t n_repeated = 0;

	memsight_region_push("look up");
	for (size_t i = 0; i < n_lookups; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		for (struct word *word = buckets[random % N_BUCKETS]; word; word = word->next)
			n_repeated += word->count > 1;
	}
	memsight_region_pop("look up");
	return n_repeated;
}

static void free_index(void)
{
	for (size_t i = 0; i < N_BUCKETS; i++) {
		for (struct word *word = buckets[i]; word;) {
			struct word *next = word->next;
			free(word);
			word = next;
		}
	}
	free(buckets);
}

int main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : "/usr/include";
	size_t n_lookups = argc > 2 ? strtoul(argv[2], NULL, 10) : 15000000;
	char *history = calloc(1, HISTORY_BYTES);

	buckets = calloc(N_BUCKETS, sizeof(*buckets));
	memsight_region_push("read");
	if (!history || !buckets || nftw(folder, visit, 16, FTW_PHYS) < 0) {
		perror(folder);
		return EXIT_FAILURE;
	}
	memsight_region_pop("read");
	for (size_t i = 0; i < n_texts; i++)
		index_text(texts[i]);
	size_t n_repeated = look_up(n_lookups);
	printf("%zu texts, %zu different words; %zu look-ups met %zu words seen more than once\n",
	       n_texts, n_words, n_lookups, n_repeated);
	free_index();
	free(history);
	return EXIT_SUCCESS;
}
