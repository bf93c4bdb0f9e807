/*
 * Threads that allocate nothing and work on their stacks; the last on a stack that the program gave
 * it from a block. Prints a line for each: its tid, where its array begins and ends.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS	    3
#define ARRAY_BYTES 65536
#define STACK_BYTES (1 << 20)
#define ROUNDS	    1200000000L

struct work {
	pthread_t thread;
	int tid;
	uintptr_t array;
};

static void *work(void *argument)
{
	struct work *own = argument;
	volatile char array[ARRAY_BYTES];

	own->tid = gettid();
	own->array = (uintptr_t)array;
	for (long i = 0; i < ROUNDS / THREADS / 2; i++)
		array[i * 64 % ARRAY_BYTES] += 1;
	return NULL;
}

int main(void)
{
	struct work works[THREADS];
	void *stack = aligned_alloc(4096, STACK_BYTES);
	pthread_attr_t given;

	pthread_attr_init(&given);
	if (!stack || pthread_attr_setstack(&given, stack, STACK_BYTES) != 0)
		return 1;
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&works[i].thread, i == THREADS - 1 ? &given : NULL, work,
				   &works[i]) != 0)
			return 1;
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(works[i].thread, NULL);
		printf("%d %p %p\n", works[i].tid, (void *)works[i].array,
		       (void *)(works[i].array + ARRAY_BYTES));
	}
	return 0;
}
