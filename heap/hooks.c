/*
 * malloc and its family. A block of at least kind.min_bytes goes to the heap, the others and those
 * that come before it is ready to the allocator below; who owns a block is asked by its address.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "heap/kind.h"
#include "heap/range.h"
#include "heap/real.h"

#define EXPORT	   __attribute__((visibility("default")))
#define likely(x)  __builtin_expect(!!(x), 1)
#define MIN_SIZE   16u /* jemalloc's class below it has half the alignment of malloc */
#define PAGE_BYTES 4096u

EXPORT void *memalign(size_t alignment, size_t size);
EXPORT void *aligned_alloc(size_t alignment, size_t size);
EXPORT void *valloc(size_t size);
EXPORT void *pvalloc(size_t size);
EXPORT void *reallocarray(void *block, size_t count, size_t size);
EXPORT int posix_memalign(void **ret_block, size_t alignment, size_t size);
EXPORT size_t malloc_usable_size(void *block);
EXPORT void *malloc(size_t size);
EXPORT void *calloc(size_t count, size_t size);
EXPORT void *realloc(void *block, size_t size);
EXPORT void free(void *block);

/* Is a new block of this size the heap's? */
static inline bool takes(size_t size)
{
	return likely(size >= kind.min_bytes && kind_depth == 0);
}

static inline size_t at_least(size_t size)
{
	return size < MIN_SIZE ? MIN_SIZE : size;
}

static const struct real *below(void)
{
	kind_register();
	return real_functions();
}

static void *refuse(int error)
{
	errno = error;
	return NULL;
}

EXPORT void *malloc(size_t size)
{
	if (!takes(size))
		return below()->malloc(size);
	int saved = errno;
	kind_depth++;
	void *block = memkind_malloc(kind.memkind, at_least(size));
	kind_depth--;
	if (!likely(block) && !kind.spills)
		return refuse(ENOMEM);
	errno = saved;
	return likely(block) ? block : below()->malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
	size_t n_bytes;

	if (__builtin_mul_overflow(count, size, &n_bytes))
		return refuse(ENOMEM);
	if (!takes(n_bytes))
		return below()->calloc(count, size);
	int saved = errno;
	kind_depth++;
	void *block = memkind_calloc(kind.memkind, 1, at_least(n_bytes));
	kind_depth--;
	if (!likely(block) && !kind.spills)
		return refuse(ENOMEM);
	errno = saved;
	return likely(block) ? block : below()->calloc(count, size);
}

EXPORT void free(void *block)
{
	int saved = errno;

	if (!likely(range_has(block))) {
		below()->free(block);
		return;
	}
	kind_depth++;
	memkind_free(kind.memkind, block);
	kind_depth--;
	errno = saved;
}

/* Carry n_bytes over into a block of the other allocator. */
static void *carry(void *fresh, void *block, size_t n_bytes)
{
	if (!fresh)
		return NULL;
	memcpy(fresh, block, n_bytes);
	free(block);
	return fresh;
}

/* A block of the heap stays there, whatever size it gets, while there is room. */
static void *reallocate_own(void *block, size_t size)
{
	int saved = errno;

	if (size == 0) {
		free(block);
		return NULL;
	}
	kind_depth++;
	void *fresh = memkind_realloc(kind.memkind, block, at_least(size));
	size_t usable = fresh ? 0 : memkind_malloc_usable_size(kind.memkind, block);
	kind_depth--;
	if (likely(fresh)) {
		errno = saved;
		return fresh;
	}
	if (!kind.spills)
		return refuse(ENOMEM);
	return carry(below()->malloc(size), block, usable < size ? usable : size);
}

/* A block of the allocator below moves when it has become large enough for the heap. */
static void *reallocate_other(void *block, size_t size)
{
	const struct real *real = below();

	if (!takes(size) || size == 0)
		return real->realloc(block, size);
	size_t usable = real->malloc_usable_size(block);
	kind_depth++;
	void *fresh = memkind_malloc(kind.memkind, at_least(size));
	kind_depth--;
	if (!fresh)
		return kind.spills ? real->realloc(block, size) : refuse(ENOMEM);
	return carry(fresh, block, usable < size ? usable : size);
}

EXPORT void *realloc(void *block, size_t size)
{
	if (!block)
		return malloc(size);
	return range_has(block) ? reallocate_own(block, size) : reallocate_other(block, size);
}

/* Not libc's: whether that calls our realloc is its own affair. */
EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
	size_t n_bytes;

	if (__builtin_mul_overflow(count, size, &n_bytes))
		return refuse(ENOMEM);
	return realloc(block, n_bytes);
}

/* alignment is a power of 2. NULL: there is no memory, errno is not set. */
static void *align(size_t alignment, size_t size)
{
	void *block = NULL;
	int saved = errno;

	if (!takes(size))
		return below()->memalign(alignment, size);
	kind_depth++;
	if (memkind_posix_memalign(kind.memkind, &block,
				   alignment < MIN_SIZE ? MIN_SIZE : alignment,
				   at_least(size)) != 0)
		block = NULL;
	kind_depth--;
	errno = saved;
	return !likely(block) && kind.spills ? below()->memalign(alignment, size) : block;
}

/* As glibc: what is no power of 2 becomes the next one. */
EXPORT void *memalign(size_t alignment, size_t size)
{
	size_t power = MIN_SIZE;

	if (alignment > SIZE_MAX / 2 + 1)
		return refuse(EINVAL);
	while (power < alignment)
		power *= 2;
	void *block = align(power, size);
	return block ? block : refuse(ENOMEM);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

EXPORT int posix_memalign(void **ret_block, size_t alignment, size_t size)
{
	int saved = errno;

	if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
		return EINVAL;
	void *block = align(alignment, size);
	errno = saved;
	if (!block)
		return ENOMEM;
	*ret_block = block;
	return 0;
}

EXPORT void *valloc(size_t size)
{
	return memalign(PAGE_BYTES, size);
}

EXPORT void *pvalloc(size_t size)
{
	size_t n_bytes;

	if (__builtin_add_overflow(size, PAGE_BYTES - 1, &n_bytes))
		return refuse(ENOMEM);
	return memalign(PAGE_BYTES, n_bytes & -(size_t)PAGE_BYTES);
}

EXPORT size_t malloc_usable_size(void *block)
{
	if (!block)
		return 0;
	if (range_has(block))
		return memkind_malloc_usable_size(kind.memkind, block);
	return below()->malloc_usable_size(block);
}
