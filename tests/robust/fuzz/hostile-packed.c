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

/* A column, or a piece of one, is written anew as plain numbers: *ret_n bytes, to be freed. */
static void *recode(const struct hostile_change *change, const struct chunk_column *column,
		    size_t *ret_n)
{
	struct chunk_encoder *encoder = chunk_encoder_open();
	int64_t *numbers = calloc(column->n, sizeof(*numbers));
	const struct chunk_values values = { .values = numbers,
					     .n = column->n,
					     .may_be_null = true };
	const void *bytes;
	void *copy = NULL;

	FUZZ_REQUIRE(encoder && numbers);
	for (uint32_t i = 0; i < column->n; i++) {
		numbers[i] = CHUNK_NULL;
		chunk_column_get(column, i, &numbers[i]);
		if (is_meant(change, i))
			numbers[i] = odd_value(change, numbers[i]);
	}
	if (chunk_column_encode(encoder, &values, (struct chunk_plan){ CHUNK_PLAIN, 0 }, &bytes,
				ret_n) == 0) {
		copy = malloc(*ret_n);
		FUZZ_REQUIRE(copy);
		memcpy(copy, bytes, *ret_n);
	}
	free(numbers);
	chunk_encoder_close(encoder);
	return copy;
}

/* Of one that is relative to another, nothing is changed. NULL: it is none. */
static void *change_column(const struct hostile_change *change, const char *bytes, size_t n_bytes,
			   size_t *ret_n)
{
	struct chunk_decoder *decoder = chunk_decoder_open();
	struct chunk_source source = { .bytes = bytes, .n_bytes = n_bytes };
	struct chunk_column *column = NULL;
	void *changed = NULL;

	FUZZ_REQUIRE(decoder);
	if (chunk_column_check(bytes, n_bytes, &source.outline) == 0 && source.outline.other < 0 &&
	    chunk_column_decode(decoder, &source, NULL, &column) == 0)
		changed = recode(change, column, ret_n);
	chunk_column_free(column);
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

static void change_chunk_column(const struct hostile_change *change, sqlite3_stmt *row, sqlite3 *db,
				const char *sql, bool is_frame)
{
	size_t n_bytes = (size_t)sqlite3_column_bytes(row, 1), n = 0, from = 0;
	uint32_t n_piece = (uint32_t)n_bytes;

	char *bytes = malloc(n_bytes + 1);
	FUZZ_REQUIRE(bytes);
	memcpy(bytes, sqlite3_column_blob(row, 1), n_bytes);
	int64_t id = sqlite3_column_int64(row, 0);
	sqlite3_reset(row);
	if (is_frame)
		from = find_piece(bytes, n_bytes, change->kind / 16 % 24, &n_piece);
	char *changed = is_frame && !from ? NULL : change_column(change, bytes + from, n_piece, &n);
	char *all = changed ? malloc(n_bytes + n) : NULL;
	if (all) {
		uint32_t size = (uint32_t)n;
		size_t behind = from + n_piece;
		memcpy(all, bytes, from);
		if (is_frame)
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
	static const char *const tables[] = { "allocation", "sample", "touch", "access_detail" };
	const char *table = tables[change->table % 4];
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
		change_chunk_column(change, row, db, update, change->table % 4 % 2 == 0);
	sqlite3_finalize(row);
}
