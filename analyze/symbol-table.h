#pragma once
/*
 * The sized symbols of one object, functions and variables apart, sorted by address. Names are as
 * in the file; they are demangled when somebody asks.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/objects.h"

struct symbol_entry {
	uint64_t address;
	uint64_t end;
	uint64_t max_end; /* of this and all before it */
	const char *name; /* libdwfl's */
	bool is_local;
	char *pretty; /* NULL: not asked for yet, or the name itself */
};

struct symbol_list {
	struct symbol_entry *items;
	size_t n;
	size_t n_allocated;
};

/* Where data lies that no variable's symbol covers. */
struct symbol_section {
	char *name; /* "[.data]"; "[data]", "[rodata]" for a segment without section headers */
	uint64_t address;
	uint64_t size;
};

struct symbol_table {
	struct symbol_list functions;
	struct symbol_list variables;
	struct symbol_section *sections; /* none with instructions, none of thread-local storage */
	size_t n_sections;
	size_t n_sections_allocated;
};

/* Read the symbols of an open object; NULL without memory. One without any has empty lists. */
struct symbol_table *symbol_table_create(struct object *object);
struct symbol_table *symbol_table_destroy(struct symbol_table *table); /* accepts NULL */

/*
 * The table of an object, read when it was not yet; NULL: it cannot be opened. Kept by the object.
 */
struct symbol_table *symbol_table_of(struct object *object);

/* The innermost symbol that covers an address, or NULL. */
struct symbol_entry *symbol_list_find(const struct symbol_list *list, uint64_t address);

/* The section with data around an address, or NULL. */
const struct symbol_section *symbol_table_section(const struct symbol_table *table,
						  uint64_t address);

/* The symbol of that name, or NULL. Looks at all. */
const struct symbol_entry *symbol_list_named(const struct symbol_list *list, const char *name);
