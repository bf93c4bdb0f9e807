/* Each argument plants one thing that a rule finds, or does the same as it should be done. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 64u

struct pair {
	volatile long a;
	char between[LINE];
	volatile long b;
};

/* Neither a tail call nor left out. */
static void *seen(void *block)
{
	__asm__ volatile("" : "+r"(block) : : "memory");
	return block;
}

static void *count(void *number)
{
	volatile long *n = number;

	for (long i = 0; i < 150000000; i++)
		*n = *n + 1;
	return NULL;
}

static void count_both(volatile long *a, volatile long *b)
{
	pthread_t threads[2];

	pthread_create(&threads[0], NULL, count, (void *)a);
	pthread_create(&threads[1], NULL, count, (void *)b);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void false_sharing(void)
{
	long *line = aligned_alloc(LINE, LINE);

	count_both(&line[0], &line[1]);
	free(line);
}

static void no_sharing(void)
{
	struct pair *pair = aligned_alloc(LINE, 4 * LINE);

	count_both(&pair->a, &pair->b);
	free(pair);
}

static void make_blocks(int n, size_t size, int is_freed)
{
	void **all = calloc((size_t)n, sizeof(*all));

	for (int i = 0; i < n; i++)
		all[i] = memset(seen(malloc(size)), 1, size);
	for (int i = 0; i < n && is_freed; i++)
		free(all[i]);
	free(all);
}

static void leak(void)
{
	make_blocks(500, 5000, 0);
}

static void large_leak(void)
{
	make_blocks(20, 1000000, 0);
}

static void no_leak(void)
{
	make_blocks(500, 5000, 1);
}

static void few_kept(void)
{
	make_blocks(3, 100000, 0);
}

static void temporary(void)
{
	for (int i = 0; i < 60000; i++)
		free(seen(malloc(3000)));
}

static void one_buffer(void)
{
	char *buffer = malloc(3000);

	for (int i = 0; i < 60000; i++)
		memset(seen(buffer), i, 3000);
	free(buffer);
}

static void tiny(void)
{
	make_blocks(200000, 24, 1);
}

static void larger(void)
{
	make_blocks(50000, 200, 1);
}

static void untouched(void)
{
	memset(seen(malloc(40u << 20)), 1, 2u << 20);
	usleep(300000); /* its pages are looked at meanwhile */
}

static void all_touched(void)
{
	memset(seen(malloc(40u << 20)), 1, 40u << 20);
}

static void fragments(void)
{
	enum { n = 40000 };
	static void *all[n];

	for (int i = 0; i < n; i++)
		all[i] = memset(seen(malloc(2000)), 1, 2000);
	for (int i = 0; i < n; i++)
		if (i % 50)
			free(all[i]);
}

static void nothing(void)
{
	puts("nothing");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {
		{ "false_sharing", false_sharing },
		{ "no_sharing", no_sharing },
		{ "leak", leak },
		{ "large_leak", large_leak },
		{ "no_leak", no_leak },
		{ "few_kept", few_kept },
		{ "temporary", temporary },
		{ "one_buffer", one_buffer },
		{ "tiny", tiny },
		{ "larger", larger },
		{ "untouched", untouched },
		{ "all_touched", all_touched },
		{ "fragments", fragments },
		{ "nothing", nothing },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (argc > 1 && strcmp(argv[1], all[i].name) == 0)
			all[i].run();
	return 0;
}
