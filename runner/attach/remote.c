#include "runner/attach/remote.h"

#include <elf.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "runner/attach/waits.h"

/* What is waited for comes; on a machine with far more work than CPUs, it comes late. */
#define SURE_NS UINT64_C(60000000000)

int remote_seize(pid_t tid, struct remote_thread *ret_thread)
{
	*ret_thread = (struct remote_thread){ .tid = tid, .trap_fd = -1 };
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD) < 0)
		return -errno;
	ret_thread->is_seized = true;
	return 0;
}

int remote_interrupt(struct remote_thread *thread)
{
	return ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL) < 0 ? -errno : 0;
}

static int gone(struct remote_thread *thread)
{
	thread->is_gone = true;
	thread->is_seized = thread->is_standing = false;
	return -ESRCH;
}

/* Its next stop, or end, as wait() has it. */
static int wait_status(struct remote_thread *thread, uint64_t deadline_ns, int *ret_status)
{
	const struct timespec pause = { .tv_nsec = 20000 };
	pid_t r;

	while ((r = waitpid(thread->tid, ret_status, __WALL | WNOHANG)) == 0) {
		if (clock_ns(CLOCK_MONOTONIC) > deadline_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	if (r < 0 && errno == EINTR)
		return wait_status(thread, deadline_ns, ret_status);
	return r < 0 || !WIFSTOPPED(*ret_status) ? gone(thread) : 0;
}

#if defined(__x86_64__)

#define STOP_EVENT(status) ((status) >> 16)
#define CALL_STOP	   (SIGTRAP | 0x80) /* at the entry or exit of a system call */
#define MAX_ERRNO	   4095
#define RED_ZONE_BYTES	   128u
#define SCRATCH_BYTES	   64u
#define TRAP_BIT	   (UINT64_C(1) << (SIGTRAP - 1))

/* As the kernel has them inside, include/linux/errno.h. */
#define ERESTARTSYS	      512
#define ERESTARTNOINTR	      513
#define ERESTARTNOHAND	      514
#define ERESTART_RESTARTBLOCK 516

bool remote_is_waiting(const struct remote_thread *thread)
{
	long long result = (long long)thread->registers.rax;

	return (long long)thread->registers.orig_rax >= 0 &&
	       (result == -ERESTARTSYS || result == -ERESTARTNOINTR || result == -ERESTARTNOHAND ||
		result == -ERESTART_RESTARTBLOCK || result == -EINTR);
}

bool remote_is_timed(const struct remote_thread *thread)
{
	return (long long)thread->registers.orig_rax >= 0 &&
	       (long long)thread->registers.rax == -ERESTART_RESTARTBLOCK;
}

void remote_begin_again(struct remote_thread *thread)
{
	struct user_regs_struct *registers = &thread->registers;

	if (!remote_is_timed(thread))
		return;
	registers->rax = registers->orig_rax;
	registers->rip -= 2;
	registers->orig_rax = -1ull;
	ptrace(PTRACE_SETREGS, thread->tid, NULL, registers);
}

/*
 * Trap a thread at an instruction: by an event of perf, which goes with its owner; a debug register
 * of ptrace's would stay. A trap whose signal is blocked does not stop it: its signal is opened.
 */
static bool set_trap(struct remote_thread *thread, uintptr_t address)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_X,
		.bp_addr = address,
		.bp_len = sizeof(long),
		.sample_period = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.sigtrap = 1,
		.remove_on_exec = 1,
	};
	uint64_t mask;

	if (ptrace(PTRACE_GETSIGMASK, thread->tid, (void *)sizeof(mask), &mask) < 0 ||
	    mask & TRAP_BIT)
		return false;
	thread->trap_fd =
		(int)syscall(SYS_perf_event_open, &attr, thread->tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	thread->target = thread->trap_fd >= 0 ? address : 0;
	return thread->trap_fd >= 0;
}

bool remote_resume_to(struct remote_thread *thread, uintptr_t address)
{
	bool is_trapped = thread->is_standing && set_trap(thread, address);

	remote_resume(thread);
	return is_trapped;
}

/* Its trap may wait behind our stop; it would end the program. */
static bool has_trap_waiting(const struct remote_thread *thread)
{
	struct __ptrace_peeksiginfo_args arguments = { .off = 0, .nr = 8 };
	siginfo_t signals[8];
	long n = thread->target ? ptrace(PTRACE_PEEKSIGINFO, thread->tid, &arguments, signals) : 0;

	for (long i = 0; i < n; i++)
		if (signals[i].si_signo == SIGTRAP)
			return true;
	return false;
}

static bool is_at_target(const struct remote_thread *thread, int status)
{
	struct user_regs_struct registers;

	return thread->target && STOP_EVENT(status) == 0 && WSTOPSIG(status) == SIGTRAP &&
	       ptrace(PTRACE_GETREGS, thread->tid, NULL, &registers) == 0 &&
	       registers.rip == thread->target;
}

/*
 * From a stop of any kind to one that nothing follows if we are killed: a stop by a signal would
 * deliver it. It does not run in between, but for the system call at whose entry it is.
 */
static int settle(struct remote_thread *thread)
{
	uint64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + SURE_NS;
	int status, r = remote_interrupt(thread);

	do {
		if (r < 0 || ptrace(PTRACE_CONT, thread->tid, NULL, NULL) < 0)
			return gone(thread);
		r = wait_status(thread, deadline_ns, &status);
	} while (r == 0 && STOP_EVENT(status) != PTRACE_EVENT_STOP);
	thread->is_standing = r == 0;
	return r;
}

int remote_wait(struct remote_thread *thread, uint64_t deadline_ns)
{
	int status, r;

	while ((r = wait_status(thread, deadline_ns, &status)) == 0) {
		if (is_at_target(thread, status) ||
		    (STOP_EVENT(status) == PTRACE_EVENT_STOP && !has_trap_waiting(thread)))
			break;
		if (STOP_EVENT(status) == PTRACE_EVENT_STOP)
			status = 0;
		/* A signal comes first; what we asked for comes behind it. */
		if (ptrace(PTRACE_CONT, thread->tid, NULL, (void *)(long)WSTOPSIG(status)) < 0)
			return gone(thread);
	}
	if (r < 0)
		return r;
	thread->is_frozen = STOP_EVENT(status) == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
	if (STOP_EVENT(status) != PTRACE_EVENT_STOP && (r = settle(thread)) < 0)
		return r;
	cleanup_close(&thread->trap_fd);
	thread->target = 0;
	if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &thread->registers) < 0)
		return gone(thread);
	thread->scratch = thread->registers.rsp - RED_ZONE_BYTES - SCRATCH_BYTES;
	thread->is_standing = true;
	return 0;
}

/* Nothing is written where nothing has to be mended. */
static void put_mended(struct remote_thread *thread)
{
	uint64_t rip = thread->registers.rip;

	waits_mend(thread);
	if (thread->registers.rip != rip)
		ptrace(PTRACE_SETREGS, thread->tid, NULL, &thread->registers);
}

int remote_resume(struct remote_thread *thread)
{
	if (!thread->is_standing)
		return 0;
	put_mended(thread);
	thread->is_standing = false;
	return ptrace(PTRACE_CONT, thread->tid, NULL, NULL) < 0 ? -errno : 0;
}

void remote_release(struct remote_thread *thread)
{
	if (thread->is_seized && !thread->is_standing && !thread->is_gone &&
	    remote_interrupt(thread) == 0)
		remote_wait(thread, clock_ns(CLOCK_MONOTONIC) + SURE_NS);
	if (thread->is_seized && thread->is_standing) {
		put_mended(thread);
		ptrace(PTRACE_DETACH, thread->tid, NULL, NULL);
	}
	thread->is_seized = thread->is_standing = false;
}

/* A fault must find its signal open, or the kernel takes the program's handler away. */
static uint64_t held_signals(void)
{
	const int open[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };
	uint64_t mask = ~UINT64_C(0);

	for (size_t i = 0; i < sizeof(open) / sizeof(*open); i++)
		mask &= ~(UINT64_C(1) << (open[i] - 1));
	return mask;
}

/* ---- The frame that calls return to ---- */

#define STATE_ALIGNMENT	  64u
#define LEAST_STATE_BYTES 576u /* FXSAVE and the head of XSAVE */
#define SOFTWARE_OFFSET	  464u /* of struct fpx_sw_bytes in it */
#define AMX_FEATURES	  (UINT64_C(3) << 17)
#define NO_ALT_STACK	  0x7ff0 /* flags that sigreturn does not take: it stays as it is */
#define OWN_ROOM_BYTES	  4096u /* of the thread's own stack, for a call of mmap */

/* asm/sigcontext.h: struct _fpx_sw_bytes. */
struct software_bytes {
	uint32_t magic1;
	uint32_t extended_bytes;
	uint64_t features;
	uint32_t state_bytes;
	uint32_t padding[7];
};

#define STATE_MAGIC1 UINT32_C(0x46505853)
#define STATE_MAGIC2 UINT32_C(0x46505845)

/* As the kernel's struct rt_sigframe; glibc's ucontext_t begins as the kernel's. */
struct frame {
	uint64_t return_at;
	ucontext_t context;
};

/* Registers with which it would go on without us: what the kernel restarts is restarted. */
static struct user_regs_struct settled(const struct remote_thread *thread)
{
	struct remote_thread copy = *thread;
	struct user_regs_struct *registers = &copy.registers;
	long long result = (long long)registers->rax;

	waits_issue_again(&copy);
	if ((long long)registers->orig_rax < 0)
		return *registers;
	if (result == -ERESTARTSYS || result == -ERESTARTNOINTR || result == -ERESTARTNOHAND) {
		registers->rax = registers->orig_rax;
		registers->rip -= 2;
	} else if (result == -ERESTART_RESTARTBLOCK) {
		registers->rax = SYS_restart_syscall;
		registers->rip -= 2;
	}
	return *registers;
}

static void fill_context(ucontext_t *context, const struct user_regs_struct *from)
{
	greg_t *to = context->uc_mcontext.gregs;

	to[REG_R8] = (greg_t)from->r8;
	to[REG_R9] = (greg_t)from->r9;
	to[REG_R10] = (greg_t)from->r10;
	to[REG_R11] = (greg_t)from->r11;
	to[REG_R12] = (greg_t)from->r12;
	to[REG_R13] = (greg_t)from->r13;
	to[REG_R14] = (greg_t)from->r14;
	to[REG_R15] = (greg_t)from->r15;
	to[REG_RDI] = (greg_t)from->rdi;
	to[REG_RSI] = (greg_t)from->rsi;
	to[REG_RBP] = (greg_t)from->rbp;
	to[REG_RBX] = (greg_t)from->rbx;
	to[REG_RDX] = (greg_t)from->rdx;
	to[REG_RAX] = (greg_t)from->rax;
	to[REG_RCX] = (greg_t)from->rcx;
	to[REG_RSP] = (greg_t)from->rsp;
	to[REG_RIP] = (greg_t)from->rip;
	to[REG_EFL] = (greg_t)from->eflags;
	to[REG_CSGSFS] = (greg_t)(from->cs | from->ss << 48);
	context->uc_flags = 7; /* UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS */
	context->uc_stack.ss_flags = NO_ALT_STACK;
}

/* Vector registers, in the form that sigreturn takes; bytes of state that it may have. */
static size_t fill_state(struct remote_loan *loan, uint8_t *state)
{
	struct software_bytes software = { .magic1 = STATE_MAGIC1 };
	size_t n = loan->n_state_bytes;

	memcpy(state, loan->state, n);
	memcpy(&software.features, state + SOFTWARE_OFFSET, sizeof(software.features));
	software.features &= ~AMX_FEATURES;
	software.state_bytes = (uint32_t)n;
	software.extended_bytes = (uint32_t)(n + sizeof(STATE_MAGIC2));
	memcpy(state + SOFTWARE_OFFSET, &software, sizeof(software));
	memcpy(state + n, &(uint32_t){ STATE_MAGIC2 }, sizeof(STATE_MAGIC2));
	return n + sizeof(STATE_MAGIC2);
}

/* Write a frame below an address of a stack. */
static int write_frame(struct remote_loan *loan, uint64_t below, uint64_t *ret_frame)
{
	uint8_t state[REMOTE_STATE_BYTES + sizeof(STATE_MAGIC2)];
	struct user_regs_struct registers = settled(loan->thread);
	struct frame frame = { .return_at = loan->place.return_at };
	pid_t tid = loan->thread->tid;
	size_t n = fill_state(loan, state);
	uint64_t state_at = (below - n) & -(uint64_t)STATE_ALIGNMENT;
	uint64_t at = ((state_at - sizeof(frame)) & -(uint64_t)16) - 8;

	fill_context(&frame.context, &registers);
	frame.context.uc_mcontext.fpregs = (fpregset_t)(uintptr_t)state_at;
	memcpy(&frame.context.uc_sigmask, &loan->signals, sizeof(loan->signals));
	int r = remote_write(tid, state_at, state, n)
			?: remote_write(tid, at, &frame, sizeof(frame));
	if (r == 0)
		*ret_frame = at;
	return r;
}

/* ---- Calls ---- */

static struct user_regs_struct blank(const struct remote_loan *loan, const uint64_t arguments[6])
{
	struct user_regs_struct registers = loan->thread->registers;

	registers.orig_rax = -1ull; /* no system call of the program's is to be restarted */
	registers.eflags &= ~0x500ull; /* strings upwards, no steps */
	registers.rdi = arguments[0];
	registers.rsi = arguments[1];
	registers.rdx = arguments[2];
	registers.rcx = arguments[3];
	registers.r8 = arguments[4];
	registers.r9 = arguments[5];
	registers.rax = 0;
	registers.rbp = 0; /* frames end here */
	registers.rsp = loan->frame;
	return registers;
}

int remote_call_begin(struct remote_loan *loan, uintptr_t function, const uint64_t arguments[6])
{
	struct user_regs_struct registers = blank(loan, arguments);
	uint64_t held = held_signals();
	pid_t tid = loan->thread->tid;

	registers.rip = function;
	loan->is_inside = false;
	loan->result = 0;
	loan->failed_call = -1;
	/* In this order: from each point on it finds its way back without us. */
	if (ptrace(PTRACE_SETREGS, tid, NULL, &registers) < 0 ||
	    ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(held), &held) < 0 ||
	    ptrace(PTRACE_SYSCALL, tid, NULL, NULL) < 0)
		return -errno;
	loan->thread->is_standing = false;
	return 0;
}

/*
 * Before the system call that puts everything back. It is not made while we are there: it would
 * forget with which time a call that waits is restarted. A filter may not like that none is made.
 */
static bool turn_back(struct remote_loan *loan, struct user_regs_struct *registers)
{
	if (loan->place.has_filter)
		return true;
	registers->orig_rax = -1ull;
	registers->rip = loan->place.return_at;
	ptrace(PTRACE_SETREGS, loan->thread->tid, NULL, registers);
	return true;
}

/* At the entry or the exit of a system call: is it the one by which the call returns? */
static bool is_back(struct remote_loan *loan)
{
	struct user_regs_struct registers;

	if (ptrace(PTRACE_GETREGS, loan->thread->tid, NULL, &registers) < 0)
		return false;
	long long result = (long long)registers.rax;
	loan->is_inside = !loan->is_inside;
	loan->inside_call = (int)registers.orig_rax;
	if (loan->is_inside)
		return registers.orig_rax == SYS_rt_sigreturn &&
		       registers.rsp == loan->frame + sizeof(uint64_t) &&
		       turn_back(loan, &registers);
	loan->result = registers.rax;
	if (result < 0 && result >= -MAX_ERRNO) {
		loan->failed_call = (int)registers.orig_rax;
		loan->failed_errno = (int)-result;
	}
	return false;
}

/*
 * Until it is at the entry of the system call that puts everything back (1), or has a fault (0).
 * Stops of its whole process are passed over.
 */
static int wait_back(struct remote_loan *loan, uint64_t deadline_ns)
{
	struct remote_thread *thread = loan->thread;
	int status, r;

	while ((r = wait_status(thread, deadline_ns, &status)) == 0) {
		if (STOP_EVENT(status) == 0 && WSTOPSIG(status) != CALL_STOP)
			return 0;
		if (STOP_EVENT(status) == 0 && is_back(loan))
			return 1;
		if (ptrace(PTRACE_SYSCALL, thread->tid, NULL, NULL) < 0)
			return gone(thread);
	}
	return r;
}

int remote_call_end(struct remote_loan *loan, uint64_t deadline_ns, uint64_t *ret_result)
{
	int back = wait_back(loan, deadline_ns);
	int r = back < 0 ? back : settle(loan->thread);

	if (r == 0 && back == 0)
		r = -EFAULT;
	if (r == 0)
		*ret_result = loan->result;
	return r;
}

bool remote_call_waits(const struct remote_loan *loan)
{
	return loan->is_inside && loan->inside_call == SYS_futex;
}

int remote_call_break(struct remote_loan *loan)
{
	struct remote_thread *thread = loan->thread;
	uint64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + SURE_NS;
	int status, r = remote_interrupt(thread);

	r = r ?: wait_status(thread, deadline_ns, &status);
	if (r == 0 && STOP_EVENT(status) != PTRACE_EVENT_STOP)
		return settle(thread);
	thread->is_standing = r == 0;
	return r;
}

static int call_soon(struct remote_loan *loan, uintptr_t function, const uint64_t arguments[6],
		     uint64_t *ret_result)
{
	int r = remote_call_begin(loan, function, arguments);

	return r < 0 ? r : remote_call_end(loan, clock_ns(CLOCK_MONOTONIC) + SURE_NS, ret_result);
}

/* ---- The loan ---- */

static int make_stack(struct remote_loan *loan, size_t n_bytes)
{
	const uint64_t arguments[6] = {
		0, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0
	};
	uint64_t at = 0;
	int r = call_soon(loan, loan->place.map, arguments, &at);

	if (r < 0)
		return r;
	if (loan->failed_call >= 0)
		return -loan->failed_errno;
	loan->stack = at;
	loan->stack_bytes = n_bytes;
	return write_frame(loan, at + n_bytes, &loan->frame);
}

static uintptr_t errno_of(const struct remote_loan *loan)
{
	return loan->thread->registers.fs_base + (uint64_t)loan->place.errno_offset;
}

int remote_borrow(struct remote_thread *thread, const struct remote_place *place,
		  size_t stack_bytes, struct remote_loan *ret_loan)
{
	struct iovec state = { ret_loan->state, sizeof(ret_loan->state) };
	uint8_t room[OWN_ROOM_BYTES];
	pid_t tid = thread->tid;

	ret_loan->thread = thread;
	ret_loan->place = *place;
	ret_loan->stack = ret_loan->own_frame = 0;
	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &state) < 0 ||
	    ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(uint64_t), &ret_loan->signals) < 0)
		return -errno;
	ret_loan->n_state_bytes = state.iov_len;
	if (state.iov_len < LEAST_STATE_BYTES)
		return -ENOTSUP;
	int r = write_frame(ret_loan, thread->registers.rsp - RED_ZONE_BYTES, &ret_loan->own_frame);
	/* A stack that ends here is not used. */
	r = r ?: remote_read(tid, ret_loan->own_frame - sizeof(room), room, sizeof(room));
	r = r ?: remote_read(tid, errno_of(ret_loan), &ret_loan->errno_value, sizeof(int));
	if (r < 0) {
		ret_loan->own_frame = 0;
		return r;
	}
	ret_loan->frame = ret_loan->own_frame;
	thread->scratch = ret_loan->own_frame - sizeof(room) / 2;
	return make_stack(ret_loan, stack_bytes);
}

int remote_give_back(struct remote_loan *loan)
{
	struct iovec state = { loan->state, loan->n_state_bytes };
	struct remote_thread *thread = loan->thread;
	pid_t tid = thread->tid;
	uint64_t unused;
	int r = 0;

	if (thread->is_gone || !loan->own_frame)
		return thread->is_gone ? -ESRCH : 0;
	loan->frame = loan->own_frame;
	if (loan->stack && thread->is_standing)
		call_soon(loan, loan->place.unmap,
			  (const uint64_t[6]){ loan->stack, loan->stack_bytes }, &unused);
	remote_write(tid, errno_of(loan), &loan->errno_value, sizeof(loan->errno_value));
	waits_mend(thread);
	if (ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(loan->signals), &loan->signals) < 0 ||
	    ptrace(PTRACE_SETREGSET, tid, (void *)NT_X86_XSTATE, &state) < 0 ||
	    ptrace(PTRACE_SETREGS, tid, NULL, &thread->registers) < 0)
		r = -errno;
	return r;
}

#else /* other processors */

bool remote_is_timed(const struct remote_thread *thread)
{
	(void)thread;
	return false;
}

void remote_begin_again(struct remote_thread *thread)
{
	(void)thread;
}

bool remote_is_waiting(const struct remote_thread *thread)
{
	(void)thread;
	return false;
}

int remote_wait(struct remote_thread *thread, uint64_t deadline_ns)
{
	int status;

	return wait_status(thread, deadline_ns, &status) < 0 ? -ESRCH : -ENOTSUP;
}

int remote_resume(struct remote_thread *thread)
{
	(void)thread;
	return -ENOTSUP;
}

void remote_release(struct remote_thread *thread)
{
	if (thread->is_seized)
		ptrace(PTRACE_DETACH, thread->tid, NULL, NULL);
	thread->is_seized = false;
}

bool remote_resume_to(struct remote_thread *thread, uintptr_t address)
{
	(void)thread, (void)address;
	return false;
}

int remote_borrow(struct remote_thread *thread, const struct remote_place *place,
		  size_t stack_bytes, struct remote_loan *ret_loan)
{
	(void)thread, (void)place, (void)stack_bytes, (void)ret_loan;
	return -ENOTSUP;
}

int remote_call_begin(struct remote_loan *loan, uintptr_t function, const uint64_t arguments[6])
{
	(void)loan, (void)function, (void)arguments;
	return -ENOTSUP;
}

int remote_call_end(struct remote_loan *loan, uint64_t deadline_ns, uint64_t *ret_result)
{
	(void)loan, (void)deadline_ns, (void)ret_result;
	return -ENOTSUP;
}

bool remote_call_waits(const struct remote_loan *loan)
{
	(void)loan;
	return false;
}

int remote_call_break(struct remote_loan *loan)
{
	(void)loan;
	return -ENOTSUP;
}

int remote_give_back(struct remote_loan *loan)
{
	(void)loan;
	return -ENOTSUP;
}

#endif
