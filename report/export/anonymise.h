#pragma once
/*
 * A copy of a database from which no name can be read back. Names become numbers, equal ones equal
 * ones: folders and files of paths, functions, variables, commands, threads, regions, and what is
 * known of the host as text. What is not text stays as it is, as do the words of memsight itself.
 */
#include <sqlite3.h>
#include <stdbool.h>

#include "report/export/export.h"

/*
 * Write the copy to path, which must not be there yet unless replaces is true; what fails changes
 * nothing. Returns 0, -EEXIST, -EALREADY when the database is such a copy, -EPROTO when SQLite
 * fails (the message is db's), or another negative errno. progress: NULL: nobody looks on.
 */
int anonymise(sqlite3 *db, const char *path, bool replaces, struct export_progress *progress);
