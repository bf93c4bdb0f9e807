#pragma once
/*
 * Touched global variables: rows of the table symbol, one over processes and runs (an existing
 * database's rows keep their ids). One thread.
 */
#include <stdint.h>
#include <sqlite3.h>

#include "analyze/symbols/objects.h"

struct globals;

/* Read the symbols that db has. Returns 0 or a negative errno. */
int globals_create(sqlite3 *db, struct objects *objects, struct globals **ret_globals);
struct globals *globals_destroy(struct globals *globals); /* accepts NULL, returns NULL */

/*
 * symbol.id of the variable of object at an ELF address, 0 when it lies in no data section, or a
 * negative errno.
 */
int64_t globals_row(struct globals *globals, struct object *object, uint64_t address);

/* Write the new rows. Returns 0 or a negative errno. */
int globals_write(struct globals *globals, sqlite3 *db);

static inline void globals_cleanup(struct globals **globals)
{
	*globals = globals_destroy(*globals);
}
#define auto_globals __attribute__((cleanup(globals_cleanup)))
