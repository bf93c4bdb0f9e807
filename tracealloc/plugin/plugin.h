#pragma once
/*
 * Plug-ins of --load (include/memsight-plugin.h): loaded into the program, asked, and left out when
 * they crash or are slow. While a plug-in runs, hooks of its thread record nothing.
 */
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "schemas/trace-control.h"

/* A plug-in runs in this thread (ta_thread.asking). */
struct ta_asking {
	jmp_buf back; /* out of a plug-in that crashes */
	int signal; /* that it was sent */
	bool may_jump; /* back is set */
};

/*
 * Load what the recorder has named (ring_control.load), and ask for the first time. Before main(),
 * when the image is attached, outside of hooks.
 */
void ta_plugins_start(void);

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
