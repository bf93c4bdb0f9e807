#pragma once
/*
 * Rows of numbers as bytes, for slice.data: sections of up to CHUNK_ROWS rows, each a head (three
 * uint32_t: section, rows, columns) and of each column a uint32_t with its size and a column of
 * store/columns/column.h. Real numbers are kept as their bits. The bytes may be anybody's: reading
 * never goes out of bounds.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SLICE_COLUMNS 26u

enum slice_section {
	SLICE_ENDS, /* id: blocks that are born before the slice and end in it, ascending */
	SLICE_EXITS, /* time, stack, blocks, bytes: not freed, and their process ended */
	SLICE_SITES, /* blocks.c */
	SLICE_BLOCK_THREADS,
	SLICE_HISTOGRAM,
	SLICE_PEAK,
	SLICE_HEAP, /* touches.c */
	SLICE_OBJECTS,
	SLICE_ACCESSES,
	SLICE_NODES,
	SLICE_KINDS,
	SLICE_UNRESOLVED,
	SLICE_SAMPLE_THREADS,
	SLICE_SAMPLES,
	SLICE_SECTION_COUNT,
};

/* Bytes that grow, and what compresses them. One thread. */
struct slice_blob;
struct slice_blob *slice_blob_open(void); /* NULL without memory */
struct slice_blob *slice_blob_close(struct slice_blob *blob); /* accepts NULL */

/* Begin anew. */
void slice_blob_clear(struct slice_blob *blob);

/*
 * Add a row of n_columns numbers to a section; rows of one section follow each other. 0 or a
 * negative errno.
 */
int slice_blob_row(struct slice_blob *blob, enum slice_section section, const int64_t *values,
		   unsigned n_columns);

/* The bytes of all rows, the blob's until it is cleared. 0 or a negative errno. */
int slice_blob_bytes(struct slice_blob *blob, const uint8_t **ret_bytes, size_t *ret_n_bytes);

/*
 * Who is shown rows that are read, each with SLICE_COLUMNS numbers: those beyond its section's
 * columns are 0.
 */
struct slice_visitor {
	unsigned wanted; /* bit s: section s */
	int (*visit)(void *context, enum slice_section section,
		     const int64_t *values); /* 0 or a negative errno */
	void *context;
};

/* What reads them. One thread. */
struct slice_reader;
struct slice_reader *slice_reader_open(void); /* NULL without memory */
struct slice_reader *slice_reader_close(struct slice_reader *reader); /* accepts NULL */

/*
 * Visit the rows of the sections that are wanted. Returns 0, -EBADMSG, -ENOMEM, or what the visitor
 * returned.
 */
int slice_read(struct slice_reader *reader, const void *bytes, size_t n_bytes,
	       const struct slice_visitor *visitor);

/* Sums of a damaged database may be anything: they wrap. */
static inline int64_t slice_plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t slice_minus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t slice_of_real(double value)
{
	int64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline double slice_real(int64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}
