#pragma once
/*
 * Filters of seccomp(2) that a process has. A call of ours that they forbid may end it, so they are
 * read, which only the administrator may, and asked before any call is made. Our library gets them
 * too, and asks them itself.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/attach/remote.h"

/* All zero are none. */
struct filters {
	uint64_t *words; /* of each its number of instructions, then these; the newest first */
	size_t n_words;
	size_t n_allocated;
	uint32_t n;
};

/* Those of a thread that stands. 0 or a negative errno: -EACCES, we may not read them. */
int filters_read(const struct remote_thread *thread, struct filters *ret_filters);

void filters_finish(struct filters *filters);

/* The first call that they forbid of those that entering needs; NULL: none. */
const char *filters_forbidden(const struct filters *filters);

/* May the kernel go on with a call that waited, behind a stop (restart_syscall)? */
bool filters_allow_restart(const struct filters *filters);

/* Is a file without a name permitted (memfd_create)? It is needed where ours is out of reach. */
bool filters_allow_memory_files(const struct filters *filters);

/*
 * May a call that is about to be made be left out (ptrace(2): its number is set to -1)? That has a
 * number for filters, too.
 */
bool filters_allow_none(const struct filters *filters);
