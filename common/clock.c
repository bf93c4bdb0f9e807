#include "common/clock.h"

#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "common/cleanup.h"
#include "common/io.h"

#define NS_PER_SECOND UINT64_C(1000000000)

/*
 * An interrupt between the two readings of RAW widens a pair, and one within the first readings is
 * common (cold caches): the tightest of so many is near the cost of the calls, some 20-50 ns.
 */
#define TRIES 16

uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t clock_raw_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC_RAW);
}

#if defined(__x86_64__)

static uint64_t read_counter(void)
{
	unsigned cpu;

	/*
	 * Waits for the instructions before it (Intel SDM 2B RDTSCP); the fence holds later ones
	 * back.
	 */
	uint64_t ticks = __rdtscp(&cpu);
	_mm_lfence();
	return ticks;
}

/* Does the kernel still offer the counter as a clock? Yes where that cannot be read. */
static bool is_trusted_by_kernel(void)
{
	auto_free char *sources = NULL;

	if (io_read_file("/sys/devices/system/clocksource/clocksource0/available_clocksource", 4096,
			 &sources, NULL) < 0)
		return true;
	for (char *rest = sources, *word; (word = strtok_r(rest, " \n", &rest));) {
		if (strcmp(word, "tsc") == 0)
			return true;
	}
	return false;
}

static bool is_counter_fit(void)
{
	unsigned a = 0, b = 0, c = 0, d = 0;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8)) && is_trusted_by_kernel();
}

#elif defined(__aarch64__)

static uint64_t read_counter(void)
{
	uint64_t ticks;

	__asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(ticks)::"memory");
	return ticks;
}

static bool is_counter_fit(void)
{
	return true;
}

#elif defined(__powerpc64__)

static uint64_t read_counter(void)
{
	return __builtin_ppc_get_timebase();
}

static bool is_counter_fit(void)
{
	return true;
}

#else

static uint64_t read_counter(void)
{
	return clock_raw_ns();
}

static bool is_counter_fit(void)
{
	return false;
}

#endif

uint64_t clock_ticks(enum ring_clock clock)
{
	return clock == RING_CLOCK_TICKS ? read_counter() : clock_raw_ns();
}

enum ring_clock clock_choose(void)
{
	return is_counter_fit() ? RING_CLOCK_TICKS : RING_CLOCK_RAW;
}

struct clock_pair clock_pair_read(enum ring_clock clock)
{
	struct clock_pair best = { .error_ns = UINT64_MAX };

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = clock_raw_ns();
		uint64_t ticks = clock_ticks(clock);
		uint64_t after = clock_raw_ns();
		/* Rounded up, and 1 more since RAW itself is cut to whole ns. */
		uint64_t error_ns = (after - before + 1) / 2 + 1;

		if (error_ns < best.error_ns)
			best = (struct clock_pair){ ticks, before + (after - before) / 2,
						    error_ns };
	}
	return best;
}

uint64_t clock_pair_rate(const struct clock_pair *early, const struct clock_pair *late)
{
	if (late->raw_ns <= early->raw_ns || late->ticks <= early->ticks)
		return NS_PER_SECOND;
	return (uint64_t)((unsigned __int128)(late->ticks - early->ticks) * NS_PER_SECOND /
			  (late->raw_ns - early->raw_ns));
}

/* Two points of a line: where it is at `from_origin` and how steep. */
struct line {
	uint64_t from_origin;
	uint64_t to_origin;
	uint64_t to_per_second;
	uint64_t from_per_second;
};

static uint64_t follow(const struct line *line, uint64_t from)
{
	bool is_back = from < line->from_origin;
	uint64_t distance = is_back ? line->from_origin - from : from - line->from_origin;
	unsigned __int128 moved =
		(unsigned __int128)distance * line->to_per_second / line->from_per_second;

	if (is_back)
		return moved < line->to_origin ? line->to_origin - (uint64_t)moved : 0;
	return line->to_origin + (uint64_t)moved;
}

uint64_t clock_pair_raw_ns(const struct clock_pair *pair, uint64_t ticks_per_second, uint64_t ticks)
{
	struct line line = { pair->ticks, pair->raw_ns, NS_PER_SECOND, ticks_per_second };

	return follow(&line, ticks);
}

uint64_t clock_pair_ticks(const struct clock_pair *pair, uint64_t ticks_per_second, uint64_t raw_ns)
{
	struct line line = { pair->raw_ns, pair->ticks, ticks_per_second, NS_PER_SECOND };

	return follow(&line, raw_ns);
}
