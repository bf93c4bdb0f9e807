/*
 * The hook of syscall(). What a program forbids itself comes by it: there is no function of libc
 * for seccomp(2). So may calls that have hooks of their own, as maps of SBCL do. All other calls
 * are jumps: what starts a child or another stack finds ours unused.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>

#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/map.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/leave.h"
#include "tracealloc/limit.h"
#include "tracealloc/sandbox.h"
#include "tracealloc/stack/symbol.h"

#define TA_REAL(name, type, params) TA_EXPORT type name params;
#include "tracealloc/hooks/hooks.def"

/* As libc's, in registers and one word of the stack, whatever the caller has given. */
typedef long (*syscall_fn)(long number, long a, long b, long c, long d, long e, long f);

TA_EXPORT long ta_syscall_hook(long number, long a, long b, long c, long d, long e,
			       long f) __asm__("syscall");

static __attribute__((noinline)) long confine(long number, long a, long b, long c, long d, long e)
{
	const unsigned long arguments[3] = { (unsigned long)a, (unsigned long)b, (unsigned long)c };
	struct ta_sandbox_change change = ta_sandbox_begin(number, arguments);
	long r = ((syscall_fn)ta_real.syscall)(number, a, b, c, d, e, 0);

	ta_sandbox_end(&change, r >= 0);
	return r;
}

static __attribute__((noinline)) long limit(long number, long a, long b, long c, long d)
{
	return ta_limit_call(number, (const long[]){ a, b, c, d });
}

long ta_syscall_hook(long number, long a, long b, long c, long d, long e, long f)
{
	if (ta_unlikely(!ta_real.syscall)) {
		void *function = ta_symbol_address("syscall");

		memcpy(&ta_real.syscall, &function, sizeof(function));
	}
	if (ta_unlikely(number == SYS_seccomp || number == SYS_prctl))
		return confine(number, a, b, c, d, e);
	if (ta_unlikely(number == SYS_userfaultfd))
		ta_leave_memory();
	if (ta_unlikely(ta_limit_is_asked(number)))
		return limit(number, a, b, c, d);
	if (ta_unlikely(ta_map_is_asked(number)))
		return ta_map_call(number, a, b, c, d, e, f);
	return ((syscall_fn)ta_real.syscall)(number, a, b, c, d, e, f);
}
