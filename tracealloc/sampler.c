#include "tracealloc/sampler.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <ucontext.h>

#include "tracealloc/agent/agent.h"
#include "tracealloc/hooks/hook.h"
#include "tracealloc/hooks/real.h"
#include "tracealloc/own-time.h"
#include "tracealloc/ring/clock.h"

#define KERNEL_SIGSET_BYTES 8
#define RECORD_BYTES                                                                               \
	((uint32_t)sizeof(struct ring_sample) + RING_SAMPLE_BELOW_BYTES + RING_SAMPLE_STACK_BYTES)
#define RECORD_SLOTS	 (RECORD_BYTES / RING_RECORD_BYTES)
#define NS_PER_SECOND	 UINT64_C(1000000000)
#define HANDLERS_BYTES	 3072u /* of the program's handler and of ours */
#define MOST_FRAME_BYTES 16384ul /* of the kernel: with AMX about 11,000 */
#define LEAST_FRAME_BYTES                                                                          \
	2048ul /* where the kernel does not tell: MINSIGSTKSZ of old headers, a constant */
#define THREAD_CLOCK 6u /* CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED, linux/posix-timers.h */

_Static_assert(RECORD_BYTES % RING_RECORD_BYTES == 0, "records are whole slots");

void (*ta_sampler_heard)(const void *frame);

/* Its address marks our timers' signals. */
static const char cookie;

static void count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- The handler ---- */

#if TA_HAS_SAMPLER
/* In the order of struct ring_sample: that of perf's register bits. */
static const uint8_t registers[RING_SAMPLE_REGISTERS] = {
	REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_RIP,
	REG_EFL, REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
};

/*
 * What lies above the stack pointer is in use, so it can be read, where it is the thread's own
 * stack.
 */
static uint16_t stack_bytes(const struct ta_thread *thread, uintptr_t sp)
{
	if (sp < thread->stack_start || sp >= thread->stack_end)
		return 0;
	if (thread->stack_end - sp >= RING_SAMPLE_STACK_BYTES)
		return RING_SAMPLE_STACK_BYTES;
	return (uint16_t)((thread->stack_end - sp) & ~(uintptr_t)7);
}

/*
 * Functions that call none have variables below their stack pointer. The kernel has just put its
 * frame below these; on another stack only what lies on the stack pointer's page surely is mapped.
 */
static uint16_t below_bytes(uintptr_t sp, uintptr_t frame)
{
	uintptr_t on_page = sp % TA_PAGE_BYTES & ~(uintptr_t)7;

	if (sp - frame < MOST_FRAME_BYTES || on_page >= RING_SAMPLE_BELOW_BYTES)
		return RING_SAMPLE_BELOW_BYTES;
	return (uint16_t)on_page;
}

static void fill(struct ring_sample *record, const struct ta_thread *thread, const siginfo_t *info,
		 const ucontext_t *context)
{
	uintptr_t sp = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];

	record->ticks = ta_ticks_begin();
	record->fs_base = ta_thread_pointer();
	record->n_periods = 1 + (uint32_t)(info->si_overrun > 0 ? info->si_overrun : 0);
	record->stack_bytes = stack_bytes(thread, sp);
	record->below_bytes = record->stack_bytes ? below_bytes(sp, (uintptr_t)context) : 0;
	for (unsigned i = 0; i < RING_SAMPLE_REGISTERS; i++)
		record->registers[i] = (uint64_t)context->uc_mcontext.gregs[registers[i]];
	memcpy(record->stack, (const void *)(sp - record->below_bytes),
	       (size_t)record->below_bytes + record->stack_bytes);
	ta_record_commit(&record->head, RING_HEAD(TRACE_OP_SAMPLE, 0, RECORD_SLOTS, 0));
}
#else
/* No recorder asks for samples here. */
static void fill(struct ring_sample *record, const struct ta_thread *thread, const siginfo_t *info,
		 const ucontext_t *context)
{
	(void)thread, (void)info, (void)context;
	ta_record_cancel(record, RECORD_BYTES);
}
#endif

/* In a hook: behind what it has reserved, with room left for it and for hooks nested in it. */
static struct ring_sample *reserve_nested(struct ta_thread *thread)
{
	uint64_t reserved =
		(uint32_t)atomic_load_explicit(&thread->chunk->reserved, memory_order_relaxed);
	uint64_t pending;

	if (reserved + RECORD_BYTES > TA_CHUNK_NESTED_LIMIT)
		return NULL;
	/* Nobody jumps out of us: what is pending need not be found by others. */
	return ta_record_take(thread, &pending, RECORD_BYTES);
}

/* Within a hook the word that the next region brings along has to do. */
static void tell_own(struct ta_thread *thread, bool is_nested, uint64_t ticks)
{
	if (is_nested)
		ta_local_fetch_add(&thread->own_ticks, ticks);
	else
		ta_own_tell(thread, 0, TRACE_OWN_SAMPLE, ticks);
}

static void take(struct ta_thread *thread, const siginfo_t *info, const ucontext_t *context,
		 const uintptr_t *frame)
{
	/* A hook may just be about to set the guard: its first half must stay. */
	uintptr_t guard_pc = ta_tls.guard_pc;
	uint64_t since = ta_image.is_measured ? ta_own_now(thread) : 0;
	bool is_nested = ta_tls.guard != 0;

	if (!is_nested)
		ta_hook_guard(frame);
	struct ring_sample *record =
		is_nested ? reserve_nested(thread) : ta_record_reserve_big(thread, RECORD_BYTES);
	if (record)
		fill(record, thread, info, context);
	else
		count(&ta_image.process->n_lost_samples, 1);
	if (since)
		tell_own(thread, is_nested, ta_own_now(thread) - since);
	ta_compiler_barrier();
	if (!is_nested)
		ta_tls.guard = 0;
	ta_tls.guard_pc = guard_pc;
	if (ta_unlikely(ta_sampler_heard != NULL) && record)
		ta_sampler_heard(frame);
}

static void handle(int number, siginfo_t *info, void *context)
{
	struct ta_thread *thread = ta_tls.thread;
	uint32_t state = atomic_load_explicit(&ta_state.word, memory_order_relaxed);

	(void)number;
	if (info->si_code != SI_TIMER || info->si_value.sival_ptr != (const void *)&cookie)
		return;
	if (!thread || !ta_seat_is_own() || ta_tls.ended || ta_tls.known == (uint32_t)TA_SEEN_NONE)
		return;
	if (state == TA_OFF)
		ta_sampler_end(thread);
	else if ((state & TA_ON) && !(atomic_load(&ta_image.control->order) & 1))
		take(thread, info, context, TA_FRAME());
}

/* ---- Installing it ---- */

#if defined(TA_AGENT)
/* Of the kernel; what its C library has for that need not be in a static program. */
struct kernel_action {
	void (*handler)(int number, siginfo_t *info, void *context);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};
#define RESTORER 0x04000000u /* SA_RESTORER */

/* As C libraries write it: unwinders know a signal's frame by this code. */
void ta_sampler_return(void) __attribute__((visibility("hidden")));
__asm__(".text\n"
	"	nop\n"
	".hidden ta_sampler_return\n"
	".globl ta_sampler_return\n"
	"ta_sampler_return:\n"
	"	movq $15, %rax\n"
	"	syscall\n");

int ta_signal_action(int number, const struct sigaction *action, struct sigaction *old)
{
	struct kernel_action new = { 0 }, was = { 0 };

	if (action) {
		new = (struct kernel_action){ action->sa_sigaction,
					      (unsigned long)action->sa_flags | RESTORER,
					      ta_sampler_return, 0 };
		memcpy(&new.mask, &action->sa_mask, sizeof(new.mask));
	}
	long r = ta_syscall(SYS_rt_sigaction, number, action ? (long)&new : 0, (long)&was,
			    KERNEL_SIGSET_BYTES, 0, 0);
	if (old)
		old->sa_sigaction = was.handler;
	return r < 0 ? -1 : 0;
}
#else
int ta_signal_action(int number, const struct sigaction *action, struct sigaction *old)
{
	return ta_real.sigaction ? ta_real.sigaction(number, action, old) : -1;
}
#endif

static void stop_since(enum ring_signal_stop why)
{
	ta_image.signal_period_ns = 0;
	if (ta_image.process)
		atomic_store_explicit(&ta_image.process->signal_stop, why, memory_order_relaxed);
	for (struct ta_thread *i = atomic_load(&ta_threads); i; i = i->next_all)
		ta_sampler_end(i);
}

void ta_sampler_install(void)
{
	struct sigaction action = { .sa_sigaction = handle,
				    .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
	struct sigaction old = { .sa_handler = SIG_DFL };

	if (!ta_sampler_is_on())
		return;
#if defined(TA_AGENT)
	if (!ta_agent_may_sample()) {
		stop_since(RING_SIGNAL_HIDDEN);
		return;
	}
#endif
	if (ta_signal_action(RING_SIGNAL, NULL, &old) < 0 ||
	    (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN)) {
		ta_sampler_stop();
		return;
	}
	memset(&action.sa_mask, 0xff, sizeof(action.sa_mask));
	ta_signal_action(RING_SIGNAL, &action, NULL);
}

/* ---- Timers ---- */

static void set_timer(const struct ta_thread *thread, uint64_t first_ns, uint64_t period_ns)
{
	struct itimerspec times = {
		.it_value = { (time_t)(first_ns / NS_PER_SECOND),
			      (long)(first_ns % NS_PER_SECOND) },
		.it_interval = { (time_t)(period_ns / NS_PER_SECOND),
				 (long)(period_ns % NS_PER_SECOND) },
	};

	ta_syscall(SYS_timer_settime, thread->timer, 0, (long)&times, 0, 0, 0);
}

/* Not all threads in step: the first sample comes after a part of a period. */
static void arm(const struct ta_thread *thread)
{
	uint64_t period_ns = ta_image.signal_period_ns;

	set_timer(thread, 1 + ta_ticks_begin() % period_ns, period_ns);
}

/*
 * The CPU time of any of our threads: the kernel makes such clocks of a tid as
 * clock_getcpuclockid(3).
 */
static uint64_t thread_cpu_ns(const struct ta_thread *thread)
{
	struct timespec now = { 0 };

	ta_syscall(SYS_clock_gettime, (long)(int)(~thread->tid << 3 | THREAD_CLOCK), (long)&now, 0,
		   0, 0, 0);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* A thread that has the signal blocked: for how long it had. Nothing of one that has just ended. */
static void count_held(const struct ta_thread *thread)
{
	uint64_t now = thread_cpu_ns(thread);

	if (now > thread->held_since_ns)
		count(&ta_image.process->blocked_ns, now - thread->held_since_ns);
}

static bool is_blocked(void)
{
	uint64_t set = 0;

	ta_syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&set, KERNEL_SIGSET_BYTES, 0, 0);
	return set >> (RING_SIGNAL - 1) & 1;
}

/*
 * Our handler runs where the program wants handlers to run. On an alternate stack there must be
 * room for two frames of the kernel, that of a handler of the program and ours on top, and for what
 * the two need.
 */
static bool is_stack_small(void)
{
	int saved = errno;
	unsigned long frame = getauxval(AT_MINSIGSTKSZ);
	stack_t now = { .ss_flags = SS_DISABLE };

	errno = saved; /* of a kernel that does not tell */

	if (frame < LEAST_FRAME_BYTES)
		frame = LEAST_FRAME_BYTES;
	ta_syscall(SYS_sigaltstack, 0, (long)&now, 0, 0, 0, 0);
	return !(now.ss_flags & SS_DISABLE) && now.ss_size < 2 * frame + HANDLERS_BYTES;
}

/* Whoever does not use libc to set a handler (Go does) is found here. */
static bool is_handler_ours(void)
{
	struct sigaction now = { .sa_handler = SIG_DFL };

	return ta_signal_action(RING_SIGNAL, NULL, &now) == 0 && now.sa_sigaction == handle;
}

void ta_sampler_start(struct ta_thread *thread)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = RING_SIGNAL };
	int timer = -1;

	thread->timer = -1;
	thread->is_held = false;
	if (!ta_sampler_is_on())
		return;
	if (!is_handler_ours()) {
		ta_sampler_stop();
		return;
	}
	event.sigev_value.sival_ptr = (void *)(uintptr_t)&cookie;
	event._sigev_un._tid = (pid_t)thread->tid;
	if (ta_syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, (long)&event, (long)&timer, 0, 0,
		       0) < 0) {
		count(&ta_image.process->n_unsampled_threads, 1);
		return;
	}
	thread->timer = timer;
	if (!is_blocked() && !is_stack_small()) {
		arm(thread);
		return;
	}
	thread->is_held = true;
	thread->held_since_ns = thread_cpu_ns(thread);
}

void ta_sampler_end(struct ta_thread *thread)
{
	if (thread->timer < 0)
		return;
	if (thread->is_held)
		count_held(thread);
	ta_syscall(SYS_timer_delete, thread->timer, 0, 0, 0, 0, 0);
	thread->timer = -1;
}

void ta_sampler_stop(void)
{
	stop_since(RING_SIGNAL_IN_USE);
}

__sighandler_t ta_sampler_hide(__sighandler_t handler)
{
	const struct sigaction ours = { .sa_sigaction = handle };

	return handler == ours.sa_handler ? SIG_DFL : handler;
}

/* Timers are those of the process: a child of vfork that shares our memory has none of them. */
static struct ta_thread *own_thread(void)
{
	struct ta_thread *thread = ta_tls.thread;

	return thread && thread->timer >= 0 && ta_image_is_own() ? thread : NULL;
}

void ta_sampler_hold(void)
{
	struct ta_thread *thread = own_thread();

	if (!thread || thread->is_held)
		return;
	thread->is_held = true;
	/* One that is pending comes before this call returns: the signal is not blocked yet. */
	set_timer(thread, 0, 0);
	thread->held_since_ns = thread_cpu_ns(thread);
}

/* The time until now is counted in any case: a program may end as it is. */
static void count_until_now(struct ta_thread *thread)
{
	count_held(thread);
	thread->held_since_ns = thread_cpu_ns(thread);
}

void ta_sampler_release(void)
{
	struct ta_thread *thread = own_thread();

	if (!thread || !thread->is_held)
		return;
	count_until_now(thread);
	if (is_blocked() || is_stack_small())
		return;
	thread->is_held = false;
	arm(thread);
}

__attribute__((destructor)) static void end(void)
{
	struct ta_thread *thread = own_thread();

	if (thread && thread->is_held && ta_sampler_is_on())
		count_until_now(thread);
}
