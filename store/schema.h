#pragma once
/* The schema as SQL, made from schemas/ when building (embed-sql.py). */

/* Migration i brings a database from user_version i to i + 1. */
extern const char *const db_migrations[];
extern const int db_n_migrations;

extern const char db_views[]; /* dropped and made anew with every write */
extern const char db_indexes[]; /* made at the end of a write, where missing */

/* PRAGMA application_id of our databases: "MSDB". */
#define DB_APPLICATION_ID 0x4d534442
