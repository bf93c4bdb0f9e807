#pragma once
/*
 * A file that is there in whole or not at all: written under another name beside its place, then
 * named. Any thread; not for signal handlers.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct new_file {
	const char *path;
	mode_t mode; /* as of open(2): the umask takes from it */
	bool replaces; /* a file that is there; what a symbolic link leads to, and not the link */
};

/*
 * Write the bytes to the disk and name them. What is no regular file (a device, a pipe) is written
 * to as it is where file->replaces. Returns 0 or a negative errno: -EEXIST where file->replaces is
 * false and the name is taken. On failure the old file, if any, is what it was, and nothing is left
 * beside it.
 */
int new_file_write(const struct new_file *file, const void *bytes, size_t n_bytes);

/*
 * Give a finished file its name in the same folder. Without `replaces` nothing is ever replaced:
 * -EEXIST. This holds on file systems that know neither RENAME_NOREPLACE nor hard links, too, where
 * others may see an empty file of that name for a moment. Returns 0 or a negative errno; then
 * `temporary` is still there.
 */
int new_file_publish(const char *temporary, const char *path, bool replaces);
