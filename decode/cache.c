#include "decode/cache.h"

#include <errno.h>
#include <stdlib.h>

#define CACHE_WAYS 4u
/* Instructions that are none (bytes = 0) are kept as well, so an unused entry needs a mark. */
#define CACHE_UNUSED NULL

int decode_cache_init(struct cache *cache, size_t n_entries)
{
	size_t n_sets = 1;

	while (n_sets * CACHE_WAYS < n_entries && n_sets < UINT32_MAX / 2 / CACHE_WAYS)
		n_sets *= 2;
	*cache = (struct cache){ .n_sets = n_sets, .n_entries = n_sets * CACHE_WAYS };
	cache->entries = malloc(cache->n_entries * sizeof(*cache->entries));
	cache->numbers = calloc(cache->n_entries, sizeof(*cache->numbers));
	if (cache->entries && cache->numbers)
		return 0;
	decode_cache_finish(cache);
	return -ENOMEM;
}

void decode_cache_finish(struct cache *cache)
{
	free(cache->entries);
	free(cache->numbers);
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
	const uint32_t *numbers = &cache->numbers[find_set(cache, process, address) * CACHE_WAYS];

	for (unsigned way = 0; way < CACHE_WAYS && numbers[way]; way++) {
		const struct instruction *entry = &cache->entries[numbers[way] - 1];

		if (entry->address == address && entry->process == process &&
		    entry->version == version && entry->execute != CACHE_UNUSED)
			return entry;
	}
	return NULL;
}

const struct instruction *decode_cache_add(struct cache *cache,
					   const struct instruction *instruction)
{
	size_t number = cache->n_added++ % cache->n_entries, way = 0;
	size_t set = find_set(cache, instruction->process, instruction->address) * CACHE_WAYS;

	while (way < CACHE_WAYS && cache->numbers[set + way])
		way++;
	cache->numbers[set + (way < CACHE_WAYS ? way : number % CACHE_WAYS)] = (uint32_t)number + 1;
	cache->entries[number] = *instruction;
	return &cache->entries[number];
}

void decode_cache_drop(struct cache *cache, uint32_t process, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < cache->n_added && i < cache->n_entries; i++) {
		struct instruction *entry = &cache->entries[i];
		uint64_t n_bytes = entry->bytes ? entry->bytes : INSTRUCTION_MAX_BYTES;

		if (entry->process == process && entry->address < end &&
		    entry->address + n_bytes > start)
			entry->execute = CACHE_UNUSED;
	}
}
