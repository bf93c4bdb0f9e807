#include "common/call-filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#define OWN_ARCH AUDIT_ARCH_PPC64LE
#endif

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
static uint32_t run(const struct sock_filter *codes, uint32_t n, const struct seccomp_data *data)
{
	struct machine machine = { .data = data };

	for (uint64_t i = 0; i < n; i++) {
		const struct sock_filter *code = &codes[i];

		if (BPF_CLASS(code->code) == BPF_RET)
			return BPF_RVAL(code->code) == BPF_A ? machine.a : code->k;
		i += step(&machine, code);
	}
	return SECCOMP_RET_KILL_PROCESS;
}

int32_t call_filter_ask(const struct sock_filter *code, uint32_t n, long number,
			const long arguments[6])
{
	struct seccomp_data data = { .nr = (int)number, .arch = OWN_ARCH };

	for (int i = 0; i < 6; i++)
		data.args[i] = (uint64_t)arguments[i];
	return (int32_t)(run(code, n, &data) & SECCOMP_RET_ACTION_FULL);
}

const struct call_filter_need call_filter_needs[] = {
	{ "socket", SYS_socket, { AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK } },
	{ "connect", SYS_connect, { 3 } },
	{ "getsockopt", SYS_getsockopt, { 3 } },
	{ "sendto", SYS_sendto, { 3 } },
	{ "ppoll", SYS_ppoll, { 1, 1 } },
	{ "recvmsg", SYS_recvmsg, { 3 } },
	{ "close", SYS_close, { 3 } },
	{ "getpid", SYS_getpid, { 0 } },
	{ "gettid", SYS_gettid, { 0 } },
	{ "getuid", SYS_getuid, { 0 } },
	{ "clock_gettime", SYS_clock_gettime, { CLOCK_MONOTONIC } },
	{ "nanosleep", SYS_nanosleep, { 1 } },
	{ "getrlimit", SYS_getrlimit, { 0 } },
	{ "prlimit64", SYS_prlimit64, { 0 } },
	{ "mmap", SYS_mmap, { 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3 } },
	{ "mmap", SYS_mmap, { 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1 } },
	{ "munmap", SYS_munmap, { 4096, 4096 } },
	{ "mremap", SYS_mremap, { 4096, 0, 4096, MREMAP_MAYMOVE } },
	{ "madvise", SYS_madvise, { 4096, 4096, MADV_DONTDUMP } },
	{ "mprotect", SYS_mprotect, { 4096, 4096, PROT_READ } },
	{ "openat", SYS_openat, { -100 } },
	{ "read", SYS_read, { 3 } },
	{ "readlinkat", SYS_readlinkat, { -100 } },
	{ "rt_sigprocmask", SYS_rt_sigprocmask, { -1 } },
	{ "prctl", SYS_prctl, { PR_GET_NAME } },
	{ "prctl", SYS_prctl, { PR_GET_TSC } },
	{ "prctl", SYS_prctl, { PR_GET_SECCOMP } },
	{ "sched_yield", SYS_sched_yield, { 0 } },
	{ "futex", SYS_futex, { 4096, FUTEX_WAIT } },
	{ "futex", SYS_futex, { 4096, FUTEX_WAKE, 1 } },
};
const size_t call_filter_n_needs = sizeof(call_filter_needs) / sizeof(*call_filter_needs);
