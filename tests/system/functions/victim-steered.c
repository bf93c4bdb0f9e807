/* Calls while recording is paused, or regions are not collected, and others. */
#include "include/memsight.h"

static volatile long sink;

#if defined(__clang__)
#define F static __attribute__((noinline, optnone))
#else
#define F static __attribute__((noipa, noinline))
#endif

F void f_called(long n)
{
	for (long i = 0; i < n; i++)
		sink += i;
}

/* It begins before the pause and ends in it. */
F void f_pauses(void)
{
	f_called(1);
	memsight_pause();
	f_called(2);
}

int main(void)
{
	for (int i = 0; i < 10; i++)
		f_called(i);
	for (int i = 0; i < 10; i++) {
		f_pauses();
		for (int k = 0; k < 5; k++)
			f_called(k);
		memsight_resume();
	}
	memsight_collect_push("heap");
	for (int i = 0; i < 100; i++)
		f_called(i);
	memsight_collect_pop();
	f_called(7);
	return 0;
}
