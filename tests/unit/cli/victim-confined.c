/*
 * A program that confines itself by a filter of seccomp(2), and is attached to: `errno' gives an
 * error for what it does not permit, `kill' ends it; a number is a call that is not permitted
 * either. Then it does as victim-attached does: "mark", "end".
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#define N_MARKED   1000
#define N_FREED	   400
#define MARK_BYTES 4321
#define PAUSE_NS   20000000
#define MAX_CODE   256

/* clang-format off */
static const unsigned permitted[] = {
	SYS_read, SYS_write, SYS_close, SYS_fstat, SYS_newfstatat, SYS_mmap, SYS_mprotect,
	SYS_munmap, SYS_brk, SYS_rt_sigaction, SYS_rt_sigreturn, SYS_pread64, SYS_openat,
	SYS_socket, SYS_connect, SYS_getsockopt, SYS_sendto, SYS_recvmsg, SYS_ppoll, SYS_getpid,
	SYS_gettid, SYS_getuid, SYS_nanosleep, SYS_clock_gettime, SYS_prlimit64, SYS_clone3,
	SYS_getrlimit, SYS_mremap, SYS_madvise, SYS_readlinkat, SYS_prctl, SYS_sched_yield,
	SYS_futex, SYS_exit_group, SYS_restart_syscall, SYS_exit, SYS_memfd_create,
	SYS_getrandom, SYS_rseq, SYS_set_robust_list, SYS_clone, SYS_rt_sigprocmask,
	SYS_clock_nanosleep
};
/* clang-format on */

static int confine(unsigned forbidden, unsigned otherwise)
{
	struct sock_filter code[MAX_CODE];
	struct sock_fprog program = { 0, code };

	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
	for (size_t i = 0; i < sizeof(permitted) / sizeof(*permitted); i++) {
		if (permitted[i] == forbidden)
			continue;
		code[program.len++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, permitted[i], 0, 1);
		code[program.len++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static atomic_bool is_over;
static atomic_int n_wrong; /* naps that were cut short */

static void *nap(void *unused)
{
	const struct timespec length = { .tv_nsec = PAUSE_NS };

	while (!atomic_load(&is_over))
		atomic_fetch_add(&n_wrong, nanosleep(&length, NULL) != 0);
	return unused;
}

static void mark(void)
{
	static void *blocks[N_MARKED];

	for (int i = 0; i < N_MARKED; i++)
		blocks[i] = malloc(MARK_BYTES);
	for (int i = 0; i < N_FREED; i++)
		free(blocks[i]);
	printf("marked\n");
}

int main(int argc, char **argv)
{
	unsigned otherwise = argc > 1 && strcmp(argv[1], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS
								      : SECCOMP_RET_ERRNO | 1;
	pthread_t napper;
	char line[64];

	if (confine(argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)-1, otherwise) < 0)
		return 77;
	pthread_create(&napper, NULL, nap, NULL);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
		if (strcmp(line, "mark\n") == 0)
			mark();
		fflush(stdout);
	}
	atomic_store(&is_over, true);
	pthread_join(napper, NULL);
	printf("%d wrong\n", atomic_load(&n_wrong));
	return atomic_load(&n_wrong) > 0;
}
