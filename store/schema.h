#pragma once
/* The schema as SQL, made from schemas/ when building (embed-sql.py). */

/* PRAGMA user_version of our databases: another one is refused. */
#define DB_VERSION 47

/* PRAGMA application_id of our databases: "MSDB". */
#define DB_APPLICATION_ID 0x4d534442

extern const char db_schema[]; /* all tables */
extern const char db_views[]; /* dropped and made anew with every write */
extern const char db_indexes[]; /* of plain tables; made at the end of a write, where missing */
