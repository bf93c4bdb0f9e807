/* What a call of an empty function costs, in ns of CPU time: the least of 15 rounds. */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>

#define N_CALLS 1000000
#define OWN	__attribute__((noinline, no_instrument_function))

/* As long as a jump. */
__attribute__((noipa)) long f_empty(long n)
{
	return n + 1;
}

static OWN double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#ifdef COUNTED
/* What hooks of -finstrument-functions do at least; TIMED: with times, as timemory's. */
static volatile unsigned long n_entered, n_left;
static volatile double spent_ns;

OWN void __cyg_profile_func_enter(void *function, void *caller)
{
	(void)function;
	(void)caller;
	n_entered++;
#ifdef TIMED
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	spent_ns -= (double)now.tv_nsec;
#endif
}

OWN void __cyg_profile_func_exit(void *function, void *caller)
{
	(void)function;
	(void)caller;
	n_left++;
#ifdef TIMED
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	spent_ns += (double)now.tv_nsec;
#endif
}
#endif

OWN int main(void)
{
	double least = 1e9;

	for (int round = 0; round < 15; round++) {
		double begin = cpu_ns();

		for (int i = 0; i < N_CALLS; i++)
			f_empty(i);
		double each = (cpu_ns() - begin) / N_CALLS;
		least = each < least ? each : least;
	}
	printf("%.2f\n", least);
	return 0;
}
