#include "store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "store/compact/virtual-table.h"
#include "store/database-internal.h"
#include "store/schema.h"
#include "store/statement.h"
#include "store/writer-thread.h"

#define BUSY_TIMEOUT_MS 5000

int db_errno(sqlite3 *handle, int result)
{
	int r = statement_errno(result);
	int system = r == -EIO && handle ? sqlite3_system_errno(handle) : 0;

	return system > 0 ? -system : r;
}

int db_cause(int first, int second)
{
	return first < 0 && (first != -EIO || second >= 0) ? first : second;
}

struct db *db_new(const char *path)
{
	struct db *db = calloc(1, sizeof(*db));
	if (!db)
		return NULL;
	db->lock_fd = -1;
	db->path = strdup(path);
	return db->path ? db : db_close(db);
}

struct db *db_close(struct db *db)
{
	if (!db)
		return NULL;
	db_writer_close(db->writer);
	db_writer_close(db->encoder);
	if (db->is_writing)
		sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
	statement_forget(db->handle);
	db_forget_last(db);
	sqlite3_close_v2(db->handle);
	if (db->temporary)
		unlink(db->temporary);
	if (db->lock_fd >= 0)
		close(db->lock_fd);
	free_all(db->temporary, db->path, db);
	return NULL;
}

sqlite3 *db_handle(const struct db *db)
{
	return db->handle;
}

int db_exec(struct db *db, const char *sql)
{
	return db_errno(db->handle, sqlite3_exec(db->handle, sql, NULL, NULL, NULL));
}

void db_forget_last(struct db *db)
{
	sqlite3_finalize(db->last);
	db->last = NULL;
	db->into = NULL;
}

/* Rows of sums come one after the other: to prepare a statement takes longer than to run it. */
static int prepare_last(struct db *db, const char *sql)
{
	if (db->last && strcmp(sqlite3_sql(db->last), sql) == 0)
		return 0;
	db_forget_last(db);
	return db_errno(db->handle, sqlite3_prepare_v2(db->handle, sql, -1, &db->last, NULL));
}

static int prepare_insert(struct db *db, const char *into, size_t n_values)
{
	if (db->into == into)
		return 0;
	db_forget_last(db);
	int r = statement_insert(db->handle, into, n_values, &db->last);
	db->into = r == 0 ? into : NULL;
	return r;
}

/* Run it, if it could be prepared (r). */
static int run_last(struct db *db, int r, const char *types, va_list args)
{
	int result = r == 0 ? statement_bind(db->last, types, args) : SQLITE_ERROR;

	while (result == SQLITE_OK || result == SQLITE_ROW)
		result = sqlite3_step(db->last);
	r = r ?: db_errno(db->handle, result);
	if (r < 0) {
		db_forget_last(db);
		return r;
	}
	sqlite3_reset(db->last);
	sqlite3_clear_bindings(db->last);
	return 0;
}

int db_run(struct db *db, const char *sql, const char *types, ...)
{
	va_list args;

	va_start(args, types);
	int r = run_last(db, prepare_last(db, sql), types, args);
	va_end(args);
	return r;
}

int db_insert(struct db *db, const char *into, const char *types, ...)
{
	va_list args;

	va_start(args, types);
	int r = run_last(db, prepare_insert(db, into, strlen(types)), types, args);
	va_end(args);
	return r;
}

int64_t db_integer(struct db *db, const char *sql, int64_t fallback)
{
	return statement_number(db->handle, fallback, sql, "");
}

int db_connect(struct db *db, const char *path, int flags)
{
	/* A name such as ":memory:" or "file:x" is a file here. */
	auto_free char *plain = NULL;
	if (asprintf(&plain, "%s%s", path[0] == '/' ? "" : "./", path) < 0)
		return -ENOMEM;

	statement_forget(db->handle);
	db_forget_last(db);
	sqlite3_close_v2(db->handle);
	db->handle = NULL;
	int r = sqlite3_open_v2(plain, &db->handle, flags | SQLITE_OPEN_EXRESCODE, NULL);
	if (r == SQLITE_OK)
		r = sqlite3_busy_timeout(db->handle, BUSY_TIMEOUT_MS);
	if (r == SQLITE_OK)
		r = chunk_table_register(db->handle, CHUNK_KEEP_BYTES);
	/* Views of a database that somebody else made call only what can do no harm. */
	if (r == SQLITE_OK)
		r = sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	return db_errno(db->handle, r);
}

static int user_version(void *context, int n, char **values, char **names)
{
	(void)names;
	if (n > 0 && values[0])
		*(int *)context = atoi(values[0]);
	return 0;
}

int db_check(struct db *db)
{
	int version = -1;
	int application = -1;

	int r = sqlite3_exec(db->handle, "PRAGMA user_version", user_version, &version, NULL);
	if (r == SQLITE_OK)
		r = sqlite3_exec(db->handle, "PRAGMA application_id", user_version, &application,
				 NULL);
	if (r != SQLITE_OK)
		return db_errno(db->handle, r);
	if (application != DB_APPLICATION_ID || version < 1)
		return -EBADMSG;
	if (version > DB_VERSION)
		return -EPROTONOSUPPORT;
	return version < DB_VERSION ? -ESTALE : 0;
}

/* A killed writer may have left a journal: rolling it back needs to write once. */
static int recover(struct db *db)
{
	int r = db_connect(db, db->path, SQLITE_OPEN_READWRITE);

	return r < 0 ? r : db_check(db);
}

int db_open(const char *path, struct db **ret_db)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;

	auto_db struct db *db = db_new(path);
	if (!db)
		return -ENOMEM;
	int r = db_connect(db, path, SQLITE_OPEN_READONLY) ?: db_check(db);
	if (r == -EROFS) /* SQLITE_READONLY_ROLLBACK */
		r = recover(db);
	if (r < 0)
		return r;
	*ret_db = steal_ptr(&db);
	return 0;
}
