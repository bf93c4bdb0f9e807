#pragma once
/*
 * What glibc keeps of its heap, found without symbols (malloc/malloc.c and malloc/arena.c of 2.31,
 * 2.34, 2.35, 2.36, 2.41, 2.42 and of what becomes 2.43). 64 bits only.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/attach/heap-memory.h"
#include "runner/attach/heap-walk.h"

#define HEAP_HEAD_BYTES	     16u
#define HEAP_MIN_CHUNK_BYTES 32u
#define HEAP_PREV_IN_USE     UINT64_C(1)
#define HEAP_MAPPED	     UINT64_C(2)
#define HEAP_NOT_MAIN	     UINT64_C(4)
#define HEAP_FLAGS	     UINT64_C(7)

/* Where things are in struct malloc_state: bytes from its begin. */
struct heap_layout {
	const char *versions;
	unsigned n_fast_bins;
	unsigned fast_bins;
	unsigned top;
	unsigned bins;
	unsigned next;
	unsigned system_bytes;
	unsigned end;
};

/* A row and how many there are, for tests, too. */
extern const struct heap_layout heap_layouts[];
extern const size_t heap_n_layouts;

/* struct tcache_perthread_struct: numbers of 16 bits, then the first of each list. */
struct heap_cache_layout {
	const char *versions;
	unsigned n_lists;
	unsigned n_small; /* lists of one size each */
	bool is_room; /* the numbers are of those that still fit in */
};

extern const struct heap_cache_layout heap_cache_layouts[];
extern const size_t heap_n_cache_layouts;

static inline uint64_t heap_cache_chunk_bytes(const struct heap_cache_layout *layout)
{
	return ((uint64_t)layout->n_lists * 10 + 8 + 15) & ~UINT64_C(15);
}

struct heap_arena {
	uint64_t at; /* struct malloc_state */
	uint64_t top;
	uint64_t top_end;
	uint64_t system_bytes;
	bool is_main;
};

/* A piece of memory that is chunks from begin to end. */
struct heap_region {
	uint64_t start; /* first chunk */
	uint64_t end; /* of the memory */
	uint32_t arena;
};

struct heap_glibc {
	struct heap_memory *memory;
	const struct heap_layout *layout;
	struct heap_arena *arenas; /* the main one first */
	size_t n_arenas;
	size_t n_arenas_allocated;
	struct heap_region *regions; /* in the order of arenas */
	size_t n_regions;
	size_t n_regions_allocated;
	/* struct malloc_par: */
	bool has_numbers;
	uint64_t first_brk; /* 0: none yet */
	uint64_t n_mapped;
	uint64_t n_mapped_bytes;
	/* Blocks that are free in a cache of a thread, and caches themselves, by address. */
	uint64_t *dead;
	size_t n_dead;
	size_t n_dead_allocated;
	bool knows_links; /* a list was seen: */
	bool is_protected; /* its links are mixed with their own address (2.32) */
	uint32_t n_caches;
	uint64_t n_cached;
};

/* Find its arenas and their memory. -ENOENT: there is none in libc's data; else 0 or an errno. */
int heap_glibc_find(struct heap_memory *memory, struct heap_glibc *ret_glibc);

/*
 * Find the caches of threads by their thread pointers; regions are known. 0 or an errno.
 */
int heap_glibc_find_caches(struct heap_glibc *glibc, const uint64_t *thread_pointers,
			   size_t n_threads);

/* Add what fast bins of an arena hold, behind dead (not sorted). 0, -EBADMSG or -ENOMEM. */
int heap_glibc_fast_bins(struct heap_glibc *glibc, const struct heap_arena *arena, size_t *ret_n);

/* A piece of memory of an arena. 0 or -ENOMEM. */
int heap_glibc_add_region(struct heap_glibc *glibc, struct heap_region region);

/* Is there an address in one of the regions? */
bool heap_glibc_has(const struct heap_glibc *glibc, uint64_t address);

/* For qsort() and bsearch() over addresses. */
int heap_glibc_compare(const void *a, const void *b);

/* By address, as the walk wants them. */
void heap_glibc_sort_dead(struct heap_glibc *glibc);

void heap_glibc_finish(struct heap_glibc *glibc);
