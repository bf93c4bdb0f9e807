/* Each argument plants one thing that a rule finds, or does the same as it should be done. */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE 64u
#define PAGE 4096u

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
	/* Resident memory is most now: it is looked at with all of them there. */
	memset(seen(malloc(6u << 20)), 1, 6u << 20);
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

/* A buffer that grows by 16 bytes each time. */
static void grow_slowly(size_t step)
{
	char *buffer = NULL;

	for (size_t n = step; n <= 30000 * step; n += step)
		buffer = seen(realloc(buffer, n));
	free(buffer);
}

static void realloc_text(void)
{
	grow_slowly(16);
}

static void realloc_list(void)
{
	grow_slowly(sizeof(void *));
}

/* Some of the blocks of each request stay. */
static void serve(int n_requests, size_t kept)
{
	for (int i = 0; i < n_requests; i++) {
		memset(seen(malloc(kept)), 1, kept);
		usleep(1000);
	}
	kill(getpid(), SIGTERM);
}

static void growth(void)
{
	serve(1500, 2000);
}

static void *growth_of(void *unused)
{
	serve(1200, 5000);
	return unused;
}

static void growth_in_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, growth_of, NULL);
	pthread_join(thread, NULL);
}

/* A server that takes all at its begin, and then waits to be stopped. */
static void served(void)
{
	make_blocks(1000, 5000, 0);
	usleep(1200000);
	kill(getpid(), SIGTERM);
}

/*
 * Each page of most of the memory is written once, and the rest has the time: all of cold written
 * would be up to 2 % of the time, which is the rule's threshold.
 */
static void work_beside(char *cold, size_t n_cold)
{
	size_t n = 8u << 20;
	unsigned char *all = memset(seen(malloc(n)), 1, n);

	for (size_t i = 0; i < n_cold; i += PAGE)
		cold[i] = 1;
	for (int round = 0; round < 3000; round++)
		for (size_t i = 0; i < n; i += LINE)
			all[i]++;
	seen(all);
	free(all);
	free(cold);
}

static void cold(void)
{
	work_beside(seen(malloc(24u << 20)), 24u << 20);
}

static void cold_zeros(void)
{
	work_beside(seen(calloc(40, 1u << 20)), 40u << 20);
}

/* Each round has its pages from the kernel anew. */
static void fault_again(size_t n, int n_rounds)
{
	for (int i = 0; i < n_rounds; i++)
		free(memset(seen(malloc(n)), i, n));
}

static void faults(void)
{
	fault_again(40u << 20, 12);
}

static void faults_of_trim(void)
{
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 20);
	fault_again(8u << 20, 40);
}

static _Alignas(64) volatile long counters[8];

static void shared_counters(void)
{
	count_both(&counters[0], &counters[3]);
}

struct job {
	long id;
	volatile long done;
	volatile long failed;
};

static void shared_fields(void)
{
	struct job *job = aligned_alloc(LINE, LINE);

	count_both(&job->done, &job->failed);
	free(job);
}

/* An allocator of the program's own. */
static void own_mappings(void)
{
	size_t n = 40u << 20;

	make_blocks(100, 1000, 1);
	memset(mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, n);
	usleep(300000);
}

static void own_pool(void)
{
	for (int i = 0; i < 30; i++)
		memset(mmap(NULL, 1u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0),
		       1, 1u << 20);
	usleep(300000);
}

/* Every second block of a size stays, and the others are too small for what comes then. */
static void fragments_of_rounds(void)
{
	enum { n = 30000 };
	static void *all[n];

	for (int i = 0; i < n; i++)
		all[i] = memset(seen(malloc(1500)), 1, 1500);
	for (int i = 0; i < n; i++)
		if (i % 40)
			free(all[i]);
	usleep(300000);
}

static void hot_tree(void)
{
	enum { n = 1000 };
	static struct element *nodes[n];
	size_t n_large = 30u << 20;
	char *large = memset(seen(malloc(n_large)), 1, n_large);
	long sum = 0;

	for (int i = 0; i < n; i++)
		*(nodes[i] = seen(malloc(sizeof(struct element)))) =
			(struct element){ i ? nodes[i - 1] : NULL, i };
	for (int round = 0; round < 300000; round++)
		for (volatile struct element *one = nodes[n - 1]; one; one = one->next)
			sum += one->value;
	seen(&sum);
	for (int i = 0; i < n; i++)
		free(nodes[i]);
	free(large);
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
		{ "realloc_text", realloc_text },
		{ "realloc_list", realloc_list },
		{ "growth", growth },
		{ "growth_in_thread", growth_in_thread },
		{ "served", served },
		{ "cold", cold },
		{ "cold_zeros", cold_zeros },
		{ "faults", faults },
		{ "faults_of_trim", faults_of_trim },
		{ "shared_counters", shared_counters },
		{ "shared_fields", shared_fields },
		{ "own_mappings", own_mappings },
		{ "own_pool", own_pool },
		{ "fragments_of_rounds", fragments_of_rounds },
		{ "hot_tree", hot_tree },
		{ "nothing", nothing },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (argc > 1 && strcmp(argv[1], all[i].name) == 0)
			all[i].run();
	return 0;
}
