#include "analyze/process/globals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols/symbols.h"
#include "common/array.h"
#include "common/hash-map.h"
#include "store/statement.h"

/* A new row. */
struct global {
	struct object *object;
	char *name;
	uint64_t address;
	uint64_t size;
};

struct globals {
	struct key_map rows; /* (key_of(), address) -> row */
	struct global *items; /* row - first_row */
	size_t n;
	size_t n_allocated;
	int64_t first_row;
	bool has_failed; /* a variable found no memory: globals_write() tells */
};

struct globals *globals_destroy(struct globals *globals)
{
	if (!globals)
		return NULL;
	array_free(globals->items, globals->n, it, free(it->name));
	key_map_finish(&globals->rows);
	free(globals);
	return NULL;
}

/*
 * A variable, its section and its segment may begin at one address and are told apart: a stripped
 * program's .bss begins with `stdout`, and most of it is no variable's.
 */
static uint64_t key_of(const struct object *object, const char *name)
{
	uint64_t kind = name[0] != '[' ? 0 : name[1] == '.' ? 1 : 2;

	return object->number * 3 + kind;
}

int globals_create(sqlite3 *db, struct objects *objects, struct globals **ret_globals)
{
	auto_statement sqlite3_stmt *statement = NULL;
	auto_globals struct globals *globals = calloc(1, sizeof(*globals));
	int r = globals ? statement_prepare(db, "SELECT id, object, path, offset, name FROM symbol",
					    &statement)
			: -ENOMEM;

	if (r < 0)
		return r;
	globals->first_row = 1;
	while ((r = statement_step(statement)) > 0) {
		int64_t row = sqlite3_column_int64(statement, 0);
		struct object *object = objects_get_named(objects, statement_string(statement, 1),
							  statement_string(statement, 2));

		if (!object ||
		    key_map_put(&globals->rows, key_of(object, statement_string(statement, 4)),
				(uint64_t)sqlite3_column_int64(statement, 3), (uint64_t)row) < 0)
			return -ENOMEM;
		globals->first_row = row >= globals->first_row ? row + 1 : globals->first_row;
	}
	if (r < 0)
		return r;
	*ret_globals = globals;
	globals = NULL;
	return 0;
}

/* A file that cannot be read is one variable. */
static bool find_variable(struct object *object, uint64_t address, struct symbol_variable *ret)
{
	if (object_open(object))
		return symbols_variable(object, address, ret);
	*ret = (struct symbol_variable){ .name = "[module]" };
	return true;
}

int64_t globals_row(struct globals *globals, struct object *object, uint64_t address)
{
	struct symbol_variable variable;

	if (!find_variable(object, address, &variable))
		return 0;

	uint64_t key = key_of(object, variable.name);
	int64_t row = (int64_t)key_map_get(&globals->rows, key, variable.address);
	if (row)
		return row;

	char *name = strdup(variable.name);
	row = globals->first_row + (int64_t)globals->n;
	if (!name || grow_one(&globals->items, globals->n, &globals->n_allocated) < 0 ||
	    key_map_put(&globals->rows, key, variable.address, (uint64_t)row) < 0) {
		free(name);
		globals->has_failed = true;
		return -ENOMEM;
	}
	globals->items[globals->n++] =
		(struct global){ object, name, variable.address, variable.size };
	return row;
}

int globals_write(struct globals *globals, sqlite3 *db)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_insert(db, "symbol(id, object, path, name, offset, size)", 6, &statement);

	if (globals->has_failed)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < globals->n; i++) {
		const struct global *global = &globals->items[i];
		r = statement_put(statement, "ntttnn", globals->first_row + (int64_t)i,
				  global->object->name, global->object->path, global->name,
				  (int64_t)global->address, (int64_t)global->size);
	}
	return r;
}
