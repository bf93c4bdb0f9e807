#pragma once
#include <sqlite3.h>
#include <stdbool.h>

/*
 * Add the SQL function site_name(stack_id [, n_calls [, has_inner]]): a call stack on one line, by
 * the program's first call, "build_index app.cpp:17 › map::operator[] < main app.cpp:30". Behind
 * "›" stands what it called of a library, or of functions that only hand on to an allocator; where
 * that allocated for an object of another class, that too (has_inner 0: not). Calls of libraries
 * further out are left out. At most n_calls (default 3) of the program's are shown, a longer path
 * ends in "< …". Names are without template arguments and parameters, and cut in their middle. A
 * stack without a call of the program is shown as by stack_text(). is_full: all are. Returns an
 * SQLite code.
 */
int site_name_register(sqlite3 *db, bool is_full);
