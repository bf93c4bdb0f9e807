#pragma once
/*
 * Libraries whose calls are bound past us: opened with RTLD_DEEPBIND they find the C library before
 * they find us, and whoever asks dlsym for the C library's own malloc gets that.
 *
 * dlopen must not be hooked (module.h). But each library that was linked as usual calls
 * __gmon_start__ where there is one, when it has been bound and before its first own code runs. So
 * there is one in our library.
 */
#include <stdbool.h>

/*
 * A function of ours for one of the C library's; NULL: it is none of those that stand right behind
 * ours.
 */
void *ta_rebind_function(const char *name, const void *function);

/*
 * Let the calls of the library that this address of code is in come to us. Not in a hook. Keeps
 * errno.
 */
void ta_rebind_library(const void *code);

/* Count a library whose allocations cannot be seen. Signal safe. */
void ta_rebind_count_unseen(void);
