#include "tracealloc/sandbox.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tracealloc/ring/clock.h"
#include "tracealloc/sampler.h"
#include "tracealloc/sandbox-filter.h"
#include "tracealloc/stack/unwind-walk.h"
#include "tracealloc/state.h"
#include "tracealloc/thread.h"

/* ---- What the program asks for ---- */

static bool is_readable(uintptr_t start, size_t n_bytes)
{
	uintptr_t end = start + n_bytes;

	for (uintptr_t page = start & -(uintptr_t)TA_PAGE_BYTES; page < end; page += TA_PAGE_BYTES)
		if (page == 0 || !ta_walk_is_readable(page))
			return false;
	return true;
}

/* NULL: there is no memory. */
static struct ta_sandbox_filter *make_filter(const struct sock_filter *code, uint32_t n)
{
	size_t code_bytes = n * sizeof(*code);
	struct ta_sandbox_filter *filter;
	long memory = ta_map_private(sizeof(*filter) + code_bytes);

	if (memory < 0)
		return NULL;
	filter = (struct ta_sandbox_filter *)memory;
	filter->n = n;
	memcpy(filter->code, code, code_bytes);
	return filter;
}

/* NULL: the kernel will refuse it, or there is no memory. */
static struct ta_sandbox_filter *copy_filter(uintptr_t address)
{
	const struct sock_fprog *program = (const struct sock_fprog *)address;

	if (!is_readable(address, sizeof(*program)) || program->len == 0 ||
	    program->len > BPF_MAXINSNS)
		return NULL;
	if (!is_readable((uintptr_t)program->filter, program->len * sizeof(struct sock_filter)))
		return NULL;
	return make_filter(program->filter, program->len);
}

/* Without it a handler cannot end: no more samples by signal. */
static void stop_signals(const struct ta_sandbox_filter *filter)
{
	static const long none[6];
	struct ring_process *process = ta_image.process;

	if (!ta_sampler_is_on() ||
	    ta_sandbox_ask(filter, SYS_rt_sigreturn, none) >= (int32_t)SECCOMP_RET_LOG)
		return;
	ta_sampler_stop();
	if (process)
		atomic_store_explicit(&process->signal_stop, RING_SIGNAL_FORBIDDEN,
				      memory_order_relaxed);
}

static void begin_filter(struct ta_sandbox_change *change, uintptr_t address)
{
	change->filter = copy_filter(address);
	if (!change->filter)
		return;
	change->kind = TA_SANDBOX_FILTER;
	stop_signals(change->filter);
	change->filter->next = atomic_load(&ta_sandbox_filters);
	while (!atomic_compare_exchange_weak(&ta_sandbox_filters, &change->filter->next,
					     change->filter))
		;
	atomic_store(&ta_sandbox_is_on, true);
}

/*
 * Nothing but read, write, exit and the return from a signal, and no counter: no event has a time.
 */
static void begin_strict(struct ta_sandbox_change *change)
{
	change->kind = TA_SANDBOX_STRICT;
	ta_seat_take();
	ta_tls.is_sealed = true;
	ta_compiler_barrier();
	ta_tls.seen = ta_tls.known = (uint32_t)TA_SEEN_NONE;
}

static void begin_clock(struct ta_sandbox_change *change)
{
	uint64_t raw_ns = ta_ticks_raw();

	if (ta_image.clock != RING_CLOCK_TICKS)
		return;
	change->kind = TA_SANDBOX_CLOCK;
	ta_sandbox_use_clock(ta_tsc_begin(), raw_ns);
}

/* A child of vfork has our memory, but confines itself alone. */
static bool is_recorded(void)
{
	return (atomic_load(&ta_state.word) & TA_ON) &&
	       ta_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) == ta_image.pid;
}

struct ta_sandbox_change ta_sandbox_begin(long number, const unsigned long arguments[3])
{
	struct ta_sandbox_change change = { .kind = TA_SANDBOX_NOTHING };
	bool is_prctl = number == SYS_prctl && arguments[0] == PR_SET_SECCOMP;

	if (!is_recorded())
		return change;
	if ((is_prctl && arguments[1] == SECCOMP_MODE_FILTER) ||
	    (number == SYS_seccomp && arguments[0] == SECCOMP_SET_MODE_FILTER))
		begin_filter(&change, arguments[2]);
	else if ((is_prctl && arguments[1] == SECCOMP_MODE_STRICT) ||
		 (number == SYS_seccomp && arguments[0] == SECCOMP_SET_MODE_STRICT))
		begin_strict(&change);
	else if (number == SYS_prctl && arguments[0] == PR_SET_TSC &&
		 arguments[1] == PR_TSC_SIGSEGV)
		begin_clock(&change);
	return change;
}

static void end_filter(struct ta_sandbox_filter *filter)
{
	struct ta_sandbox_filter *expected = filter;

	/* Another thread's may stand before it: then it stays, and forbids us more than it must. */
	if (!atomic_compare_exchange_strong(&ta_sandbox_filters, &expected, filter->next))
		return;
	atomic_store(&ta_sandbox_is_on, filter->next != NULL);
}

void ta_sandbox_end(const struct ta_sandbox_change *change, bool is_done)
{
	if (is_done || change->kind == TA_SANDBOX_NOTHING)
		return;
	if (change->kind == TA_SANDBOX_FILTER)
		end_filter(change->filter);
	else if (change->kind == TA_SANDBOX_STRICT)
		ta_tls.is_sealed = false; /* the next event makes the thread fit the state */
	else
		ta_image.clock = RING_CLOCK_TICKS;
}

/* ---- What was there before us ---- */

int ta_sandbox_take(const uint64_t *filters, uint32_t n)
{
	for (; n > 0; n--) {
		uint32_t n_codes = (uint32_t)*filters++;
		struct ta_sandbox_filter *filter =
			make_filter((const struct sock_filter *)filters, n_codes);

		if (!filter) {
			ta_sandbox_forget();
			return -ENOMEM;
		}
		filters += n_codes;
		filter->next = atomic_load(&ta_sandbox_filters);
		atomic_store(&ta_sandbox_filters, filter);
		atomic_store(&ta_sandbox_is_on, true);
	}
	return 0;
}

void ta_sandbox_forget(void)
{
	struct ta_sandbox_filter *filter = atomic_exchange(&ta_sandbox_filters, NULL), *next;

	atomic_store(&ta_sandbox_is_on, false);
	for (; filter; filter = next) {
		next = filter->next;
		ta_syscall(SYS_munmap, (long)filter,
			   (long)(sizeof(*filter) + filter->n * sizeof(*filter->code)), 0, 0, 0, 0);
	}
}
