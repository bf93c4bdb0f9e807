/*
 * Tells its recorder things, and says what it has told: for each range of pages that it touches
 * first a line "OWNER NAME START END PAGES", with OWNER as it must be found ("-": in no sample),
 * NAME or "-".
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/memsight.h"

#define PAGE 4096u

static char table[52 * PAGE];

static char *page_behind(char *memory)
{
	return (char *)(((uintptr_t)memory + PAGE) & ~(uintptr_t)(PAGE - 1));
}

/* Touch n pages behind the first border in memory, which nobody has touched. */
__attribute__((noinline)) static void touch_pages(const char *owner, const char *name, char *memory,
						  unsigned n)
{
	volatile char *first = page_behind(memory);

	madvise((void *)first, (size_t)n * PAGE, MADV_NOHUGEPAGE);
	for (unsigned i = 0; i < n; i++)
		first[(size_t)i * PAGE + 8 * i % PAGE] = 1;
	printf("%s %s %ju %ju %u\n", owner, name, (uintmax_t)(uintptr_t)first,
	       (uintmax_t)((uintptr_t)first + (size_t)n * PAGE), n);
}

/* Blocks of a size, given back at once. */
static void churn(unsigned n, size_t size)
{
	for (unsigned i = 0; i < n; i++)
		free(malloc(size));
}

/* ---- regions ---- */

static char leaves_open;

static void *work(void *leaves)
{
	memsight_region_push("work");
	for (int i = 0; i < 10; i++) {
		memsight_region_push("part");
		churn(5, 100);
		memsight_region_pop("part");
	}
	churn(3, 1000);
	memsight_region_pop("work");
	memsight_region_pop("work");
	if (leaves) {
		memsight_region_push("left");
		memsight_region_push("inside");
		churn(7, 10);
	}
	return NULL;
}

static int regions(void)
{
	pthread_t thread;

	memsight_mark("begin");
	churn(2, 5000);
	pthread_create(&thread, NULL, work, &leaves_open);
	work(NULL);
	pthread_join(thread, NULL);
	memsight_region_push("outer");
	memsight_region_push("forgotten");
	churn(1, 77);
	memsight_region_pop("outer");
	memsight_mark("end");
	return 0;
}

/* ---- pause ---- */

static int paused(void)
{
	void *before[10], *during[20];
	char *small, *large;

	for (int i = 0; i < 10; i++)
		before[i] = malloc(1001);
	usleep(20000);
	memsight_pause();
	for (int i = 0; i < 5; i++)
		free(before[i]);
	for (int i = 0; i < 20; i++)
		during[i] = malloc(2002);
	churn(80, 2002);
	small = malloc(24 * PAGE);
	large = malloc(102 * PAGE);
	touch_pages("-", "-", large, 40);
	usleep(50000);
	memsight_resume();
	touch_pages("paused", "-", large + 50 * PAGE, 50);
	touch_pages("paused", "-", small + 2 * PAGE, 20);
	for (int i = 0; i < 20; i++)
		free(during[i]);
	for (int i = 5; i < 10; i++)
		free(before[i]);
	churn(3, 3003);
	free(small);
	free(large);
	return 0;
}

static void *pause_alone(void *unused)
{
	char *block;

	free(malloc(4001));
	memsight_pause_thread();
	block = malloc(60 * PAGE);
	touch_pages("-", "-", block, 30);
	usleep(30000);
	memsight_resume_thread();
	free(block);
	return unused;
}

static int paused_thread(void)
{
	pthread_t thread;
	char *block = malloc(60 * PAGE);

	pthread_create(&thread, NULL, pause_alone, NULL);
	pthread_join(thread, NULL);
	touch_pages("heap", "-", block, 50);
	free(block);
	return 0;
}

/* A child forked in a pause goes on in it, and ends it for itself. */
static int paused_fork(void)
{
	int status;
	char *block;

	memsight_pause();
	if (fork() == 0) {
		block = malloc(60 * PAGE);
		touch_pages("-", "-", block, 20);
		memsight_resume();
		touch_pages("paused", "-", block + 25 * PAGE, 20);
		fflush(stdout);
		_exit(0);
	}
	wait(&status);
	memsight_resume();
	return status;
}

/* ---- names ---- */

static void name_stack(void)
{
	char local[60 * PAGE];

	memsight_name(local, "local array");
	touch_pages("named", "local_array", local, 50);
	memsight_name(local, NULL);
	__asm__ volatile("" : : "r"(local) : "memory");
}

static int names(void)
{
	char *block = malloc(102 * PAGE);
	char *pool = malloc(202 * PAGE);
	char *map =
		mmap(NULL, 41 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memsight_name(block + 50, "whole block");
	memsight_name(&table[3], "old name");
	memsight_name(table, "table");
	memsight_name(map + 100, "map");
	memsight_name_range(page_behind(pool), 50 * PAGE, "first part");
	memsight_name_range(page_behind(pool) + 50 * PAGE, 50 * PAGE, "second part");
	name_stack();
	touch_pages("named", "whole_block", block, 100);
	touch_pages("named", "table", table, 50);
	touch_pages("named", "map", map, 40);
	touch_pages("named", "first_part", pool, 50);
	touch_pages("named", "second_part", pool + 50 * PAGE, 50);
	touch_pages("heap", "-", pool + 100 * PAGE, 50);
	free(block);
	block = malloc(102 * PAGE);
	touch_pages("heap", "-", block, 100);
	munmap(map, 41 * PAGE);
	free(pool);
	free(block);
	return 0;
}

/* ---- collect ---- */

static int collected(void)
{
	char *block = malloc(102 * PAGE);

	touch_pages("heap", "-", block, 10);
	memsight_collect_push("heap, mistake");
	touch_pages("-", "-", block + 10 * PAGE, 20);
	usleep(50000);
	memsight_collect_push("faults");
	touch_pages("heap", "-", block + 30 * PAGE, 30);
	churn(4, 4444);
	memsight_collect_pop();
	churn(5, 5555);
	memsight_collect_pop();
	touch_pages("heap", "-", block + 60 * PAGE, 40);
	free(block);
	return 0;
}

/* ---- below a minimum of 1 MiB ---- */

static int small(void)
{
	char *block = malloc(24 * PAGE);
	char *mapped = malloc(60 * PAGE);
	char *large = malloc(300 * PAGE);

	touch_pages("below_threshold", "-", block, 20);
	touch_pages("below_threshold", "-", mapped, 50);
	touch_pages("heap", "-", large, 200);
	block = realloc(block, 400 * PAGE);
	touch_pages("heap", "-", block + 50 * PAGE, 300);
	block = realloc(block, 2 * PAGE);
	free(block);
	free(mapped);
	free(large);
	churn(50, 100);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} programs[] = {
	{ "regions", regions },
	{ "paused", paused },
	{ "paused-thread", paused_thread },
	{ "paused-fork", paused_fork },
	{ "names", names },
	{ "collected", collected },
	{ "small", small },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0); /* stdio's own buffer would be a block more */
	for (size_t i = 0; argc > 1 && i < sizeof(programs) / sizeof(programs[0]); i++)
		if (strcmp(programs[i].name, argv[1]) == 0)
			return programs[i].run();
	return 99;
}
