#pragma once
/*
 * When the image was forked, as the image itself knows it. A forked child shares its parent's
 * blocks up to that moment, and claims its slot right after it, so that it is known even if it
 * never allocates. Children of vfork and of the bare system call tell nothing here: they claim
 * their slots with their first event.
 */
/* Once in an image that records, from its constructor: takes a lock of the C library. */
void ta_fork_watch(void);
