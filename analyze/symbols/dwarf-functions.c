#include "analyze/symbols/dwarf-functions.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/dwarf-ranges.h"
#include "common/array.h"

#define MAX_TREE_DEPTH 256u /* of DIEs: deeper is a damaged file */
#define NO_PARENT      SIZE_MAX

struct function {
	Dwarf_Die die;
	size_t parent; /* index of the function that this one was inlined into, or NO_PARENT */
	unsigned depth;
	bool is_inlined;
	char *name; /* NULL: not asked for yet */
};

struct unit_functions {
	bool keep_mangled;
	Dwarf_Files *files;
	struct function *functions;
	size_t n_functions;
	size_t n_functions_allocated;
	struct die_ranges ranges; /* of functions */
};

struct unit_functions *unit_functions_destroy(struct unit_functions *functions)
{
	if (!functions)
		return NULL;
	for (size_t i = 0; i < functions->n_functions; i++)
		free(functions->functions[i].name);
	free(functions->functions);
	die_ranges_finish(&functions->ranges);
	free(functions);
	return NULL;
}

/* Add a function when it has code; *inout_parent becomes it. */
static int add_function(struct unit_functions *functions, Dwarf_Die *die, size_t *inout_parent)
{
	bool is_inlined = dwarf_tag(die) == DW_TAG_inlined_subroutine;
	size_t parent = is_inlined ? *inout_parent : NO_PARENT;
	size_t index = functions->n_functions;
	size_t n_ranges = functions->ranges.n;

	int r = die_ranges_add(&functions->ranges, die, index);
	if (r < 0 || functions->ranges.n == n_ranges)
		return r;
	r = grow_array(&functions->functions, index, &functions->n_functions_allocated,
		       sizeof(*functions->functions));
	if (r < 0)
		return r;
	functions->functions[functions->n_functions++] = (struct function){
		.die = *die,
		.parent = parent,
		.depth = parent == NO_PARENT ? 0 : functions->functions[parent].depth + 1,
		.is_inlined = is_inlined,
	};
	*inout_parent = index;
	return 0;
}

/* Whether functions with code may lie below a DIE of that tag. */
static bool may_hold_functions(int tag)
{
	switch (tag) {
	case DW_TAG_compile_unit:
	case DW_TAG_partial_unit:
	case DW_TAG_skeleton_unit:
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_subprogram:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		return true;
	default:
		return false;
	}
}

static int read_tree(struct unit_functions *functions, Dwarf_Die *die, size_t parent,
		     unsigned depth)
{
	int tag = dwarf_tag(die);
	Dwarf_Die child;

	if (!may_hold_functions(tag) || depth > MAX_TREE_DEPTH)
		return 0;
	if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine) {
		int r = add_function(functions, die, &parent);
		if (r < 0)
			return r;
	}
	if (dwarf_child(die, &child) != 0)
		return 0;
	do {
		int r = read_tree(functions, &child, parent, depth + 1);
		if (r < 0)
			return r;
	} while (dwarf_siblingof(&child, &child) == 0);
	return 0;
}

struct unit_functions *unit_functions_create(Dwarf_Die *body, Dwarf_Die *lines_die,
					     bool keep_mangled)
{
	struct unit_functions *functions = calloc(1, sizeof(*functions));
	size_t n_files;

	if (!functions || read_tree(functions, body, NO_PARENT, 0) < 0)
		return unit_functions_destroy(functions);
	functions->keep_mangled = keep_mangled;
	if (dwarf_getsrcfiles(lines_die, &functions->files, &n_files) != 0)
		functions->files = NULL;
	die_ranges_settle(&functions->ranges);
	return functions;
}

static const char *name_of(const struct unit_functions *functions, struct function *function)
{
	Dwarf_Attribute attribute;
	const char *linkage = dwarf_formstring(
		dwarf_attr_integrate(&function->die, DW_AT_linkage_name, &attribute));
	const char *plain = dwarf_diename(&function->die);

	if (functions->keep_mangled)
		return linkage ? linkage : plain;
	if (!function->name)
		function->name = linkage ? symbols_demangle(linkage) : NULL;
	return function->name ? function->name : plain ? plain : linkage;
}

/* The innermost function around an address: of all that cover it, the deepest. */
static size_t innermost(const struct unit_functions *functions, uint64_t address)
{
	size_t at = die_ranges_begin(&functions->ranges, address);
	size_t best = NO_PARENT;
	size_t function;

	while (die_ranges_next(&functions->ranges, address, &at, &function)) {
		if (best == NO_PARENT ||
		    functions->functions[function].depth > functions->functions[best].depth)
			best = function;
	}
	return best;
}

/* Where the inlined call stands in the function around it. */
static void call_place(const struct unit_functions *functions, Dwarf_Die *die,
		       struct symbol_line *line)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &value) == 0 &&
	    functions->files)
		line->file = dwarf_filesrc(functions->files, value, NULL, NULL);
	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &value) == 0)
		line->line = (int)value;
}

size_t unit_functions_find(struct unit_functions *functions, uint64_t address,
			   struct symbol_line *ret_lines, size_t max)
{
	size_t n = 0;
	struct symbol_line place = { 0 };

	for (size_t i = innermost(functions, address); i != NO_PARENT && n < max;) {
		struct function *function = &functions->functions[i];

		ret_lines[n] = place;
		ret_lines[n++].function = name_of(functions, function);
		if (!function->is_inlined)
			break;
		place = (struct symbol_line){ 0 };
		call_place(functions, &function->die, &place);
		i = function->parent;
	}
	return n;
}

/* ---- Names for people ---- */

typedef char *(*demangle_function)(const char *name, char *buffer, size_t *bytes, int *ret_status);

/*
 * The C++ runtime's own demangler (Debian: libstdc++6, which apt itself needs). Loaded when the
 * first mangled name is met (then it stays): a C program's recording needs none of it, and where
 * it is missing names stay as they are.
 */
static demangle_function load_demangler(void)
{
	void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, "__cxa_demangle") : NULL;
	demangle_function function = NULL;

	memcpy(&function, &symbol, sizeof(function)); /* ISO C has no cast for this */
	return function;
}

char *symbols_demangle(const char *name)
{
	int status = 0;

	if (name[0] != '_' || name[1] != 'Z')
		return NULL;

	demangle_function function = load_demangler();
	char *pretty = function ? function(name, NULL, NULL, &status) : NULL;
	return pretty;
}
