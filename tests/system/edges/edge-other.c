/* Another allocator, to preload: its functions are its own, its memory is the C library's. */
#include <errno.h>
#include <stddef.h>

#define BLOCK 4903 /* as in victim-sacred.c */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void *memalign(size_t alignment, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **ret_block, size_t alignment, size_t size);
void free(void *block);

/* What it takes for itself is nobody's block. */
static void *volatile own;

__attribute__((constructor)) static void begin(void)
{
	own = __libc_malloc(BLOCK);
}

__attribute__((destructor)) static void end(void)
{
	__libc_free(own);
}

void *malloc(size_t size)
{
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
	return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size)
{
	return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return __libc_memalign(alignment, size);
}

int posix_memalign(void **ret_block, size_t alignment, size_t size)
{
	*ret_block = __libc_memalign(alignment, size);
	return *ret_block ? 0 : ENOMEM;
}

void free(void *block)
{
	__libc_free(block);
}
