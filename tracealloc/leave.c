#include "tracealloc/leave.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/plugin/plugin.h"
#include "tracealloc/ring/chunk.h"
#include "tracealloc/sandbox.h"
#include "tracealloc/state.h"

#define LONG_MS	  100u
#define LARGE_KIB 8192

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

static void sleep_once(_Atomic uint32_t *word, uint32_t value)
{
	_Atomic uint32_t *n_waiters = &ta_image.control->n_waiters;
	struct timespec timeout = { .tv_nsec = TA_WAIT_SLICE_MS * 1000000 };

	atomic_fetch_add(n_waiters, 1);
	ta_syscall(SYS_futex, (long)n_waiters, FUTEX_WAKE, 1, 0, 0, 0);
	ta_syscall(SYS_futex, (long)word, FUTEX_WAIT, value, (long)&timeout, 0, 0);
	atomic_fetch_sub(n_waiters, 1);
}

/* Bounded as waits for chunks are: most_ms without a sign of life, a second with one. */
static void wait_until_seen(_Atomic uint32_t *leaving, uint32_t most_ms)
{
	uint64_t pulse = atomic_load(&ta_image.control->pulse);
	uint32_t idle_ms = 0, value;

	for (uint32_t ms = 0; ms < TA_WAIT_LIVE_MAX_MS; ms += TA_WAIT_SLICE_MS) {
		value = atomic_load(leaving);
		if (value == RING_LEAVING_DONE || idle_ms >= most_ms ||
		    atomic_load(&ta_image.control->ended) != RING_RECORDING)
			break;
		sleep_once(leaving, value);
		idle_ms += TA_WAIT_SLICE_MS;
		if (atomic_load(&ta_image.control->pulse) != pulse)
			idle_ms = 0;
		pulse = atomic_load(&ta_image.control->pulse);
	}
}

/*
 * Of one that is short and small nobody asks what its memory was, and it is started by hundreds.
 * What it had before an exec counts here, too: then it waits for nothing.
 */
static bool is_worth_it(void)
{
	uint64_t ticks = ta_ticks_begin() - ta_image.process->start_ticks;
	struct rusage usage = { .ru_maxrss = 0 };
	const long arguments[6] = { RUSAGE_SELF, (long)&usage };

	if (ticks >= ta_image.ticks_per_ms * LONG_MS)
		return true;
	if (!ta_sandbox_is_on || ta_sandbox_allows(SYS_getrusage, arguments))
		ta_syscall(SYS_getrusage, RUSAGE_SELF, (long)&usage, 0, 0, 0, 0);
	return usage.ru_maxrss >= LARGE_KIB;
}

static bool may_ask(uint32_t flag)
{
	return (atomic_load(&ta_state.word) & TA_ON) && ta_image.process &&
	       (ta_image.flags & flag) && ta_image_is_own() && ta_sandbox_may_wait();
}

static void ask(_Atomic uint32_t *word, uint32_t most_ms)
{
	uint32_t not_yet = RING_LEAVING_NOT;
	int saved = errno;

	if (atomic_compare_exchange_strong(word, &not_yet, RING_LEAVING_ASKED))
		wait_until_seen(word, most_ms);
	errno = saved;
}

void ta_leave(void)
{
	if (may_ask(RING_FLAG_LEAVE) && is_worth_it())
		ask(&ta_image.process->leaving, TA_WAIT_MAX_MS);
}

/*
 * The program's own registration fails while ours is there: on a busy machine it is better late.
 * Once in its life, and if the recorder was killed nothing is registered.
 */
void ta_leave_memory(void)
{
	if (may_ask(RING_FLAG_WRITES))
		ask(&ta_image.process->lent, TA_WAIT_LIVE_MAX_MS);
}

__attribute__((destructor)) static void end(void)
{
	ta_plugins_end(); /* not by _exit, which a signal handler may call inside malloc */
	ta_leave();
}

/* libc's own, and what stands behind _Exit: other libraries may want to see it, too. */
static __attribute__((noreturn)) void go(void (*real)(int), int status)
{
	if (real)
		real(status);
	for (;;)
		ta_syscall(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

TA_EXPORT __attribute__((noreturn)) void _exit(int status)
{
	ta_leave();
	go(ta_real._exit, status);
}

TA_EXPORT __attribute__((noreturn)) void _Exit(int status)
{
	ta_leave();
	go(ta_real._Exit, status);
}
