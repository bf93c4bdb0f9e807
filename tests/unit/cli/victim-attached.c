/*
 * A program to be attached to. Threads churn, others wait in the kernel. On the word "mark" on its
 * standard input it makes 1,000 blocks of 4,321 bytes, gives 400 of them back, chains the others,
 * each with the address of a variable, and says so; on
 * "point" it does that with 6,543 bytes by pointers to malloc and free that it has had from its
 * start, and then by a thread that ends; on "code" it shows how malloc and free begin; on
 * "old" it gives 100 blocks back that it made at its start; on "load FILE" it opens a library; on
 * "watch" the first thread stores 500 times to `watched`, then one that naps 300 times; from "calm"
 * on the churn rests for most of the time; on "end" it looks whether what the threads have
 * waited for came as it should, and whether the churn was undisturbed, and ends.
 *
 * With an argument it confines itself by a filter of seccomp(2), and has one thread, which naps:
 * `errno' gives an error for what is not permitted, `kill' ends the program; a number behind it is
 * a call that is not permitted either. Where no filter can be had it ends with 77.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define N_KEPT	   64
#define N_MARKED   1000
#define N_FREED	   400
#define MARK_BYTES 4321
#define N_OLD	   100
#define OLD_BYTES  777

#define POINTED_BYTES 6543
#define CACHED_BYTES  5 /* the others have 8 at least */
#define N_OWN	      500
#define N_OTHERS      300
#define MAX_CODE      256

static atomic_bool is_over, is_calm;
static atomic_int n_wrong;
static int wake_fd, pipe_fds[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

long watched; /* no static: found by its name */
static atomic_int n_wanted;

static void check(bool is_right, const char *what)
{
	if (is_right)
		return;
	printf("wrong: %s (errno %d)\n", what, errno);
	fflush(stdout);
	atomic_fetch_add(&n_wrong, 1);
}

static void *churn(void *pointer)
{
	unsigned seed = (unsigned)(size_t)pointer;
	unsigned char *kept[N_KEPT] = { NULL };
	size_t bytes[N_KEPT] = { 0 };
	double sum = 0.5;

	for (unsigned n = 0; !atomic_load(&is_over); n++) {
		size_t i = (size_t)rand_r(&seed) % N_KEPT;

		if (n % 1000 == 0 && atomic_load(&is_calm))
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);

		if (kept[i] && (kept[i][0] != (unsigned char)i ||
				kept[i][bytes[i] - 1] != (unsigned char)bytes[i]))
			check(false, "a block was changed");
		free(kept[i]);
		bytes[i] = 8 + (size_t)rand_r(&seed) % 3000;
		errno = 77;
		kept[i] = malloc(bytes[i]);
		if (errno != 77)
			check(false, "errno was changed");
		kept[i][0] = (unsigned char)i;
		kept[i][bytes[i] - 1] = (unsigned char)bytes[i];
		sum = sum * 1.0000001 + 1e-9; /* vector registers */
	}
	check(sum > 0.4, "a sum");
	for (size_t i = 0; i < N_KEPT; i++)
		free(kept[i]);
	return NULL;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void store_watched(int n)
{
	for (int i = 0; i < n; i++)
		*(volatile long *)&watched = i;
}

/* A thousand naps of a millisecond and more: each is as long as asked for, and not cut short. */
static void *nap(void *unused)
{
	while (!atomic_load(&is_over)) {
		struct timespec length = { .tv_nsec = 30000000 };
		double begin = seconds();

		check(nanosleep(&length, NULL) == 0, "nanosleep");
		check(seconds() - begin >= 0.0299, "nanosleep was too short");
		store_watched(atomic_load(&n_wanted));
		atomic_store(&n_wanted, 0);
	}
	return unused;
}

static void *wait_for_event(void *unused)
{
	int epoll_fd = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN };

	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event);
	check(epoll_wait(epoll_fd, &event, 1, -1) == 1, "epoll_wait");
	close(epoll_fd);
	return unused;
}

static void *wait_for_signal(void *unused)
{
	struct timespec length = { .tv_nsec = 40000000 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	while (!atomic_load(&is_over))
		check(sigtimedwait(&set, NULL, &length) == -1 && errno == EAGAIN, "sigtimedwait");
	return unused;
}

static void *wait_for_semaphore(void *unused)
{
	int id = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf take = { 0, -1, 0 };
	struct timespec length = { .tv_nsec = 50000000 };

	while (!atomic_load(&is_over))
		check(semtimedop(id, &take, 1, &length) == -1 && errno == EAGAIN, "semtimedop");
	semctl(id, 0, IPC_RMID);
	return unused;
}

static void *wait_for_condition(void *unused)
{
	while (!atomic_load(&is_over)) {
		struct timespec until;
		double begin = seconds();

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 50000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_mutex_lock(&lock);
		check(pthread_cond_timedwait(&never, &lock, &until) == ETIMEDOUT, "condition");
		pthread_mutex_unlock(&lock);
		check(seconds() - begin >= 0.0498, "the condition came too early");
	}
	return unused;
}

static void *read_pipe(void *unused)
{
	char text[8] = "";

	check(read(pipe_fds[0], text, sizeof(text)) == 3 && memcmp(text, "end", 3) == 0, "read");
	return unused;
}

static void mark(void)
{
	static void **blocks[N_MARKED], **last;

	for (int i = 0; i < N_MARKED; i++)
		blocks[i] = malloc(MARK_BYTES);
	for (int i = 0; i < N_FREED; i++)
		free(blocks[i]);
	for (int i = N_FREED; i < N_MARKED; i++) {
		memset(blocks[i], 0, MARK_BYTES);
		blocks[i][0] = last;
		blocks[i][1] = &last;
		last = blocks[i];
	}
	printf("marked\n");
}

/* No table is asked where these lead to. */
static void *(*volatile early_malloc)(size_t n_bytes);
static void (*volatile early_free)(void *block);

/* What an ending thread has in its cache of free blocks libc itself gives back to the heap. */
static void *keep_in_cache(void *unused)
{
	void *blocks[6];

	for (int i = 0; i < 6; i++)
		blocks[i] = early_malloc(CACHED_BYTES);
	for (int i = 0; i < 6; i++)
		early_free(blocks[i]);
	return unused;
}

static void use_pointers(void)
{
	static void *blocks[N_MARKED];
	pthread_t thread;

	for (int i = 0; i < N_MARKED; i++)
		blocks[i] = early_malloc(POINTED_BYTES);
	for (int i = 0; i < N_FREED; i++)
		early_free(blocks[i]);
	pthread_create(&thread, NULL, keep_in_cache, NULL);
	pthread_join(thread, NULL);
	printf("pointed\n");
}

static void show_code(void)
{
	const unsigned char *code[2];
	void *(*plain_make)(size_t) = early_malloc;
	void (*plain_give)(void *) = early_free;

	memcpy(&code[0], &plain_make, sizeof(code[0]));
	memcpy(&code[1], &plain_give, sizeof(code[1]));
	for (int i = 0; i < 32; i++)
		printf("%02x", code[i / 16][i % 16]);
	printf("\n");
}

static void use_watched(void)
{
	store_watched(N_OWN);
	atomic_store(&n_wanted, N_OTHERS);
	while (atomic_load(&n_wanted) > 0)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	printf("watched\n");
}

static void open_library(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW);
	void (*make)(int) = NULL;
	void *found = handle ? dlsym(handle, "make_blocks") : NULL;

	memcpy(&make, &found, sizeof(found));
	check(make != NULL, "dlopen");
	if (make)
		make(N_MARKED);
	printf("loaded\n");
}

/* Blocks that were there before anybody attached. */
static void give_back(void *blocks[N_OLD])
{
	for (int i = 0; i < N_OLD; i++)
		free(blocks[i]);
	printf("given back\n");
}

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

/* Words of standard input, to the last of them. */
static void obey(void *old[N_OLD])
{
	char line[4096];

	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "mark") == 0)
			mark();
		else if (strncmp(line, "load ", 5) == 0)
			open_library(line + 5);
		else if (strcmp(line, "old") == 0)
			give_back(old);
		else if (strcmp(line, "point") == 0)
			use_pointers();
		else if (strcmp(line, "code") == 0)
			show_code();
		else if (strcmp(line, "watch") == 0)
			use_watched();
		else if (strcmp(line, "calm") == 0)
			puts(atomic_exchange(&is_calm, true) ? "calm already" : "calm");
		else if (strcmp(line, "end") == 0)
			break;
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	static void *(*const runs[])(void *) = { nap,
						 wait_for_event,
						 wait_for_signal,
						 wait_for_semaphore,
						 wait_for_condition,
						 read_pipe,
						 churn,
						 churn,
						 churn };
	enum { N_RUNS = sizeof(runs) / sizeof(*runs) };
	size_t n_threads = argc > 1 ? 1 : N_RUNS;
	unsigned otherwise = argc > 1 && strcmp(argv[1], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS
								      : SECCOMP_RET_ERRNO | 1;
	pthread_t threads[N_RUNS];
	void *old[N_OLD];
	sigset_t set;

	early_malloc = malloc;
	early_free = free;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	wake_fd = eventfd(0, 0);
	if (pipe(pipe_fds) < 0)
		return 1;
	if (argc > 1 && confine(argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)-1, otherwise) < 0)
		return 77;
	for (int i = 0; i < N_OLD; i++)
		old[i] = malloc(OLD_BYTES);
	for (size_t i = 0; i < n_threads; i++)
		pthread_create(&threads[i], NULL, runs[i], (void *)(i + 1));
	obey(old);
	atomic_store(&is_over, true);
	eventfd_write(wake_fd, 1);
	check(write(pipe_fds[1], "end", 3) == 3, "write");
	for (size_t i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	printf("%d wrong\n", atomic_load(&n_wrong));
	return atomic_load(&n_wrong) > 0;
}
