#pragma once
/*
 * Maps that perf tells of before the trace has told of their process: the exec of a program that is
 * not followed is in the trace only after it. They wait here for it. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/live/mapping-set.h"

struct tasks;

struct early_map {
	struct mapping mapping; /* its path is owned */
	uint32_t pid;
	uint32_t tid;
};

/* All zero is empty. */
struct early_maps {
	struct early_map *items;
	size_t n;
	size_t n_allocated;
	size_t n_bytes; /* of paths */
	uint32_t n_defined; /* processes that were known when it was looked last */
};

/* Keep a copy. When there are very many, those that wait are forgotten. Returns 0 or -ENOMEM. */
int early_maps_keep(struct early_maps *early, const struct early_map *map);

/* Returns 0 or a negative errno. */
typedef int (*early_maps_visit)(void *user, uint32_t process, const struct mapping *mapping);

/*
 * Tell, in the order in which they came, those whose process is known by now. Of traced ones there
 * is better to know: theirs are dropped. Returns 0 or what visit returned.
 */
int early_maps_tell(struct early_maps *early, struct tasks *tasks, early_maps_visit visit,
		    void *user);

/* Free the memory; it is empty and usable afterwards. */
void early_maps_finish(struct early_maps *early);
