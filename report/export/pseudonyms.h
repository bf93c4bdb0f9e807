#pragma once
/* Numbers that stand for texts, as functions of SQL. One thread. */
#include <sqlite3.h>

/*
 * Register on db, until it is closed:
 *	pseudonym(kind, text)	"kind_N", the same for the same text and kind
 *	pseudonym_path(text)	each part between slashes as pseudonym('name', part)
 *	pseudonym_object(text)	a build-id: N as 40 hex digits; a path: as pseudonym_path
 * NULL and '' stay. Returns an SQLite result code.
 */
int pseudonyms_register(sqlite3 *db);
