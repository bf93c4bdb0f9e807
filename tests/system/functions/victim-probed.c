/*
 * Functions that end in each way there is, called so often: 300 times by the first thread, 200 by
 * another. With "wait" it waits for a byte before, and says when it is done, and waits again. With
 * "late" it calls one of them 40,000 times while its parent stands.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* clang, which only builds it, has no copies of functions to forbid. */
#if defined(__clang__)
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noclone))
#endif

/* Two blocks of 100 bytes. */
static APART void p_blocks(void)
{
	void *volatile one = malloc(100), *volatile other = malloc(100);

	free(one);
	free(other);
}

/* Its first instruction is its last one; ends by a jump to that; by one through a register. */
void p_nothing(void);
void p_jumps(void);
void p_far(void);
void p_falls(long n);
__asm__(".text\n"
	".globl p_nothing, p_jumps, p_far, p_falls\n"
	".type p_nothing, @function\n"
	"p_nothing: ret\n"
	".size p_nothing, . - p_nothing\n"
	".type p_jumps, @function\n"
	"p_jumps: jmp p_nothing\n"
	".size p_jumps, . - p_jumps\n"
	".type p_far, @function\n"
	"p_far: lea p_nothing(%rip), %rax\n"
	"	jmp *%rax\n"
	".size p_far, . - p_far\n"
	/* Two returns, one of them in a part elsewhere. */
	".type p_falls, @function\n"
	"p_falls: test $1, %dil\n"
	"	jnz p_falls.cold\n"
	"	ret\n"
	".size p_falls, . - p_falls\n"
	"	nop\n"
	".type p_falls.cold, @function\n"
	"p_falls.cold: nop\n"
	"	ret\n"
	".size p_falls.cold, . - p_falls.cold\n");

/* A table of jumps, without a frame. */
static APART long p_table(long n)
{
	switch (n % 6) {
	case 0:
		return n * 3;
	case 1:
		return n ^ 77;
	case 2:
		return n / 5;
	case 3:
		return ~n;
	case 4:
		return n << 3;
	default:
		return n - 1000;
	}
}

static APART long p_outer(long n)
{
	p_blocks();
	p_nothing();
	p_jumps();
	p_far();
	p_falls(n);
	return p_table(n) + 1;
}

static volatile long sum;

static void *run(void *n)
{
	for (long i = 0; i < (long)n; i++)
		sum += p_outer(i);
	return NULL;
}

/* More calls than there is room for while the recorder stands. */
static int be_many(void)
{
	kill(getppid(), SIGSTOP);
	for (int i = 0; i < 40000; i++)
		p_falls(0);
	kill(getppid(), SIGCONT);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char byte;

	if (argc > 1 && argv[1][0] == 'l')
		return be_many();
	if (argc > 1 && read(0, &byte, 1) != 1)
		return 1;
	run((void *)300);
	pthread_create(&thread, NULL, run, (void *)200);
	pthread_join(thread, NULL);
	if (argc > 1 && (write(1, "d", 1) != 1 || read(0, &byte, 1) != 1))
		return 1;
	return 0;
}
