#pragma once
/*
 * The end of a process. Its memory is gone as soon as it has ended: so a process that ends by
 * exit(), _exit() or _Exit(), or returns from main, waits until the collector has looked at its
 * pages. A signal, an exec, and a program that makes the system call itself do not.
 */

/*
 * Wait for that look, once in the life of an image: 10 ms without a sign of life of the collector,
 * 1 s with one. Nothing in a child of vfork, and where waiting is forbidden. Keeps errno. Signal
 * safe.
 */
void ta_leave(void);

/*
 * The program is about to open a userfaultfd of its own: what we have lent the collector
 * (ta_attach_lend()) would keep it from its memory. Have that closed, and wait for it as above.
 */
void ta_leave_memory(void);
