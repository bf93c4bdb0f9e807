#include "analyze/symbols/dwarf-lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/dwarf-functions.h"
#include "analyze/symbols/dwarf-ranges.h"
#include "common/array.h"

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
	for (size_t i = 0; i < unit->n_names; i++)
		free(unit->names[i].path);
	free(unit->names);
	unit_functions_destroy(unit->functions);
}

struct lines *lines_destroy(struct lines *lines)
{
	if (!lines)
		return NULL;
	for (size_t i = 0; i < lines->n_units; i++)
		finish_unit(&lines->units[i]);
	free(lines->units);
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
		    grow_array(&lines->units, lines->n_units, &lines->n_units_allocated,
			       sizeof(*lines->units)) < 0)
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
	if (grow_array(&unit->names, unit->n_names, &unit->n_names_allocated,
		       sizeof(*unit->names)) < 0 ||
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
	for (size_t i = 0; i < n; i++)
		ret_lines[i].file = whole_name(unit, ret_lines[i].file);
	return n;
}
