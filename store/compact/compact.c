#include "store/compact/compact.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/compact/chunk-store.h"
#include "store/compact/virtual-table.h"
#include "store/database.h"
#include "store/row-writer.h"
#include "store/statement.h"
#include "store/touch.h"

static const struct shown {
	const char *table;
	const char *chunks; /* of this name */
	int bit; /* of the rows that it shows; 0: all */
	const char *columns; /* of the chunks, in its own order: its id first, if it has one */
} tables[] = {
	{ "allocation", "allocation", 0, ROWS_ALLOCATION },
	{ "touch", "touch", SHOWN_TOUCH, ROWS_TOUCH },
	{ "sample", "touch", SHOWN_SAMPLE,
	  "sample_id, run_id, source_id, process_id, thread_id, time_ns, sample_frame_id, stack_id,"
	  " weight, is_kernel" },
	{ "access_detail", "touch", SHOWN_DETAIL,
	  "sample_id, run_id, latency, latency_2, latency_3, physical_address, page_bytes, node" },
};
#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

const char *compact_columns(const char *chunks)
{
	return strcmp(chunks, "allocation") == 0 ? ROWS_ALLOCATION
	       : strcmp(chunks, "touch") == 0	 ? ROWS_TOUCH ", " COMPACT_HIDDEN_TOUCH
						 : NULL;
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
	size_t n = 0, n_name = strcspn(name, ", ");

	for (int i = 0; *(list = next_name(list, &n)); i++) {
		if (n == n_name && strncmp(list, name, n) == 0)
			return i;
	}
	return -1;
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

bool compact_is_database(sqlite3 *db)
{
	return compact_is(db, tables[0].table);
}

/*
 * A virtual table in the place of an empty one: which chunks and columns it shows
 * (virtual-table.h), and the definitions that the table had.
 */
static int change_table(struct db *db, const struct shown *shown)
{
	const char *names = compact_columns(shown->chunks), *name = shown->columns;
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(db), "SELECT sql FROM sqlite_master WHERE name = ?",
				  &row);

	if (r < 0)
		return r;
	statement_text(row, 1, shown->table);
	r = statement_step(row);
	const char *definitions = r > 0 ? strchr(statement_string(row, 0), '(') : NULL;
	if (!definitions) /* it was just made: there was no memory to bind its name */
		return r < 0 ? r : -ENOMEM;
	sqlite3_str *text = sqlite3_str_new(db_handle(db));
	int id = compact_find_name(names, "id"), bits = compact_find_name(names, "tables");
	bool is_own = strcmp(shown->table, shown->chunks) == 0;
	sqlite3_str_appendf(text, "DROP TABLE %s; CREATE VIRTUAL TABLE %s USING %s(of %s %u %d %d",
			    shown->table, shown->table, CHUNK_MODULE, shown->chunks,
			    compact_n_names(names), id,
			    is_own ? id : compact_find_name(names, "sample_id"));
	sqlite3_str_appendf(text, " %d %d", bits < 0 ? 0 : bits, shown->bit);
	for (size_t n = 0; *(name = next_name(name, &n));)
		sqlite3_str_appendf(text, " %d", compact_find_name(names, name));
	sqlite3_str_appendf(text, ", %s", definitions + 1);
	sqlite3_reset(row);
	char *sql = sqlite3_str_finish(text);
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
