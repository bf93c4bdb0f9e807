#pragma once
/*
 * Databases that somebody changed: a small one that is made anew, plain or compact, and changed as
 * bytes say. Each change is HOSTILE_CHANGE_BYTES: what is done, to which table, column and row, and
 * with what value. Chunks, parts of pictures are changed behind their checksums, too, which are put
 * right (hostile-packed.h).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOSTILE_CHANGE_BYTES 12u

struct hostile_base {
	bool is_compact;
	bool are_accesses; /* its samples are reads and writes, not page faults */
	char *bytes; /* NULL: not made yet */
	size_t n_bytes;
	char (*tables)[64];
	size_t n_tables;
};

/*
 * Write the base with at most n_most changes, which are taken off the bytes. Returns the file's
 * path, which is good until the next call. Its folder is removed at exit.
 */
const char *hostile_write(struct hostile_base *base, unsigned n_most, const uint8_t **bytes,
			  size_t *n_bytes);

/*
 * A path in the same folder for something else, by its name of up to 8 letters. Removed at exit as
 * well.
 */
const char *hostile_beside(const char *name);
