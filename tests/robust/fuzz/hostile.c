#include "tests/robust/fuzz/hostile.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "analyze/analyze.h"
#include "common/cleanup.h"
#include "store/database.h"
#include "store/heatmap/heatmap.h"
#include "tests/robust/fuzz/fuzz.h"
#include "tests/robust/fuzz/hostile-packed.h"
#include "tests/support/make-trace/make-trace.h"

#define MAX_BYTES (64u << 20)

#define SQL_FORMAT_BEGIN                                                                           \
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wformat-nonliteral\"")
#define SQL_FORMAT_END _Pragma("GCC diagnostic pop")

/* ---- Files ---- */

static char folder[64];

static void remove_all(void)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(folder);
}

/* In memory where that is: nothing of it must outlive the test. */
static void make_folder(void)
{
	const char *home = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");

	snprintf(folder, sizeof(folder), "%.30s/fuzz-database-XXXXXX",
		 home && strlen(home) < 30 ? home : "/tmp");
	FUZZ_REQUIRE(mkdtemp(folder));
	FUZZ_REQUIRE(atexit(remove_all) == 0);
}

static const char *place(char *path, size_t n_bytes, const char *name)
{
	if (!folder[0])
		make_folder();
	snprintf(path, n_bytes, "%s/%.8s", folder, name);
	return path;
}

const char *hostile_beside(const char *name)
{
	static char path[80];

	return place(path, sizeof(path), name);
}

/* ---- The base ---- */

static void read_tables(struct hostile_base *base, const char *path)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *row = NULL;

	FUZZ_REQUIRE(sqlite3_open(path, &db) == SQLITE_OK);
	FUZZ_REQUIRE(sqlite3_prepare_v2(
			     db,
			     "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
			     -1, &row, NULL) == SQLITE_OK);
	while (sqlite3_step(row) == SQLITE_ROW) {
		base->tables = realloc(base->tables, (base->n_tables + 1) * sizeof(*base->tables));
		FUZZ_REQUIRE(base->tables);
		snprintf(base->tables[base->n_tables++], sizeof(*base->tables), "%s",
			 (const char *)sqlite3_column_text(row, 0));
	}
	sqlite3_finalize(row);
	sqlite3_close(db);
	FUZZ_REQUIRE(base->n_tables > 0);
}

static void make_base(struct hostile_base *base)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;
	struct import_options import = { .force = true, .compact = base->is_compact };
	struct import_result result = { 0 };
	size_t failed = 0;
	char trace_path[80], db_path[84];

	options.n_events = 200;
	options.n_samples = 40;
	options.n_live = 20;
	options.are_accesses = base->are_accesses;
	place(trace_path, sizeof(trace_path), "t.mst");
	snprintf(db_path, sizeof(db_path), "%s.db", trace_path);
	unlink(db_path);
	int fd = open(trace_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_REQUIRE(fd >= 0 && make_trace(fd, &options, NULL) == 0);
	FUZZ_REQUIRE(analyze_beside(trace_path, &import, &result, &failed) == 0);
	FUZZ_REQUIRE(io_read_file(db_path, MAX_BYTES, &base->bytes, &base->n_bytes) == 0);
	read_tables(base, db_path);
}

/* ---- Changes ---- */

/* The name of a column of a table, counted around; "" without any. */
static void pick_column(sqlite3 *db, const char *table, unsigned n, char *ret_name, size_t n_bytes)
{
	sqlite3_stmt *row = NULL;
	unsigned n_rows = 0;

	ret_name[0] = '\0';
	if (sqlite3_prepare_v2(db, "SELECT name FROM pragma_table_info(?)", -1, &row, NULL) !=
	    SQLITE_OK)
		return;
	sqlite3_bind_text(row, 1, table, -1, SQLITE_STATIC);
	while (sqlite3_step(row) == SQLITE_ROW)
		n_rows++;
	sqlite3_reset(row);
	for (unsigned i = 0; n_rows && i <= n % n_rows && sqlite3_step(row) == SQLITE_ROW; i++)
		snprintf(ret_name, n_bytes, "%s", (const char *)sqlite3_column_text(row, 0));
	sqlite3_finalize(row);
}

static void change_rows(const struct hostile_base *base, sqlite3 *db,
			const struct hostile_change *change)
{
	static const char *const values[] = {
		"%lld",
		"NULL",
		"CAST(%lld AS REAL) * 1e300",
		"'%lld'",
		"zeroblob(%lld & 255)",
		"-9223372036854775808 + %lld * 0",
		"9223372036854775807 - (%lld & 1)",
		"char(%lld & 65535, 10, 9, 27)",
		"printf('%%0*d', %lld & 65535, 7)",
		"-(%lld & 15)",
		"%lld & 15",
		"(%lld & 255) * 4294967296",
	};
	const char *table = base->tables[change->table % base->n_tables];
	char column[128], value[128], sql[640];

	pick_column(db, table, change->column, column, sizeof(column));
	SQL_FORMAT_BEGIN
	snprintf(value, sizeof(value), values[change->kind % (sizeof(values) / sizeof(values[0]))],
		 (long long)change->value);
	SQL_FORMAT_END
	snprintf(sql, sizeof(sql),
		 "UPDATE OR REPLACE \"%s\" SET \"%s\" = %s WHERE rowid %% 256 %s %u", table, column,
		 value, change->row == 255 ? ">=" : "=", change->row == 255 ? 0u : change->row);
	sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static void change_schema(const struct hostile_base *base, sqlite3 *db,
			  const struct hostile_change *change)
{
	static const char *const forms[] = {
		"DELETE FROM \"%s\"",
		"DROP TABLE \"%s\"",
		"DELETE FROM \"%s\" WHERE rowid & 1",
		"INSERT OR REPLACE INTO \"%s\" SELECT * FROM \"%s\"",
	};
	const char *table = base->tables[change->table % base->n_tables];
	char sql[400];

	SQL_FORMAT_BEGIN
	snprintf(sql, sizeof(sql), forms[change->row % (sizeof(forms) / sizeof(forms[0]))], table,
		 table);
	SQL_FORMAT_END
	sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static void change_bytes(const char *path, const struct hostile_change *change, size_t n_bytes)
{
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	uint64_t at = (change->value >> 8) % n_bytes;
	uint8_t byte = (uint8_t)change->value;

	FUZZ_REQUIRE(fd >= 0 && pwrite(fd, &byte, 1, (off_t)at) == 1);
}

/* ---- All of them ---- */

struct world {
	const struct hostile_base *base;
	const char *path;
	sqlite3 *db;
};

enum { CHANGE_ROWS_BELOW = 0x90, CHANGE_CHUNK_BELOW = 0xc0, CHANGE_SCHEMA_BELOW = 0xd0 };

static void change_once(const struct world *world, const struct hostile_change *change)
{
	sqlite3 *db = world->db;

	if (change->kind < CHANGE_ROWS_BELOW)
		change_rows(world->base, db, change);
	else if (change->kind < CHANGE_CHUNK_BELOW)
		hostile_change_chunk(db, change);
	else if (change->kind < CHANGE_SCHEMA_BELOW)
		change_schema(world->base, db, change);
	else
		change_bytes(world->path, change, world->base->n_bytes);
}

static void write_base(const struct hostile_base *base, const char *path)
{
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	FUZZ_REQUIRE(fd >= 0 && io_write_all(fd, base->bytes, base->n_bytes) == 0);
}

const char *hostile_write(struct hostile_base *base, unsigned n_most, const uint8_t **bytes,
			  size_t *n_bytes)
{
	static char path[80];
	struct world world = { .base = base, .path = path };

	place(path, sizeof(path), "c.db");
	if (!base->bytes)
		make_base(base);
	write_base(base, path);
	FUZZ_REQUIRE(sqlite3_open(path, &world.db) == SQLITE_OK);
	sqlite3_exec(
		world.db,
		"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF",
		NULL, NULL, NULL);
	for (unsigned i = 0; i<n_most && * n_bytes> 0; i++) {
		struct hostile_change change = {
			.kind = (uint8_t)fuzz_take(bytes, n_bytes, 1),
			.table = (uint8_t)fuzz_take(bytes, n_bytes, 1),
			.column = (uint8_t)fuzz_take(bytes, n_bytes, 1),
			.row = (uint8_t)fuzz_take(bytes, n_bytes, 1),
			.value = fuzz_take(bytes, n_bytes, 8),
		};
		change_once(&world, &change);
	}
	sqlite3_close(world.db);
	return path;
}
