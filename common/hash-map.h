#pragma once
/*
 * From a pair of 64-bit numbers to a number other than 0. Open addressing, grows by itself; about
 * 24 bytes an entry at half load. All zero is an empty map. One thread.
 */
#include <stddef.h>
#include <stdint.h>

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

/* Free the memory; the map is empty and usable afterwards. */
void key_map_finish(struct key_map *map);
