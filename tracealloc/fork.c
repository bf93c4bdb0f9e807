#include "tracealloc/fork.h"

#include <pthread.h>

#include "tracealloc/clock.h"
#include "tracealloc/hook.h"

/* The thread's own record of it goes into the child as a copy, like all of its memory. */
static void begin(void)
{
	struct ta_thread *thread = ta_tls.thread;

	if (thread)
		thread->fork_ticks = ta_ticks_begin();
}

static void end(void)
{
	if (ta_tls.thread)
		ta_tls.thread->fork_ticks = 0;
}

/* In a signal handler that has interrupted a hook nothing can be claimed: the next event does. */
static void begin_child(void)
{
	struct ta_hook hook;

	if (ta_tls.guard)
		return;
	if (ta_hook_enter(&hook, __builtin_frame_address(0), TA_EVENTS_ALWAYS))
		ta_hook_leave(&hook);
	end();
}

void ta_fork_watch(void)
{
	pthread_atfork(begin, end, begin_child);
}

uint64_t ta_fork_ticks(void)
{
	return ta_tls.thread ? ta_tls.thread->fork_ticks : 0;
}
