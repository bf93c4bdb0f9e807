#pragma once
/* arch.h for ppc64le Linux: Power ISA 3.1, the ELF V2 ABI (OpenPOWER, 1.5). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__powerpc64__)
#define TA_HAS_SAMPLER	      0
#define TA_LARGEST_PAGE_BYTES 65536u
#define TA_TLS_IS_BELOW	      0
#define TA_USER_ADDRESS_BITS  48u
#define TA_HAS_BACK_CHAIN     1 /* each frame begins with the address of its caller's: ABI 2.2.2 */

#define TA_DWARF_FRAME	31
#define TA_DWARF_STACK	1
#define TA_DWARF_RETURN 65 /* the link register */

/* What a signal handler returns to: li r0, 172 (rt_sigreturn); sc (arch/powerpc/kernel/vdso). */
#define TA_TRAMPOLINE                                                                              \
	{                                                                                          \
		0x380000ac, 0x44000002                                                             \
	}

/* [2]: the stack pointer before the call, which is the back chain of the frame. */
#define TA_FRAME()                                                                                 \
	((const uintptr_t[4]){ 0, (uintptr_t)__builtin_return_address(0),                          \
			       (uintptr_t)__builtin_dwarf_cfa(),                                   \
			       (uintptr_t)__builtin_dwarf_cfa() + 16 })

#define TA_PLACE_IS_WORD 0

static inline const uintptr_t *ta_frame_word(const uintptr_t *frame)
{
	return (const uintptr_t *)frame[3];
}

static inline uintptr_t ta_frame_place(const uintptr_t *frame)
{
	return frame[2] - 16;
}

static inline uintptr_t ta_return_address(uintptr_t word)
{
	return word;
}

/* The time base: 512 MHz on all that run Linux. */
static inline uint64_t ta_tsc_begin(void)
{
	return __builtin_ppc_get_timebase();
}

/* isync waits for all before it (Power ISA book II, 4.6.1). */
static inline uint64_t ta_tsc_end(void)
{
	__asm__ volatile("isync" : : : "memory");
	return __builtin_ppc_get_timebase();
}

/* The kernel clears the reservation when it delivers a signal: the store of a pair then fails. */
static inline uint64_t ta_local_fetch_add(_Atomic uint64_t *counter, uint64_t n)
{
	return atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* sc sets the summary overflow bit of cr0 where the call failed; r3 is errno then. */
static inline long ta_syscall_raw(long number, long a, long b, long c, long d, long e, long f)
{
	register long r0 __asm__("r0") = number;
	register long r3 __asm__("r3") = a;
	register long r4 __asm__("r4") = b;
	register long r5 __asm__("r5") = c;
	register long r6 __asm__("r6") = d;
	register long r7 __asm__("r7") = e;
	register long r8 __asm__("r8") = f;

	__asm__ volatile("sc\n\tbns+ 1f\n\tneg 3, 3\n1:"
			 : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7), "+r"(r8)
			 :
			 : "memory", "cr0", "ctr", "r9", "r10", "r11", "r12");
	return r3;
}

static inline uintptr_t ta_thread_pointer(void)
{
	uintptr_t pointer;

	__asm__("mr %0, 13" : "=r"(pointer));
	return pointer;
}

static inline uintptr_t ta_thread_self(void)
{
	return (uintptr_t)pthread_self();
}

static inline void ta_relax(void)
{
	__asm__ volatile("or 27, 27, 27" : : : "memory"); /* yield */
}

/* bl, bcctrl, bclrl: a branch that sets the link register. Instructions are 4 bytes, aligned. */
static inline bool ta_call_ends_at(const uint8_t *pc, unsigned n_bytes)
{
	uint32_t code;

	if (n_bytes < 4 || (uintptr_t)pc % 4 != 0)
		return false;
	code = *(const uint32_t *)(pc - 4);
	return (code & 0xfc000001) == 0x48000001 || (code & 0xfc0007ff) == 0x4c000421 ||
	       (code & 0xfc0007ff) == 0x4c000021;
}

/*
 * bcl 20, 31: no call, but how code finds its own address. So makecontext of glibc finds what to
 * return to.
 */
static inline bool ta_is_own_address(uintptr_t pc)
{
	return (((const uint32_t *)pc)[-1] & 0xffff0003) == 0x429f0001;
}
#endif
