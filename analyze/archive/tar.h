#pragma once
/*
 * A tar file (POSIX ustar, names above 100 bytes as GNU tar has them) in one zstd frame: what
 * `tar --zstd` reads and writes. Regular files and hard links only; others are stepped over.
 */
#include <stddef.h>
#include <stdint.h>

struct tar_writer;

/* Create the file (mode 0600; one that is there is replaced). Returns 0 or a negative errno. */
int tar_create(const char *path, struct tar_writer **ret_tar);

/* Begin a file of n_bytes; all of them follow by tar_write(). Returns 0 or a negative errno. */
int tar_begin(struct tar_writer *tar, const char *name, uint64_t n_bytes);
int tar_write(struct tar_writer *tar, const void *bytes, size_t n_bytes);

/* A file with the contents of one that was written before. Returns 0 or a negative errno. */
int tar_link(struct tar_writer *tar, const char *name, const char *target);

/* End the file. Returns 0 or a negative errno, also of what was written before. */
int tar_finish(struct tar_writer *tar);
struct tar_writer *tar_close(struct tar_writer *tar); /* accepts NULL, returns NULL */

/*
 * Unpack into a folder that is there and empty. Whatever the file holds, nothing is written outside
 * of the folder. Returns 0, -EBADMSG for a file that is damaged, cut off or no such file, or a
 * negative errno; what was unpacked so far stays.
 */
int tar_unpack(const char *path, const char *folder);
