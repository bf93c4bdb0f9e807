/*
 * Programs whose samples are known.
 *
 * 	order N [move]   N times: a block of 256 pages is allocated, each page touched, the block
 * 	  freed. With
 * 	                 `move' another thread sends the first one from CPU to CPU meanwhile.
 * 	faults N         touches N pages, each for the first time; prints minflt of getrusage
 * 	storm N MS SOME  N threads, SOME at once, each with MS ms of CPU time of its own; prints
 * 	                 their ids
 * 	spin MS          MS ms of CPU time
 * 	calls N          half of the time in system calls that copy into its memory
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE	    4096
#define BLOCK_PAGES 256
#define BLOCK_BYTES (BLOCK_PAGES * PAGE)

static atomic_int has_ended;

void touch_block(volatile char *block);
__attribute__((noinline)) void touch_block(volatile char *block)
{
	for (int round = 0; round < 50; round++)
		for (int i = 0; i < BLOCK_PAGES; i++)
			block[i * PAGE + i] = 1;
}

static void *move_about(void *argument)
{
	pid_t tid = *(pid_t *)argument;
	int n_cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);

	for (int cpu = 0; !has_ended; cpu = (cpu + 1) % n_cpus) {
		struct timespec moment = { .tv_nsec = 500000 };
		cpu_set_t cpus;

		CPU_ZERO(&cpus);
		CPU_SET(cpu, &cpus);
		sched_setaffinity(tid, sizeof(cpus), &cpus);
		nanosleep(&moment, NULL);
	}
	return NULL;
}

static void order(int n, int is_moved)
{
	pid_t tid = (pid_t)syscall(SYS_gettid);
	pthread_t mover;

	if (is_moved)
		pthread_create(&mover, NULL, move_about, &tid);
	/* Fixed: each block is a map of its own, whose pages are touched for the first time. */
	mallopt(M_MMAP_THRESHOLD, BLOCK_BYTES / 2);
	for (int i = 0; i < n; i++) {
		char *block = malloc(BLOCK_BYTES);

		touch_block(block);
		free(block);
	}
	has_ended = 1;
	if (is_moved)
		pthread_join(mover, NULL);
}

static void faults(int n)
{
	char *pages = mmap(NULL, (size_t)n * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rusage usage;

	madvise(pages, (size_t)n * PAGE, MADV_NOHUGEPAGE);
	for (int i = 0; i < n; i++)
		((volatile char *)pages)[(size_t)i * PAGE] = 1;
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld\n", usage.ru_minflt);
}

void spin(int64_t ms);
__attribute__((noinline)) void spin(int64_t ms)
{
	static volatile uint64_t numbers[1024];
	struct timespec now;

	do {
		for (int i = 0; i < 100000; i++)
			numbers[i % 1024]++;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while (now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000 < ms);
}

static void *storm_thread(void *argument)
{
	spin(*(int *)argument);
	printf("%ld\n", syscall(SYS_gettid));
	return NULL;
}

static void storm(int n, int ms, int n_at_once)
{
	pthread_t *threads = malloc((size_t)n * sizeof(*threads));

	for (int i = 0; i < n + n_at_once; i++) {
		if (i >= n_at_once)
			pthread_join(threads[i - n_at_once], NULL);
		if (i < n)
			pthread_create(&threads[i], NULL, storm_thread, &ms);
	}
	free(threads);
}

void read_zeros(int fd, char *bytes);
__attribute__((noinline)) void read_zeros(int fd, char *bytes)
{
	for (int i = 0; i < 8; i++)
		if (read(fd, bytes, BLOCK_BYTES) < 0)
			return;
}

static void calls(int n)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	char *bytes = malloc(BLOCK_BYTES);

	memset(bytes, 1, BLOCK_BYTES);
	for (int i = 0; i < n; i++) {
		read_zeros(fd, bytes);
		for (int k = 0; k < 2; k++)
			touch_block(bytes);
	}
	free(bytes);
	close(fd);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 0;

	if (strcmp(what, "order") == 0)
		order(n, argc > 3);
	else if (strcmp(what, "faults") == 0)
		faults(n);
	else if (strcmp(what, "storm") == 0)
		storm(n, argc > 3 ? atoi(argv[3]) : 20, argc > 4 ? atoi(argv[4]) : n);
	else if (strcmp(what, "spin") == 0)
		spin(n);
	else if (strcmp(what, "calls") == 0)
		calls(n);
	else
		return 2;
	return 0;
}
