#pragma once
/*
 * From an ELF address to names: functions and variables of the symbol tables (of the file, its
 * debug file, .gnu_debugdata), source lines and inlined functions of DWARF. All of it is read
 * lazily, for objects and compilation units that are asked for. Not thread-safe.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/symbols/objects.h"

/* One source position; strings live as long as the object. */
struct symbol_line {
	const char *function; /* demangled; never NULL */
	const char *file; /* NULL: not known */
	int line; /* 0: not known */
	int column; /* of the call; in bytes, from 1; 0: not known */
	bool gives_memory; /* a small function that takes a whole number and returns void * */
};

#define SYMBOLS_MAX_DEPTH 32u /* of inlining; what is further out is left out */

/*
 * The source positions of an ELF address, [0] the innermost inlined function. Returns how many of
 * at most max there are; 0 without line information.
 */
size_t symbols_lines(struct object *object, uint64_t address, struct symbol_line *ret_lines,
		     size_t max);

/*
 * The variable that is declared in a line of the compilation unit at an ELF address; of several the
 * last one that begins at or before the column. NULL: none is known. Lives as long as the object.
 */
const char *symbols_declared(struct object *object, uint64_t address,
			     const struct symbol_line *line);

/*
 * The function whose symbol covers an ELF address, demangled; NULL: none. A symbol without a size
 * reaches to the next one. The string lives as long as the object.
 */
const char *symbols_function(struct object *object, uint64_t address);

/* A variable, or a section where no variable's symbol covers the address. */
struct symbol_variable {
	const char *name; /* demangled, or "[.data]"; lives as long as the object */
	uint64_t address; /* ELF address */
	uint64_t size;
};

/* The variable at an ELF address. Returns false when it lies in no section with data. */
bool symbols_variable(struct object *object, uint64_t address, struct symbol_variable *ret);

/* What debug information there is: looks if that was not done yet. */
enum object_debug symbols_debug(struct object *object);

/* C++ or Rust (legacy mangling) name for people, allocated; NULL when name is not mangled. */
char *symbols_demangle(const char *name);
