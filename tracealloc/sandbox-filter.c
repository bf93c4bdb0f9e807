#include "tracealloc/sandbox-filter.h"

#include <linux/futex.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/call-filter.h"
#include "tracealloc/sandbox.h"
#include "tracealloc/state.h"

_Atomic(struct ta_sandbox_filter *) ta_sandbox_filters;
_Atomic bool ta_sandbox_is_on;

int32_t ta_sandbox_ask(const struct ta_sandbox_filter *filter, long number, const long arguments[6])
{
	int32_t severest = (int32_t)SECCOMP_RET_ALLOW;

	for (; filter; filter = filter->next) {
		int32_t action = call_filter_ask(filter->code, filter->n, number, arguments);

		if (action < severest)
			severest = action;
	}
	return severest;
}

bool ta_sandbox_allows(long number, const long arguments[6])
{
	return ta_sandbox_ask(atomic_load(&ta_sandbox_filters), number, arguments) >=
	       (int32_t)SECCOMP_RET_LOG;
}

bool ta_sandbox_may_wait(void)
{
	const long wait[6] = { (long)&ta_image.control->chunks_freed, FUTEX_WAIT };
	const long wake[6] = { (long)&ta_image.control->n_waiters, FUTEX_WAKE, 1 };

	return !ta_sandbox_is_on ||
	       (ta_sandbox_allows(SYS_futex, wait) && ta_sandbox_allows(SYS_futex, wake));
}

bool ta_sandbox_lets_follow(void)
{
	for (size_t i = 0; ta_sandbox_is_on && i < call_filter_n_needs; i++) {
		int32_t action =
			ta_sandbox_ask(atomic_load(&ta_sandbox_filters),
				       call_filter_needs[i].number, call_filter_needs[i].arguments);

		/* An error is something that we live with. */
		if (action < (int32_t)SECCOMP_RET_LOG && action != (int32_t)SECCOMP_RET_ERRNO)
			return false;
	}
	return true;
}

/* ---- The counter ---- */

bool ta_sandbox_has_no_counter(void)
{
	int mode = PR_TSC_ENABLE;

	ta_syscall(SYS_prctl, PR_GET_TSC, (long)&mode, 0, 0, 0, 0);
	return mode == PR_TSC_SIGSEGV;
}

void ta_sandbox_use_clock(uint64_t ticks, uint64_t raw_ns)
{
	ta_image.clock_ticks = ticks;
	ta_image.clock_raw_ns = raw_ns;
	ta_compiler_barrier();
	ta_image.clock = TA_CLOCK_KERNEL;
}

/* ---- Who asks ---- */

bool ta_image_is_own(void)
{
	long pid = ta_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);

	return pid < 0 || (uint32_t)pid == ta_image.pid; /* forbidden: by the image itself */
}
