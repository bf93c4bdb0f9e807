/* Small programs with known truth, one for each name in the table. Built with -fno-builtin. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "victim.h"

/* 100 blocks of 64 bytes, each given back at once. */
static int hundred(void)
{
	for (int i = 0; i < 100; i++)
		free(malloc(64));
	return 0;
}

static void *free_it(void *block)
{
	free(block);
	return NULL;
}

/* A block of 4321 bytes that another thread gives back. */
static int other_thread(void)
{
	void *block = malloc(4321);
	pthread_t thread;

	say("block", (uintptr_t)block);
	pthread_create(&thread, NULL, free_it, block);
	pthread_join(thread, NULL);
	return 0;
}

/* Each function of the family once, with sizes that nobody else asks for. */
static int family(void)
{
	void *blocks[8] = { 0 };

	blocks[0] = calloc(7, 1001);
	blocks[1] = memalign(64, 7011);
	blocks[2] = aligned_alloc(128, 7040);
	blocks[3] = valloc(7021);
	blocks[4] = pvalloc(7031);
	if (posix_memalign(&blocks[5], 4096, 7051))
		return 1;
	blocks[6] = reallocarray(NULL, 7, 1009);
	blocks[7] = realloc(NULL, 7071);
	blocks[7] = realloc(blocks[7], 70710);
	for (int i = 0; i < 8; i++) {
		if (!blocks[i])
			return 2;
		say("block", (uintptr_t)blocks[i]);
		free(blocks[i]);
	}
	return 0;
}

/* Calls that fail, or do nothing: none leaves an event. */
static int failures(void)
{
	volatile size_t huge = SIZE_MAX / 2;
	void *volatile kept = malloc(5001); /* volatile: it outlives failed calls */
	void *moved;
	void *untouched = &untouched;
	void *volatile nothing = NULL;
	int failed = 0;

	errno = 0;
	failed += malloc(huge) == NULL && errno == ENOMEM;
	errno = 0;
	failed += calloc(huge, 4) == NULL && errno == ENOMEM;
	errno = 0;
	moved = reallocarray(kept, huge, 4);
	failed += moved == NULL && errno == ENOMEM;
	errno = 0;
	moved = realloc(kept, huge);
	failed += moved == NULL && errno == ENOMEM;
	failed += posix_memalign(&untouched, 3, 100) == EINVAL && untouched == &untouched;
	failed += aligned_alloc(64, huge) == NULL;
	failed += mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
	failed += munmap((void *)1, 4096) == -1;
	failed += mremap((void *)1, 4096, 8192, 0) == MAP_FAILED;
	free(nothing);
	say("failed", (uint64_t)failed);
	free(kept);
	return 0;
}

/* realloc(p, 0) gives back; malloc(0) and realloc(NULL, 0) are blocks. */
static int zero(void)
{
	void *volatile nothing = NULL;
	volatile size_t none = 0;
	void *block = malloc(5002);
	void *empty = malloc(none);
	void *empty_too = realloc(nothing, none);

	say("block", (uintptr_t)block);
	say("gone", (uintptr_t)realloc(block, none));
	say("empty", (uintptr_t)empty);
	say("empty_too", (uintptr_t)empty_too);
	free(empty);
	free(empty_too);
	return 0;
}

/* errno is the program's: no successful call changes it. */
static int keeps_errno(void)
{
	int changed = 0;

	for (int i = 0; i < 10000; i++) {
		void *block;

		errno = 1234;
		block = malloc(100);
		block = realloc(block, 200);
		free(block);
		free(calloc(1, 100));
		changed += errno != 1234;
	}
	say("changed", (uint64_t)changed);
	return 0;
}

/* Maps with known pages. */
static int maps(void)
{
	char *first = mmap(NULL, 3 * 4096 + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	char *second = mmap64(NULL, 8192, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *moved = mremap(first, 4 * 4096, 64 * 4096, MREMAP_MAYMOVE);

	say("first", (uintptr_t)first);
	say("second", (uintptr_t)second);
	say("moved", (uintptr_t)moved);
	munmap(second, 8192);
	munmap(moved + 4096, 4096);
	munmap(moved, 64 * 4096);
	return 0;
}

/* A block so large that the allocator maps it. */
static int large(void)
{
	char *block = malloc(64u << 20);

	say("block", (uintptr_t)block);
	free(block);
	return 0;
}

static pthread_key_t late_key;

static void free_late(void *block)
{
	free(block);
}

static void *keep_for_exit(void *unused)
{
	(void)unused;
	pthread_setspecific(late_key, malloc(777));
	return NULL;
}

/* A thread whose block is given back by a destructor of its specific data. */
static int destructor(void)
{
	pthread_t thread;

	pthread_key_create(&late_key, free_late);
	pthread_create(&thread, NULL, keep_for_exit, NULL);
	pthread_join(thread, NULL);
	return 0;
}

static void *one_block(void *unused)
{
	(void)unused;
	free(malloc(333));
	return NULL;
}

/* 10,000 threads, one behind the other, 333 bytes each; says how much its memory has grown. */
static int many_threads(void)
{
	pthread_t thread;
	uint64_t before = 0;

	for (int i = 0; i < 10000; i++) {
		if (i == 100)
			before = resident_bytes();
		if (pthread_create(&thread, NULL, one_block, NULL))
			return 1;
		pthread_join(thread, NULL);
	}
	say("grown", resident_bytes() - before);
	return 0;
}

#define STORM 2000
static pthread_barrier_t storm_barrier;

static void *storm_thread(void *unused)
{
	(void)unused;
	free(malloc(444));
	pthread_barrier_wait(&storm_barrier); /* all have begun ... */
	pthread_barrier_wait(&storm_barrier); /* ... and were looked at */
	free(malloc(445));
	return NULL;
}

/* 2,000 threads at the same time, two blocks each; says what memory of its own they idle with. */
static int storm(void)
{
	static pthread_t threads[STORM];
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	pthread_barrier_init(&storm_barrier, NULL, STORM + 1);
	for (int i = 0; i < STORM; i++)
		if (pthread_create(&threads[i], &attributes, storm_thread, NULL))
			return 1;
	pthread_barrier_wait(&storm_barrier);
	say("memory", memory_bytes());
	pthread_barrier_wait(&storm_barrier);
	for (int i = 0; i < STORM; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

/* 200,000 pairs of 48 bytes: far more than a small pool holds. */
static int flood(void)
{
	for (int i = 0; i < 200000; i++)
		free(malloc(48));
	return 0;
}

/* Blocks of 10 and of 1,000 bytes. */
static int small_and_large(void)
{
	for (int i = 0; i < 50; i++) {
		free(malloc(10));
		free(malloc(1000));
	}
	return 0;
}

/* Ten pairs of 555 bytes, and then the end that the name says. */
static void ten(void)
{
	for (int i = 0; i < 10; i++)
		free(malloc(555));
}

/* A block that grows and shrinks over the border of 100 bytes, and back. */
static int resized(void)
{
	static const size_t sizes[] = { 50, 500, 600, 40, 30, 700 };
	char *block = NULL;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		block = realloc(block, sizes[i]);
		say("block", (uintptr_t)block);
	}
	free(block);
	return 0;
}

static int end_exit(void)
{
	ten();
	exit(0);
}

static int end_quick_exit(void)
{
	ten();
	quick_exit(0);
}

static int end_at_once(void)
{
	ten();
	_exit(0);
}

static int end_abort(void)
{
	ten();
	abort();
}

static int end_killed(void)
{
	ten();
	return kill(getpid(), SIGKILL);
}

static int end_crashed(void)
{
	ten();
	return *(volatile int *)8;
}

static int end_main_thread(void)
{
	ten();
	pthread_exit(NULL);
}

static pthread_barrier_t started;

static void *churn(void *unused)
{
	free(malloc(888));
	pthread_barrier_wait(&started);
	for (;;)
		free(malloc(888));
	return unused;
}

/* Ends while four threads are somewhere in their hooks. */
static int end_among_threads(void)
{
	pthread_t thread;

	pthread_barrier_init(&started, NULL, 5);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread, NULL, churn, NULL);
	pthread_barrier_wait(&started);
	usleep(1000);
	return 0;
}

/* From here on nothing but reading, writing, ending and what the allocator itself needs. */
static int filtered(void)
{
	static const int allowed[] = { SYS_read, SYS_write, SYS_exit,	SYS_exit_group,
				       SYS_brk,	 SYS_mmap,  SYS_munmap, SYS_futex };
	struct sock_filter filter[2 + 2 * 8];
	struct sock_fprog program = { .filter = filter };

	free(malloc(1)); /* the first of all asks for random numbers */
	filter[program.len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
							     offsetof(struct seccomp_data, nr));
	for (int i = 0; i < 8; i++) {
		filter[program.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
								     (unsigned)allowed[i], 0, 1);
		filter[program.len++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	filter[program.len++] =
		(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program))
		return 1;
	for (int i = 0; i < 5000; i++)
		free(malloc(666));
	return 0;
}

/* Which files are open. */
static int files(void)
{
	uint64_t open_files = 0;

	for (int i = 0; i < 64; i++)
		open_files |= (uint64_t)(fcntl(i, F_GETFD) >= 0) << i;
	say("files", open_files);
	return 0;
}

static const struct program programs[] = {
	{ "hundred", hundred },
	{ "other-thread", other_thread },
	{ "family", family },
	{ "failures", failures },
	{ "zero", zero },
	{ "keeps-errno", keeps_errno },
	{ "maps", maps },
	{ "large", large },
	{ "destructor", destructor },
	{ "many-threads", many_threads },
	{ "storm", storm },
	{ "flood", flood },
	{ "small-and-large", small_and_large },
	{ "resized", resized },
	{ "exit", end_exit },
	{ "quick_exit", end_quick_exit },
	{ "_exit", end_at_once },
	{ "abort", end_abort },
	{ "killed", end_killed },
	{ "crashed", end_crashed },
	{ "main-thread", end_main_thread },
	{ "among-threads", end_among_threads },
	{ "filtered", filtered },
	{ "files", files },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return run_program(programs, argc, argv);
}
