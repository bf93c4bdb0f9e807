/*
 * What is at an address in a span of time: request "at". The picture's store finds it, since blocks
 * and touches have no index by address.
 */
#include "view/answers/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "report/text/json.h"
#include "store/columns/column.h"
#include "store/heatmap/lookup.h"
#include "store/statement.h"

#define MAX_SAMPLES 20u
#define MAX_NEAR    (2u * MAX_SAMPLES) /* rows of some may be of a block that lay there as well */
#define NEAR_BYTES  64u /* without a block: samples so near are told */
#define BIT(column) (1u << (column))

struct place {
	struct picture_store *store;
	const struct picture_process *process;
	uint64_t address, y;
	struct picture_request span; /* time, and on the axis what belongs to it */
	int64_t block; /* allocation.id; 0: none */
};

static int find_place(struct view_question *question, struct place *place)
{
	struct picture_process *process;

	if (!question->values->is_given[VIEW_ADDRESS])
		return view_context_refuse(question->context, -EINVAL, "address is missing");
	place->address = (uint64_t)question->values->numbers[VIEW_ADDRESS];
	int r = view_context_pictures(question->context, &place->store);
	if (r == 0)
		r = picture_store_process(place->store, question->run,
					  view_value(question, VIEW_PROCESS, 0), &process);
	if (r == 0 && !picture_place(process->bands, process->n_bands, place->address, &place->y))
		r = -ENOENT;
	if (r < 0)
		return r == -ENOENT ? view_context_refuse(
					      question->context, r,
					      "nothing that was recorded lies at this address")
				    : r;
	place->process = process;
	place->span = (struct picture_request){
		.from_ns = view_value(question, VIEW_FROM, process->from_ns),
		.to_ns = view_value(question, VIEW_TO, process->to_ns),
		.low = place->y,
		.high = place->y + 1,
	};
	return 0;
}

/* ---- The block at the address that lived longest within the span ---- */

struct search {
	struct place *place;
	int64_t longest; /* ns within the span */
	struct picture_request found; /* its part of the span */
};

static void consider(struct search *search, uint32_t i)
{
	const struct place *place = search->place;
	int64_t *const *values = place->store->columns.values;
	int64_t from = values[PICTURE_BLOCK_ALLOCATED][i], life = values[PICTURE_BLOCK_LIFE][i];
	uint64_t offset = place->address - (uint64_t)values[PICTURE_BLOCK_ADDRESS][i];
	int64_t to = place->process->end_ns;

	if (life != CHUNK_NULL && __builtin_add_overflow(from, life > 0 ? life : 1, &to))
		to = INT64_MAX;
	from = from > place->span.from_ns ? from : place->span.from_ns;
	to = to < place->span.to_ns ? to : place->span.to_ns;
	if (from >= to || to - from <= search->longest)
		return;
	search->longest = to - from;
	search->place->block = values[PICTURE_BLOCK_ID][i];
	search->found = (struct picture_request){
		.from_ns = from,
		.to_ns = to,
		.low = place->y - offset,
		.high = place->y - offset + (uint64_t)values[PICTURE_BLOCK_SIZE][i],
	};
}

/* Whether a block holds the address. */
static bool is_at(const struct place *place, uint32_t i)
{
	int64_t *const *values = place->store->columns.values;

	return place->address - (uint64_t)values[PICTURE_BLOCK_ADDRESS][i] <
	       (uint64_t)values[PICTURE_BLOCK_SIZE][i];
}

static int search_part(struct search *search, const struct picture_part *part)
{
	const struct place *place = search->place;
	struct picture_look look = { .stride = 1,
				     .wanted = BIT(PICTURE_BLOCK_COLUMNS) - 1,
				     .within = &place->span };
	int r = picture_store_read(place->store, place->process, part, &look);

	for (uint32_t i = 0; r > 0 && i < place->store->columns.n; i++) {
		if (is_at(place, i))
			consider(search, i);
	}
	return r < 0 ? r : 0;
}

static int find_block(struct place *place)
{
	struct search search = { .place = place };
	const struct picture_part *part = NULL;
	int r = 0;

	while (r == 0 &&
	       (part = picture_part_next(place->process, part, PICTURE_KIND_BLOCKS, &place->span)))
		r = search_part(&search, part);
	if (place->block) {
		place->span = search.found;
	} else {
		place->span.low = place->y > NEAR_BYTES ? place->y - NEAR_BYTES : 0;
		place->span.high = place->y + NEAR_BYTES;
	}
	return r;
}

/* ---- The samples that touched it, nearest to the middle of the span ---- */

struct near {
	int64_t sample;
	uint64_t distance; /* ns */
};

struct neighbours {
	const struct place *place;
	uint64_t middle; /* picture_time() */
	struct near near[MAX_NEAR]; /* the nearest first */
	size_t n;
};

static uint64_t distance_of(uint64_t time, uint64_t middle)
{
	return time > middle ? time - middle : middle - time;
}

/* Of the touch of a part that could be nearest. */
static uint64_t least_distance(const struct picture_part *part, uint64_t middle)
{
	if (part->from <= middle && part->to > middle)
		return 0;
	return distance_of(part->from > middle ? part->from : part->to - 1, middle);
}

static bool is_nearer(const struct near *a, const struct near *b)
{
	return a->distance != b->distance ? a->distance < b->distance : a->sample < b->sample;
}

/* Each sample once. */
static void add_near(struct neighbours *found, const struct near *near)
{
	size_t i = found->n;

	if (i == MAX_NEAR && !is_nearer(near, &found->near[i - 1]))
		return;
	for (size_t k = 0; k < found->n; k++) {
		if (found->near[k].sample == near->sample)
			return;
	}
	if (i == MAX_NEAR)
		i--;
	else
		found->n++;
	for (; i > 0 && is_nearer(near, &found->near[i - 1]); i--)
		found->near[i] = found->near[i - 1];
	found->near[i] = *near;
}

static int add_part(struct neighbours *found, const struct picture_part *part)
{
	const struct place *place = found->place;
	struct picture_store *store = place->store;
	int64_t *const *values = store->columns.values;
	struct picture_placer placer = picture_placer_of(place->process);
	struct picture_look look = {
		.stride = 1,
		.wanted = BIT(PICTURE_TOUCH_TIME) | BIT(PICTURE_TOUCH_ADDRESS) |
			  BIT(PICTURE_TOUCH_SAMPLE),
		.within = &place->span,
	};
	int r = picture_store_read(store, place->process, part, &look);

	for (uint32_t i = 0; r > 0 && i < store->columns.n; i++) {
		int64_t time_ns = values[PICTURE_TOUCH_TIME][i];
		uint64_t y = picture_placer_at(&placer, (uint64_t)values[PICTURE_TOUCH_ADDRESS][i]);
		if (y < place->span.low || y >= place->span.high || time_ns < place->span.from_ns ||
		    time_ns >= place->span.to_ns)
			continue;
		const struct near near = {
			.sample = values[PICTURE_TOUCH_SAMPLE][i],
			.distance = distance_of(picture_time(time_ns), found->middle),
		};
		add_near(found, &near);
	}
	return r < 0 ? r : 0;
}

static int compare_parts(const void *left, const void *right, void *middle)
{
	uint64_t a = least_distance(*(const struct picture_part *const *)left, *(uint64_t *)middle);
	uint64_t b =
		least_distance(*(const struct picture_part *const *)right, *(uint64_t *)middle);

	return a < b ? -1 : a > b;
}

/* Parts near to the middle first: those that are farther than what was found are not read. */
static int find_samples(struct neighbours *found)
{
	const struct place *place = found->place;
	auto_free const struct picture_part **parts = NULL;
	const struct picture_part *part = NULL;
	size_t n = 0, n_allocated = 0;
	uint64_t from = picture_time(place->span.from_ns), to = picture_time(place->span.to_ns);
	int r = 0;

	found->middle = from + (to - from) / 2;
	while ((part = picture_part_next(place->process, part, PICTURE_KIND_TOUCHES,
					 &place->span))) {
		if (array_add(parts, n, n_allocated, part) < 0)
			return -ENOMEM;
	}
	if (n > 1)
		qsort_r(parts, n, sizeof(struct picture_part *), compare_parts, &found->middle);
	for (size_t i = 0; i < n && r == 0; i++) {
		if (found->n == MAX_NEAR &&
		    least_distance(parts[i], found->middle) > found->near[MAX_NEAR - 1].distance)
			break;
		r = add_part(found, parts[i]);
	}
	return r;
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
	struct neighbours found = { .place = place };
	auto_columns struct columns columns = { 0 };
	int r = view_prepare(question, sample_sql, &row) ?: find_samples(&found);

	columns.n_columns = r == 0 ? (size_t)sqlite3_column_count(row) : 0;
	for (size_t i = 0; i < columns.n_columns; i++)
		columns.names[i] = sqlite3_column_name(row, (int)i);
	for (size_t i = 0; i < found.n && columns.n_rows < MAX_SAMPLES && r == 0; i++) {
		sqlite3_reset(row);
		view_bind(row, ":its_sample", found.near[i].sample);
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
	columns_set(&question->json, "samples", &columns);
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

	for (size_t i = 0; i < place->process->n_bands; i++) {
		const struct picture_band *at = &place->process->bands[i];
		if (place->address >= at->start && place->address < at->end)
			band = at;
	}
	json_set_text(json, "owner", band ? band->kind : NULL);
	json_set_null(json, "id");
	json_set_null(json, "site");
	json_set_integer(json, "address", (int64_t)(band ? band->start : place->address));
	json_set_integer(json, "size", band ? (int64_t)(band->end - band->start) : 0);
	json_set_integer(json, "offset", band ? (int64_t)(place->address - band->start) : 0);
	json_set_null(json, "allocated_ns");
	json_set_null(json, "freed_ns");
	json_set_null(json, "thread");
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
	int r = find_place(question, &place) ?: find_block(&place);

	if (r < 0)
		return r;
	json_open(&question->json, '{');
	r = write_owner(question, &place, &base, &site);
	r = r ?: view_stack(question, site);
	r = r ?: write_samples(question, &place, base);
	json_close(&question->json, '}');
	return r;
}
