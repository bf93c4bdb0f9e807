#include "runner/launch/job-control.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runner/processes/image-proc.h"

#define LOOK_MS 20

/*
 * What goes on while we are stopped: whoever lets the program go on need not know of us. In a group
 * of its own, since those that stop a job stop all of its group. Only system calls: other threads
 * may hold locks.
 */
static _Noreturn void wake_recorder(pid_t recorder, pid_t command, int pidfd)
{
	struct pollfd poll_fd = { .fd = pidfd, .events = POLLIN };

	setpgid(0, 0);
	while (getppid() == recorder && poll(&poll_fd, pidfd >= 0 ? 1 : 0, LOOK_MS) == 0 &&
	       image_is_stopped(command))
		continue;
	/*
	 * It may be about to stop: then it would miss the first. It ends us as soon as it goes on.
	 */
	while (getppid() == recorder) {
		kill(recorder, SIGCONT);
		poll(NULL, 0, LOOK_MS);
	}
	_exit(0);
}

/* Stop as the program has, so that who waits for us sees what it would see of the program. */
static void stop_by(int signal_number)
{
	struct sigaction action = { .sa_handler = SIG_DFL }, old;
	sigset_t one, before;

	sigemptyset(&one);
	sigaddset(&one, signal_number);
	if (signal_number != SIGSTOP)
		sigaction(signal_number, &action, &old);
	raise(signal_number);
	sigprocmask(SIG_UNBLOCK, &one, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (signal_number != SIGSTOP)
		sigaction(signal_number, &old, NULL);
}

void job_control_stop(pid_t command, int pidfd, int signal_number)
{
	const struct timespec now = { 0 };
	pid_t recorder = getpid(), waker = -1;
	sigset_t goes_on;

	if (command > 0)
		waker = fork();
	if (waker == 0)
		wake_recorder(recorder, command, pidfd);
	stop_by(signal_number);
	if (waker > 0) {
		kill(waker, SIGKILL);
		waitpid(waker, NULL, 0);
	}
	/*
	 * A shell lets the whole group go on, kill(1) us alone: what reached us is not for the
	 * program again.
	 */
	sigemptyset(&goes_on);
	sigaddset(&goes_on, SIGCONT);
	sigtimedwait(&goes_on, NULL, &now);
	if (command > 0 && image_is_stopped(command))
		kill(command, SIGCONT);
}

int job_control_stopped(pid_t command)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)command, &info, WSTOPPED | WNOHANG) < 0 || info.si_pid != command)
		return 0;
	return image_is_stopped(command) ? info.si_status : 0;
}
