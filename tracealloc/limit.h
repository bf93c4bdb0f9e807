#pragma once
/*
 * The limit of address space, in which the program has what it has set, and what is ours beside it:
 * tracealloc/hooks/limit.c.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>

struct ring_control;

#define TA_LIMITS 2

/* The limits before ta_limit_pass_on(); those that it has not changed are 0. */
struct ta_limits {
	struct rlimit was[TA_LIMITS];
};

/*
 * Before an exec: what runs next has the soft limits that the program has set, and the hard ones
 * unless it is_traced: then it takes ours off itself, and here a hard limit would never come back
 * up if the exec fails. Signal safe, no errno.
 */
void ta_limit_pass_on(bool is_traced, struct ta_limits *ret_was);

/* The exec has failed. */
void ta_limit_take_back(const struct ta_limits *was);

/* A program was spawned that will not do so itself: give it the limits that this one has set. */
void ta_limit_take_off(pid_t pid);

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

/* At the start: what of the limits is not the program's, since another process has raised them. */
void ta_limit_inherit(const struct ring_control *control);

/* Tell those who inherit our limits. The pool is mapped. */
void ta_limit_publish(void);

/*
 * At the start: raise the soft limit by a pool of so many bytes. False: the hard one is in the way.
 */
bool ta_limit_make_room(uint64_t pool_bytes);
