#include "store/heatmap/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "common/radix-sort.h"
#include "store/columns/column.h"
#include "store/database-internal.h"
#include "store/axis.h"
#include "store/statement.h"
#include "store/writer-thread.h"

/* Items stand in the order of time and id, which are told by their distances. */
static const enum chunk_coding codings[PICTURE_TOUCH_COLUMNS] = {
	[PICTURE_TOUCH_TIME] = CHUNK_DELTA,
	[PICTURE_TOUCH_SAMPLE] = CHUNK_DELTA,
};

struct picture_packer {
	struct chunk_encoder *encoder;
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

static int pack_column(struct picture_packer *packer, const int64_t *column, uint32_t n,
		       enum chunk_coding coding)
{
	const struct chunk_values values = { .values = column, .n = n, .may_be_null = true };
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

int picture_pack(struct picture_packer *packer, const int64_t *const *columns, uint32_t n,
		 struct picture_bytes *ret_bytes)
{
	int r = 0;

	packer->n_bytes = 0;
	for (unsigned c = 0; c < PICTURE_TOUCH_COLUMNS && r == 0; c++)
		r = pack_column(packer, columns[c], n, codings[c]);
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
	struct chunk_outline outline;
	int r = chunk_column_check(bytes->data, bytes->n, &outline);

	if (r < 0)
		return r;
	const struct chunk_wanted wanted = { to, NULL, outline.n_rows };
	*ret_n = wanted.n;
	return wanted.n > n_max ? -EBADMSG
				: chunk_column_values(decoder, bytes->data, bytes->n, &wanted);
}

int picture_unpack(struct chunk_decoder *decoder, const struct picture_bytes *bytes,
		   struct picture_columns *columns)
{
	size_t at = 0;

	columns->n = 0;
	for (unsigned c = 0; columns->wanted >> c; c++) {
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

/* ---- Slabs ---- */

#define SLAB_ITEMS  (16u * PICTURE_PART_ITEMS)
#define ALL_ITEMS   (3u * SLAB_ITEMS) /* in all slabs: 54 MiB */
#define FIRST_ITEMS 8u
#define SLAB_PARTS  (SLAB_ITEMS / PICTURE_PART_ITEMS) /* at most */

struct slab {
	int64_t process_id;
	struct picture_item *items;
	uint32_t n;
	uint32_t n_allocated;
};

struct picture_slabs {
	struct db *db;
	int64_t run_id;
	struct slab *slabs;
	size_t n_slabs;
	size_t n_slabs_allocated;
	struct key_map numbers; /* of process.id: 1 + place in slabs */
	uint32_t n_items;
	struct picture_packer *packer;
	sqlite3_stmt *insert_part;
	sqlite3_stmt *insert_data;
	int64_t next_part;
	struct radix_key *keys; /* 2 * SLAB_ITEMS; NULL until a slab needs more than one part */
	int64_t *columns[PICTURE_COLUMNS]; /* of a part, its pieces side by side */
	/* A full slab is written while the next ones are filled. */
	struct slab written;
	struct db_job job;
};

struct picture_slabs *picture_slabs_close(struct picture_slabs *slabs)
{
	if (!slabs)
		return NULL;
	if (slabs->db->writer)
		db_writer_wait(slabs->db->writer, &slabs->job);
	for (size_t i = 0; i < slabs->n_slabs; i++)
		free(slabs->slabs[i].items);
	free(slabs->slabs);
	free(slabs->written.items);
	key_map_finish(&slabs->numbers);
	picture_packer_close(slabs->packer);
	sqlite3_finalize(slabs->insert_part);
	sqlite3_finalize(slabs->insert_data);
	free(slabs->keys);
	free(slabs->columns[0]);
	free(slabs);
	return NULL;
}

static int prepare(struct picture_slabs *slabs)
{
	sqlite3 *db = db_handle(slabs->db);
	int r = statement_prepare(db,
				  "INSERT INTO picture_part(id, run_id, process_id, n, from_ns,"
				  " to_ns, low, high) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
				  &slabs->insert_part);

	if (r == 0)
		r = statement_prepare(db,
				      "INSERT INTO picture_data(id, run_id, data) VALUES(?, ?, ?)",
				      &slabs->insert_data);
	slabs->next_part =
		db_integer(slabs->db, "SELECT coalesce(max(id), 0) FROM picture_part", 0) + 1;
	return r;
}

/* part: places in the slab, in order of time. */
static int write_head(struct picture_slabs *slabs, const struct slab *slab, const uint32_t *part,
		      uint32_t n)
{
	int64_t from_ns = INT64_MAX, to_ns = INT64_MIN;
	uint64_t low = UINT64_MAX, high = 0;

	for (uint32_t i = 0; i < n; i++) {
		const int64_t *touch = slab->items[part[i]].values;
		uint64_t at = (uint64_t)touch[PICTURE_TOUCH_ADDRESS];
		uint64_t byte = picture_last_byte(at, 1);
		int64_t time_ns = touch[PICTURE_TOUCH_TIME];
		from_ns = time_ns < from_ns ? time_ns : from_ns;
		to_ns = time_ns > to_ns ? time_ns : to_ns;
		low = at < low ? at : low;
		high = byte > high ? byte : high;
	}
	const int64_t values[] = {
		slabs->next_part, slabs->run_id, slab->process_id, n,
		from_ns,	  to_ns,	 (int64_t)low,	   (int64_t)high,
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		statement_integer(slabs->insert_part, (int)i + 1, values[i]);
	return statement_run(slabs->insert_part);
}

/* Items of the columns from one on. */
static int write_piece(struct picture_slabs *slabs, uint32_t from, uint32_t n, unsigned piece)
{
	const int64_t *columns[PICTURE_COLUMNS];
	struct picture_bytes bytes;

	for (unsigned c = 0; c < PICTURE_COLUMNS; c++)
		columns[c] = slabs->columns[c] + from;
	int r = picture_pack(slabs->packer, columns, n, &bytes);
	if (r < 0)
		return r;
	statement_integer(slabs->insert_data, 1, slabs->next_part * PICTURE_ROWS_OF_PART + piece);
	statement_integer(slabs->insert_data, 2, slabs->run_id);
	sqlite3_bind_blob64(slabs->insert_data, 3, bytes.data, bytes.n, SQLITE_STATIC);
	return statement_run(slabs->insert_data);
}

static int write_part(struct picture_slabs *slabs, const struct slab *slab, const uint32_t *part,
		      uint32_t n)
{
	uint32_t starts[PICTURE_PIECES + 1] = { 0 }, filled[PICTURE_PIECES];
	int r = write_head(slabs, slab, part, n);

	for (uint32_t i = 0; i < n; i++)
		starts[picture_piece_of(i, n) + 1]++;
	for (unsigned piece = 0; piece < PICTURE_PIECES; piece++) {
		starts[piece + 1] += starts[piece];
		filled[piece] = starts[piece];
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct picture_item *item = &slab->items[part[i]];
		uint32_t to = filled[picture_piece_of(i, n)]++;
		for (unsigned c = 0; c < PICTURE_COLUMNS; c++)
			slabs->columns[c][to] = item->values[c];
	}
	for (unsigned piece = 0; piece < PICTURE_PIECES && r == 0; piece++) {
		if (starts[piece + 1] > starts[piece])
			r = write_piece(slabs, starts[piece], starts[piece + 1] - starts[piece],
					piece);
	}
	slabs->next_part++;
	return r;
}

/*
 * The slab's items by address, and then by time. The keys are the slabs' until they are sorted
 * anew; NULL: no memory.
 */
static const struct radix_key *sort(struct picture_slabs *slabs, const struct slab *slab)
{
	/* Most runs are small, and those 8 MiB are not for them. */
	if (!slabs->keys)
		slabs->keys = malloc(2ul * SLAB_ITEMS * sizeof(*slabs->keys));
	for (uint32_t i = 0; slabs->keys && i < slab->n; i++)
		slabs->keys[i] =
			(struct radix_key){ (uint64_t)slab->items[i].values[PICTURE_TOUCH_ADDRESS],
					    i };
	return slabs->keys ? radix_sort(slabs->keys, slabs->keys + SLAB_ITEMS, slab->n) : NULL;
}

/* Parts of the same number of items, each in the order of time again. */
static int place_by_time(const struct slab *slab, const struct radix_key *keys, uint32_t each,
			 uint32_t *places)
{
	uint32_t filled[SLAB_PARTS] = { 0 };
	auto_free uint8_t *part_of = malloc(slab->n + 1ul);

	if (!part_of)
		return -ENOMEM;
	for (uint32_t i = 0; i < slab->n; i++)
		part_of[keys ? keys[i].index : i] = (uint8_t)(i / each);
	for (uint32_t i = 0; i < slab->n; i++)
		places[part_of[i] * each + filled[part_of[i]]++] = i;
	return 0;
}

/* Cut the slab at hand into parts of the same number of items: the writer's thread does. */
static int write_slab(void *context)
{
	struct picture_slabs *slabs = context;
	const struct slab *slab = &slabs->written;
	uint32_t n_parts = (slab->n + PICTURE_PART_ITEMS - 1) / PICTURE_PART_ITEMS;
	uint32_t each = n_parts ? (slab->n + n_parts - 1) / n_parts : 0;
	auto_free uint32_t *places = malloc((slab->n + 1ul) * sizeof(*places));
	const struct radix_key *keys = n_parts > 1 ? sort(slabs, slab) : NULL;

	if (!places || (n_parts > 1 && !keys))
		return -ENOMEM;
	int r = place_by_time(slab, keys, each, places);
	for (uint32_t i = 0; i < slab->n && r == 0; i += each)
		r = write_part(slabs, slab, places + i, slab->n - i < each ? slab->n - i : each);
	return r;
}

/* Wait for the slab that is being written, and see how it went. */
static int settle(struct picture_slabs *slabs)
{
	db_writer_wait(slabs->db->writer, &slabs->job);
	free(slabs->written.items);
	slabs->written.items = NULL;
	return slabs->job.result;
}

/* The slab is empty then. */
static int give_slab(struct picture_slabs *slabs, struct slab *slab)
{
	int r = settle(slabs);

	if (r < 0)
		return r;
	slabs->written = *slab;
	slabs->n_items -= slab->n;
	slab->n = 0;
	slab->items = NULL;
	slab->n_allocated = 0;
	db_writer_give(slabs->db->writer, &slabs->job);
	return 0;
}

int picture_slabs_open(struct db *db, int64_t run_id, struct picture_slabs **ret_slabs)
{
	struct picture_slabs *slabs = calloc(1, sizeof(*slabs));

	if (!slabs)
		return -ENOMEM;
	slabs->db = db;
	slabs->run_id = run_id;
	slabs->packer = picture_packer_open();
	slabs->job = (struct db_job){ .work = write_slab, .context = slabs };
	slabs->columns[0] = malloc(PICTURE_COLUMNS * PICTURE_PART_ITEMS * sizeof(int64_t));
	for (unsigned c = 1; slabs->columns[0] && c < PICTURE_COLUMNS; c++)
		slabs->columns[c] = slabs->columns[0] + (size_t)c * PICTURE_PART_ITEMS;
	int r = slabs->packer && slabs->columns[0] ? prepare(slabs) : -ENOMEM;
	if (r == 0 && !db->writer)
		r = db_writer_open(&db->writer);
	if (r < 0) {
		picture_slabs_close(slabs);
		return r;
	}
	*ret_slabs = slabs;
	return 0;
}

/* Write the largest one, and what is half as large. */
static int write_largest(struct picture_slabs *slabs)
{
	uint32_t most = 0;
	int r = 0;

	for (size_t i = 0; i < slabs->n_slabs; i++)
		most = slabs->slabs[i].n > most ? slabs->slabs[i].n : most;
	for (size_t i = 0; i < slabs->n_slabs && r == 0; i++) {
		if (slabs->slabs[i].n >= most / 2 + 1)
			r = give_slab(slabs, &slabs->slabs[i]);
	}
	return r;
}

static int find_slab(struct picture_slabs *slabs, int64_t process_id, struct slab **ret_slab)
{
	uint64_t number = key_map_get(&slabs->numbers, (uint64_t)process_id, 0);

	if (!number) {
		int r = grow_array(&slabs->slabs, slabs->n_slabs, &slabs->n_slabs_allocated,
				   sizeof(*slabs->slabs));
		if (r == 0)
			r = key_map_put(&slabs->numbers, (uint64_t)process_id, 0,
					slabs->n_slabs + 1);
		if (r < 0)
			return r;
		slabs->slabs[slabs->n_slabs] = (struct slab){ .process_id = process_id };
		number = ++slabs->n_slabs;
	}
	*ret_slab = &slabs->slabs[number - 1];
	return 0;
}

static int reserve(struct slab *slab)
{
	if (slab->n < slab->n_allocated)
		return 0;
	uint32_t n_new = slab->n_allocated ? 2 * slab->n_allocated : FIRST_ITEMS;
	struct picture_item *items = reallocarray(slab->items, n_new, sizeof(*items));
	if (!items)
		return -ENOMEM;
	slab->items = items;
	slab->n_allocated = n_new;
	return 0;
}

int picture_slabs_touch(struct picture_slabs *slabs, int64_t process_id,
			const struct picture_item *item)
{
	struct slab *slab;
	int r = find_slab(slabs, process_id, &slab);

	if (r == 0)
		r = reserve(slab);
	if (r < 0)
		return r;
	slab->items[slab->n++] = *item;
	if (slab->n == SLAB_ITEMS)
		r = give_slab(slabs, slab);
	if (++slabs->n_items >= ALL_ITEMS && r == 0)
		r = write_largest(slabs);
	return r;
}

int picture_slabs_flush(struct picture_slabs *slabs)
{
	int r = 0;

	for (size_t i = 0; i < slabs->n_slabs && r == 0; i++) {
		if (slabs->slabs[i].n > 0)
			r = give_slab(slabs, &slabs->slabs[i]);
	}
	return r < 0 ? r : settle(slabs);
}
