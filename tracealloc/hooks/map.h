#pragma once
/* Memory maps by syscall(). */
#include <stdbool.h>
#include <sys/syscall.h>

#include "tracealloc/thread.h"

/*
 * Whether such a call is the program's own: of a map, and not within a hook, where an allocator
 * takes memory for itself or a library's own mmap() goes on.
 */
static inline bool ta_map_is_asked(long number)
{
	return (number == SYS_mmap || number == SYS_munmap || number == SYS_mremap) &&
	       !ta_tls.guard;
}

/*
 * Record and make it, with the arguments of syscall(). To be jumped to: the call stack starts at
 * the caller's caller. Returns what syscall() does; errno as that.
 */
long ta_map_call(long number, long a, long b, long c, long d, long e, long f);
