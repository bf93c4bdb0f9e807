#pragma once
/*
 * System calls that wait and return EINTR for a stop alone, signal or not (signal(7)). They have
 * done nothing then, and are issued again, with the time that is left of theirs.
 */
#include "runner/attach/remote.h"

/*
 * Note since when a thread waits in such a call. Before it is asked to stand, for then it wakes up.
 * What the kernel says is when it ran last, so the call may have begun before; where it says
 * nothing the call gets its whole time again.
 */
void waits_note(struct remote_thread *thread);

/*
 * Change its registers, as it was found, so that it issues its call again; untouched if it is in
 * none, or has a signal to handle. A time that is left is written to its scratch where the call
 * wants a pointer. waits_issue_again() leaves the time as it is.
 */
void waits_mend(struct remote_thread *thread);
void waits_issue_again(struct remote_thread *thread);
