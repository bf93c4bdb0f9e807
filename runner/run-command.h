#pragma once
#include <limits.h>
#include <stddef.h>

/*
 * The file that execvp would run for name: name itself when it holds a slash, else the first
 * executable in PATH. Returns 0, or the errno that execvp would give: -ENOENT, -EACCES, -ENOTDIR
 * ...
 */
int run_command_find(const char *name, char ret_path[static PATH_MAX]);

/*
 * Why the command cannot be started, in words that a person can do something with: err is what
 * run_command_find() or exec has said of it. Into ret_why, a line without an end.
 */
void run_command_explain(const char *name, int err, char *ret_why, size_t n_bytes);
