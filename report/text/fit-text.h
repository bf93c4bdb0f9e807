#pragma once
/* Text for people in the columns that a terminal has. */
#include <stdio.h>

/*
 * Columns that a terminal needs for a UTF-8 text: code points, not bytes; none for what sets
 * colours.
 */
unsigned fit_columns(const char *text);

/*
 * Write a text in at most width columns; 0: all of it. The libraries of "f (libx.so.1+0x12)" go
 * first, as f is named. Of a call stack ("f a.c:1 < g a.c:2") the
 * innermost frames stay that fit, and "…" says that there are more. Of a call with what it called
 * of libraries ("f a.c:1 › g › h") the innermost goes first. Else template arguments and parameters
 * are shortened ("f<…>(…)"), and what then is cut out is in the middle: the begin of a name stays,
 * its last component ("::push_back"), where there is room for it, and its place (file:line), which
 * is the last word.
 */
void fit_write(FILE *out, const char *text, unsigned width);

/*
 * Have write() write to such a stream; width 0: to out itself. Returns what write() returned,
 * -ENOMEM, or -EIO where the stream failed.
 */
int fit_lines_write(FILE *out, unsigned width, int (*write)(FILE *out, void *user), void *user);
