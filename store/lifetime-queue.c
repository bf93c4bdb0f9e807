#include "store/lifetime-queue.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define BUCKETS 65u

/* Ends whose times differ from `now` first in the same bit. */
struct bucket {
	struct sweep_end *items;
	size_t n;
	size_t n_allocated;
};

/*
 * A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990): times that are taken never go back, so an
 * item moves to lower buckets only.
 */
struct sweep {
	sweep_visit visit;
	void *context;
	uint64_t now; /* time of the last end that was taken */
	struct bucket buckets[BUCKETS];
	uint64_t least[BUCKETS]; /* time in each bucket */
};

struct sweep *sweep_open(sweep_visit visit, void *context)
{
	struct sweep *sweep = calloc(1, sizeof(*sweep));

	if (!sweep)
		return NULL;
	sweep->visit = visit;
	sweep->context = context;
	memset(sweep->least, 0xff, sizeof(sweep->least));
	return sweep;
}

struct sweep *sweep_close(struct sweep *sweep)
{
	if (!sweep)
		return NULL;
	for (unsigned i = 0; i < BUCKETS; i++)
		free(sweep->buckets[i].items);
	free(sweep);
	return NULL;
}

uint64_t sweep_time(const struct sweep *sweep, int64_t time_ns)
{
	uint64_t time = time_ns > 0 ? (uint64_t)time_ns : 0;

	return time < sweep->now ? sweep->now : time;
}

static unsigned bucket_of(const struct sweep *sweep, uint64_t time)
{
	uint64_t bits = time ^ sweep->now;

	return bits ? 64 - (unsigned)__builtin_clzll(bits) : 0;
}

int sweep_push(struct sweep *sweep, const struct sweep_end *end)
{
	unsigned i = bucket_of(sweep, end->time);
	struct bucket *bucket = &sweep->buckets[i];
	int r = grow_array(&bucket->items, bucket->n, &bucket->n_allocated, sizeof(*bucket->items));

	if (r < 0)
		return r;
	bucket->items[bucket->n++] = *end;
	if (end->time < sweep->least[i])
		sweep->least[i] = end->time;
	return 0;
}

/* The least time of a bucket becomes `now`, and its items go where they then belong. */
static int spread(struct sweep *sweep, unsigned i)
{
	struct bucket bucket = sweep->buckets[i];
	int r = 0;

	sweep->now = sweep->least[i];
	sweep->buckets[i] = (struct bucket){ 0 };
	sweep->least[i] = UINT64_MAX;
	for (size_t j = 0; j < bucket.n && r == 0; j++)
		r = sweep_push(sweep, &bucket.items[j]);
	if (!sweep->buckets[i].items) { /* its memory serves again */
		bucket.n = 0;
		sweep->buckets[i] = bucket;
	} else {
		free(bucket.items);
	}
	return r;
}

static int visit_now(struct sweep *sweep)
{
	struct bucket *bucket = &sweep->buckets[0];
	int r = 0;

	for (size_t j = 0; j < bucket->n && r == 0; j++)
		r = sweep->visit(sweep->context, &bucket->items[j]);
	bucket->n = 0;
	sweep->least[0] = UINT64_MAX;
	return r;
}

int sweep_until(struct sweep *sweep, uint64_t time)
{
	for (;;) {
		unsigned i = 0;
		while (i < BUCKETS && sweep->buckets[i].n == 0)
			i++;
		if (i == BUCKETS || sweep->least[i] > time)
			return 0;
		int r = i > 0 ? spread(sweep, i) : 0;
		if (r == 0)
			r = visit_now(sweep);
		if (r < 0)
			return r;
	}
}
