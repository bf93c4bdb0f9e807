#pragma once
/*
 * Libraries whose calls are bound past us: opened with RTLD_DEEPBIND they find the C library before
 * they find us, and whoever asks dlsym for the C library's own malloc gets that.
 *
 * dlopen must not be hooked (module.h). But each library that was linked as usual calls
 * __gmon_start__ where there is one, when it has been bound and before its first own code runs. So
 * there is one in our library. Those that were not (-nostartfiles) are looked for when the program
 * asks dlsym for a function, and when a library or the program ends.
 */
#include <stdbool.h>
#include <stdint.h>

/*
 * A function of ours for one of the C library's; NULL: it is none of those that stand right behind
 * ours. One that gives out blocks past another allocator and that we have none for is counted.
 */
void *ta_rebind_function(const char *name, const void *function);

/* Is this address of code the allocator's that stands between us and the C library? */
bool ta_rebind_is_allocator(uintptr_t pc);

/*
 * Let the calls of the library that this address of code is in come to us. Not in a hook. Keeps
 * errno.
 */
void ta_rebind_library(const void *code);

/*
 * Look for libraries that did not come to ta_rebind_library() by themselves. is_over: they may have
 * allocated already, so that each is counted. Not in a hook. Keeps errno.
 */
void ta_rebind_look(bool is_over);

/* Count a library whose allocations cannot be seen. Signal safe. */
void ta_rebind_count_unseen(void);

/* The image has its slot: what was counted before, and what is in other namespaces since then. */
void ta_rebind_begin(void);
