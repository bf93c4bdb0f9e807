/*
 * A JIT: two functions are written to the same address in turn, each for a time drawn at random.
 * The first reads `first_block` and the second `second_block`, by different registers; in each, the
 * register of the other one points to `no_block`, which nothing ever touches. So who decodes either
 * from the bytes of the other finds accesses to no_block.
 *
 * victim-rewrite WAY LEAST_US MOST_US MS [LIBRARY LIBRARY]: prints the CPU time of both in ns. By
 * the way "flip" the second one has a tenth of the time; by "plugin" each is a library's, which is
 * loaded.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "rewritten-code.h"

#define WORDS 4096

long first_block[WORDS], second_block[WORDS], no_block[WORDS];

__asm__(".text\n"
	"first: " FIRST_CODE "first_end:\n"
	"second: " SECOND_CODE "second_end: nop\n");
extern char first[], first_end[], second[], second_end[];

static uint64_t state = 88172645463325252u;

static uint64_t random_below(uint64_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % n;
}

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void call(char *code, long *rdi, long *rsi)
{
	register long rounds __asm__("r8") = 4;
	long words = WORDS, sum;

	__asm__ volatile("call *%[code]"
			 : "=a"(sum), "+r"(rounds), "+c"(words), "+D"(rdi), "+S"(rsi)
			 : [code] "b"(code)
			 : "rdx", "memory", "cc");
}

struct place {
	char *run;
	char *write;
	const char *way;
	char **libraries;
	void *library; /* that is loaded */
};

static bool goes(const struct place *place, const char *way)
{
	return strcmp(place->way, way) == 0;
}

static struct place make_place(const char *way)
{
	struct place place = { .way = way };
	int fd = -1;

	if (strcmp(way, "dual") == 0) {
		fd = memfd_create("code", 0);
		if (fd < 0 || ftruncate(fd, 4096) < 0)
			exit(1);
		place.run = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
		place.write = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
	} else {
		place.run = place.write = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	if (place.run == MAP_FAILED || place.write == MAP_FAILED)
		exit(1);
	return place;
}

/* The two functions of a file that may be patched: the page of `patched` in this program itself. */
static char patched[4096] __attribute__((aligned(4096), section(".text.patched"))) = { 1 };

static void write_code(struct place *place, const char *from, size_t n)
{
	bool is_protected = goes(place, "protect") || goes(place, "patch");

	if (is_protected)
		mprotect(place->write, 4096, PROT_READ | PROT_WRITE);
	if (goes(place, "remap")) {
		munmap(place->run, 4096);
		mmap(place->run, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	memset(place->write, 0, 256);
	memcpy(place->write, from, n);
	if (is_protected)
		mprotect(place->write, 4096, PROT_READ | PROT_EXEC);
}

static void load_code(struct place *place, const char *path)
{
	char *before = place->run;

	if (place->library)
		dlclose(place->library);
	place->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	place->run = place->library ? dlsym(place->library, "run") : NULL;
	if (!place->run || (before && before != place->run))
		exit(3);
}

static void put_code(struct place *place, int turn)
{
	if (goes(place, "plugin"))
		load_code(place, place->libraries[turn]);
	else if (turn)
		write_code(place, second, (size_t)(second_end - second));
	else
		write_code(place, first, (size_t)(first_end - first));
}

static void use_code(const struct place *place, int turn, int64_t until)
{
	while (cpu_ns() < until)
		call(place->run, turn ? no_block : first_block, turn ? second_block : no_block);
}

int main(int argc, char **argv)
{
	int64_t sums[2] = { 0 }, end;
	struct place place;
	uint64_t least, most;

	if (argc < 5)
		return 2;
	place = make_place(argv[1]);
	if (goes(&place, "patch"))
		place.run = place.write = patched;
	if (goes(&place, "plugin"))
		place.run = NULL;
	place.libraries = argv + 5;
	least = strtoull(argv[2], NULL, 10) * 1000;
	most = strtoull(argv[3], NULL, 10) * 1000;
	end = cpu_ns() + strtoll(argv[4], NULL, 10) * 1000000;
	for (int turn = 0; cpu_ns() < end; turn ^= 1) {
		int64_t time = (int64_t)(least + random_below(most - least + 1));
		int64_t begin, until;

		put_code(&place, turn);
		begin = cpu_ns();
		until = begin + (turn && goes(&place, "flip") ? time / 10 : time);
		use_code(&place, turn, until < end ? until : end);
		sums[turn] += cpu_ns() - begin;
	}
	printf("%lld %lld\n", (long long)sums[0], (long long)sums[1]);
	return 0;
}
