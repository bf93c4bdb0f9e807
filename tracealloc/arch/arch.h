#pragma once
/*
 * What depends on the processor. Each file of it has:
 *  - ta_tsc_begin(), ta_tsc_end(): ticks now, and ticks after everything before has been done;
 *  - ta_local_fetch_add(): an add that a signal handler of the same thread cannot split;
 *  - ta_syscall_raw(): a system call that leaves errno alone;
 *  - ta_thread_pointer(), the register that TLS hangs on, and ta_thread_self(), libc's descriptor
 *  of
 *    the thread, which is its pthread_t;
 *  - ta_relax() for spin loops; ta_call_ends_at(): does a call instruction end at an address?
 *  - TA_FRAME(), what a hook was called from: [0] the caller's frame pointer, [1] the return
 *  address;
 *    ta_frame_place(), an address in it that does not depend on the size of the hook's frame, its
 *    low bit free; ta_frame_word(), where the return address lies as long as the hook runs;
 *  - TA_PLACE_IS_WORD: the word's address follows from the place;
 *  - TA_HAS_SAMPLER, TA_TLS_IS_BELOW (the thread pointer), TA_LARGEST_PAGE_BYTES (that kernels
 *  have), TA_USER_ADDRESS_BITS, DWARF's numbers of registers.
 *
 * Other processors than x86-64 order loads and stores weakly: what one thread writes for another to
 * find goes by release and acquire, or by a fence, everywhere.
 */
#include <errno.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#include "tracealloc/arch/x86-64.h"
#elif defined(__aarch64__)
#include "tracealloc/arch/aarch64.h"
#elif defined(__powerpc64__) && _CALL_ELF == 2
#include "tracealloc/arch/ppc64le.h"
#else
#error "tracealloc knows x86-64, aarch64 and ppc64le: add a file for another processor"
#endif

/* What ta_syscall_raw() gave, as libc gives it: -1 and errno where it failed. Signal safe. */
static inline long ta_with_errno(long result)
{
	if (result >= 0 || result < -4095)
		return result;
	errno = (int)-result;
	return -1;
}

/* The program has filters of system calls; do they allow this one? sandbox.c. Signal safe. */
extern _Atomic bool ta_sandbox_is_on __attribute__((visibility("hidden")));
bool ta_sandbox_allows(long number, const long arguments[6]) __attribute__((visibility("hidden")));

/*
 * A system call of our own: not made, -EPERM, where it would kill the program. errno is left alone.
 */
static inline long ta_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	const long arguments[6] = { a, b, c, d, e, f };

	if (atomic_load_explicit(&ta_sandbox_is_on, memory_order_relaxed) &&
	    !ta_sandbox_allows(number, arguments))
		return -EPERM;
	return ta_syscall_raw(number, a, b, c, d, e, f);
}
