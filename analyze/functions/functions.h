#pragma once
/* The functions of some files that a choice takes, and how each could be instrumented. */
#include <stddef.h>
#include <stdint.h>

#include "analyze/functions/choice.h"
#include "analyze/functions/code-scan.h"

struct found_function {
	char *name; /* demangled */
	char *module; /* the source file that debug data names, else the file's name */
	const char *file;
	struct code_function code;
};

struct found_functions {
	struct found_function *items; /* file by file, by address */
	size_t n;
	size_t n_allocated;
	size_t n_files; /* that some are of */
	size_t n_all; /* functions that were asked for */
};

/*
 * Look into the file for functions that the choice takes and that have at least so many
 * instructions, and add them. Returns 0 or a negative errno: -ENOEXEC, no ELF file for x86-64.
 * path must stay.
 */
int functions_find(struct function_choice *choice, const char *path, uint64_t min_instructions,
		   struct found_functions *found);
void functions_finish(struct found_functions *found);
#define auto_found_functions __attribute__((cleanup(functions_finish)))

/* "jump", "nops" ...; NULL: not at all. And why not, in words. */
const char *function_way_text(enum code_way way);
const char *function_why_text(enum code_why why);
