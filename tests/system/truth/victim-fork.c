/*
 * Forks a child that makes no call of the heap, touches known numbers of its inherited pages and
 * ends. Prints "KIND START END PAGES" for each kind.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u

enum { N_HEAP = 60, N_GLOBAL = 40, N_MMAP = 30 };

char victim_global[(N_GLOBAL + 2) * PAGE];

static char *page_behind(char *memory)
{
	return (char *)(((uintptr_t)memory + PAGE) & ~(uintptr_t)(PAGE - 1));
}

static void write_pages(char *memory, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		((volatile char *)memory)[(size_t)i * PAGE] = 1;
}

/* Pages that the parent has written are copied when the child writes them: a fault for each. */
__attribute__((noinline)) static void touch_pages(char *memory, unsigned n)
{
	write_pages(memory, n);
}

static char *prepare(const char *kind, char *memory, unsigned n)
{
	char *first = page_behind(memory);

	madvise(first, (size_t)n * PAGE, MADV_NOHUGEPAGE);
	write_pages(first, n);
	printf("%s %ju %ju %u\n", kind, (uintmax_t)(uintptr_t)first,
	       (uintmax_t)((uintptr_t)first + (size_t)n * PAGE), n);
	return first;
}

int main(void)
{
	char *heap = prepare("heap", malloc((N_HEAP + 2) * PAGE), N_HEAP);
	char *global = prepare("global", victim_global, N_GLOBAL);
	char *mapping = prepare("mapping",
				mmap(NULL, (N_MMAP + 1) * PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
				N_MMAP);
	fflush(stdout);

	pid_t child = fork();
	if (child == 0) {
		touch_pages(heap, N_HEAP);
		touch_pages(global, N_GLOBAL);
		touch_pages(mapping, N_MMAP);
		_exit(0);
	}
	return child < 0 || waitpid(child, NULL, 0) != child;
}
