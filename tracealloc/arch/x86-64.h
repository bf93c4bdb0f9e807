#pragma once
/* arch.h for x86-64 Linux: the psABI's registers and frames, instructions of the Intel SDM. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#define TA_HAS_SAMPLER	      1 /* struct ring_sample has this processor's registers */
#define TA_LARGEST_PAGE_BYTES 4096u
#define TA_TLS_IS_BELOW	      1
#define TA_USER_ADDRESS_BITS  47u

/* DWARF's numbers of registers, x86-64 psABI figure 3.36. */
#define TA_DWARF_FRAME	6 /* rbp */
#define TA_DWARF_STACK	7 /* rsp */
#define TA_DWARF_RETURN 16

/*
 * Of the function that asks: there its caller's rbp is saved, next to it lies the return address.
 * (With -fno-omit-frame-pointer.) Where it lies does not depend on the size of the frame.
 */
#define TA_FRAME() ((const uintptr_t *)__builtin_frame_address(0))

#define TA_PLACE_IS_WORD 1

static inline const uintptr_t *ta_frame_word(const uintptr_t *frame)
{
	return &frame[1];
}

static inline uintptr_t ta_frame_place(const uintptr_t *frame)
{
	return (uintptr_t)frame;
}

/* Ticks now, not ordered with what stands around it: for the moment before a call. */
static inline uint64_t ta_tsc_begin(void)
{
	return __builtin_ia32_rdtsc();
}

/*
 * Ticks after everything before it has been done: for the moment after a call. (As rdtscp, which
 * takes 2 ns more: it also tells the processor's number.)
 */
static inline uint64_t ta_tsc_end(void)
{
	__asm__ volatile("lfence" : : : "memory"); /* the builtin wants SSE */
	return __builtin_ia32_rdtsc();
}

/*
 * Add to a counter that only this thread and its signal handlers change; returns the old value.
 * One instruction, so no handler can come between; without the lock prefix, so it costs 2 ns.
 */
static inline uint64_t ta_local_fetch_add(_Atomic uint64_t *counter, uint64_t n)
{
	__asm__ volatile("xaddq %0, %1" : "+r"(n), "+m"(*counter) : : "memory", "cc");
	return n;
}

/* A raw system call: the result, or a negative errno. errno itself is not touched. */
static inline long ta_syscall_raw(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

/* The thread pointer (FS base): the address of the thread's control block in glibc and musl. */
#if defined(TA_AGENT)
uintptr_t ta_thread_pointer(void) __attribute__((visibility("hidden"))); /* 0: there is none yet */
#else
static inline uintptr_t ta_thread_pointer(void)
{
	uintptr_t pointer;

	__asm__("movq %%fs:0, %0" : "=r"(pointer));
	return pointer;
}
#endif

static inline uintptr_t ta_thread_self(void)
{
	return ta_thread_pointer();
}

/* Tell the core that this is a spin loop. */
static inline void ta_relax(void)
{
	__builtin_ia32_pause();
}

/* Bytes of an FF instruction with this ModRM and SIB byte (Intel SDM, tables 2-2 and 2-3). */
static inline unsigned ta_indirect_bytes(uint8_t modrm, uint8_t sib)
{
	bool has_sib = (modrm & 7) == 4;

	switch (modrm >> 6) {
	case 0:
		if ((modrm & 7) == 5 || (has_sib && (sib & 7) == 5))
			return has_sib ? 7 : 6;
		return has_sib ? 3 : 2;
	case 1:
		return has_sib ? 4 : 3;
	case 2:
		return has_sib ? 7 : 6;
	default:
		return 2;
	}
}

/*
 * Does a call instruction end at pc? code points to the bytes before pc, n_bytes of them (at most
 * 7 are looked at). Intel SDM: E8 rel32; FF /2 with its ModRM forms, with or without a REX prefix.
 */
static inline bool ta_call_ends_at(const uint8_t *pc, unsigned n_bytes)
{
	if (n_bytes >= 5 && pc[-5] == 0xe8)
		return true;
	for (unsigned length = 2; length <= 7 && length <= n_bytes; length++) {
		uint8_t modrm = pc[1 - (int)length];

		if (pc[-(int)length] == 0xff && (modrm & 0x38) == 0x10 &&
		    ta_indirect_bytes(modrm, length > 2 ? pc[2 - (int)length] : 0) == length)
			return true;
	}
	return false;
}
#endif
