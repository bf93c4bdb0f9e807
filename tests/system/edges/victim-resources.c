/*
 * Programs that count what they use, or use all that there is. Expect as many blocks of BLOCK bytes
 * as they print.
 */
#include <sys/mman.h>
#include <time.h>

#include "../../unit/tracealloc/victim.h"

#define BLOCK 4801
#define MIB   (1u << 20)

static int count;

static void make(int n)
{
	for (int i = 0; i < n; i++)
		free(malloc(BLOCK));
}

/* Uses up its memory, until it is killed. */
static int eat(void)
{
	make(2000);
	say("blocks", 2000);
	for (;;) {
		char *block = malloc(MIB);

		if (!block)
			return 90;
		memset(block, 1, MIB);
	}
}

/* 20 MiB in use, and many events. */
static int moderate(void)
{
	char *kept = malloc(20 * MIB);

	memset(kept, 1, 20 * MIB);
	make(1000000);
	say("blocks", 1000000);
	say("kept", (uint64_t)kept[MIB]);
	return 3;
}

/* Writes into the file "status" what memory it has, after as many blocks. */
static int resident(void)
{
	char text[8192];
	ssize_t n;
	int from, to;

	make(count);
	from = open("/proc/self/status", O_RDONLY);
	to = open("status", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	while ((n = read(from, text, sizeof(text))) > 0)
		if (write(to, text, (size_t)n) != n)
			return 90;
	say("blocks", (uint64_t)count);
	return 4;
}

/* Ten thousand events a second, for as many seconds. */
static int steady(void)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	struct timespec begin, now;
	int n = 0;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		make(50);
		n += 50;
		nanosleep(&pause, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec < count);
	say("blocks", (uint64_t)n);
	return 0;
}

/* Blocks so large that the C library maps each of them. */
static int large(void)
{
	for (int i = 0; i < 3; i++) {
		char *block = malloc(64 * MIB);

		block[i] = 1;
		free(realloc(block, 128 * MIB));
	}
	make(1);
	say("blocks", 1);
	return 0;
}

static const struct program programs[] = {
	{ "eat", eat },	      { "moderate", moderate }, { "resident", resident },
	{ "steady", steady }, { "large", large },	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	count = argc > 2 ? atoi(argv[2]) : 1;
	return run_program(programs, argc, argv);
}
