#pragma once
/*
 * When the image was forked, as the image itself knows it. A forked child shares its parent's
 * blocks up to that moment, and claims its slot right after it, so that it is known even if it
 * never allocates. Children of vfork and of the bare system call tell nothing here: they claim
 * their slots with their first event.
 */
#include <stdint.h>

/* Once in an image that records, from its constructor: takes a lock of the C library. */
void ta_fork_watch(void);

/*
 * In a child that claims its slot: when the thread that is left called fork; 0: it cannot be told.
 */
uint64_t ta_fork_ticks(void);

/* In that child: the slot is filled, or there was none. The collector waits for it no longer. */
void ta_fork_claimed(void);
