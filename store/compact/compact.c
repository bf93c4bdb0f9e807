#include "store/compact/compact.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/compact/chunk-store.h"
#include "store/compact/virtual-table.h"
#include "store/database.h"
#include "store/statement.h"
#include "store/touch.h"

static const struct shown {
	const char *table;
	const char *chunks; /* of this name */
	int bit; /* of the rows that it shows; 0: all */
	const char *columns; /* of the chunks, in its own order; NULL: they are called as its own */
} tables[] = {
	{ "allocation", "allocation", 0, NULL },
	{ "touch", "touch", SHOWN_TOUCH, NULL },
	{ "sample", "touch", SHOWN_SAMPLE,
	  "sample_id, run_id, source_id, process_id, thread_id, time_ns, sample_frame_id, stack_id,"
	  " weight, is_kernel" },
	{ "access_detail", "touch", SHOWN_DETAIL,
	  "sample_id, run_id, latency, latency_2, latency_3, physical_address, page_bytes, node" },
};
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

/* Ask for the columns of a table. No text is bound: without memory that would be NULL. */
static int ask(sqlite3 *db, const char *what, const char *schema, const char *table,
	       sqlite3_stmt **ret_row)
{
	char *sql =
		sqlite3_mprintf("SELECT %s FROM pragma_table_info(%Q, %Q)", what, table, schema);
	int r = sql ? statement_prepare(db, sql, ret_row) : -ENOMEM;

	sqlite3_free(sql);
	return r;
}

int compact_columns(sqlite3 *db, const char *schema, const char *table, char **ret_list,
		    int *ret_id)
{
	auto_statement sqlite3_stmt *row = NULL;
	const char *hidden = compact_hidden(table);
	int r = ask(db, "group_concat(name, ', '), max(iif(pk, cid, -1))", schema, table, &row);

	if (r < 0)
		return r;
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
	return array_find(tables, N_TABLES, it,
			  strlen(it->chunks) == n && strncmp(it->chunks, name, n) == 0);
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
	return compact_is(db, tables[0].table);
}

enum info { NAME, TYPE, NOT_NULL, KEY };

/* The definitions of a table's columns. 0 or a negative errno. */
static int add_definitions(sqlite3 *db, const char *table, sqlite3_str *text)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = ask(db, "name, type, \"notnull\", pk", "main", table, &row);

	if (r < 0)
		return r;
	while ((r = statement_step(row)) == 1)
		sqlite3_str_appendf(text, ", %s %s%s%s", statement_string(row, NAME),
				    statement_string(row, TYPE),
				    sqlite3_column_int(row, KEY) > 0 ? " PRIMARY KEY" : "",
				    sqlite3_column_int(row, NOT_NULL) ? " NOT NULL" : "");
	return r;
}

/* Which chunks and columns a table shows: see virtual-table.h. 0 or a negative errno. */
static int add_source(sqlite3 *db, const struct shown *shown, sqlite3_str *text)
{
	auto_free char *names = NULL;
	size_t n = 0;
	int id, r = compact_columns(db, "main", shown->chunks, &names, &id);

	if (r < 0)
		return r;
	int of_bits = compact_find_name(names, "tables");
	int first = shown->columns ? compact_find_name(names, "sample_id") : id;
	sqlite3_str_appendf(text, "of %s %u %d %d %d %d", shown->chunks, compact_n_names(names), id,
			    first, of_bits < 0 ? 0 : of_bits, shown->bit);
	auto_free char *own = strndup(names, strlen(names) - strlen(compact_hidden(shown->chunks)));
	if (!own)
		return -ENOMEM;
	for (const char *name = shown->columns ? shown->columns : own;
	     *(name = next_name(name, &n));) {
		auto_free char *one = strndup(name, n);
		if (!one)
			return -ENOMEM;
		sqlite3_str_appendf(text, " %d", compact_find_name(names, one));
	}
	return 0;
}

/* A virtual table in the place of an empty one. */
static int change_table(struct db *db, const struct shown *shown)
{
	sqlite3_str *text = sqlite3_str_new(db_handle(db));

	sqlite3_str_appendf(text, "DROP TABLE \"%w\"; CREATE VIRTUAL TABLE \"%w\" USING %s(",
			    shown->table, shown->table, CHUNK_MODULE);
	int r = add_source(db_handle(db), shown, text);
	r = r ?: add_definitions(db_handle(db), shown->table, text);
	sqlite3_str_appendall(text, ")");
	char *sql = sqlite3_str_finish(text);
	if (r == 0)
		r = sql ? db_exec(db, sql) : -ENOMEM;
	sqlite3_free(sql);
	return r;
}

static const char chunk_sql[] =
	"CREATE TABLE IF NOT EXISTS \"%w_chunk\"("
	" id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL, series INTEGER NOT NULL,"
	" n_rows INTEGER NOT NULL, first_row INTEGER NOT NULL, last_row INTEGER NOT NULL,"
	" head BLOB NOT NULL);"
	"CREATE TABLE IF NOT EXISTS \"%w_column\"(id INTEGER PRIMARY KEY, data BLOB NOT NULL)";

static int make_chunks(struct db *db, const char *name)
{
	char *sql = sqlite3_mprintf(chunk_sql, name, name);
	int r = sql ? db_exec(db, sql) : -ENOMEM;

	sqlite3_free(sql);
	return r;
}

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
		r = make_chunks(db, tables[i].chunks);
		if (r == 0 && is_compact)
			r = change_table(db, &tables[i]);
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
