#pragma once
/*
 * Which leaks are known, in LeakSanitizer's format: lines "leak:PATTERN", "#" comments. A pattern
 * is looked for anywhere in a function's name, its source file or its module; "*" stands for
 * anything, "^" and "$" for the begin and end of the text.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct suppressions;

/*
 * Read text of n_bytes. Returns 0, -ENOMEM, or -EINVAL with *ret_line the number of the first line
 * that is wrong.
 */
int suppressions_parse(const char *text, size_t n_bytes, struct suppressions **ret_suppressions,
		       unsigned *ret_line);

/* The same from a file; also a negative errno of reading it (*ret_line is 0 then). */
int suppressions_read(const char *path, struct suppressions **ret_suppressions, unsigned *ret_line);
struct suppressions *suppressions_free(struct suppressions *suppressions); /* accepts NULL */

/* Whether a pattern matches a text, as LeakSanitizer does it. An empty text matches none. */
bool suppressions_match(const char *pattern, const char *text);

/*
 * Make the temporary table suppressed(stack_id, rule) of the run's sites that have blocks which
 * were not freed; empty without suppressions (NULL). Returns 0, -ENOMEM or -EPROTO.
 */
int suppressions_table(const struct suppressions *suppressions, sqlite3 *db, int64_t run_id);

/*
 * Blocks that the C library, its loader and the C++ runtime keep until a process ends, by design:
 * no program can free them, and none of them is its leak. They are known by who called into the
 * runtime: the function of the C library that other code called last (setlocale, puts), a
 * constructor of the C++ runtime, or by stacks on which there is nothing but the runtime. What such
 * a function hands to its caller (strdup, fopen, newlocale) is the caller's.
 *
 * Make the temporary table kept(stack_id, what) of the run's sites that have such blocks which were
 * not freed; what: "stdio buffers", "locale" ... Returns 0, -ENOMEM or -EPROTO.
 */
int kept_table(sqlite3 *db, int64_t run_id);
