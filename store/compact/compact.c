#include "store/compact/compact.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/compact/chunk-store.h"
#include "store/compact/virtual-table.h"
#include "store/database.h"
#include "store/statement.h"

static const char *const tables[] = { "allocation", "sample", "touch", "access_detail" };
#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

const char *compact_hidden(const char *table)
{
	return strcmp(table, "touch") == 0 ? COMPACT_HIDDEN_TOUCH : "";
}

/* The next name of a list; its length is 0 behind the last one. */
static const char *next_name(const char *list, size_t *n)
{
	list += *n;
	list += strspn(list, ", ");
	*n = strcspn(list, ", ");
	return list;
}

unsigned compact_n_names(const char *list)
{
	unsigned n_names = 0;

	for (size_t n = 0; *(list = next_name(list, &n));)
		n_names++;
	return n_names;
}

int compact_find_name(const char *list, const char *name)
{
	size_t n = 0;

	for (int i = 0; *(list = next_name(list, &n)); i++) {
		if (n == strlen(name) && strncmp(list, name, n) == 0)
			return i;
	}
	return -1;
}

int compact_columns(sqlite3 *db, const char *schema, const char *table, char **ret_list,
		    int *ret_id)
{
	auto_statement sqlite3_stmt *row = NULL;
	const char *hidden = compact_hidden(table);
	int r = statement_prepare(db,
				  "SELECT group_concat(name, ', '), max(iif(pk, cid, -1))"
				  " FROM pragma_table_info(?, ?)",
				  &row);

	if (r < 0)
		return r;
	statement_text(row, 1, table);
	statement_text(row, 2, schema);
	r = statement_step(row);
	if (r <= 0 || sqlite3_column_type(row, 0) == SQLITE_NULL)
		return r < 0 ? r : -EINVAL;
	if (asprintf(ret_list, "%s%s%s", statement_string(row, 0), *hidden ? ", " : "", hidden) < 0)
		return -ENOMEM;
	*ret_id = *hidden ? compact_find_name(*ret_list, "id") : sqlite3_column_int(row, 1);
	return 0;
}

bool compact_is(sqlite3 *db, const char *table)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db,
				  "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
				  " AND sql LIKE 'CREATE VIRTUAL TABLE%'",
				  &row);

	if (r == 0) {
		statement_text(row, 1, table);
		r = statement_step(row);
	}
	if (r < 0)
		statement_keep(db, sqlite3_errcode(db));
	return r == 1;
}

static bool has_chunks(const char *name, size_t n)
{
	for (size_t i = 0; i < N_TABLES; i++) {
		if (strlen(tables[i]) == n && strncmp(tables[i], name, n) == 0)
			return true;
	}
	return false;
}

bool compact_has_chunks(const char *table)
{
	return has_chunks(table, strlen(table));
}

bool compact_is_part(const char *table)
{
	const char *end = strrchr(table, '_');

	return end && has_chunks(table, (size_t)(end - table)) &&
	       (strcmp(end, "_chunk") == 0 || strcmp(end, "_column") == 0);
}

bool compact_is_database(sqlite3 *db)
{
	return compact_is(db, tables[0]);
}

/*
 * Run SQL with the table's name as %w, and its columns behind it as %s, if there is such a place.
 */
static int run(struct db *db, const char *format, const char *table, const char *columns)
{
	char *sql = sqlite3_mprintf(format, table, columns);
	int r = sql ? db_exec(db, sql) : -ENOMEM;

	sqlite3_free(sql);
	return r;
}

enum info { NAME, TYPE, NOT_NULL, KEY };

static void add_definition(sqlite3_str *text, sqlite3_stmt *row)
{
	bool is_key = sqlite3_column_int(row, KEY) > 0;

	sqlite3_str_appendf(text, "%s%s %s%s%s", sqlite3_str_length(text) ? ", " : "",
			    statement_string(row, NAME), statement_string(row, TYPE),
			    is_key ? " PRIMARY KEY" : "",
			    sqlite3_column_int(row, NOT_NULL) ? " NOT NULL" : "");
}

/* The definitions of a table's columns, to be freed by sqlite3_free(). */
static int read_columns(struct db *db, const char *table, char **ret_columns)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(db),
				  "SELECT name, type, \"notnull\", pk"
				  " FROM pragma_table_info(?) ORDER BY cid",
				  &row);
	if (r < 0)
		return r;
	statement_text(row, 1, table);
	sqlite3_str *text = sqlite3_str_new(db_handle(db));
	while ((r = statement_step(row)) == 1)
		add_definition(text, row);
	size_t n = 0;
	for (const char *name = compact_hidden(table); *(name = next_name(name, &n));)
		sqlite3_str_appendf(text, ", _%.*s INTEGER HIDDEN%s", (int)n, name,
				    strncmp(name, "id", n) == 0 ? " PRIMARY KEY" : "");
	char *columns = sqlite3_str_finish(text);
	if (r < 0 || !columns) {
		sqlite3_free(columns);
		return r < 0 ? r : -ENOMEM;
	}
	*ret_columns = columns;
	return 0;
}

/* Make a table anew with the columns that it has. */
static int change_table(struct db *db, const char *table, const char *format)
{
	char *columns;
	int r = read_columns(db, table, &columns);

	if (r < 0)
		return r;
	r = run(db, "DROP TABLE \"%w\"", table, NULL);
	if (r == 0)
		r = run(db, format, table, columns);
	sqlite3_free(columns);
	return r;
}

static const char chunk_sql[] =
	"CREATE TABLE IF NOT EXISTS \"%w_chunk\"("
	" id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL, series INTEGER NOT NULL,"
	" n_rows INTEGER NOT NULL, first_row INTEGER NOT NULL, last_row INTEGER NOT NULL,"
	" head BLOB NOT NULL)";
static const char column_sql[] =
	"CREATE TABLE IF NOT EXISTS \"%w_column\"(id INTEGER PRIMARY KEY, data BLOB NOT NULL)";
/* clang-format off */
static const char readme_sql[] =
	"CREATE VIEW IF NOT EXISTS readme AS SELECT 'This database is compact: allocation, sample,"
	" touch and access_detail are read through an extension of SQLite that memsight installs."
	" In sqlite3:"
	" .load " MEMSIGHT_LIBRARIES "/" CHUNK_MODULE ". memsight itself has it built in, and"
	" `memsight analyze -o X.db TRACE'' makes a database of plain tables.' AS text";
/* clang-format on */

int compact_make(struct db *db, bool is_compact)
{
	int r = is_compact ? db_exec(db, readme_sql) : 0;

	for (size_t i = 0; i < N_TABLES && r == 0; i++) {
		r = run(db, chunk_sql, tables[i], NULL);
		if (r == 0)
			r = run(db, column_sql, tables[i], NULL);
		if (r == 0 && is_compact)
			r = change_table(db, tables[i],
					 "CREATE VIRTUAL TABLE \"%w\" USING " CHUNK_MODULE "(%s)");
	}
	return r;
}

int compact_delete_run(struct db *db, const char *table, int64_t run_id)
{
	char *sql = sqlite3_mprintf(
		"DELETE FROM \"%w_column\" WHERE id IN (SELECT part.id FROM \"%w_chunk\" AS chunk"
		" JOIN \"%w_column\" AS part ON part.id BETWEEN chunk.id * %d"
		" AND chunk.id * %d + %d"
		" WHERE run_id = %lld);"
		"DELETE FROM \"%w_chunk\" WHERE run_id = %lld",
		table, table, table, (int)CHUNK_FRAMES, (int)CHUNK_FRAMES, (int)CHUNK_FRAMES - 1,
		(long long)run_id, table, (long long)run_id);
	int r = sql ? db_exec(db, sql) : -ENOMEM;

	sqlite3_free(sql);
	return r;
}
