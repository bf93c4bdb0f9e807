#pragma once
/*
 * The allocator below this library: that of the next one in search order (RTLD_NEXT), libc's or
 * one that the user has preloaded. While it is being looked up a small arena answers.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct real {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t count, size_t size);
	void *(*realloc)(void *block, size_t size);
	void (*free)(void *block);
	void *(*memalign)(size_t alignment, size_t size);
	size_t (*malloc_usable_size)(void *block);
};

/* The functions to call now. Any thread; keeps errno. They accept blocks of the arena, too. */
const struct real *real_functions(void);
