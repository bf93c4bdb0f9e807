#pragma once
/*
 * Samples that wait for the next event of their thread to know an owner. Bounded: beyond
 * SAMPLE_MAX_WAITING of a thread, or SAMPLE_MAX_WAITING_ALL (about 50 MiB), they are settled
 * without it. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/samples/sample-accesses.h"

#define SAMPLE_MAX_WAITING     65536u
#define SAMPLE_MAX_WAITING_ALL (4 * SAMPLE_MAX_WAITING)

/* Settles a sample whose owners are all decided. 0 or a negative errno. */
typedef int (*sample_settle)(void *user, const struct pending_sample *item);

struct sample_list {
	struct pending_sample **items;
	size_t n;
	size_t n_allocated;
};

struct sample_waiting {
	struct owners *owners;
	sample_settle settle;
	void *user;
	struct sample_list *threads; /* by number - 1 */
	size_t n_threads;
	size_t n_threads_allocated;
	size_t n; /* of all */
};

/* Let a copy of an item wait; settles all of its thread first when they are too many. */
int sample_waiting_add(struct sample_waiting *waiting, const struct pending_sample *item);

bool sample_waiting_has(const struct sample_waiting *waiting, uint32_t thread);

/* The thread's next event: block is what it made, or NULL. 0 or a negative errno. */
int sample_waiting_event(struct sample_waiting *waiting, uint32_t thread,
			 const struct owner_block *block, bool is_realloc);

/* Settle all of all threads: there is no next event. */
int sample_waiting_settle(struct sample_waiting *waiting);

/* Free the memory; what waits is lost. */
void sample_waiting_finish(struct sample_waiting *waiting);
