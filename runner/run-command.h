#pragma once
#include <limits.h>

/*
 * The file that execvp would run for name: name itself when it holds a slash, else the first
 * executable in PATH. Returns 0, or the errno that execvp would give: -ENOENT, -EACCES, -ENOTDIR
 * ...
 */
int run_command_find(const char *name, char ret_path[static PATH_MAX]);
