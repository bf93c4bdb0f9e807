#pragma once
/*
 * --dump-signal: a signal of which the program knows nothing, and which the recorder answers with a
 * snapshot. Its handler adds one to a word of the pool, where the recorder finds it in its next
 * round: no call, errno as it was. The program's own handler goes first: from when it sets one, or
 * ignores the signal, until it sets the default again.
 */
#include <signal.h>
#include <stdbool.h>

#include "tracealloc/state.h"

/* Install the handler for this image, unless the signal is not at its default. While attaching. */
void ta_dump_install(void);

/* Whose is the signal now? For the recorder, where handlers may be set past our hooks. */
void ta_dump_look_now(void);
static inline void ta_dump_look(void)
{
	if (ta_unlikely(ta_image.dump_signal != 0))
		ta_dump_look_now();
}

/* Is it the signal of --dump-signal? */
static inline bool ta_dump_is(int number)
{
	return ta_unlikely(ta_image.dump_signal != 0) && number == ta_image.dump_signal;
}

/* What a program is to see of a handler that was found: of ours nothing. */
__sighandler_t ta_dump_hide(__sighandler_t handler);

/* As sigaction(2), for that signal: the default is ours. */
int ta_dump_set(const struct sigaction *action, struct sigaction *old);
