#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "store/database-internal.h"
#include "store/heatmap/heatmap.h"
#include "store/schema.h"
#include "store/statement.h"

/* Where the axes' categories get their names. */
static const char copy_sql[] = "INSERT INTO main.thread SELECT * FROM original.thread;"
			       "INSERT INTO main.thread_name SELECT * FROM original.thread_name;"
			       "INSERT INTO main.source SELECT * FROM original.source;";

bool picture_is_missing(sqlite3 *db)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(
		db,
		"SELECT 1 FROM run WHERE detail = 'full' AND id NOT IN (SELECT run_id FROM picture)"
		" AND (EXISTS (SELECT 1 FROM allocation WHERE run_id = run.id)"
		" OR EXISTS (SELECT 1 FROM touch WHERE run_id = run.id AND address IS NOT NULL))",
		&row);

	return r == 0 && statement_step(row) > 0;
}

/* An empty file that nobody else may read. Returns 0 or a negative errno. */
static int make_file(char **ret_path)
{
	const char *folder = getenv("TMPDIR");
	auto_free char *path = NULL;

	if (asprintf(&path, "%s/memsight-pictures-XXXXXX", folder && *folder ? folder : "/tmp") < 0)
		return -ENOMEM;
	auto_close int fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_path = steal_ptr(&path);
	return 0;
}

/*
 * A path as a URI that only lets read (https://www.sqlite.org/uri.html), allocated. NULL without
 * memory.
 */
static char *read_only_uri(const char *path)
{
	char *uri = malloc(3 * strlen(path) + sizeof("file://?mode=ro"));
	char *to = uri;

	if (!uri)
		return NULL;
	to = stpcpy(to, path[0] == '/' ? "file://" : "file:./");
	for (; *path; path++) {
		if (strchr("?#%", *path))
			to += sprintf(to, "%%%02x", (unsigned char)*path);
		else
			*to++ = *path;
	}
	strcpy(to, "?mode=ro");
	return uri;
}

/* Whatever its schema asks for, the original cannot be written. */
static int attach(struct db *db, const char *path)
{
	auto_free char *uri = read_only_uri(path);
	char *sql = uri ? sqlite3_mprintf("ATTACH %Q AS original", uri) : NULL;
	int r = sql ? db_exec(db, sql) : -ENOMEM;

	sqlite3_free(sql);
	return r;
}

/* The tables of heatmaps, or all others. */
static int make_tables(struct db *db, bool of_heatmaps)
{
	int r = 0;

	for (int i = 0; i < db_n_groups && r == 0; i++) {
		if (of_heatmaps == (strcmp(db_groups[i].heading, DB_HEATMAPS) == 0))
			r = db_exec(db, db_groups[i].sql);
	}
	return r;
}

/* Pictures of all runs that have none. */
static int add_runs(struct db *db)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(db),
				  "SELECT id FROM run WHERE detail = 'full' AND id NOT IN"
				  " (SELECT run_id FROM picture)",
				  &row);

	while (r >= 0 && (r = statement_step(row)) > 0)
		r = picture_write(db, sqlite3_column_int64(row, 0));
	return r;
}

/*
 * Names of tables are looked for in the private database first: while pictures are computed it has
 * theirs only, and all others are the original's.
 */
static int compute_runs(struct db *db)
{
	int r = make_tables(db, true);

	return r < 0 ? r : add_runs(db);
}

/* The rest of a database, for db_open() to know it. */
static int complete(struct db *db)
{
	int r = make_tables(db, false) ?: db_exec(db, copy_sql);
	return r < 0 ? r : db_sign(db);
}

static int fill(const char *original, const char *path)
{
	auto_db struct db *db = db_new(path);
	int r = db ? db_connect(db, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI) : -ENOMEM;

	if (r == 0)
		r = db_exec(db, "PRAGMA page_size = 8192; PRAGMA journal_mode = OFF;"
				"PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF");
	r = r ?: attach(db, original);
	r = r ?: db_exec(db, "BEGIN");
	r = r ?: compute_runs(db);
	r = r ?: complete(db);
	/*
	 * Who had no memory may have gone on with too little; SQLite rolls back then, and finds no
	 * tables.
	 */
	int kept = db ? statement_kept(db_handle(db)) : 0;
	if (kept == -ENOMEM || (r == 0 && kept < 0))
		r = kept;
	return r < 0 ? r : db_exec(db, "COMMIT");
}

int picture_compute(const char *path, char **ret_path)
{
	auto_free char *private = NULL;
	int r = make_file(&private) ?: fill(path, private);
	if (r < 0) {
		if (private)
			unlink(private);
		return r;
	}
	*ret_path = steal_ptr(&private);
	return 0;
}

int picture_add(const char *path)
{
	auto_db struct db *before = NULL;
	auto_db struct db *db = NULL;
	int r = db_open(path, &before);
	int64_t version = r == 0 ? db_integer(before, "PRAGMA data_version", 0) : 0;

	r = r ?: db_begin(path, DB_COPY, &db);
	r = r ?: add_runs(db);
	/* Somebody may have added to it in its place, who waits for nobody's copy. */
	if (r == 0 && db_integer(before, "PRAGMA data_version", -1) != version)
		r = -EBUSY;
	return r < 0 ? r : db_commit(db);
}
