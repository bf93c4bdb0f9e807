#pragma once
/*
 * Threads of another process that stand: stopped by ptrace without a signal, looked at, made to
 * run one call for us on a stack of its own, and let go as they were. x86-64 only; elsewhere
 * everything gives -ENOTSUP. One thread traces: all calls for a thread come from it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#if defined(__x86_64__)
#include <sys/user.h>
#else
struct user_regs_struct {
	unsigned long long rip, rsp, rax, orig_rax, rdi, rsi, rdx, r10, r8, r9, eflags, fs_base;
};
#endif

#define REMOTE_STATE_BYTES 16384u /* of vector registers; AMX has some 11 KiB */

struct remote_thread {
	pid_t tid;
	bool is_seized;
	bool is_standing;
	bool is_gone; /* it ended while we looked */
	uint64_t waits_since_ns; /* in a call with a timeout, CLOCK_MONOTONIC; 0: not known */
	uintptr_t scratch; /* bytes of its stack that nobody uses while it stands */
	uintptr_t target; /* where it is trapped; 0: nowhere */
	int trap_fd; /* by this event of perf; -1: none */
	bool is_good; /* its place was judged; whoever stops threads notes it */
	bool is_frozen; /* it stands by a signal to stop, which is not ours */
	struct user_regs_struct registers; /* as it was found; valid while it stands */
};

/* What calls in a thread need. */
struct remote_place {
	uintptr_t return_at; /* libc's code to which handlers of signals return (__restore_rt) */
	uintptr_t map, unmap; /* functions of libc */
	bool has_filter; /* of seccomp, which ends it for a call that is not made */
	int64_t errno_offset; /* of errno, from the thread pointer */
};

/*
 * What was put aside while a thread works for us. Calls return into a frame as the kernel makes one
 * for a handler of a signal, and from there into the system call that ends a handler. We see it at
 * the entry of that call, which puts everything back: whether we are killed before it or behind it,
 * the thread goes on by itself as it was.
 */
struct remote_loan {
	struct remote_thread *thread;
	struct remote_place place;
	uint64_t signals; /* its mask */
	size_t n_state_bytes;
	uint64_t frame; /* where calls return to */
	uint64_t own_frame; /* the one on the thread's own stack, below what it uses */
	uint64_t stack; /* of the calls: lowest address; 0: none yet */
	size_t stack_bytes;
	int errno_value;
	/* Of the call that runs, or was the last one: */
	bool is_inside; /* a system call: */
	int inside_call;
	uint64_t result; /* of its last system call */
	int failed_call; /* the last one that failed, as a number of asm/unistd.h; -1: none */
	int failed_errno;
	uint8_t state[REMOTE_STATE_BYTES];
};

/* Become the tracer; the thread runs on. -EPERM: not ours, or traced; -ESRCH: it is gone. */
int remote_seize(pid_t tid, struct remote_thread *ret_thread);

/* Ask a thread to stand; remote_wait() sees to it. */
int remote_interrupt(struct remote_thread *thread);

/*
 * Wait until it stands, or is gone (-ESRCH). Signals that come first are delivered. -ETIMEDOUT: it
 * does not until deadline_ns (state D). Then its registers are known.
 */
int remote_wait(struct remote_thread *thread, uint64_t deadline_ns);

/*
 * Let it go on as it was found, traced; a system call that would return EINTR for our stop alone is
 * issued again.
 */
int remote_resume(struct remote_thread *thread);

/*
 * The same, until it comes to an instruction, where it is trapped; remote_wait() waits for that, or
 * for an interrupt. False: no trap could be had, it just runs on. If we are killed between the trap
 * and remote_wait() it gets the signal SIGTRAP, so the process must have a handler.
 */
bool remote_resume_to(struct remote_thread *thread, uintptr_t address);

/* Let it go, untraced. Safe on one that is not ours, or gone. */
void remote_release(struct remote_thread *thread);

/* Does it stand in a system call that waits, which our stop has interrupted? */
bool remote_is_waiting(const struct remote_thread *thread);

/*
 * Is it a call whose rest of time the kernel keeps for it (nanosleep, poll ...)? It is forgotten
 * where place.has_filter.
 */
bool remote_is_timed(const struct remote_thread *thread);

/* Have such a call begin again, with its whole time: a filter may end what goes on with it. */
void remote_begin_again(struct remote_thread *thread);

/* Bytes of its memory. 0 or a negative errno; all or nothing is told. */
int remote_read(pid_t pid, uintptr_t from, void *to, size_t n_bytes);
int remote_write(pid_t pid, uintptr_t to, const void *from, size_t n_bytes);

/*
 * Write code: also where nobody may write, as ptrace can. By a thread that is ours and stands;
 * words of 8 bytes, each at once. 0 or a negative errno; what comes before it is written then.
 */
int remote_poke(pid_t tid, uintptr_t to, const void *from, size_t n_bytes);

/*
 * Take a standing thread on loan: its registers of all kinds and its signals are put aside, and it
 * gets a stack of so many bytes for our calls. Until remote_give_back(), which must follow in any
 * case, it can be made to call. 0 or a negative errno: -ENOMEM, it has no room for the stack.
 */
int remote_borrow(struct remote_thread *thread, const struct remote_place *place,
		  size_t stack_bytes, struct remote_loan *ret_loan);

/*
 * Begin a call of a function, and wait for its return. *ret_result is that of its last system call:
 * what the function itself returned is lost on the way. remote_call_end() gives -ETIMEDOUT while it
 * has not returned, and may be asked again; -EFAULT when it ended by a fault: registers can be
 * given back, what it did stays.
 */
int remote_call_begin(struct remote_loan *loan, uintptr_t function, const uint64_t arguments[6]);
int remote_call_end(struct remote_loan *loan, uint64_t deadline_ns, uint64_t *ret_result);

/* Does a call that has not returned wait for a lock (futex)? */
bool remote_call_waits(const struct remote_loan *loan);

/* Break a call off that does not return. */
int remote_call_break(struct remote_loan *loan);

/* Put everything back; the thread stands as it was found. */
int remote_give_back(struct remote_loan *loan);
