#pragma once
/* Time stamps of events, in the unit of ring_control.clock. Signal safe, errno is kept. */
#include <stdint.h>
#include <time.h>

#include "tracealloc/arch/arch.h"
#include "tracealloc/state.h"

/* CLOCK_MONOTONIC_RAW in ns, where the counter is not fit. */
static inline uint64_t ta_ticks_raw(void)
{
	struct timespec now = { 0 };

	ta_syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, (long)&now, 0, 0, 0, 0);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Ticks where the program has no counter any more: a clock of the kernel, as if it had. */
static inline uint64_t ta_ticks_kernel(void)
{
	uint64_t ns = ta_ticks_raw();

	if (ta_image.clock == RING_CLOCK_RAW)
		return ns;
	ns -= ta_image.clock_raw_ns;
	return ta_image.clock_ticks + ns / 1000000 * ta_image.ticks_per_ms +
	       ns % 1000000 * ta_image.ticks_per_ms / 1000000;
}

/* The moment before a call. */
static inline uint64_t ta_ticks_begin(void)
{
	return ta_likely(ta_image.clock == RING_CLOCK_TICKS) ? ta_tsc_begin() : ta_ticks_kernel();
}

/* The moment after a call: everything before it has been done. */
static inline uint64_t ta_ticks_end(void)
{
	return ta_likely(ta_image.clock == RING_CLOCK_TICKS) ? ta_tsc_end() : ta_ticks_kernel();
}
