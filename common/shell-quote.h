#pragma once
#include <stddef.h>

/*
 * The arguments of a command (separated by NUL) as a shell would take them, allocated: words with
 * other than harmless characters in single quotes. Returns NULL without memory.
 */
char *command_text(const char *arguments, size_t n_bytes);
