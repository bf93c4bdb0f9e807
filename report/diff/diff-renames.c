#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "report/diff/diff-sites.h"

#define LEAST_SHARE 2u /* so many of the sites through a function must lead on alike: one half */
#define MOST_ROUNDS 16u /* what is known of one function helps with those that it calls */
#define MOST_ALIKE  8u /* functions of one place */
#define ANOTHER	    UINT32_MAX /* a function of one side, when another one is looked at */

/* A function after, and one before that may be it. */
struct candidate {
	uint32_t after, before;
	uint32_t n_alike; /* sites */
};

struct renames {
	struct diff_sites *sites;
	struct key_map places; /* of a site with a function taken out: the function before */
	struct key_map number_of; /* of (after, before): index of a candidate + 1 */
	struct candidate *candidates;
	size_t n;
	size_t n_allocated;
	uint32_t *n_through; /* by function: sites that lead through it */
	bool is_loose; /* other functions of one side may be between */
};

static void finish_renames(struct renames *renames)
{
	key_map_finish(&renames->places);
	key_map_finish(&renames->number_of);
	free(renames->candidates);
	free(renames->n_through);
}
#define auto_renames __attribute__((cleanup(finish_renames)))

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static bool is_of_one_side(const struct diff_function *function)
{
	return function->has[0] != function->has[1] && !function->was && !function->is_other_now;
}

static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/*
 * A site with the function of a step taken out. Where it calls nothing that both sides have, its
 * blocks have to show that it is the same.
 */
static void place_of(const struct renames *renames, const struct diff_site *site, size_t step,
		     uint64_t ret_key[2])
{
	uint64_t hash = 1;
	bool has_children = false;

	for (size_t i = 0; i < site->n_steps; i++) {
		uint32_t number = site->steps[i].function;
		const struct diff_function *function = &renames->sites->functions[number];
		if (i == step)
			number = 0;
		else if (function->was)
			number = function->was;
		else if (is_of_one_side(function) && renames->is_loose)
			continue;
		else if (is_of_one_side(function))
			number = ANOTHER;
		has_children |= i > step && number != ANOTHER;
		hash = mix(hash, number);
	}
	ret_key[0] = hash;
	ret_key[1] = has_children ? 0 : mix(mix(1, bits_of(site->n_blocks)), bits_of(site->bytes));
}

static void set_was(struct diff_sites *sites, uint32_t after, uint32_t before)
{
	sites->functions[after].was = before;
	if (before)
		sites->functions[before].is_other_now = true;
}

/* Functions of one name that lie in another file now. */
static int find_moves(struct renames *renames)
{
	struct diff_sites *sites = renames->sites;
	struct key_map before = { 0 };
	int r = 0;

	for (size_t i = 1; r == 0 && i < sites->n_functions; i++)
		if (is_of_one_side(&sites->functions[i]) && sites->functions[i].has[0])
			r = key_map_put(&before, sites->functions[i].name_hash, 0, i);
	for (size_t i = 1; r == 0 && i < sites->n_functions; i++)
		if (is_of_one_side(&sites->functions[i]) && sites->functions[i].has[1])
			set_was(sites, (uint32_t)i,
				(uint32_t)key_map_get(&before, sites->functions[i].name_hash, 0));
	key_map_finish(&before);
	return r;
}

static int count_alike(struct renames *renames, uint32_t after, uint32_t before)
{
	uint64_t number = key_map_get(&renames->number_of, after, before);

	if (number) {
		renames->candidates[number - 1].n_alike++;
		return 0;
	}
	int r = grow_one(&renames->candidates, renames->n, &renames->n_allocated);
	if (r < 0)
		return r;
	renames->candidates[renames->n++] = (struct candidate){ after, before, 1 };
	return key_map_put(&renames->number_of, after, before, renames->n);
}

/* A place of the side before is kept; one of the side after is a sign for those that have it. */
static int take_place(struct renames *renames, const uint64_t key[2], uint32_t function, int side)
{
	int r = 0;

	for (uint64_t i = 0; r == 0 && i < MOST_ALIKE; i++) {
		uint64_t before = key_map_get(&renames->places, key[0], mix(key[1], i));
		if (side == 0 && before == function)
			return 0;
		if (side == 0 && !before)
			return key_map_put(&renames->places, key[0], mix(key[1], i), function);
		if (side == 1 && before)
			r = count_alike(renames, function, (uint32_t)before);
	}
	return r;
}

/* The places of a side's functions that the other does not have. */
static int look_at_sites(struct renames *renames, const struct diff_site *open, size_t n, int side)
{
	uint64_t key[2];
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct diff_site *site = &open[i];
		for (size_t k = 0; r == 0 && site->side == side && k < site->n_steps; k++) {
			uint32_t number = site->steps[k].function;
			if (!is_of_one_side(&renames->sites->functions[number]))
				continue;
			renames->n_through[number]++;
			place_of(renames, site, k, key);
			r = take_place(renames, key, number, side);
		}
	}
	return r;
}

/* How alike: of the sites through either function those that lead on alike. */
static double likeness(const struct renames *renames, const struct candidate *candidate)
{
	double n = renames->n_through[candidate->before] + renames->n_through[candidate->after];

	return candidate->n_alike / (n - candidate->n_alike);
}

static bool is_better(const struct renames *renames, const struct candidate *a,
		      const struct candidate *b)
{
	double x = likeness(renames, a), y = likeness(renames, b);

	return x != y ? x > y : a->n_alike > b->n_alike;
}

static bool is_free(const struct renames *renames, const struct candidate *candidate)
{
	const struct diff_function *functions = renames->sites->functions;
	uint32_t before = renames->n_through[candidate->before];
	uint32_t after = renames->n_through[candidate->after];

	return !functions[candidate->after].was && !functions[candidate->before].is_other_now &&
	       candidate->n_alike * LEAST_SHARE >= (before < after ? before : after);
}

/* The best first; each function is one other's. Returns whether there was one. */
static bool accept(struct renames *renames)
{
	bool has_any = false;

	for (;;) {
		const struct candidate *best = NULL;
		for (size_t i = 0; i < renames->n; i++) {
			const struct candidate *candidate = &renames->candidates[i];
			if (is_free(renames, candidate) &&
			    (!best || is_better(renames, candidate, best)))
				best = candidate;
		}
		if (!best)
			return has_any;
		set_was(renames->sites, best->after, best->before);
		has_any = true;
	}
}

static int look(struct renames *renames, const struct diff_site *open, size_t n)
{
	int r = 0;

	key_map_finish(&renames->places);
	key_map_finish(&renames->number_of);
	renames->n = 0;
	memset(renames->n_through, 0, renames->sites->n_functions * sizeof(*renames->n_through));
	for (int side = 0; r == 0 && side < 2; side++)
		r = look_at_sites(renames, open, n, side);
	return r;
}

int diff_renames_find(struct diff_sites *sites, const struct diff_site *open, size_t n)
{
	auto_renames struct renames renames = {
		.sites = sites,
		.n_through = calloc(sites->n_functions + 1, sizeof(*renames.n_through)),
	};
	int r = renames.n_through ? find_moves(&renames) : -ENOMEM;

	for (unsigned round = 0; r == 0 && round < MOST_ROUNDS; round++) {
		r = look(&renames, open, n);
		bool has_any = r == 0 && accept(&renames);
		if (!has_any && renames.is_loose)
			break;
		renames.is_loose = !has_any;
	}
	return r;
}
