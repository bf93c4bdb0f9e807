#pragma once
/* Where libtracealloc.so lies: beside the running binary (a build folder), or installed. */
#include <stddef.h>

/*
 * Find a file of ours by its name, where libtracealloc.so would lie. As library_find().
 */
int library_find_beside(const char *name, char *ret_path, size_t ret_bytes);

/*
 * Find the library. ret_path takes its absolute path (ret_bytes long). given, when not NULL, is
 * taken and only checked. Returns 0, -ENOENT, -EACCES, or -ENAMETOOLONG.
 */
int library_find(const char *given, char *ret_path, size_t ret_bytes);

/*
 * LD_PRELOAD separates by blanks and colons and expands '$'. When path holds one of those, put a
 * symbolic link to it into folder, under its own name, and give that name instead. ret_path as
 * above. Returns 0 or a negative errno.
 */
int library_preload_name(const char *path, const char *folder, char *ret_path, size_t ret_bytes);
