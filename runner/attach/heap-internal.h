#pragma once
/* What the parts of the walk over a heap share. */
#include "runner/attach/heap-glibc.h"

#define HEAP_PIECE_BYTES (1u << 20)

struct heap_region_end {
	bool is_top;
	uint64_t at; /* its top, or behind its last head */
};

/*
 * From the first chunk of a piece of memory to its end. piece: HEAP_PIECE_BYTES to read into.
 * Blocks go to walk, or nowhere (NULL). -EBADMSG: it does not end as it should, some blocks may
 * have been added.
 */
int heap_walk_region(struct heap_glibc *glibc, const struct heap_region *region, uint8_t *piece,
		     struct heap_walk *walk, struct heap_region_end *ret_end);

/*
 * Complete the pieces of the main arena: it has several where brk() could not go on, or somebody
 * else moved it. 0 or -ENOMEM.
 */
int heap_main_find_regions(struct heap_glibc *glibc, uint8_t *piece);

/* Add blocks that have pages of their own. 0 or an errno. */
int heap_mapped_find(struct heap_glibc *glibc, struct heap_walk *walk);

/* Add a block. 0 or -ENOMEM. */
int heap_walk_add(struct heap_walk *walk, uint64_t address, uint64_t size);

/* Note why something is not known, unless something was noted already. */
__attribute__((format(printf, 2, 3))) void heap_walk_say(struct heap_walk *walk, const char *format,
							 ...);

/* The walk, over any memory. As heap_walk_read(). */
int heap_walk_memory(struct heap_memory *memory, const struct heap_target *target,
		     struct heap_walk *ret_walk);
