#include "runner/attach/waits.h"

#if defined(__x86_64__)

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io.h"
#include "runner/processes/image-proc.h"

#define MAX_WAIT_S 1000000000
/* Where a call has its timeout, as a word of struct user_regs_struct. */
#define REGISTER(name) offsetof(struct user_regs_struct, name)

enum timeout_kind {
	TIMEOUT_NONE,
	TIMEOUT_MS, /* an int, below zero: none */
	TIMEOUT_POINTER, /* to a struct timespec, NULL: none */
};

/*
 * Calls that return EINTR after any stop (signal(7)), and that have done nothing then: they can be
 * issued again, with the time that is left. Those of sockets do where the socket has a timeout,
 * which is the socket's, and begins again.
 */
static const struct waiting_call {
	int number;
	enum timeout_kind kind;
	size_t timeout; /* REGISTER() */
} waiting_calls[] = {
	{ SYS_epoll_wait, TIMEOUT_MS, REGISTER(r10) },
	{ SYS_epoll_pwait, TIMEOUT_MS, REGISTER(r10) },
	{ 441 /* epoll_pwait2 */, TIMEOUT_POINTER, REGISTER(r10) },
	{ SYS_semop, TIMEOUT_NONE, 0 },
	{ SYS_semtimedop, TIMEOUT_POINTER, REGISTER(r10) },
	{ SYS_rt_sigtimedwait, TIMEOUT_POINTER, REGISTER(rdx) },
	{ SYS_io_getevents, TIMEOUT_POINTER, REGISTER(r8) },
	{ 333 /* io_pgetevents */, TIMEOUT_POINTER, REGISTER(r8) },
	{ 426 /* io_uring_enter */, TIMEOUT_NONE, 0 },
	{ SYS_recvfrom, TIMEOUT_NONE, 0 },
	{ SYS_recvmsg, TIMEOUT_NONE, 0 },
	{ SYS_recvmmsg, TIMEOUT_NONE, 0 },
	{ SYS_sendto, TIMEOUT_NONE, 0 },
	{ SYS_sendmsg, TIMEOUT_NONE, 0 },
	{ SYS_sendmmsg, TIMEOUT_NONE, 0 },
	{ SYS_accept, TIMEOUT_NONE, 0 },
	{ SYS_accept4, TIMEOUT_NONE, 0 },
	{ SYS_msgrcv, TIMEOUT_NONE, 0 },
	{ SYS_msgsnd, TIMEOUT_NONE, 0 },
	{ SYS_read, TIMEOUT_NONE, 0 },
	{ SYS_readv, TIMEOUT_NONE, 0 },
	{ SYS_write, TIMEOUT_NONE, 0 },
	{ SYS_writev, TIMEOUT_NONE, 0 },
};

static const struct waiting_call *find_waiting(long number)
{
	return array_find(waiting_calls, COUNT_OF(waiting_calls), it, it->number == number);
}

/* ---- Since when it waits ---- */

#define MAX_PROC_BYTES 65536u
#define LAST_CPU_FIELD 39 /* of proc_pid_stat(5) */

/*
 * When a thread ran last, by the clock of its CPU in ns, which stands still while the CPU is not
 * ours; 0: the kernel does not say. Who is asked for ourselves has just slept.
 */
static uint64_t ran_last(pid_t tid)
{
	static const char name[] = "se.exec_start";
	auto_free char *text = NULL;
	const char *at, *point;

	if (io_read_proc(tid, "sched", MAX_PROC_BYTES, &text, NULL) < 0 ||
	    !(at = strstr(text, name)) || !(at = strchr(at, ':')) || !(point = strchr(at, '.')))
		return 0;
	return strtoull(at + 1, NULL, 10) * 1000000u + strtoull(point + 1, NULL, 10);
}

/* The clock of a CPU, as ran_last(). */
static uint64_t clock_of(int cpu)
{
	const struct timespec moment = { .tv_nsec = 1 };
	uint64_t now_ns = 0;
	cpu_set_t before, one;

	CPU_ZERO(&one);
	if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof(before), &before) < 0)
		return 0;
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one) < 0)
		return 0;
	nanosleep(&moment, NULL);
	now_ns = ran_last((pid_t)syscall(SYS_gettid));
	sched_setaffinity(0, sizeof(before), &before);
	return now_ns;
}

void waits_note(struct remote_thread *thread)
{
	auto_free char *text = NULL;
	uint64_t last_ns, now_ns;

	thread->waits_since_ns = 0;
	if (io_read_proc(thread->tid, "syscall", MAX_PROC_BYTES, &text, NULL) < 0 ||
	    text[0] < '0' || text[0] > '9')
		return;
	const struct waiting_call *call = find_waiting(strtol(text, NULL, 10));
	if (!call || call->kind == TIMEOUT_NONE)
		return;
	last_ns = ran_last(thread->tid);
	now_ns = last_ns ? clock_of((int)image_stat_number(thread->tid, LAST_CPU_FIELD, -1)) : 0;
	if (now_ns > last_ns)
		thread->waits_since_ns = clock_ns(CLOCK_MONOTONIC) - (now_ns - last_ns);
}

/* What is left of so many ns; all, where it is not known when that began. */
static uint64_t left_of(const struct remote_thread *thread, uint64_t ns)
{
	uint64_t passed_ns =
		thread->waits_since_ns ? clock_ns(CLOCK_MONOTONIC) - thread->waits_since_ns : 0;

	return passed_ns < ns ? ns - passed_ns : 0;
}

static void shorten_ms(const struct remote_thread *thread, unsigned long long *argument)
{
	int ms = (int)*argument;

	if (ms > 0)
		*argument = (left_of(thread, (uint64_t)ms * 1000000u) + 999999u) / 1000000u;
}

/* What it points to is the program's: a word of our own takes its place. */
static void shorten_time(const struct remote_thread *thread, unsigned long long *argument)
{
	uint64_t at = thread->scratch, left_ns;
	struct timespec time;

	if (!*argument || remote_read(thread->tid, *argument, &time, sizeof(time)) < 0 ||
	    time.tv_sec < 0 || time.tv_sec > MAX_WAIT_S || time.tv_nsec < 0)
		return;
	left_ns = left_of(thread, (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec);
	time.tv_sec = (time_t)(left_ns / 1000000000u);
	time.tv_nsec = (long)(left_ns % 1000000000u);
	if (remote_write(thread->tid, at, &time, sizeof(time)) == 0)
		*argument = at;
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

	if (io_read_proc(tid, "status", 1u << 16, &text, NULL) < 0)
		return true;
	return ((status_mask(text, "SigPnd:") | status_mask(text, "ShdPnd:")) &
		~status_mask(text, "SigBlk:") & ~status_mask(text, "SigIgn:")) != 0;
}

/* What returns EINTR for our stop alone is issued again: two bytes back is its instruction. */
static const struct waiting_call *take_back(struct remote_thread *thread)
{
	struct user_regs_struct *registers = &thread->registers;
	const struct waiting_call *call = find_waiting((long)registers->orig_rax);

	if ((long long)registers->rax != -EINTR || !call || has_signal(thread->tid))
		return NULL;
	registers->rax = registers->orig_rax;
	registers->rip -= 2;
	registers->orig_rax = -1ull;
	return call;
}

/* The same, with the time that is left. */
void waits_mend(struct remote_thread *thread)
{
	const struct waiting_call *call = take_back(thread);
	unsigned long long *argument;

	if (!call || !thread->waits_since_ns)
		return;
	argument = (void *)((char *)&thread->registers + call->timeout);
	if (call->kind == TIMEOUT_MS)
		shorten_ms(thread, argument);
	else if (call->kind == TIMEOUT_POINTER)
		shorten_time(thread, argument);
}

void waits_issue_again(struct remote_thread *thread)
{
	take_back(thread);
}

#else

void waits_note(struct remote_thread *thread)
{
	(void)thread;
}

#endif
