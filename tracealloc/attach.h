#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/recording.h"

/*
 * Say hello to the collector at the socket, first as a file, then as an abstract name. Returns the
 * connection, for ta_attach_end(), or a negative errno. Raw system calls only, as is the other.
 */
int ta_attach_begin(const char *path, uint32_t pid);

/*
 * Wait for the welcome, within the times of schemas/recording.h, and map the pool that comes with
 * it. *ret_pool is the mapping, of ret_welcome->pool_bytes, *ret_plan that of the plan, if there is
 * one. 0 or a negative errno; the connection is closed.
 */
int ta_attach_end(int fd, struct recording_welcome *ret_welcome, void **ret_pool,
		  const void **ret_plan);

/*
 * A connection to the recorder at a socket, as a descriptor that does not stay at an exec, or a
 * negative errno. Keeps errno, signal safe, for small stacks.
 */
int ta_attach_connect(const char *path);

/*
 * Have the agent put into the static program that the calling thread is about to become, or that it
 * is about to spawn. A connection for ta_static_end(), which must follow the call unless that does
 * not return, or a negative errno: it will not be recorded. The same.
 */
int ta_static_begin(bool is_spawn);
void ta_static_end(int fd, bool has_failed);

/*
 * Lend the collector a userfaultfd of this process's memory, by which it can see what is written
 * (RING_FLAG_WRITES). Nothing is waited for, and no descriptor stays open. A process that a seccomp
 * filter confines does not: what it forbids may kill.
 */
void ta_attach_lend(const char *path);

/*
 * /proc/self/maps as it was before the pool was mapped; no bytes: it cannot be read, or is long.
 * Behind ta_attach_begin(), for the thread that called it.
 */
const char *ta_attach_maps(size_t *ret_bytes);

/*
 * May so much of the program's limit of address space be taken? The pool counts towards it. Where
 * it is tight, the program's own allocations come first: at most a sixteenth is ours. Signal safe.
 */
bool ta_attach_fits_limit(uint64_t pool_bytes);
