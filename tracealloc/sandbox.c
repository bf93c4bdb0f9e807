#include "tracealloc/sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "tracealloc/ring/clock.h"
#include "tracealloc/sampler.h"
#include "tracealloc/stack/unwind-walk.h"
#include "tracealloc/state.h"
#include "tracealloc/thread.h"

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#define OWN_ARCH AUDIT_ARCH_PPC64LE
#endif

/* A copy of a filter that was handed to the kernel; there are all of the image. */
struct ta_sandbox_filter {
	struct ta_sandbox_filter *next;
	uint32_t n;
	struct sock_filter code[];
};

static _Atomic(struct ta_sandbox_filter *) filters;
_Atomic bool ta_sandbox_is_on;

/* ---- Classic BPF, as far as seccomp(2) takes it (kernel/seccomp.c: seccomp_check_filter) ---- */

struct machine {
	uint32_t a;
	uint32_t x;
	uint32_t memory[BPF_MEMWORDS];
	const struct seccomp_data *data;
};

static uint32_t load(const struct machine *machine, const struct sock_filter *code)
{
	uint32_t word = 0;

	switch (BPF_MODE(code->code)) {
	case BPF_IMM:
		return code->k;
	case BPF_MEM:
		return machine->memory[code->k % BPF_MEMWORDS];
	case BPF_LEN:
		return sizeof(*machine->data);
	default:
		if (code->k <= sizeof(*machine->data) - sizeof(word))
			memcpy(&word, (const uint8_t *)machine->data + code->k, sizeof(word));
		return word;
	}
}

static uint32_t calculate(uint32_t op, uint32_t a, uint32_t operand)
{
	switch (op) {
	case BPF_ADD:
		return a + operand;
	case BPF_SUB:
		return a - operand;
	case BPF_MUL:
		return a * operand;
	case BPF_DIV:
		return operand ? a / operand : 0;
	case BPF_AND:
		return a & operand;
	case BPF_OR:
		return a | operand;
	case BPF_XOR:
		return a ^ operand;
	case BPF_LSH:
		return operand < 32 ? a << operand : 0;
	case BPF_RSH:
		return operand < 32 ? a >> operand : 0;
	default:
		return -a; /* BPF_NEG */
	}
}

static bool compare(uint32_t op, uint32_t a, uint32_t operand)
{
	switch (op) {
	case BPF_JEQ:
		return a == operand;
	case BPF_JGT:
		return a > operand;
	case BPF_JGE:
		return a >= operand;
	default:
		return a & operand; /* BPF_JSET */
	}
}

/* How many instructions to step over. */
static uint32_t jump(const struct machine *machine, const struct sock_filter *code,
		     uint32_t operand)
{
	if (BPF_OP(code->code) == BPF_JA)
		return code->k;
	return compare(BPF_OP(code->code), machine->a, operand) ? code->jt : code->jf;
}

/* One instruction that does not return; how many to step over. */
static uint32_t step(struct machine *machine, const struct sock_filter *code)
{
	uint32_t operand = BPF_SRC(code->code) == BPF_X ? machine->x : code->k;

	switch (BPF_CLASS(code->code)) {
	case BPF_LD:
		machine->a = load(machine, code);
		break;
	case BPF_LDX:
		machine->x = load(machine, code);
		break;
	case BPF_ST:
		machine->memory[code->k % BPF_MEMWORDS] = machine->a;
		break;
	case BPF_STX:
		machine->memory[code->k % BPF_MEMWORDS] = machine->x;
		break;
	case BPF_ALU:
		machine->a = calculate(BPF_OP(code->code), machine->a, operand);
		break;
	case BPF_JMP:
		return jump(machine, code, operand);
	case BPF_MISC:
		if (BPF_MISCOP(code->code) == BPF_TAX)
			machine->x = machine->a;
		else
			machine->a = machine->x;
		break;
	}
	return 0;
}

/* SECCOMP_RET_*. The kernel has looked at the code: it goes forward and ends. */
static uint32_t run(const struct ta_sandbox_filter *filter, const struct seccomp_data *data)
{
	struct machine machine = { .data = data };

	for (uint64_t i = 0; i < filter->n; i++) {
		const struct sock_filter *code = &filter->code[i];

		if (BPF_CLASS(code->code) == BPF_RET)
			return BPF_RVAL(code->code) == BPF_A ? machine.a : code->k;
		i += step(&machine, code);
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/*
 * What all filters say, from there on: the severest, which is the lowest as a signed number
 * (seccomp(2)).
 */
static int32_t ask(const struct ta_sandbox_filter *filter, long number, const long arguments[6])
{
	struct seccomp_data data = { .nr = (int)number, .arch = OWN_ARCH };
	int32_t severest = (int32_t)SECCOMP_RET_ALLOW;

	for (int i = 0; i < 6; i++)
		data.args[i] = (uint64_t)arguments[i];
	for (; filter; filter = filter->next) {
		int32_t action = (int32_t)(run(filter, &data) & SECCOMP_RET_ACTION_FULL);

		if (action < severest)
			severest = action;
	}
	return severest;
}

bool ta_sandbox_allows(long number, const long arguments[6])
{
	return ask(atomic_load(&filters), number, arguments) >= (int32_t)SECCOMP_RET_LOG;
}

bool ta_sandbox_may_wait(void)
{
	const long wait[6] = { (long)&ta_image.control->chunks_freed, FUTEX_WAIT };
	const long wake[6] = { (long)&ta_image.control->n_waiters, FUTEX_WAKE, 1 };

	return !ta_sandbox_is_on ||
	       (ta_sandbox_allows(SYS_futex, wait) && ta_sandbox_allows(SYS_futex, wake));
}

/*
 * What an image does at its start, and when it runs on: it does not know the filters that it is
 * given.
 */
static const struct {
	long number;
	long arguments[6];
} needed[] = {
	{ SYS_socket, { AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK } },
	{ SYS_connect, { 3 } },
	{ SYS_getsockopt, { 3 } },
	{ SYS_sendto, { 3 } },
	{ SYS_ppoll, { 1, 1 } },
	{ SYS_recvmsg, { 3 } },
	{ SYS_close, { 3 } },
	{ SYS_getpid, { 0 } },
	{ SYS_gettid, { 0 } },
	{ SYS_getuid, { 0 } },
	{ SYS_clock_gettime, { CLOCK_MONOTONIC } },
	{ SYS_nanosleep, { 1 } },
	{ SYS_getrlimit, { 0 } },
	{ SYS_mmap, { 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3 } },
	{ SYS_mmap, { 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1 } },
	{ SYS_munmap, { 4096, 4096 } },
	{ SYS_mremap, { 4096, 0, 4096, MREMAP_MAYMOVE } },
	{ SYS_madvise, { 4096, 4096, MADV_DONTDUMP } },
	{ SYS_mprotect, { 4096, 4096, PROT_READ } },
	{ SYS_openat, { -100 } },
	{ SYS_read, { 3 } },
	{ SYS_readlinkat, { -100 } },
	{ SYS_rt_sigprocmask, { -1 } },
	{ SYS_prctl, { PR_GET_NAME } },
	{ SYS_prctl, { PR_GET_TSC } },
	{ SYS_sched_yield, { 0 } },
	{ SYS_futex, { 4096, FUTEX_WAIT } },
	{ SYS_futex, { 4096, FUTEX_WAKE, 1 } },
};

bool ta_sandbox_lets_follow(void)
{
	for (size_t i = 0; ta_sandbox_is_on && i < sizeof(needed) / sizeof(*needed); i++) {
		int32_t action = ask(atomic_load(&filters), needed[i].number, needed[i].arguments);

		/* An error is something that we live with. */
		if (action < (int32_t)SECCOMP_RET_LOG && action != (int32_t)SECCOMP_RET_ERRNO)
			return false;
	}
	return true;
}

/* ---- What the program asks for ---- */

static bool is_readable(uintptr_t start, size_t n_bytes)
{
	uintptr_t end = start + n_bytes;

	for (uintptr_t page = start & -(uintptr_t)TA_PAGE_BYTES; page < end; page += TA_PAGE_BYTES)
		if (page == 0 || !ta_walk_is_readable(page))
			return false;
	return true;
}

/* NULL: the kernel will refuse it, or there is no memory. */
static struct ta_sandbox_filter *copy_filter(uintptr_t address)
{
	const struct sock_fprog *program = (const struct sock_fprog *)address;
	struct ta_sandbox_filter *filter;
	size_t code_bytes;
	long memory;

	if (!is_readable(address, sizeof(*program)) || program->len == 0 ||
	    program->len > BPF_MAXINSNS)
		return NULL;
	code_bytes = program->len * sizeof(struct sock_filter);
	if (!is_readable((uintptr_t)program->filter, code_bytes))
		return NULL;
	memory = ta_map_private(sizeof(*filter) + code_bytes);
	if (memory < 0)
		return NULL;
	filter = (struct ta_sandbox_filter *)memory;
	filter->n = program->len;
	memcpy(filter->code, program->filter, code_bytes);
	return filter;
}

/* Without it a handler cannot end: no more samples by signal. */
static void stop_signals(const struct ta_sandbox_filter *filter)
{
	static const long none[6];
	struct ring_process *process = ta_image.process;

	if (!ta_sampler_is_on() || ask(filter, SYS_rt_sigreturn, none) >= (int32_t)SECCOMP_RET_LOG)
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
	change->filter->next = atomic_load(&filters);
	while (!atomic_compare_exchange_weak(&filters, &change->filter->next, change->filter))
		;
	atomic_store(&ta_sandbox_is_on, true);
}

/*
 * Nothing but read, write, exit and the return from a signal, and no counter: no event has a time.
 */
static void begin_strict(struct ta_sandbox_change *change)
{
	change->kind = TA_SANDBOX_STRICT;
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
	if (!atomic_compare_exchange_strong(&filters, &expected, filter->next))
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
