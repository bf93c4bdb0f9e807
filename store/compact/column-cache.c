#include "store/compact/column-cache.h"

#include <errno.h>
#include <stdlib.h>

#define N_BUCKETS 1024u

/* A ring of those that nobody has taken, the one that was put back last behind the cache's own. */
struct chunk_entry {
	struct chunk_entry *next, *before;
	struct chunk_entry *in_bucket;
	struct chunk_column *column;
	int64_t key;
	unsigned n_taken;
	bool is_known; /* it can be found by its key */
};

struct chunk_cache {
	struct chunk_entry *buckets[N_BUCKETS];
	struct chunk_entry idle; /* the ring's own link */
	size_t n_bytes; /* of the ring */
	size_t max_bytes;
};

static size_t bytes_of(const struct chunk_column *column)
{
	return sizeof(*column) + column->n * sizeof(column->values[0]);
}

static struct chunk_entry **bucket_of(struct chunk_cache *cache, int64_t key)
{
	uint64_t hash = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15);

	return &cache->buckets[hash >> 54];
}
_Static_assert(N_BUCKETS == 1u << 10, "as many as the hash has");

struct chunk_cache *chunk_cache_open(size_t max_bytes)
{
	struct chunk_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	cache->max_bytes = max_bytes;
	cache->idle.next = cache->idle.before = &cache->idle;
	return cache;
}

static void unlink_idle(struct chunk_cache *cache, struct chunk_entry *entry)
{
	entry->before->next = entry->next;
	entry->next->before = entry->before;
	cache->n_bytes -= bytes_of(entry->column);
}

static void make_unknown(struct chunk_cache *cache, struct chunk_entry *entry)
{
	struct chunk_entry **place = bucket_of(cache, entry->key);

	while (*place != entry)
		place = &(*place)->in_bucket;
	*place = entry->in_bucket;
	entry->is_known = false;
}

static void free_entry(struct chunk_entry *entry)
{
	chunk_column_free(entry->column);
	free(entry);
}

/* The one that was put back longest ago goes. */
static void drop_oldest(struct chunk_cache *cache)
{
	struct chunk_entry *entry = cache->idle.before;

	unlink_idle(cache, entry);
	make_unknown(cache, entry);
	free_entry(entry);
}

void chunk_cache_clear(struct chunk_cache *cache)
{
	if (!cache)
		return;
	while (cache->idle.next != &cache->idle)
		drop_oldest(cache);
	for (size_t i = 0; i < N_BUCKETS; i++) {
		while (cache->buckets[i])
			make_unknown(cache, cache->buckets[i]);
	}
}

struct chunk_cache *chunk_cache_close(struct chunk_cache *cache)
{
	chunk_cache_clear(cache);
	free(cache);
	return NULL;
}

const struct chunk_column *chunk_cache_take(struct chunk_cache *cache, int64_t key)
{
	struct chunk_entry *entry = *bucket_of(cache, key);

	while (entry && entry->key != key)
		entry = entry->in_bucket;
	if (!entry)
		return NULL;
	if (entry->n_taken++ == 0)
		unlink_idle(cache, entry);
	return entry->column;
}

int chunk_cache_add(struct chunk_cache *cache, int64_t key, struct chunk_column *column)
{
	struct chunk_entry **place = bucket_of(cache, key);
	struct chunk_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return -ENOMEM;
	entry->key = key;
	entry->column = column;
	entry->n_taken = 1;
	entry->is_known = true;
	entry->in_bucket = *place;
	*place = entry;
	column->entry = entry;
	return 0;
}

void chunk_cache_put(struct chunk_cache *cache, const struct chunk_column *column)
{
	struct chunk_entry *entry = column->entry;

	if (--entry->n_taken > 0)
		return;
	if (!entry->is_known) {
		free_entry(entry);
		return;
	}
	entry->next = cache->idle.next;
	entry->before = &cache->idle;
	entry->next->before = entry;
	cache->idle.next = entry;
	cache->n_bytes += bytes_of(column);
	while (cache->n_bytes > cache->max_bytes)
		drop_oldest(cache);
}
