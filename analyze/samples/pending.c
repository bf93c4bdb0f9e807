#include "analyze/samples/pending.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

static struct sample_list *list_of(struct sample_waiting *waiting, uint32_t thread)
{
	while (waiting->n_threads < thread) {
		if (grow_array(&waiting->threads, waiting->n_threads, &waiting->n_threads_allocated,
			       sizeof(*waiting->threads)) < 0)
			return NULL;
		waiting->threads[waiting->n_threads++] = (struct sample_list){ 0 };
	}
	return &waiting->threads[thread - 1];
}

static int settle_list(struct sample_waiting *waiting, struct sample_list *list,
		       const struct owner_block *block, bool is_realloc)
{
	int r = 0;

	for (size_t i = 0; i < list->n; i++) {
		struct pending_sample *item = list->items[i];

		sample_touches_close(waiting->owners, item, block, is_realloc);
		if (r == 0)
			r = waiting->settle(waiting->user, item);
		free(item);
	}
	waiting->n -= list->n;
	list->n = 0;
	return r;
}

int sample_waiting_add(struct sample_waiting *waiting, const struct pending_sample *item)
{
	size_t n_bytes = sizeof(*item) + item->n * sizeof(item->accesses[0]);
	struct sample_list *list = list_of(waiting, item->thread);
	struct pending_sample *copy = malloc(n_bytes);
	int r = 0;

	if (list && list->n >= SAMPLE_MAX_WAITING)
		r = settle_list(waiting, list, NULL, false);
	else if (waiting->n >= SAMPLE_MAX_WAITING_ALL)
		r = sample_waiting_settle(waiting);
	if (r < 0 || !list || !copy ||
	    grow_array(&list->items, list->n, &list->n_allocated, sizeof(*list->items)) < 0) {
		free(copy);
		return r < 0 ? r : -ENOMEM;
	}
	memcpy(copy, item, n_bytes);
	list->items[list->n++] = copy;
	waiting->n++;
	return 0;
}

bool sample_waiting_has(const struct sample_waiting *waiting, uint32_t thread)
{
	return thread - 1 < waiting->n_threads && waiting->threads[thread - 1].n > 0;
}

int sample_waiting_event(struct sample_waiting *waiting, uint32_t thread,
			 const struct owner_block *block, bool is_realloc)
{
	if (!sample_waiting_has(waiting, thread))
		return 0;
	return settle_list(waiting, &waiting->threads[thread - 1], block, is_realloc);
}

int sample_waiting_settle(struct sample_waiting *waiting)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < waiting->n_threads; i++)
		r = settle_list(waiting, &waiting->threads[i], NULL, false);
	return r;
}

void sample_waiting_finish(struct sample_waiting *waiting)
{
	for (size_t i = 0; i < waiting->n_threads; i++) {
		for (size_t k = 0; k < waiting->threads[i].n; k++)
			free(waiting->threads[i].items[k]);
		free(waiting->threads[i].items);
	}
	free(waiting->threads);
	waiting->threads = NULL;
	waiting->n_threads = 0;
	waiting->n = 0;
}
