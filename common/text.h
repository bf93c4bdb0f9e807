#pragma once
#include <stdint.h>
#include <stdio.h>

/*
 * Put '?' in place of what would command a terminal or end a line: control characters, also those
 * of ISO 6429's second set as UTF-8 has them (U+009B is one with what ESC [ is). In place; returns
 * the text. NULL stays NULL. Names and paths that are printed are of programs, traces and databases
 * of anybody.
 */
char *text_hide_controls(char *text);

/* What stands behind the last slash of a path; all of it where there is none. Any thread. */
const char *text_base_name(const char *path);

/* The id of a name in a trace, as programs make it themselves: trace_text.id. Any thread. */
uint64_t text_name_id(const char *name);

/* Write a line for a person, and be err: return text_refuse(-EINVAL, message, n_bytes, "..."). */
#define text_refuse(err, text, n_bytes, ...)                                                       \
	({                                                                                         \
		snprintf(text, n_bytes, __VA_ARGS__);                                              \
		(err);                                                                             \
	})
