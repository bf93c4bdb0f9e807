#pragma once
/*
 * System calls by an instruction of our own. Through functions of libc, syscall() too, the tracer
 * above would take our memory for the program's.
 */
#include <errno.h>

#include "tracealloc/arch/arch.h"

/* As syscall() with pointers as numbers: -1 with errno where it fails. Thread and signal safe. */
static inline long raw_call(long number, long a, long b, long c, long d, long e, long f)
{
	long result = ta_syscall_raw(number, a, b, c, d, e, f);

	if (result >= 0 || result < -4095)
		return result;
	errno = (int)-result;
	return -1;
}
