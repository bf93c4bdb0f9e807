#pragma once
/*
 * From a pair of 64-bit numbers to a number other than 0. Open addressing, grows by itself; about
 * 24 bytes an entry at half load. All zero is an empty map. One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "common/array.h"

struct key_map_entry {
	uint64_t a;
	uint64_t b;
	uint64_t value; /* 0: free */
};

struct key_map {
	struct key_map_entry *entries;
	size_t n;
	size_t capacity; /* 0 or a power of two */
};

/* The value of (a, b), 0 when there is none. */
uint64_t key_map_get(const struct key_map *map, uint64_t a, uint64_t b);

/* Have the place of (a, b) fetched into the cache, for a look at it soon. */
void key_map_prefetch(const struct key_map *map, uint64_t a, uint64_t b);

/* Set the value (not 0) of (a, b). Returns 0 or -ENOMEM. */
int key_map_put(struct key_map *map, uint64_t a, uint64_t b, uint64_t value);

/* Forget all, and keep the memory for as many. */
void key_map_clear(struct key_map *map);

/* Free the memory; the map is empty and usable afterwards. */
void key_map_finish(struct key_map *map);

/*
 * The item of (a, b) in an array of n items that grow_array() makes room for, whose numbers (1 +
 * place) the map has. One that is not there yet is added: the last argument is its value. NULL: no
 * memory. Valid until the next call.
 */
#define key_map_item(map, a, b, items, n, n_allocated, ...)                                        \
	({                                                                                         \
		const uint64_t a_ = (uint64_t)(a), b_ = (uint64_t)(b);                             \
		uint64_t number_ = key_map_get(map, a_, b_);                                       \
                                                                                                   \
		if (!number_ && grow_one(&(items), n, &(n_allocated)) == 0 &&                      \
		    key_map_put(map, a_, b_, (n) + 1) == 0) {                                      \
			(items)[(n)++] = __VA_ARGS__;                                              \
			number_ = (n);                                                             \
		}                                                                                  \
		number_ ? &(items)[number_ - 1] : NULL;                                            \
	})
