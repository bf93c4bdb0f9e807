/*
 * A program whose blocks are known on every processor: blocks handed from thread to thread as fast
 * as they go (a processor that orders stores weakly has to show them in order all the same), a
 * fork, maps, and one block from known callers.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_PAIRS	   2
#define N_HANDED   3000
#define HANDED	   777
#define N_CHILD	   100
#define CHILD_SIZE 555
#define MAP_BYTES  100000

struct pair {
	_Atomic(void *) box;
};

static void *give(void *user)
{
	struct pair *pair = user;

	for (int i = 0; i < N_HANDED; i++) {
		void *block = malloc(HANDED);

		while (atomic_load_explicit(&pair->box, memory_order_relaxed))
			sched_yield();
		atomic_store_explicit(&pair->box, block, memory_order_release);
	}
	return NULL;
}

static void *take(void *user)
{
	struct pair *pair = user;

	for (int i = 0; i < N_HANDED; i++) {
		void *block;

		while (!(block = atomic_exchange(&pair->box, NULL)))
			sched_yield();
		free(block);
	}
	return NULL;
}

static void hand_over(void)
{
	static struct pair pairs[N_PAIRS];
	pthread_t givers[N_PAIRS], takers[N_PAIRS];

	for (int i = 0; i < N_PAIRS; i++) {
		pthread_create(&givers[i], NULL, give, &pairs[i]);
		pthread_create(&takers[i], NULL, take, &pairs[i]);
	}
	for (int i = 0; i < N_PAIRS; i++) {
		pthread_join(givers[i], NULL);
		pthread_join(takers[i], NULL);
	}
}

static int fork_one(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		for (int i = 0; i < N_CHILD; i++)
			free(malloc(CHILD_SIZE));
		_exit(9);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static __attribute__((noinline)) void *inner_caller(size_t size)
{
	void *block = malloc(size);

	__asm__ volatile("" : : : "memory");
	return block;
}

static __attribute__((noinline)) void *outer_caller(size_t size)
{
	void *block = inner_caller(size);

	__asm__ volatile("" : : : "memory");
	return block;
}

int main(void)
{
	void *kept = outer_caller(4321);
	void *map =
		mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	hand_over();
	munmap(map, MAP_BYTES);
	printf("child %d kept %d\n", fork_one(), kept != NULL);
	return 7;
}
