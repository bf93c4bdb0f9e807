/*
 * Stands below our library in LD_PRELOAD: an allocator that signal handlers may call (it only ever
 * adds to a counter), and a malloc that for some sizes raises
 * a signal, or is a point of cancellation.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SHIM_RAISE_MALLOC  9999
#define SHIM_RAISE_REALLOC 9998
#define SHIM_CANCEL_MALLOC 9997
#define AREA_BYTES	   (UINT64_C(1) << 36) /* of address space; pages come on demand */

void *memalign(size_t alignment, size_t size);

static _Atomic(uint8_t *) area;
static _Atomic size_t used;

static uint8_t *get_area(void)
{
	uint8_t *found = atomic_load(&area);
	uint8_t *none = NULL;

	if (found)
		return found;
	found = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!atomic_compare_exchange_strong(&area, &none, found))
		return none;
	return found;
}

static void *take(size_t alignment, size_t size)
{
	uint8_t *start = get_area();
	size_t offset = atomic_fetch_add(&used, size + alignment + 32);
	uintptr_t at = ((uintptr_t)start + offset + 16 + alignment - 1) / alignment * alignment;

	if (size > AREA_BYTES / 2 || offset > AREA_BYTES / 2) {
		errno = ENOMEM;
		return NULL;
	}
	((size_t *)at)[-1] = size;
	return (void *)at;
}

void *malloc(size_t size)
{
	if (size == SHIM_RAISE_MALLOC)
		raise(SIGUSR1);
	if (size == SHIM_CANCEL_MALLOC)
		pthread_testcancel();
	return take(16, size);
}

void *calloc(size_t count, size_t size)
{
	return take(16, count * size);
}

void *memalign(size_t alignment, size_t size)
{
	return take(alignment, size);
}

void *realloc(void *block, size_t size)
{
	void *fresh;

	if (size == SHIM_RAISE_REALLOC)
		raise(SIGUSR1);
	fresh = take(16, size);
	if (fresh && block)
		memcpy(fresh, block, size < ((size_t *)block)[-1] ? size : ((size_t *)block)[-1]);
	return fresh;
}

void free(void *block)
{
	(void)block;
}
