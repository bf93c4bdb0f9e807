#pragma once
/*
 * Plug-ins of --load (include/memsight-plugin.h): loaded into the program, asked, and left out when
 * they crash or are slow. While a plug-in runs, hooks of its thread record nothing.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "schemas/trace-control.h"
#include "tracealloc/thread.h"

/* A plug-in runs in this thread (ta_thread.asking). */
struct ta_asking {
	jmp_buf back; /* out of a plug-in that crashes */
	int signal; /* that it was sent */
	bool may_jump; /* back is set */
};

/*
 * Load what the recorder has named (ring_control.load), and ask for the first time. When the image
 * is attached, outside of hooks: before main(), or in a program that runs by a thread that may call
 * dlopen(3).
 */
void ta_plugins_start(void);

/*
 * In a program that runs on, end them and wait until no thread is in one: 0 or -ETIMEDOUT. Then
 * when all threads stand and the recording ends, forget them.
 */
long ta_plugins_end_late(void);
void ta_plugins_forget(void);

/* In the child of a fork there is one thread. */
void ta_plugins_forked(void);

/* Ask for the last time and end all plug-ins. Once; nothing where there are none. */
void ta_plugins_end(void);

/*
 * Are there components to ask? Not async-signal-safe from here on: a program that sets regions in
 * signal handlers has its plug-ins called in them.
 */
extern bool ta_plugins_are_on __attribute__((visibility("hidden")));

/* The program may have set a handler: who asks next has a look. Any thread; signal safe. */
extern _Atomic bool ta_plugins_must_look __attribute__((visibility("hidden")));
static inline void ta_plugins_look_again(void)
{
	if (__builtin_expect(ta_plugins_are_on, 0))
		ta_plugins_must_look = true;
}

/*
 * Plug-ins may need room: where it is not the program that calls for them, they are asked on the
 * thread's own stack, where 64 KiB are left.
 */
static inline bool ta_plugins_have_room(const struct ta_thread *thread, const void *sp)
{
	return (uintptr_t)sp < thread->stack_end &&
	       (uintptr_t)sp - (64u << 10) > thread->stack_start;
}

/* ta_plugins_ask() where there are any. Outside of hooks. */
void ta_plugins_ask_all(enum trace_asked when);

/*
 * Ask all components, and record their values for the calling thread: behind the record of a
 * region's begin, before that of its end. Outside of hooks. Keeps errno.
 */
static inline void ta_plugins_ask(enum trace_asked when)
{
	if (__builtin_expect(ta_plugins_are_on, 0))
		ta_plugins_ask_all(when);
}
