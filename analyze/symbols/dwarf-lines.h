#pragma once
/*
 * DWARF of one object: compilation units by address, and for those that are asked for, the address
 * ranges of their functions and inlined calls. Used by symbols.c only.
 */
#include <stddef.h>
#include <stdint.h>

#include "analyze/symbols/objects.h"
#include "analyze/symbols/symbols.h"

struct lines;

/*
 * Look for the DWARF of an open object (in it or its debug file). NULL without memory; an object
 * without has no units.
 */
struct lines *lines_create(struct object *object);
struct lines *lines_destroy(struct lines *lines); /* accepts NULL, returns NULL */

/* How many ranges of compilation units are known: 0 means that there is no line information. */
size_t lines_n_units(const struct lines *lines);

/* As symbols_lines(), except that function may be NULL for a position outside any function. */
size_t lines_find(struct lines *lines, uint64_t address, struct symbol_line *ret_lines, size_t max);

/* As symbols_declared(). */
const char *lines_declared(struct lines *lines, uint64_t address, const struct symbol_line *line);
