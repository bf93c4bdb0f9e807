#pragma once
/*
 * The live blocks of a process that was not recorded from its start: glibc's heap, read from
 * outside while all threads stand and none is in malloc. Nothing in the process is changed, and no
 * symbol of libc is needed: arenas are known by their empty bins, which point to themselves, the
 * caches of threads by what lies before the thread pointer.
 *
 * All or nothing for each arena: a walk from its first chunk must end at its top, each free chunk
 * must have its size at its end, and each chunk of a cache or a fast bin must be met as one in use.
 * The blocks of an arena where that is not so are not known, and why says it.
 *
 * Not among the blocks: what is free in whatever list, caches of threads, and heads of arenas. The
 * size of a block is what its owner may use; what was asked for is kept nowhere.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "schemas/attach.h"

#define HEAP_WHY_BYTES 200

/*
 * A way to the heads of neighbouring chunks, in the memory from first to end, as far as their sizes
 * lead: each a read from outside costs half a microsecond where they are some pages apart.
 */
struct heap_reader {
	/* *ret_heads is valid until the next call. 0 or a negative errno: they are read instead. */
	int (*heads)(void *user, uint64_t first, uint64_t end, const struct attach_head **ret_heads,
		     size_t *ret_n);
	void *user;
};

struct heap_target {
	pid_t pid;
	const uint64_t *thread_pointers; /* of all threads (fs_base), the first thread's first */
	size_t n_threads;
	const struct heap_reader *reader; /* NULL: all is read from outside */
};

struct heap_block {
	uint64_t address;
	uint64_t size; /* bytes that may be used */
};

/* All zero is an empty one. */
struct heap_walk {
	struct heap_block *blocks; /* arena by arena, by address in each piece of an arena */
	size_t n_blocks;
	size_t n_blocks_allocated;
	uint64_t n_block_bytes;
	uint64_t n_chunks; /* walked, in use or free */
	uint64_t n_cached; /* free in caches of threads */
	uint64_t n_fast; /* free in fast bins */
	uint64_t n_mapped; /* blocks with pages of their own, among n_blocks */
	uint64_t n_mapped_missing; /* of which glibc says that they are, but were not found */
	uint32_t n_arenas; /* walked to their end */
	uint32_t n_arenas_refused;
	uint32_t n_caches; /* of threads */
	uint64_t ns; /* that it took */
	char why[HEAP_WHY_BYTES]; /* not empty: what is not known, and why */
};

/*
 * Walk. Returns 0, also where nothing or not everything is known (why says it), -EPERM or -ESRCH
 * when its memory cannot be read, or another negative errno. To be finished in any case.
 */
int heap_walk_read(const struct heap_target *target, struct heap_walk *ret_walk);

void heap_walk_finish(struct heap_walk *walk);
