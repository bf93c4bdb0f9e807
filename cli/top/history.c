#include "cli/top/history.h"

#include <stdlib.h>

#include "common/array.h"

struct history {
	size_t n;
	unsigned n_joined; /* of what was added, in the last one */
	unsigned n_each; /* in each of the others */
	struct history_point points[HISTORY_POINTS];
};

struct history *history_create(void)
{
	struct history *history = calloc(1, sizeof(*history));

	if (history)
		history->n_each = 1;
	return history;
}

struct history *history_destroy(struct history *history)
{
	free(history);
	return NULL;
}

/* One follows the other. */
static void join(struct history_point *one, const struct history_point *other)
{
	one->end_ns = other->end_ns;
	one->live_bytes = other->live_bytes;
	if (one->max_live_bytes < other->max_live_bytes)
		one->max_live_bytes = other->max_live_bytes;
	if (one->rss_bytes < other->rss_bytes)
		one->rss_bytes = other->rss_bytes;
	one->n_allocations += other->n_allocations;
	one->n_frees += other->n_frees;
}

void history_add(struct history *history, const struct history_point *point)
{
	if (history->n > 0 && history->n_joined < history->n_each) {
		join(&history->points[history->n - 1], point);
		history->n_joined++;
		return;
	}
	if (history->n == HISTORY_POINTS) {
		for (size_t i = 0; i < HISTORY_POINTS / 2; i++) {
			history->points[i] = history->points[2 * i];
			join(&history->points[i], &history->points[2 * i + 1]);
		}
		history->n /= 2;
		history->n_each *= 2;
	}
	history->points[history->n++] = *point;
	history->n_joined = 1;
}

/* The first one that ends behind a time. */
static size_t find(const struct history *history, uint64_t ns)
{
	return array_n_until(history->points, history->n, end_ns, ns);
}

size_t history_read(const struct history *history, uint64_t from_ns, uint64_t to_ns,
		    struct history_point *points, size_t n_wanted)
{
	size_t first = find(history, from_ns), end = find(history, to_ns), n = 0;

	if (end < history->n && history->points[end].begin_ns < to_ns)
		end++;
	if (end < first)
		return 0;
	size_t n_each = (end - first + n_wanted - 1) / n_wanted;
	for (size_t i = first; i < end; i++) {
		if ((i - first) % n_each == 0)
			points[n++] = history->points[i];
		else
			join(&points[n - 1], &history->points[i]);
	}
	return n;
}
