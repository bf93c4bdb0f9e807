/*
 * Touches known numbers of fresh pages of each kind of memory, and says where: one line each,
 * "KIND START END PAGES". Every page faults once: it is written first, and is no huge page.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tracealloc/arch/arch.h"

#define PAGE 4096u

enum {
	N_HEAP = 100,
	N_GLOBAL = 200,
	N_STACK = 50,
	N_THREAD_STACK = 40,
	N_TLS = 30,
	N_MMAP = 70,
	N_RAW = 60
};

/* A page more than is touched: the first and last are shared with neighbours. */
char victim_global[(N_GLOBAL + 2) * PAGE];
_Thread_local char victim_tls[(N_TLS + 2) * PAGE];

static char *page_behind(char *memory)
{
	return (char *)(((uintptr_t)memory + PAGE) & ~(uintptr_t)(PAGE - 1));
}

__attribute__((noinline)) static void touch_pages(const char *kind, char *memory, unsigned n)
{
	volatile char *first = page_behind(memory);

	madvise((void *)first, (size_t)n * PAGE, MADV_NOHUGEPAGE);
	for (unsigned i = 0; i < n; i++)
		first[(size_t)i * PAGE + 8 * i % PAGE] = 1;
	printf("%s %ju %ju %u\n", kind, (uintmax_t)(uintptr_t)first,
	       (uintmax_t)((uintptr_t)first + (size_t)n * PAGE), n);
}

/* Far below what the stack was used for so far. */
__attribute__((noinline)) static void touch_stack(const char *kind, unsigned n)
{
	char memory[(N_STACK + N_THREAD_STACK + 40) * PAGE];

	touch_pages(kind, memory, n);
	__asm__ volatile("" : : "r"(memory) : "memory");
}

static void *thread_main(void *unused)
{
	char *memory = malloc(PAGE); /* the thread is known from its first event on */

	touch_stack("thread-stack", N_THREAD_STACK);
	free(memory);
	return unused;
}

int main(void)
{
	pthread_t thread;
	/* By an instruction of its own, as runtimes do; malloc's map is joined to it. */
	char *raw = (char *)ta_syscall_raw(SYS_mmap, 0, (N_RAW + 1) * PAGE, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *heap = malloc((N_HEAP + 2) * PAGE);
	char *mapping = mmap(NULL, (N_MMAP + 1) * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	touch_pages("heap", heap, N_HEAP);
	touch_pages("global", victim_global, N_GLOBAL);
	touch_stack("stack", N_STACK);
	/* The loader has written all of it: give the pages back, then they fault again. */
	madvise(page_behind(victim_tls), N_TLS * PAGE, MADV_DONTNEED);
	touch_pages("tls", victim_tls, N_TLS);
	touch_pages("mapping", mapping, N_MMAP);
	touch_pages("raw-mapping", raw, N_RAW);
	if (pthread_create(&thread, NULL, thread_main, NULL) != 0)
		return 1;
	pthread_join(thread, NULL);
	munmap(mapping, (N_MMAP + 1) * PAGE);
	free(heap);
	return 0;
}
