#include "store/heatmap/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/columns/column.h"

/* Items stand in the order of time and id, which are told by their distances. */
static const uint8_t codings[PICTURE_COLUMNS] = {
	[PICTURE_TOUCH_TIME] = CHUNK_DELTA,
	[PICTURE_TOUCH_SAMPLE] = CHUNK_DELTA,
};
static const uint8_t block_codings[PICTURE_COLUMNS] = {
	[PICTURE_BLOCK_ALLOCATED] = CHUNK_DELTA,
	[PICTURE_BLOCK_ID] = CHUNK_DELTA,
};

struct picture_packer {
	struct chunk_encoder *encoder;
	int64_t values[PICTURE_PART_ITEMS];
	uint8_t *bytes;
	size_t n_bytes;
	size_t n_allocated;
};

struct picture_packer *picture_packer_close(struct picture_packer *packer)
{
	if (!packer)
		return NULL;
	chunk_encoder_close(packer->encoder);
	free(packer->bytes);
	free(packer);
	return NULL;
}

struct picture_packer *picture_packer_open(void)
{
	struct picture_packer *packer = calloc(1, sizeof(*packer));

	if (!packer)
		return NULL;
	packer->encoder = chunk_encoder_open();
	return packer->encoder ? packer : picture_packer_close(packer);
}

static int append(struct picture_packer *packer, const void *bytes, size_t n_bytes)
{
	int r = grow_array_by(&packer->bytes, packer->n_bytes, n_bytes, &packer->n_allocated, 1);

	if (r < 0)
		return r;
	memcpy(packer->bytes + packer->n_bytes, bytes, n_bytes);
	packer->n_bytes += n_bytes;
	return 0;
}

static int pack_column(struct picture_packer *packer, uint32_t n, enum chunk_coding coding)
{
	const struct chunk_values values = { .values = packer->values,
					     .n = n,
					     .may_be_null = true };
	const void *bytes;
	size_t n_bytes;
	int r = chunk_column_encode(packer->encoder, &values, (struct chunk_plan){ coding, 0 },
				    &bytes, &n_bytes);

	if (r < 0)
		return r;
	uint32_t size = (uint32_t)n_bytes;
	r = append(packer, &size, sizeof(size));
	return r < 0 ? r : append(packer, bytes, n_bytes);
}

int picture_pack(struct picture_packer *packer, const struct picture_item *const *items, uint32_t n,
		 bool is_blocks, struct picture_bytes *ret_bytes)
{
	int r = 0;

	packer->n_bytes = 0;
	for (unsigned c = 0; c < PICTURE_COLUMNS && r == 0; c++) {
		for (uint32_t i = 0; i < n; i++)
			packer->values[i] = items[i]->values[c];
		r = pack_column(packer, n, is_blocks ? block_codings[c] : codings[c]);
	}
	if (r == 0)
		*ret_bytes = (struct picture_bytes){ packer->bytes, packer->n_bytes };
	return r;
}

/* ---- Reading ---- */

int picture_columns_init(struct picture_columns *columns)
{
	int64_t *values = malloc(PICTURE_COLUMNS * PICTURE_PART_ITEMS * sizeof(*values));

	*columns = (struct picture_columns){ 0 };
	for (unsigned c = 0; values && c < PICTURE_COLUMNS; c++)
		columns->values[c] = values + (size_t)c * PICTURE_PART_ITEMS;
	return values ? 0 : -ENOMEM;
}

void picture_columns_finish(struct picture_columns *columns)
{
	free(columns->values[0]);
	*columns = (struct picture_columns){ 0 };
}

int picture_unpack_column(struct chunk_decoder *decoder, const struct picture_bytes *bytes,
			  int64_t *to, uint32_t n_max, uint32_t *ret_n)
{
	int other;
	int r = chunk_column_check(bytes->data, bytes->n, &other);

	if (r < 0)
		return r;
	const struct chunk_wanted wanted = { to, NULL, chunk_column_n_rows(bytes->data) };
	*ret_n = wanted.n;
	return wanted.n > n_max ? -EBADMSG
				: chunk_column_values(decoder, bytes->data, bytes->n, &wanted);
}

int picture_unpack(struct chunk_decoder *decoder, const struct picture_bytes *bytes,
		   struct picture_columns *columns)
{
	size_t at = 0;

	columns->n = 0;
	for (unsigned c = 0; c < PICTURE_COLUMNS; c++) {
		uint32_t size, n = columns->n;
		if (bytes->n - at < sizeof(size))
			return -EBADMSG;
		memcpy(&size, bytes->data + at, sizeof(size));
		at += sizeof(size);
		if (bytes->n - at < size)
			return -EBADMSG;
		const struct picture_bytes column = { bytes->data + at, size };
		int r = columns->wanted & (1u << c)
				? picture_unpack_column(decoder, &column, columns->values[c],
							PICTURE_PART_ITEMS, &n)
				: 0;
		if (r < 0 || (columns->n && n != columns->n))
			return r < 0 ? r : -EBADMSG;
		columns->n = n;
		at += size;
	}
	return 0;
}
