/*
 * What is at an address in a span of time: request "at". The picture's store finds it, since blocks
 * and touches have no index by address.
 */
#include "view/answers/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "report/text/json.h"
#include "store/heatmap/heatmap.h"
#include "store/statement.h"

#define MAX_SAMPLES 20u
#define NEAR_BYTES  64u /* without a block: samples so near are told */

struct place {
	struct picture_store *store;
	const struct picture_band *bands;
	size_t n_bands;
	uint64_t address, y;
	int64_t from_ns, to_ns;
	int64_t process_id;
	int64_t block; /* allocation.id; 0: none */
	uint64_t low, high; /* on the axis: what belongs to it */
};

static int find_place(struct view_question *question, struct place *place)
{
	if (!question->values->is_given[VIEW_ADDRESS])
		return view_context_refuse(question->context, -EINVAL, "address is missing");
	place->address = (uint64_t)question->values->numbers[VIEW_ADDRESS];
	place->process_id = view_value(question, VIEW_PROCESS, 0);
	place->from_ns = view_value(question, VIEW_FROM, 0);
	place->to_ns = view_value(question, VIEW_TO, 0);
	int r = view_context_pictures(question->context, &place->store);
	if (r == 0)
		r = picture_bands(place->store, question->run, place->process_id, &place->bands,
				  &place->n_bands);
	if (r == 0 && !picture_place(place->bands, place->n_bands, place->address, &place->y))
		r = -ENOENT;
	return r == -ENOENT ? view_context_refuse(question->context, r,
						  "nothing that was recorded lies at this address")
			    : r;
}

/* A picture of some bytes over the span, with its blocks and points. */
static int look(struct view_question *question, const struct place *place, uint64_t low,
		uint64_t high, struct picture **ret_picture)
{
	const struct picture_request request = {
		.run_id = question->run,
		.process_id = place->process_id,
		.from_ns = place->from_ns,
		.to_ns = place->to_ns,
		.low = low,
		.high = high,
		.width = PICTURE_MAX_CELLS,
		.height = 1,
	};

	return picture_make(place->store, &request, ret_picture);
}

/* The block at the address that lived longest within the span. */
static void choose_block(struct place *place, const struct picture *picture)
{
	const struct picture_request *span = &picture->request;
	int64_t longest = -1;

	for (size_t i = 0; i < picture->n_drawn_blocks; i++) {
		const struct picture_block *block = &picture->blocks[i];
		int64_t from = block->from_ns > span->from_ns ? block->from_ns : span->from_ns;
		int64_t to = block->to_ns < span->to_ns ? block->to_ns : span->to_ns;
		if (place->y < block->y || place->y - block->y >= block->size ||
		    to - from <= longest)
			continue;
		longest = to - from;
		place->block = block->id;
		place->low = block->y;
		place->high = block->y + block->size;
	}
}

static int find_block(struct view_question *question, struct place *place)
{
	struct picture *picture = NULL;
	int r = look(question, place, place->y, place->y + 1, &picture);

	place->low = place->y > NEAR_BYTES ? place->y - NEAR_BYTES : 0;
	place->high = place->y + NEAR_BYTES;
	if (r == 0)
		choose_block(place, picture);
	picture_free(picture);
	return r == -ENOENT ? 0 : r;
}

/* ---- Samples ---- */

struct candidate {
	int64_t sample;
	int64_t distance; /* from the middle of the span */
};

static int compare(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	if (a->distance != b->distance)
		return a->distance < b->distance ? -1 : 1;
	return a->sample < b->sample ? -1 : a->sample > b->sample;
}

/* Samples that touched it, nearest in time first. */
static int find_samples(struct view_question *question, const struct place *place,
			struct candidate **ret_found, size_t *ret_n)
{
	struct picture *picture = NULL;
	int r = look(question, place, place->low, place->high, &picture);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	int64_t middle =
		picture->request.from_ns + (picture->request.to_ns - picture->request.from_ns) / 2;
	struct candidate *found = calloc(picture->n_points + 1, sizeof(*found));
	for (size_t i = 0; found && i < picture->n_points; i++) {
		int64_t distance = picture->points[i].time_ns - middle;
		found[i] = (struct candidate){ picture->points[i].sample,
					       distance < 0 ? -distance : distance };
	}
	if (found)
		qsort(found, picture->n_points, sizeof(*found), compare);
	*ret_found = found;
	*ret_n = picture->n_points;
	picture_free(picture);
	return found ? 0 : -ENOMEM;
}

/* clang-format off */
static const char sample_sql[] =
	"SELECT sample.id, sample.time_ns, source.name AS source, is_write, level, latency,"
	" sample.thread_id AS thread, coalesce(frame_line.function, frame.function) AS function,"
	" coalesce(file, path) AS file, line, touch.address - :its_address AS offset FROM touch"
	" JOIN sample ON sample.id = touch.sample_id JOIN source ON source.id = source_id"
	" LEFT JOIN data_source ON data_source.data_src = touch.data_src"
	" LEFT JOIN access_detail ON access_detail.sample_id = sample.id"
	" LEFT JOIN frame ON frame.id = coalesce(touch.frame_id, sample.frame_id)"
	" LEFT JOIN frame_line ON frame_line.frame_id = frame.id AND depth = 0"
	" WHERE touch.sample_id = :its_sample AND CASE :its_block WHEN 0"
	" THEN abs(touch.address - :its_address) <= 64 ELSE"
	"  owner_kind = 1 AND owner_id = :its_block END ORDER BY role LIMIT 1";
/* clang-format on */

static int write_samples(struct view_question *question, const struct place *place, int64_t base)
{
	auto_statement sqlite3_stmt *row = NULL;
	auto_free struct candidate *found = NULL;
	auto_columns struct columns columns = { 0 };
	size_t n = 0;
	int r = view_prepare(question, sample_sql, &row);

	if (r == 0)
		r = find_samples(question, place, &found, &n);
	columns.n_columns = r == 0 ? (size_t)sqlite3_column_count(row) : 0;
	for (size_t i = 0; i < columns.n_columns; i++)
		columns.names[i] = sqlite3_column_name(row, (int)i);
	for (size_t i = 0; i < n && columns.n_rows < MAX_SAMPLES && r == 0; i++) {
		if (i > 0 && found[i].sample == found[i - 1].sample)
			continue;
		sqlite3_reset(row);
		view_bind(row, ":its_sample", found[i].sample);
		view_bind(row, ":its_block", place->block);
		view_bind(row, ":its_address", base);
		int step = statement_step(row);
		if (step < 0)
			r = -EPROTO;
		if (step != 1)
			continue;
		for (size_t column = 0; column < columns.n_columns; column++)
			json_column(columns_at(&columns, column), row, (int)column);
		columns_end_row(&columns);
	}
	json_name(&question->json, "samples");
	columns_write(&columns, &question->json);
	return r;
}

/* ---- What it is ---- */

/* clang-format off */
static const char block_sql[] =
	"SELECT 'heap' AS owner, allocation.id, stack_id AS site, address, size, :address - address"
	" AS offset, allocated_ns, freed_ns, thread_id AS thread, name AS kind FROM allocation LEFT"
	" JOIN call ON call.id = call WHERE allocation.id = :its_block";
/* clang-format on */

/* Without a block: what the band of addresses is called. */
static void write_band(struct view_question *question, const struct place *place)
{
	struct json *json = &question->json;
	const struct picture_band *band = NULL;

	for (size_t i = 0; i < place->n_bands; i++) {
		if (place->address >= place->bands[i].start && place->address < place->bands[i].end)
			band = &place->bands[i];
	}
	json_set_text(json, "owner", band ? band->kind : NULL);
	json_name(json, "id");
	json_null(json);
	json_name(json, "site");
	json_null(json);
	json_set_integer(json, "address", (int64_t)(band ? band->start : place->address));
	json_set_integer(json, "size", band ? (int64_t)(band->end - band->start) : 0);
	json_set_integer(json, "offset", band ? (int64_t)(place->address - band->start) : 0);
	json_name(json, "allocated_ns");
	json_null(json);
	json_name(json, "freed_ns");
	json_null(json);
	json_name(json, "thread");
	json_null(json);
	json_set_text(json, "kind", band ? band->name : NULL);
}

static int write_owner(struct view_question *question, const struct place *place, int64_t *ret_base,
		       int64_t *ret_site)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = place->block ? view_prepare(question, block_sql, &row) : 0;

	*ret_base = (int64_t)place->address;
	*ret_site = 0;
	if (r < 0 || !place->block) {
		if (r == 0)
			write_band(question, place);
		return r;
	}
	view_bind(row, ":its_block", place->block);
	if (statement_step(row) != 1)
		return -EPROTO;
	for (int i = 0; i < sqlite3_column_count(row); i++) {
		json_name(&question->json, sqlite3_column_name(row, i));
		json_column(&question->json, row, i);
	}
	*ret_site = sqlite3_column_int64(row, 2);
	*ret_base = sqlite3_column_int64(row, 3);
	return 0;
}

int view_at(struct view_question *question)
{
	struct place place = { 0 };
	int64_t base = 0, site = 0;
	int r = find_place(question, &place);

	if (r == 0)
		r = find_block(question, &place);
	if (r < 0)
		return r;
	json_open(&question->json, '{');
	r = write_owner(question, &place, &base, &site);
	if (r == 0)
		r = view_stack(question, site);
	if (r == 0)
		r = write_samples(question, &place, base);
	json_close(&question->json, '}');
	return r;
}
