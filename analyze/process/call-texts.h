#pragma once
/*
 * What tells calls on one line of source apart: "A = malloc(…)", read from the source where that is
 * there and not newer than the program; else their columns.
 */
#include <sqlite3.h>
#include <stdbool.h>

#define CALL_TEXT_BYTES 96u

struct call_text {
	char text[CALL_TEXT_BYTES]; /* "a[i] = malloc(…)", "use(malloc(…))" */
	char function[CALL_TEXT_BYTES]; /* "malloc" */
};

/*
 * The call at a column (from 1, in bytes; as compilers count: its function's name, its "(", or a
 * part of a new expression) of a line of C or C++: what is assigned, or the call around it, with
 * its function. False: the text is no call there, or too long; then *ret_text is empty.
 */
bool call_text(const char *line, int column, struct call_text *ret_text);

/*
 * Set frame_line.call of the program's calls that share file and line, are in different columns,
 * and call what reads alike: one function, allocators, or what is not known. Frames and lines are
 * written. Returns 0 or a negative errno.
 */
int call_texts_write(sqlite3 *db);
