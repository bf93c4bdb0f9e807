#pragma once
/*
 * Put before every source of the extension (-include): SQLite's functions are then reached through
 * the table that the loading program hands over, whichever copy of SQLite it has.
 */
#include <sqlite3ext.h>

SQLITE_EXTENSION_INIT3
