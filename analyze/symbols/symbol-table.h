#pragma once
/*
 * The sized symbols of one object, functions and variables apart, sorted by address. Names are as
 * in the file; they are demangled when somebody asks.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/symbols/objects.h"

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

/*
 * A function without a symbol that exported ones go on in: gcc lets localtime() end in a jump to
 * what does the work.
 */
struct symbol_tail {
	uint64_t address;
	char *name; /* "(behind gmtime, localtime)" */
};

struct symbol_table {
	struct symbol_list functions;
	struct symbol_list variables;
	struct symbol_section *sections; /* none with instructions, none of thread-local storage */
	size_t n_sections;
	size_t n_sections_allocated;
	bool has_tails; /* looked for */
	struct symbol_tail *tails; /* by address */
	size_t n_tails;
	size_t n_tails_allocated;
	/* of all functions, as the unwind tables tell: what no symbol covers, too */
	uint64_t *starts;
	size_t n_starts;
};

/* Read the symbols of an open object; NULL without memory. One without any has empty lists. */
struct symbol_table *symbol_table_destroy(struct symbol_table *table); /* accepts NULL */

/*
 * The table of an object, read when it was not yet; NULL: it cannot be opened. Kept by the object.
 */
struct symbol_table *symbol_table_of(struct object *object);

/* The innermost symbol that covers an address, or NULL. */
struct symbol_entry *symbol_list_find(const struct symbol_list *list, uint64_t address);

/*
 * The name of the function around an address that no symbol covers, by the exported functions that
 * end in a jump to its begin (x86-64); NULL: there are none, or no unwind tables tell where it
 * begins. Such a jump leaves no frame: without debug information nothing else in the stack would
 * tell that localtime() was called.
 */
const char *symbol_table_tail(struct object *object, struct symbol_table *table, uint64_t address);

/* The section with data around an address, or NULL. */
const struct symbol_section *symbol_table_section(const struct symbol_table *table,
						  uint64_t address);

/* The symbol of that name, or NULL. Looks at all. */
const struct symbol_entry *symbol_list_named(const struct symbol_list *list, const char *name);
