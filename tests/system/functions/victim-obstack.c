/*
 * Obstacks: as many bytes of chunks are alive as they say themselves. Prints them, and is killed.
 */
#include <obstack.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define obstack_chunk_alloc malloc
#define obstack_chunk_free  free
#define N_STACKS	    3

int main(void)
{
	static struct obstack stacks[N_STACKS];
	char text[5000] = "";
	int n_bytes = 0;

	for (int i = 0; i < N_STACKS; i++)
		if (i == 1)
			obstack_begin(&stacks[i], 300);
		else
			obstack_init(&stacks[i]);
	for (int i = 0; i < 3000; i++) {
		struct obstack *stack = &stacks[i % N_STACKS];
		void *first = obstack_alloc(stack, 100 + i % 7);

		obstack_grow(stack, text, i % 50 == 49 ? 5000 : 900); /* a chunk of its own */
		obstack_grow(stack, text, 200);
		obstack_finish(stack);
		if (i % 4 < 3)
			obstack_free(stack, first);
	}
	obstack_free(&stacks[2], NULL); /* all of it */
	obstack_init(&stacks[2]);
	for (int i = 0; i < N_STACKS; i++)
		n_bytes += obstack_memory_used(&stacks[i]);
	printf("%d\n", n_bytes);
	fflush(stdout);
	raise(SIGKILL);
}
