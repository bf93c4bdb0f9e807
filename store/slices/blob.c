#include "store/slices/blob.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "store/columns/column.h"

struct head {
	uint32_t section;
	uint32_t n_rows;
	uint32_t n_columns;
};

struct slice_blob {
	struct chunk_encoder *encoder;
	uint8_t *bytes;
	size_t n_bytes;
	size_t n_allocated;
	struct head head; /* of the section at hand */
	int64_t *columns; /* SLICE_COLUMNS of CHUNK_ROWS */
};

struct slice_blob *slice_blob_close(struct slice_blob *blob)
{
	if (!blob)
		return NULL;
	chunk_encoder_close(blob->encoder);
	free(blob->bytes);
	free(blob->columns);
	free(blob);
	return NULL;
}

struct slice_blob *slice_blob_open(void)
{
	struct slice_blob *blob = calloc(1, sizeof(*blob));

	if (!blob)
		return NULL;
	blob->encoder = chunk_encoder_open();
	blob->columns = malloc((size_t)SLICE_COLUMNS * CHUNK_ROWS * sizeof(*blob->columns));
	return blob->encoder && blob->columns ? blob : slice_blob_close(blob);
}

void slice_blob_clear(struct slice_blob *blob)
{
	blob->n_bytes = 0;
	blob->head = (struct head){ 0 };
}

static int append(struct slice_blob *blob, const void *bytes, size_t n_bytes)
{
	if (blob->n_bytes + n_bytes > blob->n_allocated) {
		size_t n_new = 2 * (blob->n_bytes + n_bytes);
		uint8_t *larger = realloc(blob->bytes, n_new);
		if (!larger)
			return -ENOMEM;
		blob->bytes = larger;
		blob->n_allocated = n_new;
	}
	memcpy(blob->bytes + blob->n_bytes, bytes, n_bytes);
	blob->n_bytes += n_bytes;
	return 0;
}

static int64_t *column_of(struct slice_blob *blob, unsigned column)
{
	return blob->columns + (size_t)column * CHUNK_ROWS;
}

static int append_column(struct slice_blob *blob, unsigned column)
{
	const struct chunk_values values = { .values = column_of(blob, column),
					     .n = blob->head.n_rows };
	bool ascends = blob->head.section == SLICE_ENDS;
	struct chunk_plan plan = { ascends ? CHUNK_DELTA : CHUNK_PLAIN, 0 };
	const void *bytes;
	size_t n_bytes;
	int r = chunk_column_encode(blob->encoder, &values, plan, &bytes, &n_bytes);

	if (r < 0)
		return r;
	uint32_t size = (uint32_t)n_bytes;
	r = append(blob, &size, sizeof(size));
	return r < 0 ? r : append(blob, bytes, n_bytes);
}

/* The rows at hand become bytes. */
static int flush(struct slice_blob *blob)
{
	int r = blob->head.n_rows ? append(blob, &blob->head, sizeof(blob->head)) : 0;

	for (unsigned i = 0; blob->head.n_rows && i < blob->head.n_columns && r == 0; i++)
		r = append_column(blob, i);
	blob->head.n_rows = 0;
	return r;
}

int slice_blob_row(struct slice_blob *blob, enum slice_section section, const int64_t *values,
		   unsigned n_columns)
{
	struct head *head = &blob->head;

	if (head->n_rows && (head->section != section || head->n_rows == CHUNK_ROWS)) {
		int r = flush(blob);
		if (r < 0)
			return r;
	}
	head->section = section;
	head->n_columns = n_columns;
	for (unsigned i = 0; i < n_columns; i++)
		column_of(blob, i)[head->n_rows] = values[i];
	head->n_rows++;
	return 0;
}

int slice_blob_bytes(struct slice_blob *blob, const uint8_t **ret_bytes, size_t *ret_n_bytes)
{
	int r = flush(blob);

	if (r == 0) {
		*ret_bytes = blob->bytes;
		*ret_n_bytes = blob->n_bytes;
	}
	return r;
}

/* ---- Reading ---- */

struct slice_reader {
	struct chunk_decoder *decoder;
	struct chunk_column *columns[SLICE_COLUMNS];
};

struct slice_reader *slice_reader_open(void)
{
	struct slice_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->decoder = chunk_decoder_open();
	return reader->decoder ? reader : slice_reader_close(reader);
}

static void drop_columns(struct slice_reader *reader)
{
	for (unsigned i = 0; i < SLICE_COLUMNS; i++) {
		if (reader->columns[i])
			chunk_column_free(reader->columns[i]);
		reader->columns[i] = NULL;
	}
}

struct slice_reader *slice_reader_close(struct slice_reader *reader)
{
	if (!reader)
		return NULL;
	drop_columns(reader);
	chunk_decoder_close(reader->decoder);
	free(reader);
	return NULL;
}

static int read_column(struct slice_reader *reader, const uint8_t *bytes, size_t n_bytes,
		       uint32_t n_rows, struct chunk_column **ret_column)
{
	struct chunk_column *column;
	int other;
	int r = chunk_column_check(bytes, n_bytes, &other);

	if (r == 0 && other >= 0)
		r = -EBADMSG;
	if (r == 0)
		r = chunk_column_decode(reader->decoder, bytes, n_bytes, NULL, &column);
	if (r < 0)
		return r;
	*ret_column = column;
	return column->n == n_rows ? 0 : -EBADMSG;
}

/* Bytes that are read from their begin on. */
struct input {
	const uint8_t *bytes;
	size_t n;
};

/* The next bytes; NULL: there are not so many. */
static const uint8_t *take(struct input *input, size_t n)
{
	const uint8_t *bytes = input->bytes;

	if (input->n < n)
		return NULL;
	input->bytes += n;
	input->n -= n;
	return bytes;
}

/* Step over the columns of a section, and read them where they are wanted. */
static int read_section(struct slice_reader *reader, const struct head *head, struct input *input,
			bool is_wanted)
{
	for (unsigned i = 0; i < head->n_columns; i++) {
		uint32_t size;
		const uint8_t *bytes = take(input, sizeof(size));
		if (!bytes)
			return -EBADMSG;
		memcpy(&size, bytes, sizeof(size));
		bytes = take(input, size);
		if (!bytes)
			return -EBADMSG;
		int r = is_wanted ? read_column(reader, bytes, size, head->n_rows,
						&reader->columns[i])
				  : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

static int visit_rows(const struct slice_reader *reader, const struct head *head,
		      const struct slice_visitor *visitor)
{
	int64_t values[SLICE_COLUMNS] = { 0 };
	int r = 0;

	for (uint32_t row = 0; row < head->n_rows && r == 0; row++) {
		for (unsigned i = 0; i < head->n_columns; i++)
			chunk_column_get(reader->columns[i], row, &values[i]);
		r = visitor->visit(visitor->context, (enum slice_section)head->section, values);
	}
	return r;
}

static bool is_sound(const struct head *head)
{
	return head->section < SLICE_SECTION_COUNT && head->n_rows <= CHUNK_ROWS &&
	       head->n_columns > 0 && head->n_columns <= SLICE_COLUMNS;
}

int slice_read(struct slice_reader *reader, const void *bytes, size_t n_bytes,
	       const struct slice_visitor *visitor)
{
	struct input input = { bytes, n_bytes };
	int r = 0;

	while (r == 0 && input.n > 0) {
		struct head head;
		const uint8_t *from = take(&input, sizeof(head));
		if (!from)
			return -EBADMSG;
		memcpy(&head, from, sizeof(head));
		if (!is_sound(&head))
			return -EBADMSG;
		bool is_wanted = visitor->wanted & (1u << head.section);
		r = read_section(reader, &head, &input, is_wanted);
		if (r == 0 && is_wanted)
			r = visit_rows(reader, &head, visitor);
		drop_columns(reader);
	}
	return r;
}
