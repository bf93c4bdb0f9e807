/* Hooks of each kind amid work that takes longer than they do. */
#include <stdlib.h>

#include "include/memsight.h"

#define F static __attribute__((noinline)) void

static volatile unsigned sink;

static void work(void)
{
	for (unsigned i = 0; i < 3000; i++)
		sink += i;
}

F f_inner(void)
{
	work();
}

static __attribute__((noinline)) void *take(int depth)
{
	void *block = depth > 0 ? take(depth - 1) : malloc(40);

	__asm__ volatile("" : : "r"(block) : "memory");
	return block;
}

F f_work(int i)
{
	void *block = take(i % 5);

	work();
	f_inner();
	free(block);
}

int main(void)
{
	memsight_region_push("outer");
	for (int i = 0; i < 100; i++) {
		f_work(i);
		if (i % 10 == 0) {
			memsight_region_push("inner");
			work();
			memsight_region_pop("inner");
		}
	}
	memsight_region_pop("outer");
	free(take(0)); /* in no region */
	return 0;
}
