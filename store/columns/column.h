#pragma once
/*
 * One column of a chunk of rows (up to 64 Ki) as compressed bytes, and back. Values are integers,
 * or the bits of real numbers. They are narrowed before zstd sees them: to the distance from the
 * least one, from the row before, from another column of the same row, or to a number in a
 * dictionary, and then split into planes of bytes, each compressed alone. A column may be written
 * in pieces of rows, one behind the other: those of which no row is wanted are not decompressed.
 * Needs neither SQLite nor a file: the extension and memsight share it.
 *
 * The bytes may come from anybody: decoding never reads or writes out of bounds, and what it cannot
 * make sense of is -EBADMSG. Numbers in them are little endian.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHUNK_ROWS    65536u /* at most, in a chunk */
#define CHUNK_COLUMNS 64u /* at most, of a table */
#define CHUNK_NULL    INT64_MIN /* the value that stands for NULL, in columns that may be NULL */

enum chunk_coding {
	CHUNK_PLAIN, /* distance from the least value */
	CHUNK_DELTA, /* distance from the row before */
	CHUNK_RELATIVE, /* distance from another column */
	CHUNK_DICTIONARY, /* place in a list of all values */
	CHUNK_CODING_COUNT,
};

/* How a column is written. */
struct chunk_plan {
	enum chunk_coding coding;
	uint8_t other; /* RELATIVE: the column, lower than the own one and not RELATIVE itself */
};

/* What there is among values that are not NULL; without any min > max. */
struct chunk_survey {
	int64_t min;
	int64_t max;
	uint64_t differing; /* bits that are not alike in all of them */
	uint32_t n_null;
	bool is_ascending; /* no NULL, and no value less than the one before it */
};

/* Values to be written. */
struct chunk_values {
	const int64_t *values;
	const int64_t *others; /* RELATIVE: those of the other column; else not looked at */
	uint32_t n;
	bool may_be_null; /* CHUNK_NULL is NULL; otherwise it is a value as all others */
	const struct chunk_survey *survey; /* of them; NULL: it was not made yet */
};

/* Look through values once: who writes the column may need the answer, too. */
struct chunk_survey chunk_survey(const struct chunk_values *values);

/* Memory of a writer; one thread. */
struct chunk_encoder;
struct chunk_encoder *chunk_encoder_open(void); /* NULL without memory */
struct chunk_encoder *chunk_encoder_close(struct chunk_encoder *encoder); /* accepts NULL */

/*
 * Write a column, or a piece of one. The bytes belong to the encoder, until its next call. Returns
 * 0, -ENOMEM, or -ERANGE: the plan does not fit these values (PLAIN always does).
 */
int chunk_column_encode(struct chunk_encoder *encoder, const struct chunk_values *values,
			struct chunk_plan plan, const void **ret_bytes, size_t *ret_n_bytes);

/* A column that was read. */
struct chunk_column {
	uint32_t n;
	bool has_null; /* then CHUNK_NULL is NULL; otherwise it is a value as all others */
	bool is_ascending; /* no NULL, and no value less than the one before it */
	struct chunk_entry *entry; /* of the cache that keeps it */
	int64_t values[];
};

struct chunk_decoder;
struct chunk_decoder *chunk_decoder_open(void); /* NULL without memory */
struct chunk_decoder *chunk_decoder_close(struct chunk_decoder *decoder); /* accepts NULL */

/* What the heads of a column's pieces say. */
struct chunk_outline {
	uint32_t n_rows;
	int other; /* the column that it is written relative to; -1: none */
	bool has_null;
};

/* Whether bytes are a column with right checksums. Returns 0 or -EBADMSG. */
int chunk_column_check(const void *bytes, size_t n_bytes, struct chunk_outline *ret_outline);

/* The bytes of a column that was checked. */
struct chunk_source {
	const void *bytes;
	size_t n_bytes;
	struct chunk_outline outline;
	const uint16_t *places; /* where each row belongs: of n_rows, none twice; NULL: they do */
};

/*
 * Read a column. other: the decoded column that it is written relative to, its rows where they
 * belong; or NULL. Returns 0, -EBADMSG or -ENOMEM; chunk_column_free() it.
 */
int chunk_column_decode(struct chunk_decoder *decoder, const struct chunk_source *source,
			const struct chunk_column *other, struct chunk_column **ret_column);
struct chunk_column *chunk_column_free(struct chunk_column *column); /* accepts NULL */

/* Values that are wanted, and no column. */
struct chunk_wanted {
	int64_t *values; /* CHUNK_NULL: NULL */
	const int64_t *others; /* of the column that it is written relative to; or NULL */
	uint32_t n; /* rows of the column */
	const uint32_t *rows; /* only these of them, ascending, also in `others`; NULL: all */
	uint32_t n_chosen; /* of rows */
};

/* The same, as plain values. Returns 0 or -EBADMSG. */
int chunk_column_values(struct chunk_decoder *decoder, const void *bytes, size_t n_bytes,
			const struct chunk_wanted *wanted);

/* The value of row i < n; false: it is NULL. */
static inline bool chunk_column_get(const struct chunk_column *column, uint32_t i,
				    int64_t *ret_value)
{
	int64_t value = column->values[i];

	if (column->has_null && value == CHUNK_NULL)
		return false;
	*ret_value = value;
	return true;
}
