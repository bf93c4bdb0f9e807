/*
 * What is free without its neighbours' knowing: blocks in caches of threads and in fast bins. Both
 * are single lists, and their chunks look like those in use.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "runner/attach/heap-glibc.h"

#define MAX_LISTS  76u
#define MAX_CACHED 65535u
#define TLS_BYTES  (1u << 20) /* how far from a thread's pointer its cache's address may be */

const struct heap_cache_layout heap_cache_layouts[] = {
	{ "2.30 to 2.41", 64, 64, false },
	{ "2.42", 76, 64, true },
};
const size_t heap_n_cache_layouts = sizeof(heap_cache_layouts) / sizeof(heap_cache_layouts[0]);

/* As it lies there. */
struct cache {
	uint64_t at;
	const struct heap_cache_layout *layout;
	uint16_t numbers[MAX_LISTS];
	uint64_t lists[MAX_LISTS];
};

/* One that is being checked: what it adds is dropped where it is none. */
struct trial {
	struct heap_glibc *glibc;
	bool is_protected;
	/*
	 * Second word of the first block; all others have the same: the cache's address until
	 * 2.33, then one number for all. It stays in blocks that left the cache when a thread
	 * ended, so it tells nothing of blocks that are in no list. 0: none seen.
	 */
	uint64_t key;
};

static int add_dead(struct heap_glibc *glibc, uint64_t address)
{
	return array_add(glibc->dead, glibc->n_dead, glibc->n_dead_allocated, address);
}

static uint64_t reveal(bool is_protected, uint64_t at, uint64_t word)
{
	return is_protected ? word ^ at >> 12 : word;
}

/* Is there such a chunk? Its size is of the list: 32 bytes, 48 and so on; large ones are above. */
static bool fits_list(struct heap_glibc *glibc, const struct cache *cache, unsigned list,
		      uint64_t block)
{
	uint64_t size;

	if (block % 16 != 0 || heap_memory_word(glibc->memory, block - 8, &size) < 0)
		return false;
	size &= ~HEAP_FLAGS;
	if (list < cache->layout->n_small)
		return size == HEAP_MIN_CHUNK_BYTES + 16 * (uint64_t)list;
	return size >= HEAP_MIN_CHUNK_BYTES + 16 * (uint64_t)cache->layout->n_small;
}

/* Follow one list; *ret_n is its length. */
static int follow_list(struct trial *trial, const struct cache *cache, unsigned list,
		       uint32_t *ret_n)
{
	struct heap_glibc *glibc = trial->glibc;
	uint32_t n = 0;
	uint64_t word, key;

	for (uint64_t at = cache->lists[list]; at; at = reveal(trial->is_protected, at, word)) {
		if (++n > MAX_CACHED || !fits_list(glibc, cache, list, at) ||
		    heap_memory_word(glibc->memory, at, &word) < 0 ||
		    heap_memory_word(glibc->memory, at + 8, &key) < 0)
			return -EBADMSG;
		if (trial->key && trial->key != key)
			return -EBADMSG;
		trial->key = key;
		if (add_dead(glibc, at) < 0)
			return -ENOMEM;
	}
	*ret_n = n;
	return 0;
}

/* All lists must be as long as the numbers say. */
static int follow_lists(struct trial *trial, const struct cache *cache)
{
	uint32_t most = 0;

	for (unsigned i = 0; i < cache->layout->n_lists; i++) {
		uint32_t n;
		int r = follow_list(trial, cache, i, &n);

		if (r < 0)
			return r;
		if (!cache->layout->is_room) {
			if (n != cache->numbers[i])
				return -EBADMSG;
		} else if (i == 0) {
			most = n + cache->numbers[i];
		} else if (n + cache->numbers[i] != most) {
			return -EBADMSG;
		}
	}
	return 0;
}

static int read_cache(struct heap_glibc *glibc, uint64_t at, struct cache *ret_cache)
{
	uint64_t size;

	if (at % 16 != 0 || !heap_glibc_has(glibc, at) ||
	    heap_memory_word(glibc->memory, at - 8, &size) < 0)
		return -ENOENT;
	for (size_t i = 0; i < heap_n_cache_layouts; i++) {
		const struct heap_cache_layout *layout = &heap_cache_layouts[i];

		if ((size & ~HEAP_FLAGS) != heap_cache_chunk_bytes(layout))
			continue;
		ret_cache->at = at;
		ret_cache->layout = layout;
		int r = heap_memory_read(glibc->memory, at, ret_cache->numbers,
					 layout->n_lists * sizeof(uint16_t));
		if (r == 0)
			r = heap_memory_read(glibc->memory, at + layout->n_lists * sizeof(uint16_t),
					     ret_cache->lists, layout->n_lists * sizeof(uint64_t));
		return r;
	}
	return -ENOENT;
}

/*
 * Is it a cache? Then what it holds, and itself, are in dead. Links are protected from 2.32 on;
 * until one is seen, both are tried. -ENOENT or -EBADMSG: it is none.
 */
static int take_cache(struct heap_glibc *glibc, uint64_t at)
{
	struct cache cache;
	size_t n_before = glibc->n_dead;
	int r = read_cache(glibc, at, &cache);

	if (r < 0)
		return r;
	for (int way = 1; way >= 0; way--) {
		struct trial trial = { .glibc = glibc, .is_protected = way == 1 };

		if (glibc->knows_links && trial.is_protected != glibc->is_protected)
			continue;
		glibc->n_dead = n_before;
		r = follow_lists(&trial, &cache);
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			continue;
		if (trial.key) {
			glibc->knows_links = true;
			glibc->is_protected = trial.is_protected;
		}
		glibc->n_cached += glibc->n_dead - n_before;
		glibc->n_caches++;
		return add_dead(glibc, at);
	}
	glibc->n_dead = n_before;
	return r;
}

/* What a variable of each thread says that lies so far from its pointer. */
static int take_caches(struct heap_glibc *glibc, const uint64_t *thread_pointers, size_t n_threads,
		       int64_t distance)
{
	glibc->knows_links = false;
	glibc->n_dead = glibc->n_cached = 0;
	glibc->n_caches = 0;
	for (size_t i = 0; i < n_threads; i++) {
		uint64_t word;

		if (heap_memory_word(glibc->memory, thread_pointers[i] + (uint64_t)distance,
				     &word) < 0 ||
		    !heap_glibc_has(glibc, word))
			continue; /* none yet, none any more, or a place of libc's that says so */
		int r = take_cache(glibc, word);
		if (r < 0)
			return r == -ENOENT ? -EBADMSG : r;
	}
	return glibc->n_caches ? 0 : -ENOENT;
}

/* Try each word on one side of a thread pointer, the nearest first. */
static int try_around(struct heap_glibc *glibc, const uint64_t *thread_pointers, size_t n_threads,
		      uint64_t pointer)
{
#if defined(__x86_64__)
	const int64_t step = -8;
#else
	const int64_t step = 8;
#endif
	for (int64_t d = step; d > -(int64_t)TLS_BYTES && d < (int64_t)TLS_BYTES; d += step) {
		uint64_t word, at = pointer + (uint64_t)d, size;

		if (heap_memory_word(glibc->memory, at, &word) < 0)
			return -ENOENT; /* the end of what is mapped */
		if (word % 16 != 0 || !heap_glibc_has(glibc, word) ||
		    heap_memory_word(glibc->memory, word - 8, &size) < 0)
			continue;
		bool is_size = false;
		for (size_t i = 0; i < heap_n_cache_layouts; i++)
			is_size |= (size & ~HEAP_FLAGS) ==
				   heap_cache_chunk_bytes(&heap_cache_layouts[i]);
		if (!is_size)
			continue;
		int r = take_caches(glibc, thread_pointers, n_threads, d);
		if (r == 0 || r == -ENOMEM)
			return r;
	}
	return -ENOENT;
}

int heap_glibc_find_caches(struct heap_glibc *glibc, const uint64_t *thread_pointers,
			   size_t n_threads)
{
	int r = -ENOENT;

	/* The first thread's lies in memory of its own, behind no stack with old words. */
	for (size_t i = 0; i < n_threads && r == -ENOENT; i++)
		r = try_around(glibc, thread_pointers, n_threads, thread_pointers[i]);
	if (r < 0)
		glibc->n_dead = glibc->n_cached = glibc->n_caches = 0;
	return r;
}

/* The chunks of one fast bin. */
static int follow_bin(struct heap_glibc *glibc, const struct heap_arena *arena, unsigned bin,
		      bool is_protected)
{
	size_t n = 0;
	uint64_t chunk, word, size;

	if (heap_memory_word(glibc->memory, arena->at + glibc->layout->fast_bins + 8 * bin,
			     &chunk) < 0)
		return -EBADMSG;
	for (; chunk; chunk = reveal(is_protected, chunk + 16, word)) {
		if (chunk % 16 != 0 || !heap_glibc_has(glibc, chunk) ||
		    heap_memory_word(glibc->memory, chunk + 8, &size) < 0 ||
		    heap_memory_word(glibc->memory, chunk + 16, &word) < 0 ||
		    (size & ~HEAP_FLAGS) != HEAP_MIN_CHUNK_BYTES + 16 * (uint64_t)bin ||
		    ++n > arena->system_bytes / HEAP_MIN_CHUNK_BYTES)
			return -EBADMSG;
		if (add_dead(glibc, chunk + HEAP_HEAD_BYTES) < 0)
			return -ENOMEM;
	}
	return 0;
}

int heap_glibc_fast_bins(struct heap_glibc *glibc, const struct heap_arena *arena, size_t *ret_n)
{
	size_t n_before = glibc->n_dead;
	int r = 0;

	for (unsigned i = 0; i < glibc->layout->n_fast_bins && r == 0; i++) {
		size_t n_so_far = glibc->n_dead;

		r = follow_bin(glibc, arena, i, !glibc->knows_links || glibc->is_protected);
		if (r == -EBADMSG && !glibc->knows_links) {
			glibc->n_dead = n_so_far;
			r = follow_bin(glibc, arena, i, false);
		}
	}
	if (r < 0) {
		glibc->n_dead = n_before;
		return r;
	}
	*ret_n = glibc->n_dead - n_before;
	return 0;
}

int heap_glibc_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

void heap_glibc_sort_dead(struct heap_glibc *glibc)
{
	if (glibc->n_dead > 1)
		qsort(glibc->dead, glibc->n_dead, sizeof(*glibc->dead), heap_glibc_compare);
}
