#pragma once
/*
 * The real functions behind ours: those of the next library in search order (RTLD_NEXT), so that
 * another allocator or interposer below us keeps working.
 *
 * Until they are looked up, the table of heap and map functions holds stand-ins that look them up;
 * what they are called for during the look-up itself (dlsym may allocate) a small arena answers.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <threads.h>

struct ta_real {
#define TA_REAL(name, type, params) type(*name) params;
#include "tracealloc/hooks/hooks.def"
};
extern struct ta_real ta_real __attribute__((visibility("hidden")));

/*
 * Look the real functions up, once. Keeps errno. Any thread; during the look-up it returns at once.
 */
void ta_real_resolve(void);

/* The same once more: files came and went since. Nothing is recorded now. */
void ta_real_resolve_again(void);

/* Is a look-up under way? What it allocates for itself is no event. Signal safe. */
bool ta_real_is_resolving(void);

#define TA_ARENA_BYTES 65536u
extern uint8_t ta_arena[TA_ARENA_BYTES] __attribute__((visibility("hidden")));

/* Is block one of the arena's? They are never handed to the real allocator, and never reused. */
static inline bool ta_arena_has(const void *block)
{
	return (uintptr_t)block - (uintptr_t)ta_arena < TA_ARENA_BYTES;
}

/* A zeroed block of the arena, 16-aligned or as alignment (a power of 2) says; NULL when full. */
void *ta_arena_alloc(size_t alignment, size_t size);

/* The size that a block of the arena was asked for with. */
size_t ta_arena_size(const void *block);

/*
 * What the hooks of C++'s operators may do: it depends on who defines the operators that the
 * program would have without us, and who defines malloc. Known when the real functions are.
 */
enum ta_new_mode {
	/* A program with operators or a malloc of its own: call through, its malloc may be ours. */
	TA_NEW_PASS,
	/*
	 * The C++ runtime's operators, which do nothing but malloc and free: we call these
	 * ourselves. A new that gets no memory goes to the real operator, which knows the handler
	 * and throws.
	 */
	TA_NEW_DIRECT,
	/* An allocator's operators, which may or may not come back to our malloc. */
	TA_NEW_WRAP,
};
extern enum ta_new_mode ta_new_mode __attribute__((visibility("hidden")));

/*
 * The C++ runtime may have come with dlopen, out of our sight: find the operators that the caller
 * of a hook (a return address) sees. For a call that cannot go on without.
 */
void ta_new_find(uintptr_t caller);
