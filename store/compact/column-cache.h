#pragma once
/*
 * Decoded columns by a key, counted by reference. Those that nobody has taken are kept up to a
 * bound of bytes; the one that was put back longest ago goes first.
 */
#include <stddef.h>
#include <stdint.h>

#include "store/columns/column.h"

struct chunk_cache;

struct chunk_cache *chunk_cache_open(size_t max_bytes); /* NULL without memory */
struct chunk_cache *chunk_cache_close(struct chunk_cache *cache); /* accepts NULL */

/* A column that is kept, taken; NULL: there is none. */
const struct chunk_column *chunk_cache_take(struct chunk_cache *cache, int64_t key);

/* Keep a column, which is taken at once. It belongs to the cache then. Returns 0 or -ENOMEM. */
int chunk_cache_add(struct chunk_cache *cache, int64_t key, struct chunk_column *column);

/* Give up what was taken. */
void chunk_cache_put(struct chunk_cache *cache, const struct chunk_column *column);

/* Keep nothing: what is taken goes when it is put back. */
void chunk_cache_clear(struct chunk_cache *cache);
