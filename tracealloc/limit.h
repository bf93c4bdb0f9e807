#pragma once
/*
 * The limit of address space, in which the program has what it has set, and what is ours beside it:
 * tracealloc/hooks/limit.c.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

/*
 * Before an exec: what runs next has the soft limit that the program has set. Signal safe, no
 * errno.
 */
void ta_limit_pass_on(void);

/* The exec has failed. */
void ta_limit_take_back(void);

/* Is this a system call that asks for limits, or sets them? */
static inline bool ta_limit_is_asked(long number)
{
	return number == SYS_prlimit64 || number == SYS_getrlimit || number == SYS_setrlimit;
}

/* Such a call, made by syscall(): as the function of libc. */
long ta_limit_call(long number, const long arguments[4]);

/*
 * At the start: raise the soft limit of private memory by what is ours, where the hard one lets us.
 */
void ta_limit_make_private_room(void);

/*
 * At the start: raise the soft limit by a pool of so many bytes. False: the hard one is in the way.
 */
bool ta_limit_make_room(uint64_t pool_bytes);
