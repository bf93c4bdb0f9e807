#pragma once
/* arch.h for aarch64 Linux: Arm ARM (DDI 0487), AAPCS64 (IHI 0055), AADWARF64 (IHI 0057). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__aarch64__)
#define TA_HAS_SAMPLER	      0
#define TA_LARGEST_PAGE_BYTES 65536u
#define TA_TLS_IS_BELOW	      0
#define TA_USER_ADDRESS_BITS  48u
#define TA_HAS_BACK_CHAIN     0 /* frames are found by unwind tables */

#define TA_DWARF_FRAME	29
#define TA_DWARF_STACK	31
#define TA_DWARF_RETURN 30

/*
 * What a signal handler returns to: mov x8, #139 (rt_sigreturn); svc #0 (arch/arm64/kernel/vdso).
 */
#define TA_TRAMPOLINE                                                                              \
	{                                                                                          \
		0xd2801168, 0xd4000001                                                             \
	}

/* [2]: the stack pointer before the call. A frame record may lie anywhere in its frame. */
#define TA_FRAME()                                                                                 \
	((const uintptr_t[4]){ *(const uintptr_t *)__builtin_frame_address(0),                     \
			       ta_return_address((uintptr_t)__builtin_return_address(0)),          \
			       (uintptr_t)__builtin_dwarf_cfa(),                                   \
			       (uintptr_t)__builtin_frame_address(0) + 8 })

#define TA_PLACE_IS_WORD 0

static inline const uintptr_t *ta_frame_word(const uintptr_t *frame)
{
	return (const uintptr_t *)frame[3];
}

static inline uintptr_t ta_frame_place(const uintptr_t *frame)
{
	return frame[2] - 16;
}

/*
 * Pointer authentication puts its code into the bits above those of addresses (Linux: 48 of them).
 */
static inline uintptr_t ta_return_address(uintptr_t word)
{
	return word & (UINTPTR_MAX >> 16);
}

static inline uint64_t ta_tsc_begin(void)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
	return ticks;
}

/* The counter may be read ahead of what stands before it, were it not for the barrier. */
static inline uint64_t ta_tsc_end(void)
{
	uint64_t ticks;

	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
	return ticks;
}

/* An exception clears the exclusive monitor, so the store of a pair that a handler split fails. */
static inline uint64_t ta_local_fetch_add(_Atomic uint64_t *counter, uint64_t n)
{
	return atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline long ta_syscall_raw(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory", "cc");
	return x0;
}

static inline uintptr_t ta_thread_pointer(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

static inline uintptr_t ta_thread_self(void)
{
	return (uintptr_t)pthread_self();
}

static inline void ta_relax(void)
{
	__asm__ volatile("yield" : : : "memory");
}

static inline bool ta_is_own_address(uintptr_t pc)
{
	(void)pc;
	return false;
}

/* BL; BLR and its forms that authenticate. Instructions are 4 bytes, aligned. */
static inline bool ta_call_ends_at(const uint8_t *pc, unsigned n_bytes)
{
	uint32_t code;

	if (n_bytes < 4 || (uintptr_t)pc % 4 != 0)
		return false;
	code = *(const uint32_t *)(pc - 4);
	return (code & 0xfc000000) == 0x94000000 || (code & 0xfffffc1f) == 0xd63f0000 ||
	       (code & 0xfefff800) == 0xd63f0800;
}
#endif
