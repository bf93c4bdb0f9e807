#include "analyze/symbols/symbols.h"

#include "analyze/symbols/dwarf-lines.h"
#include "analyze/symbols/symbol-table.h"

static struct lines *lines_of(struct object *object)
{
	if (!object_open(object))
		return NULL;
	if (!object->lines)
		object->lines = lines_create(object);
	return object->lines;
}

enum object_debug symbols_debug(struct object *object)
{
	if (object->debug != OBJECT_UNSEEN)
		return object->debug;

	const struct lines *lines = lines_of(object);
	const struct symbol_table *table = symbol_table_of(object);

	object->debug = lines && lines_n_units(lines)	  ? OBJECT_LINES
			: table && table->functions.n > 0 ? OBJECT_SYMBOLS
							  : OBJECT_NONE;
	return object->debug;
}

static const char *pretty_name(const struct object *object, struct symbol_entry *entry)
{
	if (!entry->pretty && !object->places->keep_mangled)
		entry->pretty = symbols_demangle(entry->name);
	return entry->pretty ? entry->pretty : entry->name;
}

const char *symbols_function(struct object *object, uint64_t address)
{
	struct symbol_table *table = symbol_table_of(object);
	struct symbol_entry *entry = table ? symbol_list_find(&table->functions, address) : NULL;

	if (entry)
		return pretty_name(object, entry);
	return table ? symbol_table_tail(object, table, address) : NULL;
}

size_t symbols_lines(struct object *object, uint64_t address, struct symbol_line *ret_lines,
		     size_t max)
{
	struct lines *lines = lines_of(object);
	size_t n = lines ? lines_find(lines, address, ret_lines, max) : 0;

	for (size_t i = 0; i < n; i++) {
		const char *function = ret_lines[i].function;

		/* Assembly has lines but no functions in DWARF; the symbol table may know one. */
		if (!function)
			function = symbols_function(object, address);
		ret_lines[i].function = function ? function : "[unknown]";
	}
	return n;
}

const char *symbols_declared(struct object *object, uint64_t address,
			     const struct symbol_line *line)
{
	struct lines *lines = lines_of(object);

	return lines && line->file ? lines_declared(lines, address, line) : NULL;
}

/* The section with data around an address, as a variable. */
static bool section_at(struct object *object, uint64_t address, struct symbol_variable *ret)
{
	struct symbol_table *table = object->symbols;
	const struct symbol_section *section = symbol_table_section(table, address);

	if (!section)
		return false;
	*ret = (struct symbol_variable){ section->name, section->address, section->size };
	return true;
}

bool symbols_variable(struct object *object, uint64_t address, struct symbol_variable *ret)
{
	struct symbol_table *table = symbol_table_of(object);
	struct symbol_entry *entry = table ? symbol_list_find(&table->variables, address) : NULL;

	if (!table)
		return false;
	if (!entry)
		return section_at(object, address, ret);
	*ret = (struct symbol_variable){ pretty_name(object, entry), entry->address,
					 entry->end - entry->address };
	return true;
}
