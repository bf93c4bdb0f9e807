#pragma once
/*
 * The program that a call is about to start: would our library harm it? One of 32 bits would say
 * on its standard error that it ignores the library, one with a sanitizer would refuse to run.
 * Async- signal safe, a few system calls on the file, no errno; also for vfork children.
 */
#include <limits.h>
#include <stdbool.h>

#include "tracealloc/environment.h"

struct ta_program {
	const char *path; /* "" for fexecve */
	int fd; /* of fexecve, and the folder of execveat; else AT_FDCWD */
	bool is_searched; /* in the folders of PATH when it has no slash */
};

/*
 * The first file in the folders of PATH that can be run, as execvp finds it. Returns false, with
 * nothing in path, where there is none, or the name has a slash.
 */
bool ta_program_find(const char *name, char path[PATH_MAX]);

/*
 * Can a text of at most 128 KiB, more than a program may be given in one, be read to its end? NULL
 * is none.
 */
bool ta_program_is_text(const char *text);

/* Can a list of texts that ends with NULL? NULL is an empty list, as the kernel has it. */
bool ta_program_is_list(char *const list[]);

/*
 * What of us does no harm to it: all to what cannot be looked at; nothing of the heap to a program
 * of musl, whose loader would not start it. ret_why_not: why our library will not be in it, as far
 * as its file says; enum trace_why_not, TRACE_TRACED: it will. A static one that gets rights by its
 * exec is TRACE_NOT_SETUID: traced, it would get none.
 */
enum ta_follow ta_program_bears(const struct ta_program *program, char *const environment[],
				int *ret_why_not);
