#include "heap/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define ARENA_BYTES 65536u
#define ALIGNMENT   16u

/* Answers while dlsym() runs; nothing in it is ever used twice. */
static uint8_t arena[ARENA_BYTES] __attribute__((aligned(4096)));
static _Atomic size_t arena_used;

static bool is_of_arena(const void *block)
{
	return (uintptr_t)block - (uintptr_t)arena < ARENA_BYTES;
}

/* The size stands in the 8 bytes before the block. */
static void *arena_memalign(size_t alignment, size_t size)
{
	if (alignment < ALIGNMENT)
		alignment = ALIGNMENT;
	size_t bytes = ALIGNMENT + alignment + size;
	if (size > ARENA_BYTES || alignment > ARENA_BYTES)
		bytes = ARENA_BYTES;
	size_t start = atomic_fetch_add(&arena_used, bytes);
	if (bytes >= ARENA_BYTES || start > ARENA_BYTES - bytes) {
		errno = ENOMEM;
		return NULL;
	}
	start = (start + ALIGNMENT + alignment - 1) / alignment * alignment;
	memcpy(&arena[start - sizeof(size)], &size, sizeof(size));
	return &arena[start];
}

static void *arena_malloc(size_t size)
{
	return arena_memalign(ALIGNMENT, size);
}

static void *arena_calloc(size_t count, size_t size)
{
	size_t bytes;

	return arena_malloc(__builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes);
}

static size_t arena_usable_size(void *block)
{
	size_t size = 0;

	if (is_of_arena(block))
		memcpy(&size, (const uint8_t *)block - sizeof(size), sizeof(size));
	return size;
}

static void *arena_realloc(void *block, size_t size)
{
	void *fresh = arena_malloc(size);
	size_t old_size = arena_usable_size(block);

	if (fresh && old_size)
		memcpy(fresh, block, old_size < size ? old_size : size);
	return fresh;
}

static void arena_free(void *block)
{
	(void)block;
}

static const struct real early = {
	.malloc = arena_malloc,
	.calloc = arena_calloc,
	.realloc = arena_realloc,
	.free = arena_free,
	.memalign = arena_memalign,
	.malloc_usable_size = arena_usable_size,
};

/* What was found, and what is handed out: with a look whether a block is the arena's. */
static struct real found;
static struct real checked;
static _Atomic int state; /* 0 not looked up, 1 at it, 2 known */

static void *checked_realloc(void *block, size_t size)
{
	if (!is_of_arena(block))
		return found.realloc(block, size);
	void *fresh = found.malloc(size);
	if (fresh)
		memcpy(fresh, block,
		       arena_usable_size(block) < size ? arena_usable_size(block) : size);
	return fresh;
}

static void checked_free(void *block)
{
	if (!is_of_arena(block))
		found.free(block);
}

static size_t checked_usable_size(void *block)
{
	return is_of_arena(block) ? arena_usable_size(block) : found.malloc_usable_size(block);
}

static void look_up(void)
{
	static const char *const names[] = { "malloc", "calloc",   "realloc",
					     "free",   "memalign", "malloc_usable_size" };
	void *functions[sizeof(names) / sizeof(names[0])];
	int saved = errno;

	_Static_assert(sizeof(functions) == sizeof(found), "one name for each function");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		functions[i] = dlsym(RTLD_NEXT, names[i]);
	memcpy(&found, functions, sizeof(found));
	checked = found;
	checked.realloc = checked_realloc;
	checked.free = checked_free;
	checked.malloc_usable_size = checked_usable_size;
	errno = saved;
}

const struct real *real_functions(void)
{
	int expected = 0;

	if (__builtin_expect(atomic_load_explicit(&state, memory_order_acquire) == 2, 1))
		return &checked;
	if (!atomic_compare_exchange_strong(&state, &expected, 1))
		return expected == 2 ? &checked : &early;
	look_up();
	atomic_store_explicit(&state, 2, memory_order_release);
	return &checked;
}
