#include "tracealloc/sandbox-filter.h"

#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "tracealloc/sandbox.h"
#include "tracealloc/state.h"

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#define OWN_ARCH AUDIT_ARCH_PPC64LE
#endif

_Atomic(struct ta_sandbox_filter *) ta_sandbox_filters;
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

int32_t ta_sandbox_ask(const struct ta_sandbox_filter *filter, long number, const long arguments[6])
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
	{ SYS_prlimit64, { 0 } },
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
	{ SYS_prctl, { PR_GET_SECCOMP } },
	{ SYS_sched_yield, { 0 } },
	{ SYS_futex, { 4096, FUTEX_WAIT } },
	{ SYS_futex, { 4096, FUTEX_WAKE, 1 } },
};

bool ta_sandbox_lets_follow(void)
{
	for (size_t i = 0; ta_sandbox_is_on && i < sizeof(needed) / sizeof(*needed); i++) {
		int32_t action = ta_sandbox_ask(atomic_load(&ta_sandbox_filters), needed[i].number,
						needed[i].arguments);

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
