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

/* The same line, by calls that differ only far out. */
static void deep(int n, void (*last)(void))
{
	if (n)
		deep(n - 1, last);
	else
		last();
	seen(&n);
}

static void leak_some(void)
{
	make_blocks(100, 5000, 0);
}

static void leak_by_paths(void)
{
	for (int i = 3; i < 8; i++)
		deep(i, leak_some);
}

static void leak_text(void)
{
	static char text[9000];

	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < 300; i++)
		seen(strdup(text));
}

static void leak_zeros(void)
{
	for (int i = 0; i < 300; i++)
		seen(calloc(70, 100));
}

static void all_read(void)
{
	size_t n = 40u << 20;
	char *all = memset(seen(malloc(n)), 1, n);
	long sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += all[i];
	seen(&sum);
	free(all);
}

static void *leak_here(void *unused)
{
	for (int i = 0; i < 300; i++)
		seen(malloc(7000));
	return unused;
}

static void leak_in_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, leak_here, NULL);
	pthread_join(thread, NULL);
}

static void leak_grown(void)
{
	for (int i = 0; i < 200; i++)
		seen(realloc(seen(malloc(100)), 9000));
}

static void leak_aligned(void)
{
	for (int i = 0; i < 200; i++)
		seen(aligned_alloc(LINE, 128 * LINE));
}

static void freed_in_thread(void)
{
	enum { n = 300 };
	pthread_t thread;
	static void *all[n];

	for (int i = 0; i < n; i++)
		all[i] = seen(malloc(7000));
	pthread_create(&thread, NULL, leak_here, NULL);
	pthread_join(thread, NULL);
	for (int i = 0; i < n; i++)
		free(all[i]);
}

static void temporary_text(void)
{
	for (int i = 0; i < 40000; i++)
		free(seen(strdup("a text that is looked at once")));
}

static void temporary_zeros(void)
{
	for (int i = 0; i < 40000; i++)
		free(seen(calloc(10, 100)));
}

struct element {
	struct element *next;
	long value;
};

static void tiny_list(void)
{
	struct element *all = NULL;

	for (int i = 0; i < 300000; i++) {
		struct element *one = seen(malloc(sizeof(*one)));
		*one = (struct element){ all, i };
		all = one;
	}
	while (all) {
		struct element *next = all->next;
		free(all);
		all = next;
	}
}

static void untouched_zeros(void)
{
	char *all = seen(calloc(1, 30u << 20));

	memset(all, 1, 1u << 20);
	usleep(300000);
}

static void untouched_tables(void)
{
	for (int i = 0; i < 20; i++)
		memset(seen(malloc(2u << 20)), 1, 100);
	usleep(300000);
}

/* A table of 64 KiB has the time, beside 40 MiB. */
static void hot(void)
{
	size_t n = 64u << 10, n_large = 40u << 20;
	volatile unsigned char *table = seen(malloc(n));
	unsigned at = 1, sum = 0;
	char *large = memset(seen(malloc(n_large)), 1, n_large);

	for (long i = 0; i < 300000000; i++) {
		at = at * 1103515245u + 12345u;
		sum += table[at >> 16];
	}
	seen(&sum);
	free(large);
	free((void *)table);
}

/* All of the memory has the time. */
static void evenly(void)
{
	size_t n = 4u << 20;
	unsigned char *all = memset(seen(malloc(n)), 1, n);

	for (int round = 0; round < 60; round++)
		for (size_t i = 0; i < n; i += LINE)
			all[i]++;
	seen(all);
	free(all);
}

static void grown(void)
{
	char *buffer = NULL;

	for (size_t n = 1000; n < 4000000; n *= 2)
		buffer = memset(seen(realloc(buffer, n)), 1, n);
	free(buffer);
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
		{ "leak_by_paths", leak_by_paths },
		{ "leak_text", leak_text },
		{ "leak_zeros", leak_zeros },
		{ "all_read", all_read },
		{ "leak_in_thread", leak_in_thread },
		{ "leak_grown", leak_grown },
		{ "leak_aligned", leak_aligned },
		{ "half_leak", freed_in_thread },
		{ "temporary_text", temporary_text },
		{ "temporary_zeros", temporary_zeros },
		{ "tiny_list", tiny_list },
		{ "untouched_zeros", untouched_zeros },
		{ "untouched_tables", untouched_tables },
		{ "hot", hot },
		{ "evenly", evenly },
		{ "grown", grown },
		{ "nothing", nothing },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (argc > 1 && strcmp(argv[1], all[i].name) == 0)
			all[i].run();
	return 0;
}
