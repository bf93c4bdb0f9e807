#pragma once
/*
 * The heap of this process: memkind's allocator on our range (range.h). What libmemkind would do
 * when the process exits stands here and does nothing, so that blocks stay where they are until the
 * last line of output is written.
 */
#include <memkind.h>
#include <stdbool.h>
#include <stddef.h>

struct kind {
	memkind_t memkind;
	size_t min_bytes; /* SIZE_MAX until the heap is ready */
	bool spills;
};
extern struct kind kind __attribute__((visibility("hidden")));

/*
 * Set while this thread is inside memkind: what that allocates itself, and what a signal handler
 * allocates on top of it, is left to libc. It lies in libtracealloc.so: where an auditing library
 * was loaded first, what there is of static TLS has no room for that of memkind's allocator, whose
 * first use in a thread allocates then.
 */
extern _Thread_local unsigned memsight_1_heap_depth __attribute__((tls_model("initial-exec")));
#define kind_depth   memsight_1_heap_depth
#define KIND_AT_FORK (1u << 31) /* in it: this thread is at a fork, and holds the locks */

/*
 * Register for forks. To be called as early as possible: whoever registers before jemalloc is the
 * last to prepare, when no other thread can be inside the heap any more. Any number of times.
 */
void kind_register(void);
