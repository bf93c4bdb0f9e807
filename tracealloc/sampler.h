#pragma once
/*
 * --source signal: each thread has a timer on its own CPU time that sends it a signal; the handler
 * writes the registers that it interrupted, and some of the stack, into the thread's chain. Needs
 * no permission at all. All of it is off, and costs one load in the hooks of
 * tracealloc/hooks/signal.c, unless the recording asks for it.
 *
 * The handler takes no lock, allocates nothing and leaves errno alone. Where it interrupts a hook
 * it writes as a nested hook does: only where the chunk has room.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "tracealloc/state.h"
#include "tracealloc/thread.h"

/* Install the handler for this image; not when the program has one of its own. While attaching. */
void ta_sampler_install(void);

/* Give the calling thread its timer, where the recording wants one. Its state is new. */
void ta_sampler_start(struct ta_thread *thread);

/* The thread ends, or is not sampled any more. */
void ta_sampler_end(struct ta_thread *thread);

/* The program wants the signal for itself: sample this image no more. Signal safe. */
void ta_sampler_stop(void);

/* What a program is to see of a handler that was found: of ours nothing. */
__sighandler_t ta_sampler_hide(__sighandler_t handler);

/* As sigaction(2), past our hooks; of what was set only the handler. -1: it failed. Signal safe. */
int ta_signal_action(int number, const struct sigaction *action, struct sigaction *old);

/* Who is called by the handler behind each sample that has its record; NULL: nobody. */
extern void (*ta_sampler_heard)(const void *frame) __attribute__((visibility("hidden")));

/* Is this image sampled? */
static inline bool ta_sampler_is_on(void)
{
	return ta_unlikely(ta_image.signal_period_ns != 0);
}

/*
 * The calling thread is about to block the signal, or has it open again: a blocked one must never
 * be pending, since the program might wait for all signals. Signal safe.
 */
void ta_sampler_hold(void);
void ta_sampler_release(void);

/* Has a set of signals ours in it? */
static inline bool ta_sampler_is_in(const sigset_t *set)
{
	return ((const uint64_t *)set)[0] >> (RING_SIGNAL - 1) & 1;
}
