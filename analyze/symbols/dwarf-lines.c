#include "analyze/symbols/dwarf-lines.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/symbols.h"
#include "common/array.h"
#include "common/text.h"

struct die_ranges {
	struct die_range *items;
	size_t n;
	size_t n_allocated;
};

/*
 * Which of many DIEs cover an address: their ranges, which may lie in each other. Add all, settle
 * once, then ask. All zero is empty. One thread.
 */

struct die_range {
	uint64_t low;
	uint64_t high;
	uint64_t max_high; /* of this and all before it */
	size_t owner;
};

/* Add the ranges of a DIE, to be found as owner. 0 or -ENOMEM. */
static int die_ranges_add(struct die_ranges *ranges, Dwarf_Die *die, size_t owner)
{
	ptrdiff_t offset = 0;
	Dwarf_Addr base = 0;
	Dwarf_Addr low;
	Dwarf_Addr high;

	while ((offset = dwarf_ranges(die, offset, &base, &low, &high)) > 0) {
		if (low >= high)
			continue;
		if (array_add(ranges->items, ranges->n, ranges->n_allocated,
			      (struct die_range){ .low = low, .high = high, .owner = owner }) < 0)
			return -ENOMEM;
	}
	return 0;
}

DEFINE_ORDER(compare, struct die_range, BY(low));

/* All are added. */
static void die_ranges_settle(struct die_ranges *ranges)
{
	uint64_t max_high = 0;

	if (ranges->n)
		qsort(ranges->items, ranges->n, sizeof(*ranges->items), compare);
	for (size_t i = 0; i < ranges->n; i++) {
		if (ranges->items[i].high > max_high)
			max_high = ranges->items[i].high;
		ranges->items[i].max_high = max_high;
	}
}

/*
 * Find the owners of the ranges that hold address, those that begin last first:
 *
 *	for (size_t at = die_ranges_begin(ranges, address); die_ranges_next(ranges, address, &at,
 *	&owner);)
 */
static size_t die_ranges_begin(const struct die_ranges *ranges, uint64_t address)
{
	return array_n_until(ranges->items, ranges->n, low, address);
}

static bool die_ranges_next(const struct die_ranges *ranges, uint64_t address, size_t *inout_at,
			    size_t *ret_owner)
{
	while (*inout_at > 0 && ranges->items[*inout_at - 1].max_high > address) {
		const struct die_range *range = &ranges->items[--*inout_at];

		if (address < range->high) {
			*ret_owner = range->owner;
			return true;
		}
	}
	return false;
}

/* Free the memory; empty and usable afterwards. */
static void die_ranges_finish(struct die_ranges *ranges)
{
	free(ranges->items);
	*ranges = (struct die_ranges){ 0 };
}

/*
 * The functions and inlined calls of one DWARF compilation unit, by address. Addresses are DWARF's.
 */

#define MAX_TREE_DEPTH 256u /* of DIEs: deeper is a damaged file */
#define NO_PARENT      SIZE_MAX

/* A function that only hands on to an allocator: asks, and ends the program where there is none. */
#define MOST_PARAMETERS 3u
#define MOST_CODE_BYTES 160u

struct function {
	Dwarf_Die die;
	size_t parent; /* index of the function that this one was inlined into, or NO_PARENT */
	unsigned depth;
	bool is_inlined;
	bool gives_memory; /* set with has_type */
	bool has_type; /* was looked at */
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

static struct unit_functions *unit_functions_destroy(struct unit_functions *functions)
{
	if (!functions)
		return NULL;
	array_free(functions->functions, functions->n_functions, it, free(it->name));
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
	r = grow_one(&functions->functions, index, &functions->n_functions_allocated);
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

/*
 * Read the tree below body (a unit's DIE); files are named by the line table of lines_die,
 * functions as linkers see them with keep_mangled. NULL without memory.
 */
static struct unit_functions *unit_functions_create(Dwarf_Die *body, Dwarf_Die *lines_die,
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

/* The type of a DIE, without names and qualifiers of types; false: it has none (void). */
static bool type_of(Dwarf_Die *die, Dwarf_Die *ret_type)
{
	Dwarf_Attribute attribute;
	Dwarf_Die type;

	return dwarf_formref_die(dwarf_attr_integrate(die, DW_AT_type, &attribute), &type) &&
	       dwarf_peel_type(&type, ret_type) == 0;
}

static bool is_whole_number(Dwarf_Die *type)
{
	Dwarf_Attribute attribute;
	Dwarf_Word encoding;

	return dwarf_tag(type) == DW_TAG_base_type &&
	       dwarf_formudata(dwarf_attr(type, DW_AT_encoding, &attribute), &encoding) == 0 &&
	       (encoding == DW_ATE_unsigned || encoding == DW_ATE_signed);
}

/* Bytes of code. */
static uint64_t code_bytes(Dwarf_Die *function)
{
	ptrdiff_t offset = 0;
	Dwarf_Addr base = 0, low, high;
	uint64_t n = 0;

	while ((offset = dwarf_ranges(function, offset, &base, &low, &high)) > 0)
		n += high - low;
	return n;
}

/*
 * Whether a function is of an allocator's type, void *f(size_t), and as small as one that hands on:
 * what reads a file, or unpacks one, is of that type as well.
 */
static bool gives_memory(Dwarf_Die *function)
{
	Dwarf_Die type, target, child;
	unsigned n = 0, n_numbers = 0;

	if (!type_of(function, &type) || dwarf_tag(&type) != DW_TAG_pointer_type ||
	    type_of(&type, &target) || code_bytes(function) > MOST_CODE_BYTES ||
	    dwarf_child(function, &child) != 0)
		return false;
	do {
		if (dwarf_tag(&child) != DW_TAG_formal_parameter)
			continue;
		n++;
		n_numbers += type_of(&child, &type) && is_whole_number(&type);
	} while (dwarf_siblingof(&child, &child) == 0);
	return n_numbers > 0 && n <= MOST_PARAMETERS;
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
	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_column, &attribute), &value) == 0)
		line->column = (int)value;
}

/*
 * The functions around an address, innermost first: name, and for each but [0] the place of the
 * call that was inlined into it. Returns how many of at most max.
 */
static size_t unit_functions_find(struct unit_functions *functions, uint64_t address,
				  struct symbol_line *ret_lines, size_t max)
{
	size_t n = 0;
	struct symbol_line place = { 0 };

	for (size_t i = innermost(functions, address); i != NO_PARENT && n < max;) {
		struct function *function = &functions->functions[i];

		if (!function->has_type)
			function->gives_memory = gives_memory(&function->die);
		function->has_type = true;
		ret_lines[n] = place;
		ret_lines[n].gives_memory = function->gives_memory;
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

/* The hash behind a name of Rust, as "::h0123456789abcdef"; NULL: there is none. */
static char *rust_hash(char *name)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = strlen(name), n_hash = strlen("::h") + 16;
	char *hash = n > n_hash ? name + n - n_hash : NULL;

	return hash && strncmp(hash, "::h", 3) == 0 && strspn(hash + 3, digits) == 16 ? hash : NULL;
}

/* "$LT$", "$u20$": its character and length; 0: none is written here. */
static char rust_escape(const char *at, size_t *ret_n)
{
	static const struct {
		const char *text;
		char character;
	} escapes[] = { { "$SP$", '@' }, { "$BP$", '*' }, { "$RF$", '&' }, { "$LT$", '<' },
			{ "$GT$", '>' }, { "$LP$", '(' }, { "$RP$", ')' }, { "$C$", ',' } };
	unsigned code = 0;
	int n = 0;

	for (size_t i = 0; i < sizeof(escapes) / sizeof(*escapes); i++) {
		*ret_n = strlen(escapes[i].text);
		if (strncmp(at, escapes[i].text, *ret_n) == 0)
			return escapes[i].character;
	}
	if (sscanf(at, "$u%2x$%n", &code, &n) != 1 || n == 0 || code < ' ' || code > '~')
		return 0;
	*ret_n = (size_t)n;
	return (char)code;
}

/*
 * Rust's legacy names are C++ names for the linker: what C++ has no sign for is written out
 * (rust-lang/rust, compiler/rustc_symbol_mangling/src/legacy.rs), and a hash stands behind.
 */
static void tidy_rust(char *name)
{
	char *hash = rust_hash(name), *to = name;
	size_t n = 1;

	if (!hash)
		return;
	*hash = '\0';
	for (const char *from = name; *from; from += n) {
		bool is_first = from == name || from[-1] == ':';
		char character = rust_escape(from, &n);
		if (character) {
			*to++ = character;
			continue;
		}
		n = strncmp(from, "..", 2) == 0 ? 2 : 1;
		if (n == 2) {
			*to++ = ':';
			*to++ = ':';
		} else if (!is_first || strncmp(from, "_$", 2) != 0) {
			*to++ = *from;
		}
	}
	*to = '\0';
}

char *symbols_demangle(const char *name)
{
	int status = 0;

	if (name[0] != '_' || name[1] != 'Z')
		return NULL;

	demangle_function function = load_demangler();
	char *pretty = function ? function(name, NULL, NULL, &status) : NULL;
	if (pretty)
		tidy_rust(pretty);
	return pretty;
}

/* A name that DWARF has below the folder of the compilation, and all of it. */
struct whole_name {
	const char *name; /* libdw's */
	char *path;
};

/* A compilation unit; several ranges may lead to it. */
struct unit {
	Dwarf_Die die; /* holds the line table */
	Dwarf_Die body; /* holds the functions: the split unit, or the same */
	struct unit_functions *functions; /* NULL: not read yet */
	struct whole_name *names; /* that were asked for so far */
	size_t n_names;
	size_t n_names_allocated;
};

struct lines {
	bool keep_mangled;
	uint64_t bias; /* DWARF address + bias = ELF address */
	struct unit *units;
	size_t n_units;
	size_t n_units_allocated;
	struct die_ranges ranges; /* of units */
};

static void finish_unit(struct unit *unit)
{
	array_free(unit->names, unit->n_names, it, free(it->path));
	unit_functions_destroy(unit->functions);
}

struct lines *lines_destroy(struct lines *lines)
{
	if (!lines)
		return NULL;
	array_free(lines->units, lines->n_units, it, finish_unit(it));
	die_ranges_finish(&lines->ranges);
	free(lines);
	return NULL;
}

static int add_units(struct lines *lines, Dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	Dwarf_Die split;
	uint8_t type;

	while (dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, &split) == 0) {
		if (dwarf_tag(&die) != DW_TAG_compile_unit &&
		    dwarf_tag(&die) != DW_TAG_skeleton_unit)
			continue;
		if (die_ranges_add(&lines->ranges, &die, lines->n_units) < 0 ||
		    grow_one(&lines->units, lines->n_units, &lines->n_units_allocated) < 0)
			return -ENOMEM;
		lines->units[lines->n_units++] = (struct unit){
			.die = die,
			.body = type == DW_UT_skeleton && split.addr ? split : die,
		};
	}
	return 0;
}

struct lines *lines_create(struct object *object)
{
	struct lines *lines = calloc(1, sizeof(*lines));
	Dwarf_Addr bias = 0;

	if (!lines)
		return NULL;

	lines->keep_mangled = object->places->keep_mangled;
	Dwarf *dwarf = dwfl_module_getdwarf(object->module, &bias);
	lines->bias = bias;
	if (dwarf && add_units(lines, dwarf) < 0)
		return lines_destroy(lines);
	die_ranges_settle(&lines->ranges);
	return lines;
}

size_t lines_n_units(const struct lines *lines)
{
	return lines->ranges.n;
}

static struct unit *find_unit(struct lines *lines, uint64_t address)
{
	size_t at = die_ranges_begin(&lines->ranges, address);
	size_t unit;

	return die_ranges_next(&lines->ranges, address, &at, &unit) ? &lines->units[unit] : NULL;
}

/*
 * libdw joins names with their folder, but that one may lie below the folder of the compilation
 * (src/x.c, ../x.c): nobody else could find such a file. As it is where that folder is not known,
 * or none.
 */
static const char *whole_name(struct unit *unit, const char *name)
{
	Dwarf_Attribute attribute;
	const char *folder = dwarf_formstring(dwarf_attr(&unit->die, DW_AT_comp_dir, &attribute));
	char *path = NULL;

	if (!name || name[0] == '/' || !folder || folder[0] != '/')
		return name;
	for (size_t i = unit->n_names; i-- > 0;) {
		if (unit->names[i].name == name)
			return unit->names[i].path;
	}
	if (grow_one(&unit->names, unit->n_names, &unit->n_names_allocated) < 0 ||
	    asprintf(&path, "%s/%s", folder, name) < 0)
		return name;
	unit->names[unit->n_names++] = (struct whole_name){ name, path };
	return path;
}

/* The position in the line table; leaves it as it was when there is none. */
static void find_position(struct unit *unit, uint64_t address, struct symbol_line *line)
{
	Dwarf_Line *position = dwarf_getsrc_die(&unit->die, address);

	if (!position)
		return;
	line->file = dwarf_linesrc(position, NULL, NULL);
	dwarf_lineno(position, &line->line);
	dwarf_linecol(position, &line->column);
}

size_t lines_find(struct lines *lines, uint64_t address, struct symbol_line *ret_lines, size_t max)
{
	uint64_t dwarf_address = address - lines->bias;
	struct unit *unit = find_unit(lines, dwarf_address);
	struct symbol_line first = { 0 };

	if (!unit || max == 0)
		return 0;
	if (!unit->functions)
		unit->functions =
			unit_functions_create(&unit->body, &unit->die, lines->keep_mangled);
	find_position(unit, dwarf_address, &first);

	size_t n = unit->functions
			   ? unit_functions_find(unit->functions, dwarf_address, ret_lines, max)
			   : 0;
	if (n == 0 && !first.file)
		return 0;
	if (n == 0)
		ret_lines[n++] = (struct symbol_line){ 0 };
	ret_lines[0].file = first.file;
	ret_lines[0].line = first.line;
	ret_lines[0].column = first.column;
	for (size_t i = 0; i < n; i++)
		ret_lines[i].file = whole_name(unit, ret_lines[i].file);
	return n;
}

/* ---- Variables by where they are declared ---- */

struct declared {
	const struct symbol_line *line;
	const char *name;
	int column; /* of it */
	unsigned n; /* that are declared there */
};

static void look_at(struct declared *found, Dwarf_Die *die)
{
	const char *file = dwarf_decl_file(die);
	int line = 0, column = 0;

	if (!file || dwarf_decl_line(die, &line) != 0 || line != found->line->line ||
	    strcmp(text_base_name(file), text_base_name(found->line->file)) != 0)
		return;
	dwarf_decl_column(die, &column);
	found->n++;
	if (column >= found->column && (column <= found->line->column || found->n == 1)) {
		found->column = column;
		found->name = dwarf_diename(die);
	}
}

static void look_below(struct declared *found, Dwarf_Die *die, unsigned depth)
{
	Dwarf_Die child;

	if (depth > MAX_TREE_DEPTH || dwarf_child(die, &child) != 0)
		return;
	do {
		if (dwarf_tag(&child) == DW_TAG_variable)
			look_at(found, &child);
		else if (dwarf_tag(&child) == DW_TAG_namespace)
			look_below(found, &child, depth + 1);
	} while (dwarf_siblingof(&child, &child) == 0);
}

const char *lines_declared(struct lines *lines, uint64_t address, const struct symbol_line *line)
{
	struct unit *unit = find_unit(lines, address - lines->bias);
	struct declared found = { .line = line };

	if (unit)
		look_below(&found, &unit->body, 0);
	/* Without columns none of several is known to be meant. */
	return found.n == 1 || line->column > 0 ? found.name : NULL;
}
