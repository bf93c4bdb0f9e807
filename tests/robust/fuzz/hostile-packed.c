#include "tests/robust/fuzz/hostile-packed.h"

#include <stdbool.h>
#include <string.h>

#include "store/columns/column.h"
#include "store/compact/chunk-store.h"
#include "store/compact/virtual-table.h"
#include "tests/robust/fuzz/fuzz.h"
#include "trace/frame.h"

static int64_t odd_value(const struct hostile_change *change, int64_t old)
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

static bool is_meant(const struct hostile_change *change, uint32_t item)
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

/* A column is written anew as plain numbers: *ret_n bytes, to be freed. */
static void *recode(const struct hostile_change *change, int64_t *numbers, uint32_t n_rows,
		    size_t *ret_n)
{
	struct chunk_encoder *encoder = chunk_encoder_open();
	const struct chunk_values values = { .values = numbers, .n = n_rows, .may_be_null = true };
	const void *bytes;
	void *copy = NULL;

	FUZZ_REQUIRE(encoder);
	for (uint32_t i = 0; i < n_rows; i++) {
		if (is_meant(change, i))
			numbers[i] = odd_value(change, numbers[i]);
	}
	if (chunk_column_encode(encoder, &values, (struct chunk_plan){ CHUNK_PLAIN, 0 }, &bytes,
				ret_n) == 0) {
		copy = malloc(*ret_n);
		FUZZ_REQUIRE(copy);
		memcpy(copy, bytes, *ret_n);
	}
	chunk_encoder_close(encoder);
	return copy;
}

/* Of one that is relative to another, nothing is changed. NULL: it is none. */
static void *change_column(const struct hostile_change *change, const char *bytes, size_t n_bytes,
			   size_t *ret_n)
{
	struct chunk_decoder *decoder = chunk_decoder_open();
	static int64_t numbers[CHUNK_FRAME_ROWS];
	struct chunk_outline outline;
	void *changed = NULL;

	FUZZ_REQUIRE(decoder);
	if (chunk_column_check(bytes, n_bytes, &outline) == 0 && outline.other < 0) {
		const struct chunk_wanted wanted = { .values = numbers, .n = outline.n_rows };
		if (chunk_column_values(decoder, bytes, n_bytes, &wanted) == 0)
			changed = recode(change, numbers, outline.n_rows, ret_n);
	}
	chunk_decoder_close(decoder);
	return changed;
}

/* The piece of a column in a frame: where its bytes begin; 0: there is no such. */
static size_t find_piece(const char *bytes, size_t n_bytes, unsigned number, uint32_t *ret_n)
{
	size_t at = 0;

	for (unsigned i = 0; n_bytes - at >= sizeof(*ret_n); i++) {
		memcpy(ret_n, bytes + at, sizeof(*ret_n));
		at += sizeof(*ret_n);
		if (*ret_n > n_bytes - at)
			return 0;
		if (i == number)
			return at;
		at += *ret_n;
	}
	return 0;
}

static void change_frame(const struct hostile_change *change, sqlite3_stmt *row, sqlite3 *db,
			 const char *sql)
{
	size_t n_bytes = (size_t)sqlite3_column_bytes(row, 1), n = 0;
	uint32_t n_piece = 0;

	char *bytes = malloc(n_bytes + 1);
	FUZZ_REQUIRE(bytes);
	memcpy(bytes, sqlite3_column_blob(row, 1), n_bytes);
	int64_t id = sqlite3_column_int64(row, 0);
	sqlite3_reset(row);
	size_t from = find_piece(bytes, n_bytes, change->kind / 16 + change->table % 4 * 16 % 30,
				 &n_piece);
	char *changed = from ? change_column(change, bytes + from, n_piece, &n) : NULL;
	char *all = changed ? malloc(n_bytes + n) : NULL;
	if (all) {
		uint32_t size = (uint32_t)n;
		size_t behind = from + n_piece;
		memcpy(all, bytes, from);
		memcpy(all + from - sizeof(size), &size, sizeof(size));
		memcpy(all + from, changed, n);
		memcpy(all + from + n, bytes + behind, n_bytes - behind);
		put_bytes(db, sql, id, all, from + n + n_bytes - behind);
	}
	free(all);
	free(changed);
	free(bytes);
}

/* What a chunk says of the least and most of its columns. */
static void change_chunk_head(const struct hostile_change *change, sqlite3_stmt *row, sqlite3 *db,
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

void hostile_change_chunk(sqlite3 *db, const struct hostile_change *change)
{
	const char *table = change->table & 1 ? "touch" : "allocation";
	bool is_head = change->kind & 8;
	char select[160], update[160];

	snprintf(select, sizeof(select), "SELECT id, %s FROM %s_%s ORDER BY id",
		 is_head ? "head" : "data", table, is_head ? "chunk" : "column");
	snprintf(update, sizeof(update), "UPDATE %s_%s SET %s = ? WHERE id = ?", table,
		 is_head ? "chunk" : "column", is_head ? "head" : "data");
	sqlite3_stmt *row = pick_row(db, select, is_head ? change->table / 4 : change->column);
	if (row && is_head)
		change_chunk_head(change, row, db, update);
	else if (row)
		change_frame(change, row, db, update);
	sqlite3_finalize(row);
}
