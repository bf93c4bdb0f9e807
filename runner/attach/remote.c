#include "runner/attach/remote.h"

#include <elf.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
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
#include "common/io.h"

uint64_t remote_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int remote_read(pid_t pid, uintptr_t from, void *to, size_t n_bytes)
{
	struct iovec ours = { to, n_bytes }, theirs = { (void *)from, n_bytes };
	ssize_t n = process_vm_readv(pid, &ours, 1, &theirs, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == n_bytes ? 0 : -EFAULT;
}

int remote_write(pid_t pid, uintptr_t to, const void *from, size_t n_bytes)
{
	struct iovec ours = { (void *)from, n_bytes }, theirs = { (void *)to, n_bytes };
	ssize_t n = process_vm_writev(pid, &ours, 1, &theirs, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == n_bytes ? 0 : -EFAULT;
}

int remote_seize(pid_t tid, struct remote_thread *ret_thread)
{
	*ret_thread = (struct remote_thread){ .tid = tid, .trap_fd = -1 };
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
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
		if (remote_now_ns() > deadline_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	if (r < 0 && errno == EINTR)
		return wait_status(thread, deadline_ns, ret_status);
	if (r < 0 || !WIFSTOPPED(*ret_status))
		return gone(thread);
	return 0;
}

#if defined(__x86_64__)

#define STOP_EVENT(status) ((status) >> 16)

/* As the kernel has them inside, include/linux/errno.h. */
#define ERESTARTSYS	      512
#define ERESTARTNOINTR	      513
#define ERESTARTNOHAND	      514
#define ERESTART_RESTARTBLOCK 516

/*
 * Calls that return EINTR after any stop (signal(7)), and that have done nothing then: they can be
 * issued again. Calls of sockets do where the socket has a timeout.
 */
static const int issued_again[] = {
	SYS_epoll_wait,
	SYS_epoll_pwait,
	441 /* epoll_pwait2 */,
	SYS_semop,
	SYS_semtimedop,
	SYS_rt_sigtimedwait,
	SYS_io_getevents,
	333 /* io_pgetevents */,
	426 /* io_uring_enter */,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_recvmmsg,
	SYS_accept,
	SYS_accept4,
	SYS_msgrcv,
	SYS_msgsnd,
	SYS_read,
};

static bool is_issued_again(long number)
{
	for (size_t i = 0; i < sizeof(issued_again) / sizeof(*issued_again); i++)
		if (issued_again[i] == number)
			return true;
	return false;
}

bool remote_is_waiting(const struct remote_thread *thread)
{
	long long result = (long long)thread->registers.rax;

	return (long long)thread->registers.orig_rax >= 0 &&
	       (result == -ERESTARTSYS || result == -ERESTARTNOINTR || result == -ERESTARTNOHAND ||
		result == -ERESTART_RESTARTBLOCK || result == -EINTR);
}

static uint64_t status_mask(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	unsigned long long mask = 0;

	if (at)
		sscanf(at + strlen(name), "%llx", &mask);
	return mask;
}

/* Has it a signal to handle, for which its call may rightly have ended? */
static bool has_signal(pid_t tid)
{
	auto_free char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	if (io_read_file(path, 1u << 16, &text, NULL) < 0)
		return true;
	return ((status_mask(text, "SigPnd:") | status_mask(text, "ShdPnd:")) &
		~status_mask(text, "SigBlk:") & ~status_mask(text, "SigIgn:")) != 0;
}

/* What returns EINTR for our stop alone is issued again: two bytes back is its instruction. */
static void mend(struct remote_thread *thread)
{
	struct user_regs_struct *registers = &thread->registers;
	long number = (long)registers->orig_rax;

	if ((long long)registers->rax != -EINTR || !is_issued_again(number) ||
	    has_signal(thread->tid))
		return;
	registers->rax = (unsigned long long)number;
	registers->rip -= 2;
	registers->orig_rax = -1ull;
}

#define DEBUG_REGISTER(n) ((void *)offsetof(struct user, u_debugreg[n]))
#define TRAP_BIT	  (UINT64_C(1) << (SIGTRAP - 1))

/* A trap whose signal is blocked would open it, and take the program's handler for it away. */
static void open_trap(struct remote_thread *thread)
{
	uint64_t open;

	thread->has_mask = false;
	if (ptrace(PTRACE_GETSIGMASK, thread->tid, (void *)sizeof(uint64_t), &thread->mask) < 0 ||
	    !(thread->mask & TRAP_BIT))
		return;
	open = thread->mask & ~TRAP_BIT;
	thread->has_mask = ptrace(PTRACE_SETSIGMASK, thread->tid, (void *)sizeof(open), &open) == 0;
}

/*
 * Trap a thread at an instruction. By perf, whose breakpoint goes when we are killed; where that is
 * not permitted by a debug register of ptrace's, which stays then. Returns 0 or a negative errno.
 */
static int set_trap(pid_t tid, uintptr_t address, int *ret_fd)
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

	*ret_fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (*ret_fd >= 0)
		return 0;
	if (ptrace(PTRACE_POKEUSER, tid, DEBUG_REGISTER(0), (void *)address) < 0 ||
	    ptrace(PTRACE_POKEUSER, tid, DEBUG_REGISTER(7), (void *)1) < 0)
		return -errno;
	return 0;
}

static void drop_trap(pid_t tid, int *fd)
{
	if (*fd < 0) {
		ptrace(PTRACE_POKEUSER, tid, DEBUG_REGISTER(7), NULL);
		ptrace(PTRACE_POKEUSER, tid, DEBUG_REGISTER(6), NULL);
	}
	cleanup_close(fd);
	*fd = -1;
}

static void drop_target(struct remote_thread *thread)
{
	if (!thread->target)
		return;
	drop_trap(thread->tid, &thread->trap_fd);
	if (thread->has_mask)
		ptrace(PTRACE_SETSIGMASK, thread->tid, (void *)sizeof(thread->mask), &thread->mask);
	thread->target = 0;
	thread->has_mask = false;
}

int remote_resume_to(struct remote_thread *thread, uintptr_t address)
{
	if (address && set_trap(thread->tid, address, &thread->trap_fd) == 0) {
		thread->target = address;
		open_trap(thread);
	}
	return remote_resume(thread);
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
 * From a stop by a signal to one without: if we are killed in the first the signal is delivered,
 * and a trap ends the program. It does not run in between.
 */
static int leave_signal(struct remote_thread *thread)
{
	int status, r;

	if (remote_interrupt(thread) < 0 || ptrace(PTRACE_CONT, thread->tid, NULL, NULL) < 0)
		return gone(thread);
	r = wait_status(thread, remote_now_ns() + UINT64_C(1000000000), &status);
	return r == 0 && STOP_EVENT(status) != PTRACE_EVENT_STOP ? -EFAULT : r;
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
	if (STOP_EVENT(status) != PTRACE_EVENT_STOP && (r = leave_signal(thread)) < 0)
		return r;
	drop_target(thread);
	thread->is_frozen = WSTOPSIG(status) != SIGTRAP;
	if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &thread->registers) < 0)
		return gone(thread);
	thread->is_standing = true;
	return 0;
}

/* Nothing is written where nothing has to be mended. */
static void put_mended(struct remote_thread *thread)
{
	uint64_t rip = thread->registers.rip;

	mend(thread);
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
		remote_wait(thread, remote_now_ns() + 1000000000u);
	if (thread->is_seized && thread->is_standing) {
		put_mended(thread);
		ptrace(PTRACE_DETACH, thread->tid, NULL, NULL);
	}
	thread->is_seized = thread->is_standing = false;
}

/* A fault must find its signal open, or the kernel takes the program's handler away. */
static uint64_t held_signals(void)
{
	const int open[] = { SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGFPE };
	uint64_t mask = ~UINT64_C(0);

	for (size_t i = 0; i < sizeof(open) / sizeof(*open); i++)
		mask &= ~(UINT64_C(1) << (open[i] - 1));
	return mask;
}

/* ---- The frame that calls return to ---- */

#define RED_ZONE_BYTES	  128u
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

	mend(&copy);
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
	int r;

	fill_context(&frame.context, &registers);
	frame.context.uc_mcontext.fpregs = (fpregset_t)(uintptr_t)state_at;
	memcpy(&frame.context.uc_sigmask, &loan->signals, sizeof(loan->signals));
	r = remote_write(tid, state_at, state, n);
	if (r == 0)
		r = remote_write(tid, at, &frame, sizeof(frame));
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
	/* In this order: from each point on it finds its way back without us. */
	if (ptrace(PTRACE_SETREGS, tid, NULL, &registers) < 0 ||
	    ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(held), &held) < 0 ||
	    ptrace(PTRACE_CONT, tid, NULL, NULL) < 0)
		return -errno;
	loan->thread->is_standing = false;
	return 0;
}

/* Until it stands by a signal. Stops of its whole process are passed over. */
static int wait_trap(struct remote_loan *loan, uint64_t deadline_ns, int *ret_status)
{
	struct remote_thread *thread = loan->thread;
	int r;

	while ((r = wait_status(thread, deadline_ns, ret_status)) == 0) {
		if (STOP_EVENT(*ret_status) == 0)
			return 0;
		if (ptrace(PTRACE_CONT, thread->tid, NULL, NULL) < 0)
			return gone(thread);
	}
	return r;
}

int remote_call_end(struct remote_loan *loan, uint64_t deadline_ns, uint64_t *ret_result)
{
	struct user_regs_struct registers;
	int status, r = wait_trap(loan, deadline_ns, &status);

	if (r < 0)
		return r;
	loan->thread->is_standing = true;
	if (ptrace(PTRACE_GETREGS, loan->thread->tid, NULL, &registers) < 0)
		return -errno;
	if (WSTOPSIG(status) != SIGTRAP || registers.rip != loan->place.return_at)
		return -EFAULT;
	*ret_result = registers.rax;
	return leave_signal(loan->thread);
}

int remote_call_break(struct remote_loan *loan)
{
	struct remote_thread *thread = loan->thread;
	int status, r = remote_interrupt(thread);

	if (r == 0)
		r = wait_status(thread, remote_now_ns() + UINT64_C(1000000000), &status);
	thread->is_standing = r == 0;
	return r;
}

static int call_soon(struct remote_loan *loan, uintptr_t function, const uint64_t arguments[6],
		     uint64_t *ret_result)
{
	int r = remote_call_begin(loan, function, arguments);

	return r < 0 ? r
		     : remote_call_end(loan, remote_now_ns() + UINT64_C(2000000000), ret_result);
}

/* ---- The loan ---- */

static int make_stack(struct remote_loan *loan, size_t n_bytes)
{
	const uint64_t arguments[6] = {
		0, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0
	};
	uint64_t at = 0;
	int r = call_soon(loan, loan->place.errno_location, (const uint64_t[6]){ 0 }, &at);

	if (r == 0)
		r = remote_read(loan->thread->tid, at, &loan->errno_value, sizeof(int));
	if (r < 0)
		return r;
	loan->errno_at = at;
	r = call_soon(loan, loan->place.map, arguments, &at);
	if (r < 0)
		return r;
	if (at == (uint64_t)-1)
		return -ENOMEM;
	loan->stack = at;
	loan->stack_bytes = n_bytes;
	return write_frame(loan, at + n_bytes, &loan->frame);
}

int remote_borrow(struct remote_thread *thread, const struct remote_place *place,
		  size_t stack_bytes, struct remote_loan *ret_loan)
{
	struct iovec state = { ret_loan->state, sizeof(ret_loan->state) };
	uint8_t room[OWN_ROOM_BYTES];
	pid_t tid = thread->tid;
	int r;

	ret_loan->thread = thread;
	ret_loan->place = *place;
	ret_loan->stack = ret_loan->errno_at = 0;
	ret_loan->trap_fd = -1;
	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &state) < 0 ||
	    ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(uint64_t), &ret_loan->signals) < 0)
		return -errno;
	ret_loan->n_state_bytes = state.iov_len;
	if (state.iov_len < LEAST_STATE_BYTES)
		return -ENOTSUP;
	r = write_frame(ret_loan, thread->registers.rsp - RED_ZONE_BYTES, &ret_loan->own_frame);
	/* A stack that ends here is not used. */
	if (r == 0)
		r = remote_read(tid, ret_loan->own_frame - sizeof(room), room, sizeof(room));
	if (r == 0)
		r = set_trap(tid, place->return_at, &ret_loan->trap_fd);
	if (r < 0)
		return r;
	ret_loan->frame = ret_loan->own_frame;
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
	if (loan->errno_at)
		remote_write(tid, loan->errno_at, &loan->errno_value, sizeof(loan->errno_value));
	drop_trap(tid, &loan->trap_fd);
	mend(thread);
	if (ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(loan->signals), &loan->signals) < 0 ||
	    ptrace(PTRACE_SETREGSET, tid, (void *)NT_X86_XSTATE, &state) < 0 ||
	    ptrace(PTRACE_SETREGS, tid, NULL, &thread->registers) < 0)
		r = -errno;
	return r;
}

#else /* other processors */

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

int remote_resume_to(struct remote_thread *thread, uintptr_t address)
{
	(void)thread, (void)address;
	return -ENOTSUP;
}

void remote_release(struct remote_thread *thread)
{
	if (thread->is_seized)
		ptrace(PTRACE_DETACH, thread->tid, NULL, NULL);
	thread->is_seized = false;
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
