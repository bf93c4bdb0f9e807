#pragma once
/*
 * The clock of a recording: the processor's counter where it is fit for that, else
 * CLOCK_MONOTONIC_RAW; and readings of both together. All functions from any thread, and but for
 * clock_choose() from signal handlers too.
 */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "schemas/ring.h"

/* The two clocks at one moment. */
struct clock_pair {
	uint64_t ticks;
	uint64_t raw_ns; /* CLOCK_MONOTONIC_RAW at ticks */
	uint64_t error_ns; /* +-: half the time between the readings of RAW around that of ticks */
};

/* Now, in ticks of that clock. Instructions before it have been executed. */
uint64_t clock_ticks(enum ring_clock clock);

/* A clock of the system in nanoseconds; CLOCK_MONOTONIC_RAW. */
uint64_t clock_ns(clockid_t clock);
uint64_t clock_raw_ns(void);

/*
 * The clock that programs on this machine can stamp with. TICKS where the counter runs at a
 * constant rate in all power states and the kernel has found it the same on all CPUs. x86: CPUID
 * 0x80000007 EDX bit 8 (Intel SDM 18.17.1, AMD APM 3 E.4.7), and "tsc" among the kernel's available
 * clock sources, from which it is taken when it is found unstable. Arm's generic timer and POWER's
 * timebase always are.
 */
enum ring_clock clock_choose(void);

/* The tightest of several readings. */
struct clock_pair clock_pair_read(enum ring_clock clock);

/* Rate between two pairs, in ticks per second; 10^9 when they are not apart. */
uint64_t clock_pair_rate(const struct clock_pair *early, const struct clock_pair *late);

/*
 * RAW at ticks, or ticks at RAW, going by one pair and a rate: for moments near the pair. 0 for
 * what lies before the clock's zero.
 */
uint64_t clock_pair_raw_ns(const struct clock_pair *pair, uint64_t ticks_per_second,
			   uint64_t ticks);
uint64_t clock_pair_ticks(const struct clock_pair *pair, uint64_t ticks_per_second,
			  uint64_t raw_ns);
