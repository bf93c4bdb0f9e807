#include "tracealloc/fork.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "tracealloc/clock.h"
#include "tracealloc/hook.h"

/*
 * glibc's pthread_atfork is a static function that calls this one. Weak: the library must load where
 * there is none (musl exports pthread_atfork itself, glibc does not).
 */
typedef void (*fork_fn)(void);
extern int __register_atfork(fork_fn prepare, fork_fn parent, fork_fn child, void *dso)
	__attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

/* The thread's own record of it goes into the child as a copy, like all of its memory. */
static void begin(void)
{
	struct ta_thread *thread = ta_tls.thread;

	if (!thread || !ta_image.process)
		return;
	thread->fork_ticks = ta_ticks_begin();
	atomic_store_explicit(&ta_image.process->forking_ticks, thread->fork_ticks,
			      memory_order_relaxed);
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

	/*
	 * The kernel has wiped the word. qemu-user accepts MADV_WIPEONFORK, and does nothing: wiped here,
	 * unless another library's handler has allocated, and so begun this image, before.
	 */
	if (ta_image.pid != (uint32_t)ta_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0))
		atomic_store(&ta_state.word, TA_ASK);
	if (ta_tls.guard)
		return;
	if (ta_hook_enter(&hook, TA_FRAME(), TA_EVENTS_ALWAYS))
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

uint64_t ta_fork_ticks(void)
{
	return ta_tls.thread ? ta_tls.thread->fork_ticks : 0;
}
