/*
 * Functions that open streams. What they allocate stays in libc while the heap is a file: a forked
 * child has that shared with its parent until its handlers run, and libc resets the locks of all
 * streams before, which would be the parent's.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "heap/kind.h"
#include "heap/range.h"

#define EXPORT __attribute__((visibility("default")))

static void *find(_Atomic(void *) *function, const char *name)
{
	void *found = atomic_load_explicit(function, memory_order_relaxed);

	if (!found) {
		found = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(function, found, memory_order_relaxed);
	}
	return found;
}

/* STREAM(name, its parameters, its arguments): the C library has all of them. */
#define STREAM(name, parameters, arguments)                                                        \
	EXPORT FILE *name parameters;                                                              \
	FILE *name parameters                                                                      \
	{                                                                                          \
		static _Atomic(void *) function;                                                   \
		void *found = find(&function, #name);                                              \
		FILE *(*next)parameters;                                                           \
		FILE *stream;                                                                      \
                                                                                                   \
		memcpy(&next, &found, sizeof(next));                                               \
		if (!range_is_file())                                                              \
			return next arguments;                                                     \
		kind_depth++;                                                                      \
		stream = next arguments;                                                           \
		kind_depth--;                                                                      \
		return stream;                                                                     \
	}

STREAM(fopen, (const char *path, const char *mode), (path, mode))
STREAM(fopen64, (const char *path, const char *mode), (path, mode))
STREAM(fdopen, (int fd, const char *mode), (fd, mode))
STREAM(fopencookie, (void *cookie, const char *mode, cookie_io_functions_t calls),
       (cookie, mode, calls))
STREAM(fmemopen, (void *buffer, size_t size, const char *mode), (buffer, size, mode))
STREAM(open_memstream, (char **ret_text, size_t *ret_size), (ret_text, ret_size))
STREAM(open_wmemstream, (wchar_t * *ret_text, size_t *ret_size), (ret_text, ret_size))
STREAM(popen, (const char *command, const char *mode), (command, mode))
STREAM(tmpfile, (void), ())
STREAM(tmpfile64, (void), ())
