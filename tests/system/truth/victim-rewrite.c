/*
 * A JIT: two functions are written to the same address in turn, each for a time drawn at random. The first
 * reads `first_block` and the second `second_block`, by different registers; in each, the register of the
 * other one points to `no_block`, which nothing ever touches. So who decodes either from the bytes of the
 * other finds accesses to no_block.
 *
 * victim-rewrite WAY LEAST_US MOST_US MS: prints the CPU time of both in ns.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WORDS 4096

long first_block[WORDS], second_block[WORDS], no_block[WORDS];

/* rdi, rsi: two blocks; rcx: words; r8: rounds. The second one's instructions lie at other offsets. */
__asm__(".text\n"
	"first: xor %eax, %eax\n"
	"1: xor %edx, %edx\n"
	"2: add (%rdi,%rdx,8), %rax\n"
	"inc %rdx\n cmp %rcx, %rdx\n jb 2b\n"
	"dec %r8\n jnz 1b\n ret\n"
	"first_end:\n"
	"second: xor %eax, %eax\n"
	"1: lea (%rcx), %rdx\n"
	"2: xor -8(%rsi,%rdx,8), %rax\n"
	"dec %rdx\n jnz 2b\n"
	"sub $1, %r8\n jnz 1b\n ret\n"
	"second_end: nop\n");
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
};

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
	if (strcmp(place->way, "protect") == 0 || strcmp(place->way, "patch") == 0)
		mprotect(place->write, 4096, PROT_READ | PROT_WRITE);
	if (strcmp(place->way, "remap") == 0) {
		munmap(place->run, 4096);
		mmap(place->run, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	memset(place->write, 0, 256);
	memcpy(place->write, from, n);
	if (strcmp(place->way, "protect") == 0 || strcmp(place->way, "patch") == 0)
		mprotect(place->write, 4096, PROT_READ | PROT_EXEC);
}

int main(int argc, char **argv)
{
	int64_t sums[2] = { 0 }, end;
	struct place place;
	uint64_t least, most;

	if (argc != 5)
		return 2;
	place = make_place(argv[1]);
	if (strcmp(argv[1], "patch") == 0)
		place.run = place.write = patched;
	least = strtoull(argv[2], NULL, 10) * 1000;
	most = strtoull(argv[3], NULL, 10) * 1000;
	end = cpu_ns() + strtoll(argv[4], NULL, 10) * 1000000;
	for (int turn = 0; cpu_ns() < end; turn ^= 1) {
		int64_t begin, until;

		if (turn)
			write_code(&place, second, (size_t)(second_end - second));
		else
			write_code(&place, first, (size_t)(first_end - first));
		begin = cpu_ns();
		until = begin + (int64_t)(least + random_below(most - least + 1));
		while (cpu_ns() < until)
			call(place.run, turn ? no_block : first_block,
			     turn ? second_block : no_block);
		sums[turn] += cpu_ns() - begin;
	}
	printf("%lld %lld\n", (long long)sums[0], (long long)sums[1]);
	return 0;
}
