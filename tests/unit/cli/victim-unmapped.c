/*
 * A program none of whose files is mapped as code for a while, as in the midst of an exec. It says
 * "gone" then, and goes on at the next line of its input.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_RANGES 64

struct ranges {
	unsigned long n;
	struct {
		unsigned long start;
		unsigned long n_bytes;
	} items[MAX_RANGES];
	char word[8];
};

static inline __attribute__((always_inline)) long call(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

/* Runs as a copy, in memory of no file: calls nothing, reads nothing but what it is given. */
static __attribute__((noinline, section(".text.wait"))) void
wait_without_code(struct ranges *ranges)
{
	for (unsigned long i = 0; i < ranges->n; i++)
		call(SYS_mprotect, (long)ranges->items[i].start, (long)ranges->items[i].n_bytes,
		     PROT_READ);
	call(SYS_write, 1, (long)ranges->word, 5);
	call(SYS_read, 0, (long)ranges->word, 1);
	for (unsigned long i = 0; i < ranges->n; i++)
		call(SYS_mprotect, (long)ranges->items[i].start, (long)ranges->items[i].n_bytes,
		     PROT_READ | PROT_EXEC);
}

static void list_code(struct ranges *ranges)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[512], rights[8];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) != 3 || rights[2] != 'x' ||
		    !strchr(line, '/') || ranges->n == MAX_RANGES)
			continue;
		ranges->items[ranges->n].start = start;
		ranges->items[ranges->n++].n_bytes = end - start;
	}
	if (maps)
		fclose(maps);
}

int main(void)
{
	static struct ranges ranges = { .word = "gone\n" };
	void (*copy)(struct ranges *);
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return 77;
	memcpy(page, (const void *)wait_without_code, 1024);
	memcpy(&copy, &page, sizeof(copy));
	list_code(&ranges);
	copy(&ranges);
	puts("there");
	fflush(stdout);
	return getchar() == EOF;
}
