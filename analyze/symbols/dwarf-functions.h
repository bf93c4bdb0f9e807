#pragma once
/*
 * The functions and inlined calls of one DWARF compilation unit, by address. Addresses are DWARF's.
 * Used by lines.c only.
 */
#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/symbols/symbols.h"

struct unit_functions;

/*
 * Read the tree below body (a unit's DIE); files are named by the line table of lines_die,
 * functions as linkers see them with keep_mangled. NULL without memory.
 */
struct unit_functions *unit_functions_create(Dwarf_Die *body, Dwarf_Die *lines_die,
					     bool keep_mangled);
struct unit_functions *unit_functions_destroy(struct unit_functions *functions); /* accepts NULL */

/*
 * The functions around an address, innermost first: name, and for each but [0] the place of the
 * call that was inlined into it. Returns how many of at most max.
 */
size_t unit_functions_find(struct unit_functions *functions, uint64_t address,
			   struct symbol_line *ret_lines, size_t max);
