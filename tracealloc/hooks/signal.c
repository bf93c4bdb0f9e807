/*
 * The hooks that --source signal and --dump-signal need: what would take their signals away, and
 * the births of threads. Without them each is one or two loads more than the real call.
 */
#include <errno.h>
#include <sys/mman.h>

#include "tracealloc/hooks/dump.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/plugin/plugin.h"
#include "tracealloc/sampler.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

/* ---- Handlers: a program that sets one for our signal gets it ---- */

/* What was there before us. */
static void yield_signal(void)
{
	struct sigaction none = { .sa_handler = SIG_DFL };

	ta_sampler_stop();
	none.sa_handler = SIG_IGN; /* drops what is pending */
	ta_real.sigaction(RING_SIGNAL, &none, NULL);
	none.sa_handler = SIG_DFL;
	ta_real.sigaction(RING_SIGNAL, &none, NULL);
}

/* In a child that has our handler, but is not what we sample: it changes what is its own alone. */
static int set_in_child(int number, const struct sigaction *action, struct sigaction *old)
{
	int r = ta_real.sigaction(number, action, old);

	if (r == 0 && old)
		old->sa_handler = ta_sampler_hide(old->sa_handler);
	return r;
}

TA_EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	static const struct sigaction none = { .sa_handler = SIG_DFL };

	if (!ta_real.sigaction)
		ta_real_resolve();
	if (!ta_real.sigaction) {
		errno = ENOSYS;
		return -1;
	}
	if (ta_sampler_is_on() && number == RING_SIGNAL) {
		if (!action) {
			if (old)
				*old = none;
			return 0;
		}
		if (!ta_image_is_own())
			return set_in_child(number, action, old);
		yield_signal();
	}
	if (ta_dump_is(number))
		return ta_dump_set(action, old);
	int r = ta_real.sigaction(number, action, old);

	ta_plugins_look_again();
	return r;
}

static __sighandler_t set_dump_handler(int number, __sighandler_t handler)
{
	struct sigaction action = { .sa_handler = SIG_DFL }, old;

	if (handler == SIG_DFL)
		return ta_dump_set(&action, &old) < 0 ? SIG_ERR : old.sa_handler;
	handler = ta_dump_hide(ta_real.signal(number, handler));
	ta_dump_look();
	return handler;
}

TA_EXPORT __sighandler_t signal(int number, __sighandler_t handler)
{
	if (!ta_real.signal)
		ta_real_resolve();
	if (!ta_real.signal) {
		errno = ENOSYS;
		return SIG_ERR;
	}
	if (ta_dump_is(number))
		return set_dump_handler(number, handler);
	if (!ta_sampler_is_on() || number != RING_SIGNAL) {
		__sighandler_t before = ta_real.signal(number, handler);

		ta_plugins_look_again();
		return before;
	}
	if (ta_image_is_own())
		yield_signal();
	return ta_sampler_hide(ta_real.signal(number, handler));
}

/* ---- Masks: while the signal is blocked the timer stands still ---- */

static bool will_block(int how, const sigset_t *set)
{
	return set && (how == SIG_BLOCK || how == SIG_SETMASK) && ta_sampler_is_in(set);
}

static bool will_open(int how, const sigset_t *set)
{
	return set && ((how == SIG_UNBLOCK && ta_sampler_is_in(set)) ||
		       (how == SIG_SETMASK && !ta_sampler_is_in(set)));
}

typedef int (*mask_fn)(int how, const sigset_t *set, sigset_t *old);

static int set_mask(mask_fn real, int how, const sigset_t *set, sigset_t *old)
{
	bool opens = will_open(how, set);

	if (will_block(how, set))
		ta_sampler_hold();
	int r = real(how, set, old);
	if (opens && r == 0)
		ta_sampler_release();
	return r;
}

TA_EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	if (!ta_real.sigprocmask)
		ta_real_resolve();
	if (!ta_real.sigprocmask) {
		errno = ENOSYS;
		return -1;
	}
	return ta_sampler_is_on() ? set_mask(ta_real.sigprocmask, how, set, old)
				  : ta_real.sigprocmask(how, set, old);
}

TA_EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	if (!ta_real.pthread_sigmask)
		ta_real_resolve();
	if (!ta_real.pthread_sigmask)
		return ENOSYS;
	return ta_sampler_is_on() ? set_mask(ta_real.pthread_sigmask, how, set, old)
				  : ta_real.pthread_sigmask(how, set, old);
}

/* ---- Alternate stacks: on one that is too small for our handler there are no samples ---- */

TA_EXPORT int sigaltstack(const stack_t *stack, stack_t *old)
{
	if (!ta_real.sigaltstack)
		ta_real_resolve();
	if (!ta_real.sigaltstack) {
		errno = ENOSYS;
		return -1;
	}
	if (!ta_sampler_is_on() || !stack)
		return ta_real.sigaltstack(stack, old);
	ta_sampler_hold();
	int r = ta_real.sigaltstack(stack, old);
	ta_sampler_release();
	return r;
}

/* ---- Threads: one that never allocates is to be sampled, too ---- */

/* A page of its own: the new thread gives it back. */
struct birth {
	void *(*run)(void *argument);
	void *argument;
};

static __attribute__((noinline)) void begin_thread(const uintptr_t *frame)
{
	struct ta_hook hook;

	if (!ta_hook_enter_kept(&hook, frame, TA_EVENTS_ALWAYS))
		return;
	if (!hook.bits)
		ta_chunk_room(hook.thread, RING_RECORD_BYTES);
	ta_hook_leave(&hook);
}

/* Ends in a jump, so that the thread's stack begins as without us. */
static void *run_thread(void *pointer)
{
	struct birth birth = *(struct birth *)pointer;

	ta_syscall(SYS_munmap, (long)pointer, TA_PAGE_BYTES, 0, 0, 0, 0);
	begin_thread(TA_FRAME());
	return birth.run(birth.argument);
}

TA_EXPORT int pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes,
			     void *(*run)(void *), void *argument)
{
	if (!ta_real.pthread_create)
		ta_real_resolve();
	if (!ta_real.pthread_create)
		return EAGAIN;
	if (!ta_sampler_is_on())
		return ta_real.pthread_create(ret_thread, attributes, run, argument);
	long memory = ta_map_private(TA_PAGE_BYTES);
	if (memory < 0)
		return ta_real.pthread_create(ret_thread, attributes, run, argument);
	*(struct birth *)memory = (struct birth){ run, argument };
	int r = ta_real.pthread_create(ret_thread, attributes, run_thread, (void *)memory);
	if (r != 0)
		ta_syscall(SYS_munmap, memory, TA_PAGE_BYTES, 0, 0, 0, 0);
	return r;
}
