#include "store/compact/sqlite-api.h"

#include "store/compact/virtual-table.h"

/* libmemsight_sqlite.so: compact tables for any program that can load extensions of SQLite. */

SQLITE_EXTENSION_INIT1

/* SQLite makes this name of the file's. */
int sqlite3_memsightsqlite_init(sqlite3 *db, char **ret_error, const sqlite3_api_routines *api);

__attribute__((visibility("default"))) int
sqlite3_memsightsqlite_init(sqlite3 *db, char **ret_error, const sqlite3_api_routines *api)
{
	SQLITE_EXTENSION_INIT2(api);
	/* The table's functions of later versions would be missing. */
	if (sqlite3_libversion_number() < 3034000) {
		*ret_error = sqlite3_mprintf(CHUNK_MODULE " needs SQLite 3.34 or later, this is %s",
					     sqlite3_libversion());
		return SQLITE_ERROR;
	}
	return chunk_table_register(db, CHUNK_KEEP_BYTES);
}
