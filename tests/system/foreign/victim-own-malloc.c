/*
 * A program with a malloc of its own, as chromium has one: a lock that does not know its owner is
 * held while the heap takes its memory from mmap, and that happens before any constructor.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEAP_BYTES (16u << 20)

static atomic_flag lock = ATOMIC_FLAG_INIT;
static uint8_t *heap;
static size_t used;

void *malloc(size_t size)
{
	size_t bytes = (size + 31) & ~(size_t)15;
	uint8_t *block;

	while (atomic_flag_test_and_set(&lock))
		;
	if (!heap)
		heap = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	block = used + bytes <= HEAP_BYTES ? heap + used + 16 : NULL;
	if (block) {
		memcpy(block - sizeof(size), &size, sizeof(size));
		used += bytes;
	}
	atomic_flag_clear(&lock);
	return block;
}

void free(void *block)
{
	(void)block;
}

void *calloc(size_t count, size_t size)
{
	return malloc(count * size); /* fresh from the kernel */
}

void *realloc(void *block, size_t size)
{
	void *fresh = malloc(size);
	size_t old = 0;

	if (block)
		memcpy(&old, (uint8_t *)block - sizeof(old), sizeof(old));
	if (fresh && block)
		memcpy(fresh, block, old < size ? old : size);
	return fresh;
}

static void *first;

static void allocate_early(void)
{
	first = malloc(100);
}
__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = allocate_early;

int main(void)
{
	char *text = malloc(100);

	snprintf(text, 100, "%d\n", first != NULL);
	return write(1, text, strlen(text)) == 2 ? 6 : 1;
}
