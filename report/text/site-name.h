#pragma once
#include <sqlite3.h>

#include "store/library-frames.h"

/*
 * How site_name() names sites: by whole call stacks; and for a page, which links them, as "\x1eID
 * \x1fNAME\x1e" without the blank, where ID is stack.id.
 */
enum report_names { REPORT_NAMES_FULL = 1, REPORT_NAMES_LINKED = 2 };

/*
 * Add the SQL function site_name(stack_id [, n_calls [, has_inner]]): a call stack on one line, by
 * the program's first call, "build_index app.cpp:17 › map::operator[] < main app.cpp:30". Behind
 * "›" stands what it called of a library, or of functions that only hand on to an allocator; where
 * that allocated for an object of another class, that too (has_inner 0: not). Calls of libraries
 * further out are left out. At most n_calls (default 3) of the program's are shown, a longer path
 * ends in "< …". Names are without template arguments and parameters, and cut in their middle. A
 * stack without a call of the program is shown as by stack_text(). names: enum
 * report_names, of the caller, and as it is when it is called; NULL: 0.
 *
 * And stack_text(stack_id [, n_frames]): a call stack on one line, innermost first, "build_table
 * table.c:88 < main app.c:21". Frames inside the C++ runtime's operator new are left out at the
 * inner end, where they say nothing about the program. n_frames (default 3) bounds the frames
 * shown; a longer stack ends in "< …", one that could not be followed in its reason, "(no frame
 * pointer)". Inlined functions count as frames. Returns an SQLite code.
 */
int site_name_register(sqlite3 *db, const unsigned *names);

/* The name of what sets up variables before main. */
#define SITE_INITIALISER "static initialiser"

/*
 * How names of sites have a function: "map<>::operator[]" of the program, "map::operator[]" of a
 * library, without std:: and the like. For any thread.
 */
void site_plain_name(const char *function, bool is_library, char ret_name[FRAME_NAME_BYTES]);

/*
 * Whether a library's function by its plain name is named behind "›": it neither only allocates nor
 * has a name that C++ keeps for libraries.
 */
bool site_names_library(const char *name);
