#include "common/hash-map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/large.h"

#define MIN_CAPACITY 64u

/* Two rounds of multiply and fold: neighbouring addresses spread over the table. */
static size_t hash(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ b * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);

	x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return (size_t)(x ^ x >> 32);
}

/* The entry of (a, b), or the free one where it belongs. The table is never full. */
static struct key_map_entry *locate(const struct key_map *map, uint64_t a, uint64_t b)
{
	size_t mask = map->capacity - 1;

	for (size_t i = hash(a, b) & mask;; i = (i + 1) & mask) {
		struct key_map_entry *entry = &map->entries[i];

		if (!entry->value || (entry->a == a && entry->b == b))
			return entry;
	}
}

uint64_t key_map_get(const struct key_map *map, uint64_t a, uint64_t b)
{
	return map->capacity ? locate(map, a, b)->value : 0;
}

void key_map_prefetch(const struct key_map *map, uint64_t a, uint64_t b)
{
	if (map->capacity)
		__builtin_prefetch(&map->entries[hash(a, b) & (map->capacity - 1)]);
}

static int grow(struct key_map *map)
{
	struct key_map larger = { .n = map->n,
				  .capacity = map->capacity ? 2 * map->capacity : MIN_CAPACITY };

	larger.entries = large_alloc(larger.capacity * sizeof(*larger.entries));
	if (!larger.entries)
		return -ENOMEM;
	for (size_t i = 0; i < map->capacity; i++) {
		const struct key_map_entry *entry = &map->entries[i];

		if (entry->value)
			*locate(&larger, entry->a, entry->b) = *entry;
	}
	free(map->entries);
	*map = larger;
	return 0;
}

int key_map_put(struct key_map *map, uint64_t a, uint64_t b, uint64_t value)
{
	if (2 * (map->n + 1) > map->capacity) {
		int r = grow(map);
		if (r < 0)
			return r;
	}

	struct key_map_entry *entry = locate(map, a, b);
	map->n += !entry->value;
	*entry = (struct key_map_entry){ a, b, value };
	return 0;
}

void key_map_clear(struct key_map *map)
{
	if (map->capacity)
		memset(map->entries, 0, map->capacity * sizeof(*map->entries));
	map->n = 0;
}

void key_map_finish(struct key_map *map)
{
	free(map->entries);
	*map = (struct key_map){ 0 };
}
