#pragma once
/*
 * The program that a call is about to start: would our library harm it? One of 32 bits would say
 * on its standard error that it ignores the library, one with a sanitizer would refuse to run. Async-
 * signal safe, a few system calls on the file, no errno; also for vfork children.
 */
#include <stdbool.h>

struct ta_program {
	const char *path; /* "" for fexecve */
	int fd; /* of fexecve, and the folder of execveat; else AT_FDCWD */
	bool is_searched; /* in the folders of PATH when it has no slash */
};

/* What cannot be looked at is not harmed. */
bool ta_program_is_harmed(const struct ta_program *program, char *const environment[]);
