#pragma once
/*
 * The addresses of the heap: one range for the life of the process, so that "is it mine" is one
 * comparison. It is anonymous private memory bound to nodes, or a file mapped MAP_SHARED (a private
 * map of a file would be copied to DRAM page by page as it is written).
 *
 * The file grows step by step: what is handed out has its blocks, so that a full disk is a NULL and
 * no SIGBUS. After a fork the child has a file of its own at the same addresses: the used part is
 * copied before the parent goes on.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/placement.h"

/* start and size stay 0 until the heap is ready. */
extern struct range {
	uintptr_t start;
	size_t size;
} range __attribute__((visibility("hidden")));

/* Does the block lie in the heap? */
static inline bool range_has(const void *block)
{
	return (uintptr_t)block - range.start < range.size;
}

/*
 * Map the range of a placement, of at most its size: less where limits of the process ask for it.
 * Returns 0 or a negative errno. Before other threads.
 */
int range_map(const struct placement *placement);

/* Unmap it again: the heap could not be made. */
void range_unmap(void);

/*
 * The next n_bytes of the file, whose blocks are there. NULL: it is full. Any thread; keeps errno.
 */
void *range_grow(size_t n_bytes);

/*
 * Whether the memory comes from a file, and the process has just got a copy of it that lies in DRAM
 * because the folder had no room.
 */
bool range_is_file(void);
bool range_is_displaced(void);

/* The file descriptor's number never is one that the program would have got. -1: there is none. */
int range_fd(void);

/*
 * Fork: copy the file (nobody else may change the heap meanwhile), let go of the copy, take it.
 * They make system calls only.
 */
void range_fork_prepare(void);
void range_fork_parent(void);
void range_fork_child(void);
