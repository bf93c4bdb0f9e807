#include "analyze/live/guesses/guess-model.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/hash-map.h"

/* Known blocks of one look, and the two places that have most of them. */
struct group {
	uint32_t n;
	uint32_t first, n_first;
	uint32_t second, n_second;
};

struct model {
	struct key_map numbers; /* (look, 0) -> group, (look, place) -> its blocks */
	struct group *groups; /* from 1 on */
	size_t n_groups, n_allocated;
	struct key_map withheld; /* (place, kind) -> blocks */
	struct key_map taken; /* likewise: those given to another place */
};

static void model_finish(struct model *model)
{
	key_map_finish(&model->numbers);
	key_map_finish(&model->withheld);
	key_map_finish(&model->taken);
	free(model->groups);
}

/* NULL: nothing known looks so. */
static struct group *group_of(const struct model *model, uint64_t look)
{
	uint64_t number = key_map_get(&model->numbers, look, 0);

	return number ? &model->groups[number] : NULL;
}

static int add_group(struct model *model, uint64_t look)
{
	size_t number = model->n_groups ? model->n_groups : 1;
	int r = grow_array_by(&model->groups, model->n_groups, 2, &model->n_allocated,
			      sizeof(*model->groups));

	if (r < 0)
		return r;
	model->groups[number] = (struct group){ .n = 0 };
	model->n_groups = number + 1;
	return key_map_put(&model->numbers, look, 0, number);
}

/* One block more of a place, which has n now. */
static void rank(struct group *group, uint32_t place, uint32_t n)
{
	group->n++;
	if (place == group->first) {
		group->n_first = n;
	} else if (n > group->n_first) {
		group->second = group->first;
		group->n_second = group->n_first;
		group->first = place;
		group->n_first = n;
	} else if (n > group->n_second) {
		group->second = place;
		group->n_second = n;
	}
}

static int learn(struct model *model, const struct guess_block *blocks, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		uint64_t look = blocks[i].look;
		uint64_t has = key_map_get(&model->numbers, look, blocks[i].place) + 1;

		if (!group_of(model, look))
			r = add_group(model, look);
		r = r ?: key_map_put(&model->numbers, look, blocks[i].place, has);
		if (r == 0)
			rank(group_of(model, look), blocks[i].place, (uint32_t)has);
	}
	return r;
}

/* As if `without` made nothing since (0: as it is). 0: nothing can be said. */
static uint32_t guess(const struct model *model, uint64_t look, uint32_t without)
{
	const struct group *group = group_of(model, look);
	uint32_t n, place, n_place;

	if (!group)
		return 0;
	n = group->n - (without ? (uint32_t)key_map_get(&model->numbers, look, without) : 0);
	place = group->first == without ? group->second : group->first;
	n_place = group->first == without ? group->n_second : group->n_first;
	return n >= GUESS_LEAST_SEEN && n_place >= GUESS_LEAST_SHARE * n ? place : 0;
}

/* The older half, by what the younger one has taught. */
static void test_by_age(const struct model *model, const struct guess_block *blocks, size_t n,
			struct guess_kind *kinds)
{
	for (size_t i = 0; i < n; i++) {
		struct guess_kind *kind = &kinds[blocks[i].kind];
		uint32_t place = guess(model, blocks[i].look, 0);

		kind->n_tested++;
		kind->n_guessed += place != 0;
		kind->n_right += place == blocks[i].place;
	}
}

static int count(struct key_map *map, uint64_t place, unsigned kind)
{
	return key_map_put(map, place, kind, key_map_get(map, place, kind) + 1);
}

/* Each place in turn, as if it were one that makes nothing any more. */
static int test_withheld(struct model *model, const struct guess_block *blocks, size_t n,
			 struct guess_kind *kinds)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		r = count(&model->withheld, blocks[i].place, blocks[i].kind);
		if (r == 0 && guess(model, blocks[i].look, blocks[i].place))
			r = count(&model->taken, blocks[i].place, blocks[i].kind);
	}
	for (size_t i = 0; r == 0 && i < model->withheld.capacity; i++) {
		const struct key_map_entry *entry = &model->withheld.entries[i];
		uint64_t n_taken = key_map_get(&model->taken, entry->a, entry->b);

		if (!entry->value)
			continue;
		kinds[entry->b].n_withheld += entry->value;
		kinds[entry->b].n_taken += n_taken;
		if (entry->value < GUESS_LEAST_SEEN)
			continue;
		kinds[entry->b].n_places++;
		kinds[entry->b].sum_taken += (double)n_taken / (double)entry->value;
	}
	return r;
}

static void guess_all(const struct model *model, struct guess_block *blocks, size_t n,
		      struct guess_kind *kinds)
{
	for (size_t i = 0; i < n; i++) {
		struct guess_kind *kind = &kinds[blocks[i].kind];

		blocks[i].place = guess(model, blocks[i].look, 0);
		kind->n_asked++;
		kind->n_new += !group_of(model, blocks[i].look);
		kind->n_named += blocks[i].place != 0;
	}
}

static double succession(double k, double n)
{
	return (k + 1) / (n + 2);
}

static double probability_of(const struct guess_kind *kind)
{
	double right = succession((double)kind->n_right, (double)kind->n_guessed);
	double by_place = succession(kind->sum_taken, (double)kind->n_places);
	double by_block = succession((double)kind->n_taken, (double)kind->n_withheld);
	double taken = by_place > by_block ? by_place : by_block, wrong;

	if (kind->n_guessed < GUESS_LEAST_TESTED || kind->n_named == 0)
		return 0;
	wrong = taken / (1 - taken) * (double)kind->n_new / (double)kind->n_named;
	return wrong < 1 ? right * (1 - wrong) : 0;
}

DEFINE_ORDER(compare, struct guess_block, ORDER(b->is_known, a->is_known) ?: BY(born_ns));

int guess_places(struct guess_block *blocks, size_t n, struct guess_kind kinds[GUESS_N_KINDS])
{
	struct model model = { .n_groups = 0 };
	size_t n_known = 0, half;

	memset(kinds, 0, GUESS_N_KINDS * sizeof(*kinds));
	if (n == 0)
		return 0;
	qsort(blocks, n, sizeof(*blocks), compare);
	while (n_known < n && blocks[n_known].is_known)
		n_known++;
	half = n_known / 2;
	int r = learn(&model, blocks + half, n_known - half);
	if (r == 0) {
		test_by_age(&model, blocks, half, kinds);
		r = learn(&model, blocks, half);
	}
	r = r ?: test_withheld(&model, blocks, n_known, kinds);
	if (r == 0)
		guess_all(&model, blocks + n_known, n - n_known, kinds);
	for (unsigned i = 0; i < GUESS_N_KINDS; i++)
		kinds[i].probability = probability_of(&kinds[i]);
	model_finish(&model);
	return r;
}
