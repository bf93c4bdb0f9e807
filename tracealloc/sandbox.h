#pragma once
/*
 * What the program forbids itself: system calls, by filters of seccomp(2), and the time stamp
 * counter. Our own rare system calls then must not be made that would kill it; what is forbidden is
 * known since we are asked to hand the filters on to the kernel.
 */
#include <stdbool.h>
#include <stdint.h>

struct ta_sandbox_filter;

/* What a call of prctl or seccomp is about to change. */
struct ta_sandbox_change {
	enum {
		TA_SANDBOX_NOTHING,
		TA_SANDBOX_FILTER,
		TA_SANDBOX_STRICT,
		TA_SANDBOX_CLOCK,
	} kind;
	struct ta_sandbox_filter *filter;
};

/*
 * Before the call: obey already. number: SYS_prctl or SYS_seccomp, with its first arguments. Keeps
 * errno.
 */
struct ta_sandbox_change ta_sandbox_begin(long number, const unsigned long arguments[3]);

/* After it: forget what the kernel has refused. Keeps errno. */
void ta_sandbox_end(const struct ta_sandbox_change *change, bool is_done);

/*
 * Obey filters that were there before us: n of them, behind each other, each a word of 8 bytes with
 * its number of instructions, and these. 0 or a negative errno. Forgetting them is for the end.
 */
int ta_sandbox_take(const uint64_t *filters, uint32_t n);
void ta_sandbox_forget(void);

/* May a thread of this image wait for the collector? */
bool ta_sandbox_may_wait(void);

/* Would a program that is started now live through what we do at its start, and later? */
bool ta_sandbox_lets_follow(void);

/* At the start of an image: it may have been started without the counter. Is it? */
bool ta_sandbox_has_no_counter(void);

/*
 * Stamp events by a clock of the kernel from now on: these ticks are those ns of
 * CLOCK_MONOTONIC_RAW.
 */
void ta_sandbox_use_clock(uint64_t ticks, uint64_t raw_ns);
