/*
 * A program that comes to a function after it has allocated for a while. Arguments: threads, and
 * what it does: `plain', `fork' (a child comes there first), `exec' (another program does),
 * `never'. Block i before has 1000 + i bytes, in begin_here() of thread t 2000 + t, behind it 3000
 * + i. Prints what begin_here() made of its arguments, which must not depend on who looks on.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_BLOCKS  100
#define N_THREADS 16

static pthread_barrier_t barrier;
static double sums[N_THREADS];

/* Arguments in all registers, some on the stack, doubles, and rax with their number. */
static double begin_here(int thread, long a, long b, long c, long d, long e, long f, ...)
{
	double sum = (double)(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f);
	va_list more;

	va_start(more, f);
	for (int i = 0; i < 9; i++)
		sum += va_arg(more, double) * i;
	va_end(more);
	free(malloc(2000 + (size_t)thread));
	return sum;
}

/* So that the compiler neither takes it in nor makes it anew. */
static double (*volatile begin)(int, long, long, long, long, long, long, ...) = begin_here;

#if defined(__x86_64__)
/* Shorter than the jump that would stand in its place. */
__attribute__((naked, noinline, used)) static void too_short(void)
{
	__asm__("ret");
}
#endif

static void *run(void *number)
{
	int thread = *(int *)number;

	pthread_barrier_wait(&barrier);
	sums[thread] = begin(thread, 1, 2, 3, 4, 5, 6, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5);
	return NULL;
}

static void allocate(size_t first)
{
	for (size_t i = 0; i < N_BLOCKS; i++)
		free(malloc(first + i));
}

static void begin_all(int n)
{
	pthread_t threads[N_THREADS];
	int numbers[N_THREADS];

	pthread_barrier_init(&barrier, NULL, (unsigned)n);
	for (int i = 0; i < n; i++) {
		numbers[i] = i;
		pthread_create(&threads[i], NULL, run, &numbers[i]);
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < n; i++)
		printf("%.1f\n", sums[i]);
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[1]) : 1;
	const char *what = argc > 2 ? argv[2] : "plain";

	if (n < 1 || n > N_THREADS)
		return 2;
	setvbuf(stdout, NULL, _IONBF, 0);
	allocate(1000);
	if (strcmp(what, "never") == 0)
		return 0;
	if (strcmp(what, "exec") == 0)
		execl("/proc/self/exe", argv[0], argv[1], "plain", NULL);
	if (strcmp(what, "fork") == 0) {
		if (fork() == 0) {
			begin_all(n);
			_exit(0);
		}
		wait(NULL);
	}
	srand48(5); /* of the C library */
	begin_all(n);
	allocate(3000);
	begin_all(n);
	return 0;
}
