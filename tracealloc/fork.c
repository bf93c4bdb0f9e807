#include "tracealloc/fork.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "tracealloc/hooks/hook.h"
#include "tracealloc/plugin/plugin.h"
#include "tracealloc/ring/clock.h"

/*
 * glibc's pthread_atfork is a static function that calls this one. Weak: the library must load
 * where there is none (musl exports pthread_atfork itself, glibc does not).
 */
typedef void (*fork_fn)(void);
extern int __register_atfork(fork_fn prepare, fork_fn parent, fork_fn child, void *dso)
	__attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static void raise_used(uint32_t used)
{
	uint32_t seen = atomic_load(&ta_image.control->forks_used);

	while (seen < used &&
	       !atomic_compare_exchange_weak(&ta_image.control->forks_used, &seen, used))
		continue;
}

/* Let the collector wait for the child of a fork that is about to be. See ring_forks(). */
static void tell(struct ta_thread *thread)
{
	uint64_t now = ta_ticks_begin(), limit = ta_image.ticks_per_ms * RING_FORK_MS;
	_Atomic uint64_t *forks = ta_image.forks;
	uint32_t i = 0;

	for (; i < RING_MAX_FORKS; i++) {
		uint64_t told = atomic_load_explicit(&forks[i], memory_order_relaxed);
		bool is_free = told == 0 || told + limit <= now;

		if (is_free && atomic_compare_exchange_strong(&forks[i], &told, now))
			break;
	}
	thread->fork_told_ticks = now;
	thread->fork_place = i;
	if (i < RING_MAX_FORKS)
		raise_used(i + 1);
}

/* The thread's own record of it goes into the child as a copy, like all of its memory. */
static void begin(void)
{
	/* A thread without events begins here: what its child shares would not be known. */
	struct ta_hook hook;

	if (!ta_tls.thread && !ta_tls.guard &&
	    ta_hook_enter_kept(&hook, TA_FRAME(), TA_EVENTS_ALWAYS))
		ta_hook_leave(&hook);
	struct ta_thread *thread = ta_tls.thread;

	if (!thread || !ta_image.process)
		return;
	tell(thread);
	thread->fork_ticks = ta_ticks_end();
}

static void end(void)
{
	if (ta_tls.thread)
		ta_tls.thread->fork_ticks = 0;
}

/* In a signal handler that has interrupted a hook nothing can be claimed: the next event does. */
static void begin_child(void)
{
	long pid = ta_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
	struct ta_hook hook;

	/*
	 * The kernel has wiped the word. qemu-user accepts MADV_WIPEONFORK, and does nothing: wiped
	 * here, unless another library's handler has allocated, and so begun this image, before.
	 */
	if (pid > 0 && ta_image.pid != (uint32_t)pid && ta_image.control)
		atomic_store(&ta_state.word, TA_ASK);
	ta_plugins_forked();
	if (ta_tls.guard)
		return;
	if (ta_hook_enter_kept(&hook, TA_FRAME(), TA_EVENTS_ALWAYS))
		ta_hook_leave(&hook);
	end();
}

void ta_fork_watch(void)
{
	int (*at_fork)(fork_fn, fork_fn, fork_fn);
	void *found = &__register_atfork ? NULL : dlsym(RTLD_DEFAULT, "pthread_atfork");

	if (&__register_atfork) {
		__register_atfork(begin, end, begin_child, &__dso_handle);
	} else if (found) {
		memcpy(&at_fork, &found, sizeof(at_fork));
		at_fork(begin, end, begin_child);
	}
}
