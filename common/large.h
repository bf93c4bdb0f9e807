#pragma once
/*
 * Memory of several MiB that is looked at in no order: on huge pages, where the system gives them.
 * Else most of its time goes into finding pages of 4 KiB, all the more in a virtual machine.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE_PAGE_BYTES ((size_t)2 << 20)
#define LARGE_ALIGNMENT	 64u /* a line of the cache */

/* n_bytes, a multiple of 64, aligned for the cache; free() it. NULL: no memory. */
static inline void *large_room(size_t n_bytes)
{
	size_t alignment = n_bytes < LARGE_PAGE_BYTES ? LARGE_ALIGNMENT : LARGE_PAGE_BYTES;
	void *memory = aligned_alloc(alignment, (n_bytes + alignment - 1) & ~(alignment - 1));

	if (memory && n_bytes >= LARGE_PAGE_BYTES)
		madvise(memory, n_bytes & ~(LARGE_PAGE_BYTES - 1), MADV_HUGEPAGE);
	return memory;
}

/* The same, all zero. */
static inline void *large_alloc(size_t n_bytes)
{
	void *memory = large_room(n_bytes);

	return memory ? memset(memory, 0, n_bytes) : NULL;
}
