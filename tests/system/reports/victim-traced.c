/*
 * Writes what Heimdallr's tracer would write of it (TRAC_LOGPATH), and touches its blocks page by
 * page, so that each page is one fault whose block is known: two threads, N_BLOCKS blocks each, all
 * but the last freed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define N_BLOCKS    8u
#define BLOCK_BYTES (256u << 10)
#define PAGE_BYTES  4096u

static FILE *open_log(int id)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/alloc_%d_%ld.log", getenv("TRAC_LOGPATH"), id,
		 (long)syscall(SYS_gettid));
	FILE *log = fopen(path, "w");
	if (!log)
		exit(2);
	return log;
}

static void write_line(FILE *log, char sign, void *block)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	fprintf(log, "%c%ld.%09ld,%016lx,%016x\n", sign, (long)now.tv_sec, now.tv_nsec,
		(unsigned long)(uintptr_t)block, BLOCK_BYTES);
}

/*
 * Every page of every block is touched for the first time in its life; memory is not used again, so
 * that maps tell.
 */
static void *work(FILE *log)
{
	void *block = NULL;

	for (unsigned i = 0; i < N_BLOCKS; i++) {
		block = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
		madvise(block, BLOCK_BYTES, MADV_NOHUGEPAGE);
		write_line(log, '+', block);
		for (unsigned at = 0; at < BLOCK_BYTES; at += PAGE_BYTES)
			((volatile char *)block)[at] = 1;
		if (i + 1 == N_BLOCKS)
			break;
		write_line(log, '-', block);
	}
	return block;
}

struct thread {
	FILE *log;
	void *left;
};

static void *run_thread(void *context)
{
	struct thread *thread = context;

	thread->log = open_log(1);
	thread->left = work(thread->log);
	fflush(thread->log);
	return NULL;
}

int main(void)
{
	struct thread other = { 0 };
	FILE *log = open_log(0);
	pthread_t id;

	void *left = work(log);
	if (pthread_create(&id, NULL, run_thread, &other) != 0)
		return 2;
	pthread_join(id, NULL);
	write_line(log, '-', left); /* at exit: handler by handler */
	write_line(other.log, '-', other.left);
	return 0;
}
