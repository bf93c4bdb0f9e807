#pragma once
/*
 * Processes that were forked from one that was attached to. They have its hooks and its jumps, and
 * may live longer than it, so whoever leaves it leaves them, too.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct family {
	pid_t root; /* who was attached to; 0: not known */
	uint64_t started; /* when, as attach_started() */
	uint64_t pool; /* the inode of the recording's memory */
	uintptr_t root_at; /* where root stands in the memory of all of them */
};

/* While the process has its hooks. 0 or a negative errno. */
int family_read(pid_t pid, uintptr_t root_at, struct family *ret_family);

/*
 * Those of a family that are there and have hooks, but for the root: at most n of them. Returns how
 * many. Reads only.
 */
size_t family_list(const struct family *family, pid_t *ret_pids, size_t n);
