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
