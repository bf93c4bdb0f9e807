/*
 * Opens a database that somebody changed, and writes every report and export of it. The base is a small one that is
 * made anew, plain or compact by the first byte. What follows are changes of 12 bytes: what is done, to which
 * table, column and row, and with what value.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "analyze/analyze.h"
#include "analyze/export.h"
#include "analyze/report.h"
#include "analyze/selection.h"
#include "common/cleanup.h"
#include "tests/fuzz/fuzz.h"
#include "tests/make-trace/make-trace.h"

#define MAX_CHANGES 12u
#define MAX_BYTES   (64u << 20)

static struct base {
	char *bytes;
	size_t n_bytes;
} bases[2];

static char folder[64], trace_path[80], db_path[80], changed_path[80];

static void remove_all(void)
{
	unlink(trace_path);
	unlink(db_path);
	unlink(changed_path);
	rmdir(folder);
}

static void make_folder(void)
{
	const char *home = getenv("TMPDIR");

	snprintf(folder, sizeof(folder), "%.30s/fuzz-database-XXXXXX",
		 home && strlen(home) < 30 ? home : "/tmp");
	FUZZ_REQUIRE(mkdtemp(folder));
	snprintf(trace_path, sizeof(trace_path), "%s/t.mst", folder);
	snprintf(db_path, sizeof(db_path), "%s/t.mst.db", folder);
	snprintf(changed_path, sizeof(changed_path), "%s/c.db", folder);
	FUZZ_REQUIRE(atexit(remove_all) == 0);
}

static void make_base(bool is_compact, struct base *ret_base)
{
	struct make_trace_options options = MAKE_TRACE_DEFAULTS;
	struct import_options import = { .force = true, .compact = is_compact };
	struct import_result result = { 0 };
	size_t failed = 0;

	options.n_events = 200;
	options.n_samples = 40;
	options.n_live = 20;
	unlink(db_path);
	int fd = open(trace_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_REQUIRE(fd >= 0 && make_trace(fd, &options, NULL) == 0);
	FUZZ_REQUIRE(analyze_beside(trace_path, &import, &result, &failed) == 0);
	FUZZ_REQUIRE(io_read_file(db_path, MAX_BYTES, &ret_base->bytes, &ret_base->n_bytes) == 0);
}

static void write_base(const struct base *base)
{
	auto_close int fd = open(changed_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	FUZZ_REQUIRE(fd >= 0 && io_write_all(fd, base->bytes, base->n_bytes) == 0);
}

/* ---- Changes ---- */

struct change {
	uint8_t kind;
	uint8_t table;
	uint8_t column;
	uint8_t row;
	uint64_t value;
};

/* The name in one row of a query, counted around; "" without any. */
static void pick(sqlite3 *db, const char *sql, const char *table, unsigned n, char *ret_name,
		 size_t n_bytes)
{
	sqlite3_stmt *stmt = NULL;
	int64_t n_rows = 0;

	ret_name[0] = '\0';
	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
		return;
	if (table)
		sqlite3_bind_text(stmt, 1, table, -1, SQLITE_TRANSIENT);
	while (sqlite3_step(stmt) == SQLITE_ROW)
		n_rows++;
	sqlite3_reset(stmt);
	for (int64_t i = n_rows ? n % n_rows : -1; i >= 0 && sqlite3_step(stmt) == SQLITE_ROW; i--)
		snprintf(ret_name, n_bytes, "%s", (const char *)sqlite3_column_text(stmt, 0));
	sqlite3_finalize(stmt);
}

static void change_rows(sqlite3 *db, const struct change *change)
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
	char table[128], column[128], value[128], sql[640];

	pick(db, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name", NULL,
	     change->table, table, sizeof(table));
	pick(db, "SELECT name FROM pragma_table_info(?)", table, change->column, column,
	     sizeof(column));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(value, sizeof(value), values[change->kind % (sizeof(values) / sizeof(values[0]))],
		 (long long)change->value);
#pragma GCC diagnostic pop
	snprintf(sql, sizeof(sql),
		 "UPDATE OR REPLACE \"%s\" SET \"%s\" = %s WHERE rowid %% 256 %s %u", table, column,
		 value, change->row == 255 ? ">=" : "=", change->row == 255 ? 0u : change->row);
	sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static void change_schema(sqlite3 *db, const struct change *change)
{
	static const char *const forms[] = {
		"DELETE FROM \"%s\"",
		"DROP TABLE \"%s\"",
		"DELETE FROM \"%s\" WHERE rowid & 1",
		"INSERT OR REPLACE INTO \"%s\" SELECT * FROM \"%s\"",
	};
	char table[128], sql[400];

	pick(db, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name", NULL,
	     change->table, table, sizeof(table));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(sql, sizeof(sql), forms[change->row % (sizeof(forms) / sizeof(forms[0]))], table,
		 table);
#pragma GCC diagnostic pop
	sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static void change_bytes(const struct change *change, size_t n_bytes)
{
	auto_close int fd = open(changed_path, O_WRONLY | O_CLOEXEC);
	uint64_t at = (change->value >> 8) % n_bytes;
	uint8_t byte = (uint8_t)change->value;

	FUZZ_REQUIRE(fd >= 0 && pwrite(fd, &byte, 1, (off_t)at) == 1);
}

enum { CHANGE_ROWS_BELOW = 0xc0, CHANGE_SCHEMA_BELOW = 0xd0 };

static void change_all(const struct base *base, const uint8_t *bytes, size_t n_bytes)
{
	sqlite3 *db = NULL;

	write_base(base);
	FUZZ_REQUIRE(sqlite3_open(changed_path, &db) == SQLITE_OK);
	sqlite3_exec(
		db,
		"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF",
		NULL, NULL, NULL);
	for (unsigned i = 0; i < MAX_CHANGES && n_bytes > 0; i++) {
		struct change change = {
			.kind = (uint8_t)fuzz_take(&bytes, &n_bytes, 1),
			.table = (uint8_t)fuzz_take(&bytes, &n_bytes, 1),
			.column = (uint8_t)fuzz_take(&bytes, &n_bytes, 1),
			.row = (uint8_t)fuzz_take(&bytes, &n_bytes, 1),
			.value = fuzz_take(&bytes, &n_bytes, 8),
		};
		if (change.kind < CHANGE_ROWS_BELOW)
			change_rows(db, &change);
		else if (change.kind < CHANGE_SCHEMA_BELOW)
			change_schema(db, &change);
		else
			change_bytes(&change, base->n_bytes);
	}
	sqlite3_close(db);
}

/* ---- Reading it ---- */

static void write_reports(FILE *out, sqlite3 *db, int64_t run_id)
{
	static const enum table_format formats[] = { TABLE_TEXT, TABLE_JSON };

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		const struct report_request request = { .run_id = run_id,
							.limit = 20,
							.format = formats[i],
							.width = 80,
							.name = "t.mst" };
		for (const struct report *report = reports; report->name; report++)
			report_write(out, db, report, &request);
	}
}

static void write_exports(FILE *out, sqlite3 *db, int64_t run_id)
{
	const struct export_request request = { .run_id = run_id, .view = "allocation" };

	for (const struct export_format *format = export_formats; format->name; format++)
		export_write(out, db, format, &request);
}

static int count(void *user, int n, char **values, char **names)
{
	(void)n;
	(void)values;
	(void)names;
	++*(unsigned *)user;
	return 0;
}

static void read_all(bool is_part)
{
	auto_db struct db *db = NULL;
	int64_t run_id = 0;
	unsigned n_rows = 0;

	if (db_open(changed_path, &db) < 0 || report_functions_register(db_handle(db)) != SQLITE_OK)
		return;
	auto_fclose FILE *out = fopen("/dev/null", "w");
	FUZZ_REQUIRE(out);
	sqlite3_exec(db_handle(db), "SELECT * FROM leak; SELECT * FROM site", count, &n_rows, NULL);
	if (report_run_find(db_handle(db), NULL, &run_id) < 0)
		return;
	const struct selection selection = {
		.runs = &run_id, .n_runs = 1, .from_ns = 1000, .to_ns = INT64_MAX
	};
	if (is_part && selection_apply(db, &selection) < 0)
		return;
	write_reports(out, db_handle(db), run_id);
	if (!is_part)
		write_exports(out, db_handle(db), run_id);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	uint8_t mode = (uint8_t)fuzz_take(&bytes, &n_bytes, 1);
	struct base *base = &bases[mode & 1];

	if (!folder[0])
		make_folder();
	if (!base->bytes)
		make_base(mode & 1, base);
	change_all(base, bytes, n_bytes);
	read_all(mode & 2);
	return 0;
}
