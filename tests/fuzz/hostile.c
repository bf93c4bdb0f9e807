#include "tests/fuzz/hostile.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "analyze/analyze.h"
#include "analyze/chunk-column.h"
#include "analyze/chunk-table.h"
#include "analyze/chunk-store.h"
#include "analyze/db.h"
#include "analyze/picture-part.h"
#include "common/cleanup.h"
#include "common/trace-frame.h"
#include "tests/fuzz/fuzz.h"
#include "tests/make-trace/make-trace.h"

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

struct change {
	uint8_t kind;
	uint8_t table;
	uint8_t column;
	uint8_t row;
	uint64_t value;
};

struct world {
	const struct hostile_base *base;
	sqlite3 *db;
};

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

static void change_rows(const struct world *world, const struct change *change)
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
	const char *table = world->base->tables[change->table % world->base->n_tables];
	char column[128], value[128], sql[640];

	pick_column(world->db, table, change->column, column, sizeof(column));
	SQL_FORMAT_BEGIN
	snprintf(value, sizeof(value), values[change->kind % (sizeof(values) / sizeof(values[0]))],
		 (long long)change->value);
	SQL_FORMAT_END
	snprintf(sql, sizeof(sql),
		 "UPDATE OR REPLACE \"%s\" SET \"%s\" = %s WHERE rowid %% 256 %s %u", table, column,
		 value, change->row == 255 ? ">=" : "=", change->row == 255 ? 0u : change->row);
	sqlite3_exec(world->db, sql, NULL, NULL, NULL);
}

static void change_schema(const struct world *world, const struct change *change)
{
	static const char *const forms[] = {
		"DELETE FROM \"%s\"",
		"DROP TABLE \"%s\"",
		"DELETE FROM \"%s\" WHERE rowid & 1",
		"INSERT OR REPLACE INTO \"%s\" SELECT * FROM \"%s\"",
	};
	const char *table = world->base->tables[change->table % world->base->n_tables];
	char sql[400];

	SQL_FORMAT_BEGIN
	snprintf(sql, sizeof(sql), forms[change->row % (sizeof(forms) / sizeof(forms[0]))], table,
		 table);
	SQL_FORMAT_END
	sqlite3_exec(world->db, sql, NULL, NULL, NULL);
}

/* ---- Behind checksums ---- */

static int64_t odd_value(const struct change *change, int64_t old)
{
	const int64_t values[] = {
		(int64_t)change->value,
		INT64_MAX,
		INT64_MIN,
		INT64_MIN + 1,
		-(int64_t)(change->value & 15),
		(int64_t)(change->value & 255),
		(int64_t)((change->value & 255) << 56),
		(int64_t)((uint64_t)old + change->value),
	};

	return values[change->kind & 7];
}

static bool is_meant(const struct change *change, uint32_t item)
{
	return change->row == 255 || change->row == item % 255;
}

/* One row of a query of id and bytes, counted around. The caller finalizes. */
static sqlite3_stmt *pick_row(sqlite3 *db, const char *sql, unsigned n)
{
	sqlite3_stmt *row = NULL;
	unsigned n_rows = 0;

	if (sqlite3_prepare_v2(db, sql, -1, &row, NULL) != SQLITE_OK)
		return NULL;
	while (sqlite3_step(row) == SQLITE_ROW)
		n_rows++;
	sqlite3_reset(row);
	for (unsigned i = 0; n_rows && i <= n % n_rows; i++)
		sqlite3_step(row);
	if (n_rows && sqlite3_column_type(row, 1) == SQLITE_BLOB)
		return row;
	sqlite3_finalize(row);
	return NULL;
}

static void put_bytes(sqlite3 *db, const char *sql, int64_t id, const void *bytes, size_t n_bytes)
{
	sqlite3_stmt *put = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &put, NULL) != SQLITE_OK)
		return;
	sqlite3_bind_blob(put, 1, bytes, (int)n_bytes, SQLITE_TRANSIENT);
	sqlite3_bind_int64(put, 2, id);
	sqlite3_step(put);
	sqlite3_finalize(put);
}

static void repack(const struct change *change, struct picture_columns *columns, sqlite3 *db,
		   int64_t id)
{
	struct picture_packer *packer = picture_packer_open();
	struct picture_item *items = calloc(columns->n + 1, sizeof(*items));
	const struct picture_item **order = calloc(columns->n + 1, sizeof(*order));
	struct picture_bytes bytes;

	FUZZ_REQUIRE(packer && items && order);
	for (uint32_t i = 0; i < columns->n; i++) {
		unsigned column = change->column % PICTURE_COLUMNS;
		for (unsigned c = 0; c < PICTURE_COLUMNS; c++)
			items[i].values[c] = columns->values[c][i];
		if (is_meant(change, i))
			items[i].values[column] = odd_value(change, items[i].values[column]);
		order[i] = &items[i];
	}
	if (columns->n && picture_pack(packer, order, columns->n, change->kind & 8, &bytes) == 0)
		put_bytes(db, "UPDATE picture_data SET data = ? WHERE id = ?", id, bytes.data,
			  bytes.n);
	free(order);
	free(items);
	picture_packer_close(packer);
}

static void change_part(const struct world *world, const struct change *change)
{
	sqlite3_stmt *row =
		pick_row(world->db, "SELECT id, data FROM picture_data ORDER BY id", change->table);
	struct chunk_decoder *decoder = chunk_decoder_open();
	struct picture_columns columns;

	FUZZ_REQUIRE(decoder && picture_columns_init(&columns) == 0);
	if (row) {
		int64_t id = sqlite3_column_int64(row, 0);
		const struct picture_bytes bytes = { sqlite3_column_blob(row, 1),
						     (size_t)sqlite3_column_bytes(row, 1) };
		columns.wanted = (1u << PICTURE_COLUMNS) - 1;
		int r = picture_unpack(decoder, &bytes, &columns);
		sqlite3_reset(row);
		if (r == 0)
			repack(change, &columns, world->db, id);
	}
	sqlite3_finalize(row);
	picture_columns_finish(&columns);
	chunk_decoder_close(decoder);
}

/* A column of a chunk is written anew as plain numbers. */
static void recode(const struct change *change, const struct chunk_column *column, sqlite3 *db,
		   const char *sql, int64_t id)
{
	struct chunk_encoder *encoder = chunk_encoder_open();
	int64_t *numbers = calloc(column->n, sizeof(*numbers));
	const struct chunk_values values = { .values = numbers,
					     .n = column->n,
					     .may_be_null = true };
	const void *bytes;
	size_t n_bytes;

	FUZZ_REQUIRE(encoder && numbers);
	for (uint32_t i = 0; i < column->n; i++) {
		numbers[i] = CHUNK_NULL;
		chunk_column_get(column, i, &numbers[i]);
		if (is_meant(change, i))
			numbers[i] = odd_value(change, numbers[i]);
	}
	if (chunk_column_encode(encoder, &values, (struct chunk_plan){ CHUNK_PLAIN, 0 }, &bytes,
				&n_bytes) == 0)
		put_bytes(db, sql, id, bytes, n_bytes);
	free(numbers);
	chunk_encoder_close(encoder);
}

static void change_chunk_column(const struct change *change, sqlite3_stmt *row, sqlite3 *db,
				const char *sql)
{
	struct chunk_decoder *decoder = chunk_decoder_open();
	size_t n_bytes = (size_t)sqlite3_column_bytes(row, 1);
	struct chunk_column *column;
	int other;

	FUZZ_REQUIRE(decoder);
	void *bytes = malloc(n_bytes + 1);
	FUZZ_REQUIRE(bytes);
	memcpy(bytes, sqlite3_column_blob(row, 1), n_bytes);
	int64_t id = sqlite3_column_int64(row, 0);
	sqlite3_reset(row);
	/* Of one that is relative to another, only its own bytes are changed. */
	if (chunk_column_check(bytes, n_bytes, &other) == 0 && other < 0 &&
	    chunk_column_decode(decoder, bytes, n_bytes, NULL, &column) == 0) {
		recode(change, column, db, sql, id);
		chunk_column_free(column);
	}
	free(bytes);
	chunk_decoder_close(decoder);
}

/* What a chunk says of the least and most of its columns. */
static void change_chunk_head(const struct change *change, sqlite3_stmt *row, sqlite3 *db,
			      const char *sql)
{
	size_t n_bytes = (size_t)sqlite3_column_bytes(row, 1);
	char *bytes = malloc(n_bytes + 8);

	FUZZ_REQUIRE(bytes);
	memcpy(bytes, sqlite3_column_blob(row, 1), n_bytes);
	int64_t id = sqlite3_column_int64(row, 0), number;
	sqlite3_reset(row);
	if (n_bytes >= sizeof(uint32_t) + sizeof(number)) {
		size_t n_numbers = (n_bytes - sizeof(uint32_t)) / sizeof(number);
		char *at = bytes + sizeof(uint32_t) + change->column % n_numbers * sizeof(number);
		memcpy(&number, at, sizeof(number));
		number = odd_value(change, number);
		memcpy(at, &number, sizeof(number));
		uint32_t checksum =
			trace_checksum(bytes + sizeof(checksum), n_bytes - sizeof(checksum));
		memcpy(bytes, &checksum, sizeof(checksum));
		put_bytes(db, sql, id, bytes, n_bytes);
	}
	free(bytes);
}

static void change_chunk(const struct world *world, const struct change *change)
{
	static const char *const tables[] = { "allocation", "sample", "touch" };
	const char *table = tables[change->table % 3];
	bool is_head = change->kind & 8;
	char select[160], update[160];

	snprintf(select, sizeof(select), "SELECT id, %s FROM %s_%s ORDER BY id",
		 is_head ? "head" : "data", table, is_head ? "chunk" : "column");
	snprintf(update, sizeof(update), "UPDATE %s_%s SET %s = ? WHERE id = ?", table,
		 is_head ? "chunk" : "column", is_head ? "head" : "data");
	sqlite3_stmt *row =
		pick_row(world->db, select, is_head ? change->table / 3 : change->column);
	if (row && is_head)
		change_chunk_head(change, row, world->db, update);
	else if (row)
		change_chunk_column(change, row, world->db, update);
	sqlite3_finalize(row);
}

static void change_bytes(const char *path, const struct change *change, size_t n_bytes)
{
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	uint64_t at = (change->value >> 8) % n_bytes;
	uint8_t byte = (uint8_t)change->value;

	FUZZ_REQUIRE(fd >= 0 && pwrite(fd, &byte, 1, (off_t)at) == 1);
}

/* ---- All of them ---- */

enum {
	CHANGE_ROWS_BELOW = 0xa0,
	CHANGE_PART_BELOW = 0xb0,
	CHANGE_CHUNK_BELOW = 0xc0,
	CHANGE_SCHEMA_BELOW = 0xd0
};

static void change_once(const struct world *world, const char *path, const struct change *change)
{
	if (change->kind < CHANGE_ROWS_BELOW)
		change_rows(world, change);
	else if (change->kind < CHANGE_PART_BELOW)
		change_part(world, change);
	else if (change->kind < CHANGE_CHUNK_BELOW)
		change_chunk(world, change);
	else if (change->kind < CHANGE_SCHEMA_BELOW)
		change_schema(world, change);
	else
		change_bytes(path, change, world->base->n_bytes);
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
	struct world world = { .base = base };

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
		struct change change = {
			.kind = (uint8_t)fuzz_take(bytes, n_bytes, 1),
			.table = (uint8_t)fuzz_take(bytes, n_bytes, 1),
			.column = (uint8_t)fuzz_take(bytes, n_bytes, 1),
			.row = (uint8_t)fuzz_take(bytes, n_bytes, 1),
			.value = fuzz_take(bytes, n_bytes, 8),
		};
		change_once(&world, path, &change);
	}
	sqlite3_close(world.db);
	return path;
}
