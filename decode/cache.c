#include "decode/cache.h"

#include <errno.h>
#include <stdlib.h>

#define CACHE_WAYS 4u
/* Instructions that are none (bytes = 0) are kept as well, so an unused entry needs a mark. */
#define CACHE_UNUSED NULL

int decode_cache_init(struct cache *cache, size_t n_entries)
{
	size_t n_sets = 1;

	while (n_sets * CACHE_WAYS < n_entries && n_sets < SIZE_MAX / 2 / CACHE_WAYS)
		n_sets *= 2;
	cache->n_sets = n_sets;
	cache->entries = calloc(n_sets, CACHE_WAYS * sizeof(*cache->entries));
	cache->next_victim = calloc(n_sets, 1);
	if (cache->entries && cache->next_victim)
		return 0;
	decode_cache_finish(cache);
	return -ENOMEM;
}

void decode_cache_finish(struct cache *cache)
{
	free(cache->entries);
	free(cache->next_victim);
	*cache = (struct cache){ 0 };
}

static size_t find_set(const struct cache *cache, uint32_t process, uint64_t address)
{
	uint64_t hash = (address ^ (uint64_t)process << 40) * UINT64_C(0x9e3779b97f4a7c15);

	return (hash >> 32) & (cache->n_sets - 1);
}

const struct instruction *decode_cache_find(const struct cache *cache, uint32_t process,
					    uint64_t address, uint64_t version)
{
	const struct instruction *entry =
		&cache->entries[find_set(cache, process, address) * CACHE_WAYS];

	for (unsigned way = 0; way < CACHE_WAYS; way++, entry++)
		if (entry->address == address && entry->process == process &&
		    entry->version == version && entry->execute != CACHE_UNUSED)
			return entry;
	return NULL;
}

const struct instruction *decode_cache_add(struct cache *cache,
					   const struct instruction *instruction)
{
	size_t set = find_set(cache, instruction->process, instruction->address);
	struct instruction *entry =
		&cache->entries[set * CACHE_WAYS + cache->next_victim[set]++ % CACHE_WAYS];

	*entry = *instruction;
	return entry;
}

void decode_cache_drop(struct cache *cache, uint32_t process, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < cache->n_sets * CACHE_WAYS; i++) {
		struct instruction *entry = &cache->entries[i];
		uint64_t n_bytes = entry->bytes ? entry->bytes : INSTRUCTION_MAX_BYTES;

		if (entry->process == process && entry->address < end &&
		    entry->address + n_bytes > start)
			entry->execute = CACHE_UNUSED;
	}
}
