#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The bounds of the calling thread's stack, as [start, end), wherever it runs now. Those of the
 * image's first thread are what ta_stack_bounds_main() found; another's are read from libc's thread
 * descriptor, so without system calls. Both 0 when not known. Signal safe, keeps errno.
 */
void ta_stack_bounds(bool is_first, uintptr_t *ret_start, uintptr_t *ret_end);

/* For a thread that is on another stack: its stack pointer on its own. The same. */
void ta_stack_learn(uintptr_t sp);

/*
 * The bounds of the first thread's stack of this exec image, from its maps (n_bytes 0: they are
 * read here) and the stack limit; without /proc, an end from where the program started. Keeps
 * errno, allocates nothing.
 */
void ta_stack_bounds_main(const char *maps, size_t n_bytes, uintptr_t *ret_start,
			  uintptr_t *ret_end);
