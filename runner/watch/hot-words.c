#include "runner/watch/hot-words.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "runner/sampling/decode-live.h"

#define SLOTS	    8192u /* a power of two */
#define MOST_WORDS  (SLOTS * 3 / 4)
#define LINE_BYTES  64u
#define WORD_BYTES  8u
#define STACK_BYTES (UINT64_C(1) << 20)
#define LEAST	    2.0 /* samples: below it a word is no more than chance */

struct watch_hot {
	struct samples_private *decoder;
	struct watch_hot_word slots[SLOTS]; /* weight 0: free */
	size_t n;
	unsigned turn; /* where among the hottest lines the next choice begins */
	/* Of the sample at hand: */
	uint32_t process_id;
	uint64_t sp;
};

int watch_hot_create(struct watch_hot **ret_hot)
{
	struct watch_hot *hot = calloc(1, sizeof(*hot));
	int err = hot ? samples_private_create(NULL, NULL, &hot->decoder) : -ENOMEM;

	if (err < 0)
		return free(hot), err;
	*ret_hot = hot;
	return 0;
}

struct watch_hot *watch_hot_destroy(struct watch_hot *hot)
{
	if (hot)
		samples_private_destroy(hot->decoder);
	free(hot);
	return NULL;
}

/* The slot of a word, or the free one where it belongs. */
static struct watch_hot_word *slot_of(struct watch_hot *hot, uint32_t process_id, uint64_t address)
{
	uint64_t hash = (address ^ (uint64_t)process_id << 48) * UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (size_t)(hash >> 40) & (SLOTS - 1);

	while (hot->slots[i].weight > 0 &&
	       (hot->slots[i].address != address || hot->slots[i].process_id != process_id))
		i = (i + 1) & (SLOTS - 1);
	return &hot->slots[i];
}

static void add(struct watch_hot *hot, const struct watch_hot_word *word)
{
	struct watch_hot_word *slot = slot_of(hot, word->process_id, word->address);
	double weight = slot->weight + word->weight;

	hot->n += slot->weight == 0;
	*slot = *word;
	slot->weight = weight;
}

/* Halve all, so that what is not touched any more is forgotten; what is left of little goes. */
static void age(struct watch_hot *hot)
{
	struct watch_hot_word *old = malloc(sizeof(hot->slots));

	if (!old)
		return;
	for (size_t i = 0; i < SLOTS; i++) {
		old[i] = hot->slots[i];
		hot->slots[i].weight = 0;
	}
	hot->n = 0;
	for (size_t i = 0; i < SLOTS; i++) {
		old[i].weight /= 2;
		if (old[i].weight > LEAST / 64)
			add(hot, &old[i]);
	}
	free(old);
}

static void note(void *user, uint64_t address, double share)
{
	struct watch_hot *hot = user;
	const struct watch_hot_word word = {
		.process_id = hot->process_id,
		.address = address & ~(uint64_t)(WORD_BYTES - 1),
		.weight = share,
	};

	if (share <= 0 || address - hot->sp + 256 < STACK_BYTES)
		return;
	if (hot->n >= MOST_WORDS)
		age(hot);
	if (hot->n < MOST_WORDS)
		add(hot, &word);
}

void watch_hot_sample(struct watch_hot *hot, const struct pmu_record *record,
		      const struct image *image)
{
	if (!pmu_sample_stack_pointer(&record->sample, &hot->sp))
		return;
	hot->process_id = image->id;
	samples_private_look(hot->decoder, record, image, note, hot);
}

DEFINE_ORDER(compare, struct watch_hot_word, ORDER(b->weight, a->weight) ?: BY(address));

/* The hottest words, one of each line, hottest first. */
static unsigned find_hottest(const struct watch_hot *hot, struct watch_hot_word *words)
{
	struct watch_hot_word *all = malloc(sizeof(hot->slots));
	size_t n = 0;
	unsigned n_words = 0;

	for (size_t i = 0; all && i < SLOTS; i++) {
		if (hot->slots[i].weight >= LEAST)
			all[n++] = hot->slots[i];
	}
	if (all)
		qsort(all, n, sizeof(*all), compare);
	for (size_t i = 0; i < n && n_words < WATCH_HOT_LINES; i++) {
		bool is_there = false;

		for (unsigned k = 0; k < n_words; k++)
			is_there |= words[k].process_id == all[i].process_id &&
				    words[k].address / LINE_BYTES == all[i].address / LINE_BYTES;
		if (!is_there)
			words[n_words++] = all[i];
	}
	free(all);
	return n_words;
}

unsigned watch_hot_choose(struct watch_hot *hot, struct watch_hot_word *ret_words, unsigned n_max)
{
	struct watch_hot_word words[WATCH_HOT_LINES];
	unsigned n_words = find_hottest(hot, words);
	unsigned n = n_words < n_max ? n_words : n_max;

	for (unsigned i = 0; i < n; i++)
		ret_words[i] = words[(hot->turn + i) % n_words];
	hot->turn = n_words ? (hot->turn + n) % n_words : 0;
	return n;
}
