#include "runner/attach/remote.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
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
	*ret_thread = (struct remote_thread){ .tid = tid };
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

#define MAX_FRAME_GAP 256u

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

static void drop_target(struct remote_thread *thread)
{
	if (!thread->has_target)
		return;
	ptrace(PTRACE_POKEUSER, thread->tid, DEBUG_REGISTER(7), NULL);
	ptrace(PTRACE_POKEUSER, thread->tid, DEBUG_REGISTER(6), NULL);
	if (thread->has_mask)
		ptrace(PTRACE_SETSIGMASK, thread->tid, (void *)sizeof(thread->mask), &thread->mask);
	thread->has_target = thread->has_mask = false;
}

int remote_resume_to(struct remote_thread *thread, uintptr_t address)
{
	pid_t tid = thread->tid;

	if (address && ptrace(PTRACE_POKEUSER, tid, DEBUG_REGISTER(0), (void *)address) == 0 &&
	    ptrace(PTRACE_POKEUSER, tid, DEBUG_REGISTER(7), (void *)1) == 0) {
		thread->has_target = true;
		open_trap(thread);
	}
	return remote_resume(thread);
}

/* Its trap may wait behind our stop; it would end the program. */
static bool has_met_target(const struct remote_thread *thread)
{
	return thread->has_target &&
	       (ptrace(PTRACE_PEEKUSER, thread->tid, DEBUG_REGISTER(6), NULL) & 1);
}

static bool is_at_target(const struct remote_thread *thread, int status)
{
	return STOP_EVENT(status) == 0 && WSTOPSIG(status) == SIGTRAP && has_met_target(thread);
}

int remote_wait(struct remote_thread *thread, uint64_t deadline_ns)
{
	int status, r;

	while ((r = wait_status(thread, deadline_ns, &status)) == 0) {
		if (is_at_target(thread, status) ||
		    (STOP_EVENT(status) == PTRACE_EVENT_STOP && !has_met_target(thread)))
			break;
		if (STOP_EVENT(status) == PTRACE_EVENT_STOP)
			status = 0;
		/* A signal comes first; what we asked for comes behind it. */
		if (ptrace(PTRACE_CONT, thread->tid, NULL, (void *)(long)WSTOPSIG(status)) < 0)
			return gone(thread);
	}
	if (r < 0)
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

int remote_borrow(struct remote_thread *thread, const struct remote_place *place,
		  struct remote_loan *ret_loan)
{
	struct iovec state = { ret_loan->state, sizeof(ret_loan->state) };
	uint64_t held = held_signals();
	pid_t tid = thread->tid;

	ret_loan->thread = thread;
	ret_loan->place = *place;
	ret_loan->stack = ret_loan->stack_bytes = 0;
	ret_loan->errno_at = 0;
	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &state) < 0 ||
	    ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(uint64_t), &ret_loan->signals) < 0)
		return -errno;
	ret_loan->n_state_bytes = state.iov_len;
	if (ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(held), &held) < 0)
		return -errno;
	return 0;
}

/* Registers for something that is not the program's. */
static struct user_regs_struct blank(const struct remote_loan *loan, const uint64_t arguments[6])
{
	struct user_regs_struct registers = loan->thread->registers;

	registers.orig_rax = -1ull; /* no system call of the program's is to be restarted */
	registers.eflags &= ~0x500ull; /* strings upwards, no steps */
	registers.rdi = arguments[0];
	registers.rsi = arguments[1];
	registers.rdx = arguments[2];
	registers.r8 = arguments[4];
	registers.r9 = arguments[5];
	return registers;
}

static bool is_trap(int status)
{
	return STOP_EVENT(status) == 0 && WSTOPSIG(status) == SIGTRAP;
}

/* Until the thread stands by SIGTRAP. Stops of its whole process are passed over. */
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

int remote_syscall(struct remote_loan *loan, long number, const uint64_t arguments[6],
		   int64_t *ret_result)
{
	struct user_regs_struct registers = blank(loan, arguments);
	pid_t tid = loan->thread->tid;
	int status, r;

	registers.rax = (unsigned long long)number;
	registers.r10 = arguments[3];
	registers.rip = loan->place.syscall_at;
	if (ptrace(PTRACE_SETREGS, tid, NULL, &registers) < 0 ||
	    ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL) < 0)
		return -errno;
	r = wait_trap(loan, remote_now_ns() + UINT64_C(2000000000), &status);
	if (r < 0)
		return r;
	if (!is_trap(status) || ptrace(PTRACE_GETREGS, tid, NULL, &registers) < 0)
		return -EFAULT;
	if (registers.rip != loan->place.syscall_at + 2)
		return -EFAULT;
	*ret_result = (int64_t)registers.rax;
	return 0;
}

int remote_call_begin(struct remote_loan *loan, uintptr_t function, const uint64_t arguments[6])
{
	struct user_regs_struct registers = blank(loan, arguments);
	uint64_t top = loan->stack + loan->stack_bytes - MAX_FRAME_GAP;
	uint64_t back = loan->place.trap_at;
	int r;

	registers.rcx = arguments[3];
	registers.rax = 0;
	registers.rbp = 0; /* frames end here */
	registers.rip = function;
	registers.rsp = (top & ~UINT64_C(15)) - sizeof(back);
	r = remote_write(loan->thread->tid, registers.rsp, &back, sizeof(back));
	if (r < 0)
		return r;
	if (ptrace(PTRACE_SETREGS, loan->thread->tid, NULL, &registers) < 0 ||
	    ptrace(PTRACE_CONT, loan->thread->tid, NULL, NULL) < 0)
		return -errno;
	loan->thread->is_standing = false;
	return 0;
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
	if (!is_trap(status) || registers.rip != loan->place.trap_at + 1)
		return -EFAULT;
	*ret_result = registers.rax;
	return 0;
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

int remote_give_back(struct remote_loan *loan)
{
	struct iovec state = { loan->state, loan->n_state_bytes };
	struct remote_thread *thread = loan->thread;
	pid_t tid = thread->tid;
	int r = 0;

	if (thread->is_gone)
		return -ESRCH;
	mend(thread);
	if (ptrace(PTRACE_SETREGSET, tid, (void *)NT_X86_XSTATE, &state) < 0 ||
	    ptrace(PTRACE_SETREGS, tid, NULL, &thread->registers) < 0)
		r = -errno;
	if (loan->errno_at)
		remote_write(tid, loan->errno_at, &loan->errno_value, sizeof(loan->errno_value));
	if (ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(loan->signals), &loan->signals) < 0)
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
		  struct remote_loan *ret_loan)
{
	(void)thread, (void)place, (void)ret_loan;
	return -ENOTSUP;
}

int remote_syscall(struct remote_loan *loan, long number, const uint64_t arguments[6],
		   int64_t *ret_result)
{
	(void)loan, (void)number, (void)arguments, (void)ret_result;
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
