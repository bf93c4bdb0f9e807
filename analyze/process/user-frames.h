#pragma once
/*
 * The program's first call of each call stack: behind calls of libraries (store/library-frames.h),
 * and of functions that only hand on what they are asked for to an allocator.
 *
 * A function of the program hands on if four things hold. Its name says that it allocates, or debug
 * data that it takes a whole number and returns void *. It is called from two places at least, or
 * both say so. At
 * most two places in it are on any call stack. And nine of ten call stacks through it go right to
 * an allocator or to another one that hands on. Code without a name does if all call stacks through
 * it go there, and it is called from at least three places, or from functions only whose names say
 * so.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/symbols/symbols.h"

/* A code address. All zero: not there. */
struct user_frame {
	uint64_t function; /* hash of the name and file of what was not inlined; 0: no name */
	uint8_t n_depth; /* 1 + frame.user_depth; 0: a library's */
	uint8_t may_hand_on; /* 1: its name or its type says so; 2: both */
	uint8_t is_fixed; /* decided by an earlier import */
};

struct user_stack {
	uint32_t parent; /* rows; 0: none */
	uint32_t frame;
	uint32_t user; /* the answer: stack.user_id; 0: none */
	uint8_t is_fixed;
};

/* By row numbers, from 1 on; allocated by the owner, one item more than the last row. */
struct user_frames {
	struct user_frame *frames;
	size_t n_frames;
	struct user_stack *stacks; /* parents before their children */
	size_t n_stacks;
};

/*
 * What the names of a frame say: its source positions, innermost first (n 0: none, then function
 * is what the symbol table says, or NULL).
 */
struct user_frame user_frame_of(const struct symbol_line *lines, size_t n, const char *function,
				const char *file);

/*
 * Decide of all that are not fixed: clears n_depth of frames that hand on, and sets user of all
 * stacks. Returns 0 or -ENOMEM.
 */
int user_frames_decide(struct user_frames *frames);
