#pragma once
/*
 * Whose a call is, by the table schemas/library-frames.def, and the names of functions without what
 * makes those of C++ and Rust long. Nothing is allocated; any thread.
 */
#include <stdbool.h>
#include <stddef.h>

enum frame_owner {
	FRAME_PROGRAM,
	FRAME_ALLOCATES, /* the program's, and its name says that it allocates */
	FRAME_LIBRARY,
};

/*
 * Of a call: its function (demangled), source file and the file with the code; each may be NULL
 * where it is not known.
 */
enum frame_owner frame_owner(const char *function, const char *source, const char *file);

/* Whether a name says that the function allocates: "xmalloc", and the word "new". */
bool frame_allocates(const char *function);

/*
 * Whether a library's function, by its name as reports show it, says only that memory was asked
 * for: "allocator::allocate", and no "allocate_rows".
 */
bool frame_is_silent(const char *name);

/*
 * Whether a function of a frame is a library's: what is further in than the program's innermost
 * function of the frame is. depth: its frame_line.depth; user_depth: frame.user_depth, negative
 * where that is NULL.
 */
bool frame_is_library(int depth, int user_depth, const char *function, const char *source,
		      const char *file);

#define FRAME_NAME_BYTES 512u

/*
 * Write a function's name without return type, parameters and what stands behind them; template
 * arguments become `between`, as "<>" or "": "void Pool<int>::make(int) const" is "Pool<>::make".
 * Names that are none ("(in libc.so.6)") stay. What does not fit in is cut.
 */
void frame_plain_name(const char *function, const char *between, char ret_name[FRAME_NAME_BYTES]);

/* Whether a function by its name is what compilers make to set up variables before main. */
bool frame_is_initialiser(const char *name);
