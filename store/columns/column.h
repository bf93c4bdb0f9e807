#pragma once
/*
 * One column of a frame of rows (up to 4,096) as compressed bytes, and back. Values are integers,
 * or the bits of real numbers. They are narrowed before zstd sees them: to the distance from the
 * least one, from the row before, from another column of the same row, or to a number in a
 * dictionary, and then split into planes of bytes, each compressed alone. Needs neither SQLite nor
 * a file: the extension and memsight share it.
 *
 * The bytes may come from anybody: decoding never reads or writes out of bounds, and what it cannot
 * make sense of is -EBADMSG. Numbers in them are little endian.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHUNK_ROWS	 65536u /* at most, in a chunk */
#define CHUNK_FRAME_ROWS 4096u /* likewise, in a frame of it */
#define CHUNK_COLUMNS	 64u /* at most, of a table */
#define CHUNK_NULL	 INT64_MIN /* the value that stands for NULL, in columns that may be NULL */

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
	uint32_t n; /* CHUNK_FRAME_ROWS at most */
	bool may_be_null; /* CHUNK_NULL is NULL; otherwise it is a value as all others */
	bool is_alike; /* all are known to be equal: one look is enough */
};

/* Of values of a frame, or of a whole chunk. */
struct chunk_survey chunk_survey(const struct chunk_values *values);

/* Memory of a writer; one thread. */
struct chunk_encoder;
struct chunk_encoder *chunk_encoder_open(void); /* NULL without memory */
struct chunk_encoder *chunk_encoder_close(struct chunk_encoder *encoder); /* accepts NULL */

/*
 * Write a column. The bytes belong to the encoder, until its next call. Returns
 * 0, -ENOMEM, -EINVAL: not so many rows, or -ERANGE: the plan does not fit these values (PLAIN
 * always does).
 */
int chunk_column_encode(struct chunk_encoder *encoder, const struct chunk_values *values,
			struct chunk_plan plan, const void **ret_bytes, size_t *ret_n_bytes);

struct chunk_decoder;
struct chunk_decoder *chunk_decoder_open(void); /* NULL without memory */
struct chunk_decoder *chunk_decoder_close(struct chunk_decoder *decoder); /* accepts NULL */

/* What the head of a column says. */
struct chunk_outline {
	uint32_t n_rows;
	int other; /* the column that it is written relative to; -1: none */
	bool has_null;
};

/* Whether bytes are a column with a right checksum. Returns 0 or -EBADMSG. */
int chunk_column_check(const void *bytes, size_t n_bytes, struct chunk_outline *ret_outline);

/* Values that are wanted. */
struct chunk_wanted {
	int64_t *values; /* CHUNK_NULL: NULL */
	const int64_t *others; /* of the column that it is written relative to; or NULL */
	uint32_t n; /* rows of the frame */
	const uint32_t *rows; /* only these of them, ascending, also in `others`; NULL: all */
	uint32_t n_chosen; /* of rows */
};

/* Read them. Returns 0 or -EBADMSG. */
int chunk_column_values(struct chunk_decoder *decoder, const void *bytes, size_t n_bytes,
			const struct chunk_wanted *wanted);
