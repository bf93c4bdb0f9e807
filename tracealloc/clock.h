#pragma once
/* Time stamps of events, in the unit of ring_control.clock. Signal safe, errno is kept. */
#include <stdint.h>
#include <time.h>

#include "tracealloc/arch.h"
#include "tracealloc/state.h"

/* CLOCK_MONOTONIC_RAW in ns, where the counter is not fit. */
static inline uint64_t ta_ticks_raw(void)
{
	struct timespec now = { 0 };

	ta_syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, (long)&now, 0, 0, 0, 0);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The moment before a call. */
static inline uint64_t ta_ticks_begin(void)
{
	return ta_likely(ta_image.clock == RING_CLOCK_TICKS) ? ta_tsc_begin() : ta_ticks_raw();
}

/* The moment after a call: everything before it has been done. */
static inline uint64_t ta_ticks_end(void)
{
	return ta_likely(ta_image.clock == RING_CLOCK_TICKS) ? ta_tsc_end() : ta_ticks_raw();
}
