/* A recursive function of few instructions: many samples lie in its prologue and its epilogue. */
#include <stdio.h>
#include <time.h>

#define DEPTH 12

static volatile unsigned long sum;

/* As it stands: no copies of it with other names. */
#ifdef __clang__
#define AS_IT_STANDS __attribute__((noinline))
#else
#define AS_IT_STANDS __attribute__((noinline, noclone))
#endif

AS_IT_STANDS static unsigned long tree(unsigned depth, unsigned long a, unsigned long b)
{
	if (depth == 0)
		return a ^ b;
	unsigned long left = tree(depth - 1, a + 1, b);
	unsigned long right = tree(depth - 1, a, b + left);
	return left * a + right * b + depth;
}

int main(void)
{
	struct timespec t;
	do {
		sum += tree(DEPTH, 1, 2);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while (t.tv_sec == 0 && t.tv_nsec < 900000000);
	printf("%lu\n", sum);
}
