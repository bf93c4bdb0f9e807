#include "runner/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"

#define GATE_IS_OPEN 0 /* else who may trace it */

static void take_up_standard_files(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		/*
		 * open() gives the lowest free number: this one. The command finds it closed again.
		 */
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)!open("/dev/null", O_RDWR | O_CLOEXEC);
	}
}

static void set_handler(int signal_number, void (*handler)(int), struct sigaction *ret_old)
{
	struct sigaction action = { .sa_handler = handler };

	sigemptyset(&action.sa_mask);
	sigaction(signal_number, &action, ret_old);
}

static void raise_limit(int resource, const struct rlimit *now)
{
	struct rlimit limit = { now->rlim_max, now->rlim_max };

	setrlimit(resource, &limit);
}

int launch_prepare(const sigset_t *blocked, struct launch_state *ret_state)
{
	struct launch_state state = { .binding = NULL };

	take_up_standard_files();
	if (getrlimit(RLIMIT_NOFILE, &state.n_files) < 0 ||
	    getrlimit(RLIMIT_FSIZE, &state.file_bytes) < 0)
		return -errno;
	if (sigprocmask(SIG_BLOCK, blocked, &state.mask) < 0)
		return -errno;
	set_handler(SIGXFSZ, SIG_IGN, &state.xfsz);
	set_handler(SIGPIPE, SIG_IGN, &state.pipe);
	set_handler(SIGCHLD, SIG_DFL, &state.chld);
	raise_limit(RLIMIT_NOFILE, &state.n_files);
	raise_limit(RLIMIT_FSIZE, &state.file_bytes);
	*ret_state = state;
	return 0;
}

void launch_restore(const struct launch_state *state)
{
	setrlimit(RLIMIT_NOFILE, &state->n_files);
	setrlimit(RLIMIT_FSIZE, &state->file_bytes);
	sigaction(SIGXFSZ, &state->xfsz, NULL);
	sigaction(SIGPIPE, &state->pipe, NULL);
	sigaction(SIGCHLD, &state->chld, NULL);
	sigprocmask(SIG_SETMASK, &state->mask, NULL);
}

int launch_exit_status(int exec_error)
{
	return exec_error == -ENOENT || exec_error == -ENOTDIR ? 127 : 126;
}

/* In the child. Only async-signal-safe calls. fds: our end of the gate, and for the error. */
static _Noreturn void wait_and_exec(const char *program, char *const *argv, char *const *envp,
				    const struct launch_state *state, const int fds[2])
{
	int word = 1, error;

	while (word != GATE_IS_OPEN) {
		ssize_t n = read(fds[0], &word, sizeof(word));

		if (n == 0 || (n < 0 && errno != EINTR))
			_exit(125); /* the gate was closed: there is nothing to run */
		if (n > 0 && word != GATE_IS_OPEN)
			prctl(PR_SET_PTRACER, word, 0, 0, 0);
	}
	launch_restore(state);
	error = state->binding ? -placement_bind(state->binding) : 0;
	if (error == 0) {
		execvpe(program, argv, envp);
		error = errno;
	}
	(void)!write(fds[1], &error, sizeof(error));
	_exit(launch_exit_status(-error));
}

int launch_fork(const char *program, char *const *argv, char *const *envp,
		const struct launch_state *state, struct launch *ret_launch)
{
	int gate[2], error[2];

	if (pipe2(gate, O_CLOEXEC) < 0)
		return -errno;
	auto_close int gate_child = gate[0], gate_parent = gate[1];
	if (pipe2(error, O_CLOEXEC) < 0)
		return -errno;
	auto_close int error_parent = error[0], error_child = error[1];

	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		close(gate_parent); /* or the collector's death would not open the gate */
		wait_and_exec(program, argv, envp, state, (int[]){ gate_child, error_child });
	}
	ret_launch->pid = pid;
	ret_launch->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	ret_launch->gate_fd = steal_fd(&gate_parent);
	ret_launch->error_fd = steal_fd(&error_parent);
	return 0;
}

int launch_allow(const struct launch *launch, pid_t tracer)
{
	int word = tracer;

	return write(launch->gate_fd, &word, sizeof(word)) == sizeof(word) ? 0 : -errno;
}

int launch_open(struct launch *launch)
{
	int error = launch_allow(launch, GATE_IS_OPEN);

	close(steal_fd(&launch->gate_fd)); /* or it would wait for ever */
	return error;
}

int launch_wait(struct launch *launch)
{
	int error = 0;
	ssize_t n;

	do {
		n = read(launch->error_fd, &error, sizeof(error));
	} while (n < 0 && errno == EINTR);
	close(steal_fd(&launch->error_fd));
	return n == (ssize_t)sizeof(error) ? -error : 0;
}

void launch_finish(struct launch *launch)
{
	if (launch->gate_fd >= 0) {
		close(launch->gate_fd);
		TEMP_FAILURE_RETRY(waitpid(launch->pid, NULL, 0));
	}
	cleanup_close(&launch->error_fd);
	cleanup_close(&launch->pidfd);
	*launch = LAUNCH_CLOSED;
}
