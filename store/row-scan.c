#include "store/row-scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/compact/scan.h"
#include "store/statement.h"
#include "store/touch.h"

static int64_t or_else(int64_t value, int64_t of_null)
{
	return value == SCAN_NULL ? of_null : value;
}

/* ---- Blocks ---- */

enum {
	BLOCK_ID,
	BLOCK_PROCESS,
	BLOCK_ADDRESS,
	BLOCK_SIZE,
	BLOCK_ALLOCATED,
	BLOCK_FREED,
	BLOCK_STACK,
	BLOCK_THREAD,
	BLOCK_KILLER,
	BLOCK_WEIGHT,
};

static struct picture_row_block block_of(const int64_t *const *columns, uint32_t i)
{
	struct picture_row_block block = {
		.id = columns[BLOCK_ID][i],
		.process_id = columns[BLOCK_PROCESS][i],
		.address = (uint64_t)columns[BLOCK_ADDRESS][i],
		.size = columns[BLOCK_SIZE][i],
		.allocated_ns = columns[BLOCK_ALLOCATED][i],
		.freed_ns = or_else(columns[BLOCK_FREED][i], INT64_MAX),
		.stack_id = or_else(columns[BLOCK_STACK][i], 0),
		.thread_id = columns[BLOCK_THREAD][i],
		.killer_id = columns[BLOCK_KILLER][i],
	};

	memcpy(&block.weight, &columns[BLOCK_WEIGHT][i], sizeof(block.weight));
	return block;
}

int picture_scan_blocks(sqlite3 *db, int64_t run_id, picture_visit_block visit, void *context)
{
	auto_scan struct scan *scan = NULL;
	const struct scan_query query = {
		"allocation",
		"id, process_id, address, size, allocated_ns, freed_ns, stack_id, thread_id,"
		" freed_thread_id, stands_for",
		run_id,
	};
	const struct scan_rows *rows;
	int r = scan_open(db, &query, &scan);

	while (r == 0 && (r = scan_next(scan, &rows)) == 1) {
		r = 0;
		for (uint32_t i = 0; i < rows->n && r == 0; i++) {
			const struct picture_row_block block = block_of(rows->columns, i);
			r = visit(context, &block);
		}
	}
	return r;
}

/* ---- Touches ---- */

/* Rows of a table beside the touches, in the order of their ids, which are its first column. */
struct side {
	struct scan *scan;
	const struct scan_rows *rows; /* at hand; NULL: none yet, or none any more */
	bool is_over;
	uint32_t at; /* the first row of them whose id is not less than the one that was sought */
	int64_t left; /* the last id that was left behind; INT64_MIN: none yet */
};

/* Samples and their details beside touches, each read once. */
struct samples {
	struct side samples;
	struct side details;
	int64_t low, high; /* ids of all that are read: others lie at other times */
	sqlite3_stmt *one; /* a sample by its id: of touches far out of order */
	const struct picture_touch_visitor *visitor;
	uint32_t next; /* row at hand that the visitor was not told of */
	struct picture_row_sample found;
};

static void close_samples(struct samples **samples)
{
	if (*samples) {
		scan_close((*samples)->samples.scan);
		scan_close((*samples)->details.scan);
		sqlite3_finalize((*samples)->one);
	}
	free(*samples);
}
#define auto_samples __attribute__((cleanup(close_samples)))

enum {
	SAMPLE_ID,
	SAMPLE_PROCESS,
	SAMPLE_THREAD,
	SAMPLE_SOURCE,
	SAMPLE_TIME,
	SAMPLE_WEIGHT,
	SAMPLE_STACK,
};
#define SAMPLE "id, process_id, thread_id, source_id, time_ns, weight, stack_id"
enum { DETAIL_SAMPLE, DETAIL_LATENCY, DETAIL_NODE };
#define DETAIL "sample_id, latency, node"

/* Of ids that are looked for, mostly none is in a word. */
static uint32_t choose_ids(const void *context, const int64_t *const *columns, uint32_t n,
			   uint32_t *chosen)
{
	const struct row_ids *wanted = context;
	const int64_t *ids = columns[0]; /* ascending */
	bool is_dense = (uint64_t)ids[n - 1] - (uint64_t)ids[0] == n - 1;
	uint32_t n_chosen = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = (uint64_t)ids[i] - (uint64_t)wanted->first;
		uint64_t word = at / 64 < wanted->n_words ? wanted->bits[at / 64] : 0;
		if (word >> at % 64 & 1)
			chosen[n_chosen++] = i;
		else if (word == 0 && is_dense)
			i += 63 - at % 64; /* to the next word */
	}
	return n_chosen;
}

/* Ids of what is read are from low to high. wanted: only these; NULL: all. */
static int open_samples(sqlite3 *db, int64_t run_id, struct samples *samples,
			const struct row_ids *wanted)
{
	const struct scan_query query = { "sample", SAMPLE, run_id };
	const struct scan_choice choice = { 1, choose_ids, wanted };
	const struct scan_query details = { "access_detail", DETAIL, run_id };
	const struct scan_bound bound = { SAMPLE_TIME, samples->visitor->from_ns,
					  samples->visitor->to_ns, false };
	int r = scan_open(db, &query, &samples->samples.scan);

	samples->details.left = INT64_MIN;
	if (r == 0)
		r = scan_open(db, &details, &samples->details.scan);
	if (r < 0)
		return r;
	scan_bound(samples->samples.scan, &bound);
	if (wanted) {
		uint64_t last = (uint64_t)wanted->first + wanted->n_words * 64 - 1;
		const struct scan_bound all = { SAMPLE_ID, wanted->first, (int64_t)last, false };
		scan_bound(samples->samples.scan, &all);
		scan_choose(samples->samples.scan, &choice);
		scan_choose(samples->details.scan, &choice);
	}
	scan_extent(samples->samples.scan, SAMPLE_ID, &samples->low, &samples->high);
	const struct scan_bound ids = { DETAIL_SAMPLE, samples->low, samples->high, false };
	scan_bound(samples->details.scan, &ids);
	r = statement_prepare(
		db,
		"SELECT " SAMPLE ", (SELECT latency FROM access_detail WHERE sample_id ="
		" sample.id), (SELECT node FROM access_detail WHERE sample_id = sample.id)"
		" FROM sample WHERE id = ?1 AND +run_id = ?2",
		&samples->one);
	if (r == 0)
		statement_integer(samples->one, 2, run_id);
	return r;
}

/* The first of the rows at hand whose id is not less; mostly it is where the last one was. */
static uint32_t first_from(const struct side *side, int64_t id)
{
	const int64_t *ids = side->rows->columns[0];
	uint32_t n = side->rows->n, low = 0, high = n;
	uint32_t i = side->at < n && ids[side->at] < id ? side->at + 1 : side->at;

	if ((i == n || ids[i] >= id) && (i == 0 || ids[i - 1] < id))
		return i;
	while (low < high) {
		i = low + (high - low) / 2;
		low = ids[i] < id ? i + 1 : low;
		high = ids[i] < id ? high : i;
	}
	return low;
}

/* The next rows. Returns 1, 0: there are none; or a negative errno. */
static int side_step(struct side *side)
{
	if (side->rows)
		side->left = side->rows->columns[0][side->rows->n - 1];
	int r = side->is_over ? 0 : scan_next(side->scan, &side->rows);

	side->at = 0;
	side->is_over = r <= 0;
	if (r <= 0)
		side->rows = NULL;
	return r;
}

static bool is_behind(const struct side *side, int64_t id)
{
	return !side->rows || side->rows->columns[0][side->rows->n - 1] < id;
}

/* Whether an id, which is not behind the rows at hand, is one of theirs: then side->at is it. */
static bool side_has(struct side *side, int64_t id)
{
	side->at = first_from(side, id);
	return side->at < side->rows->n && side->rows->columns[0][side->at] == id;
}

static void set_detail(struct picture_row_sample *sample, int64_t latency, int64_t node)
{
	sample->latency = or_else(latency, 0);
	sample->node = node == SCAN_NULL ? 0 : (int64_t)((uint64_t)node + 1);
}

/* NULL is 0, as SQLite has it. */
static void set_sample(struct picture_row_sample *sample, const int64_t *values)
{
	*sample = (struct picture_row_sample){
		.id = values[SAMPLE_ID],
		.process_id = or_else(values[SAMPLE_PROCESS], 0),
		.thread_id = or_else(values[SAMPLE_THREAD], 0),
		.source_id = values[SAMPLE_SOURCE],
		.time_ns = values[SAMPLE_TIME],
		.weight = values[SAMPLE_WEIGHT],
		.stack_id = or_else(values[SAMPLE_STACK], 0),
	};
}

/* One that has been left behind. Returns 1; 0: there is none; or a negative errno. */
static int look_up(struct samples *samples, int64_t id)
{
	int64_t values[SAMPLE_STACK + 3];

	statement_integer(samples->one, 1, id);
	int r = statement_step(samples->one);
	for (int i = 0; r > 0 && i < SAMPLE_STACK + 3; i++)
		values[i] = sqlite3_column_type(samples->one, i) == SQLITE_NULL
				    ? SCAN_NULL
				    : sqlite3_column_int64(samples->one, i);
	if (r > 0) {
		set_sample(&samples->found, values);
		set_detail(&samples->found, values[SAMPLE_STACK + 1], values[SAMPLE_STACK + 2]);
	}
	sqlite3_reset(samples->one);
	return r;
}

/* A row at hand, with its detail. Returns 1 or a negative errno. */
static int read_row(struct samples *samples, uint32_t row)
{
	const int64_t *const *columns = samples->samples.rows->columns;
	struct side *details = &samples->details;
	int64_t values[SAMPLE_STACK + 1];
	int r = 1;

	for (unsigned i = 0; i <= SAMPLE_STACK; i++)
		values[i] = columns[i][row];
	set_sample(&samples->found, values);
	while (r > 0 && !details->is_over && is_behind(details, values[SAMPLE_ID]))
		r = side_step(details);
	if (r < 0)
		return r;
	if (details->left >= values[SAMPLE_ID])
		return look_up(samples, values[SAMPLE_ID]);
	if (details->rows && side_has(details, values[SAMPLE_ID]))
		set_detail(&samples->found, details->rows->columns[DETAIL_LATENCY][details->at],
			   details->rows->columns[DETAIL_NODE][details->at]);
	return 1;
}

/* Tell of the samples at hand up to an id, if they are wanted. */
static int tell(struct samples *samples, int64_t id)
{
	const struct picture_touch_visitor *visitor = samples->visitor;
	const struct scan_rows *rows = samples->samples.rows;

	for (; visitor->sample && rows && samples->next < rows->n; samples->next++) {
		int64_t time_ns = rows->columns[SAMPLE_TIME][samples->next];
		if (rows->columns[SAMPLE_ID][samples->next] > id)
			break;
		if (time_ns < visitor->from_ns || time_ns > visitor->to_ns)
			continue;
		int r = read_row(samples, samples->next);
		if (r > 0)
			r = visitor->sample(visitor->context, &samples->found);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Have the samples up to an id at hand, or behind; all others are told of. */
static int go_to(struct samples *samples, int64_t id)
{
	int r = 1;

	while (r > 0 && !samples->samples.is_over && is_behind(&samples->samples, id)) {
		r = tell(samples, INT64_MAX);
		if (r < 0)
			return r;
		r = side_step(&samples->samples);
		samples->next = 0;
	}
	return r < 0 ? r : tell(samples, id);
}

/* Returns 1, 0: there is no such sample, or what reading it returned. */
static int find_sample(struct samples *samples, int64_t id)
{
	if (id < samples->low || id > samples->high)
		return 0;
	int r = go_to(samples, id);
	if (r < 0)
		return r;
	return samples->samples.rows && side_has(&samples->samples, id)
		       ? read_row(samples, samples->samples.at)
		       : look_up(samples, id);
}

enum {
	TOUCH_KIND,
	TOUCH_OWNER,
	TOUCH_SAMPLE,
	TOUCH_ROLE,
	TOUCH_ADDRESS,
	TOUCH_WRITE,
	TOUCH_DATA_SRC,
	TOUCH_SHARE,
	TOUCH_PHASE,
	TOUCH_FRAME,
	TOUCH_SIZE,
};

static struct picture_row_touch touch_of(const int64_t *const *columns, uint32_t i,
					 const struct picture_row_sample *sample)
{
	int64_t is_write = columns[TOUCH_WRITE][i];
	double share;

	memcpy(&share, &columns[TOUCH_SHARE][i], sizeof(share));
	return (struct picture_row_touch){
		.sample = sample,
		.role = (int)columns[TOUCH_ROLE][i],
		.has_address = columns[TOUCH_ADDRESS][i] != SCAN_NULL,
		.address = (uint64_t)or_else(columns[TOUCH_ADDRESS][i], 0),
		.is_write = is_write == SCAN_NULL ? -1 : (int)is_write,
		.data_src = or_else(columns[TOUCH_DATA_SRC][i], 0),
		.owner_kind = (int)columns[TOUCH_KIND][i],
		.owner_id = or_else(columns[TOUCH_OWNER][i], 0),
		.share = isnan(share) ? 0 : share, /* which SQLite has no number for */
		.phase = (int)columns[TOUCH_PHASE][i],
		.frame_id = or_else(columns[TOUCH_FRAME][i], 0),
		.size = columns[TOUCH_SIZE][i],
	};
}

/* ---- Touches of some blocks ---- */

/* Touches are kept until it is known which samples are wanted: 25 MiB. */
#define MAX_KEPT (1u << 18)

struct kept {
	struct kept_touch {
		int64_t sample_id;
		struct picture_row_touch touch; /* without its sample */
	} * items;
	size_t n, n_allocated;
	int64_t low, high; /* sample ids */
};

static void free_kept(struct kept *kept)
{
	free(kept->items);
}

static uint32_t choose_touches(const void *context, const int64_t *const *columns, uint32_t n,
			       uint32_t *chosen)
{
	const struct row_ids *blocks = context;
	uint32_t n_chosen = 0;

	for (uint32_t i = 0; i < n; i++) {
		chosen[n_chosen] = i;
		n_chosen += columns[TOUCH_KIND][i] == OWNER_heap &&
			    row_ids_have(blocks, or_else(columns[TOUCH_OWNER][i], 0));
	}
	return n_chosen;
}

static int keep_touches(struct kept *kept, const struct samples *all, const struct scan_rows *rows)
{
	for (uint32_t i = 0; i < rows->n; i++) {
		int64_t id = rows->columns[TOUCH_SAMPLE][i];
		if (id < all->low || id > all->high)
			continue;
		if (grow_one(&kept->items, kept->n, &kept->n_allocated) < 0)
			return -ENOMEM;
		kept->low = kept->n == 0 || id < kept->low ? id : kept->low;
		kept->high = kept->n == 0 || id > kept->high ? id : kept->high;
		kept->items[kept->n++] =
			(struct kept_touch){ id, touch_of(rows->columns, i, NULL) };
	}
	return 0;
}

static int tell_found(struct samples *samples, const struct kept *kept)
{
	int r = 0;

	for (size_t i = 0; i < kept->n && r == 0; i++) {
		struct kept_touch *item = &kept->items[i];
		r = find_sample(samples, item->sample_id);
		if (r <= 0)
			continue;
		item->touch.sample = &samples->found;
		r = samples->visitor->touch(samples->visitor->context, &item->touch);
	}
	return r;
}

/* Tell of them with their samples, of which no others are put together. */
static int tell_kept(sqlite3 *db, int64_t run_id, const struct picture_touch_visitor *visitor,
		     struct kept *kept)
{
	struct row_ids ids = { .first = kept->low };
	auto_samples struct samples *samples = calloc(1, sizeof(*samples));

	if (!samples || kept->n == 0)
		return samples ? 0 : -ENOMEM;
	ids.n_words = ((uint64_t)kept->high - (uint64_t)kept->low) / 64 + 1;
	auto_free uint64_t *bits = ids.bits = calloc(ids.n_words, sizeof(*ids.bits));
	if (!bits)
		return -ENOMEM;
	for (size_t i = 0; i < kept->n; i++) {
		uint64_t at = (uint64_t)kept->items[i].sample_id - (uint64_t)ids.first;
		bits[at / 64] |= UINT64_C(1) << at % 64;
	}
	samples->visitor = visitor;
	int r = open_samples(db, run_id, samples, &ids);
	if (r == 0)
		r = tell_found(samples, kept);
	kept->n = 0;
	return r;
}

/* ---- All touches ---- */

static int read_touches(struct samples *samples, const struct scan_rows *rows)
{
	int r = 0;

	for (uint32_t i = 0; i < rows->n && r == 0; i++) {
		r = find_sample(samples, rows->columns[TOUCH_SAMPLE][i]);
		if (r <= 0)
			continue;
		const struct picture_row_touch touch = touch_of(rows->columns, i, &samples->found);
		r = samples->visitor->touch(samples->visitor->context, &touch);
	}
	return r;
}

int picture_scan_touches(sqlite3 *db, int64_t run_id, const struct picture_touch_visitor *visitor)
{
	auto_scan struct scan *scan = NULL;
	const struct scan_query query = {
		"touch",
		"owner_kind, owner_id, sample_id, role, address, is_write, data_src, share, phase,"
		" frame_id, size",
		run_id,
	};
	const struct scan_choice choice = { TOUCH_OWNER + 1, choose_touches, visitor->blocks };
	__attribute__((cleanup(free_kept))) struct kept kept = { 0 };
	struct scan_bound bound = { .column = TOUCH_SAMPLE };
	const struct scan_rows *rows;
	auto_samples struct samples *samples = calloc(1, sizeof(*samples));

	if (!samples)
		return -ENOMEM;
	samples->visitor = visitor;
	int r = open_samples(db, run_id, samples, NULL);
	if (r == 0)
		r = scan_open(db, &query, &scan);
	if (r < 0)
		return r;
	bound.low = samples->low;
	bound.high = samples->high;
	scan_bound(scan, &bound);
	if (visitor->blocks)
		scan_choose(scan, &choice);
	while (r == 0 && (r = scan_next(scan, &rows)) == 1) {
		r = visitor->blocks ? keep_touches(&kept, samples, rows)
				    : read_touches(samples, rows);
		if (r == 0 && kept.n >= MAX_KEPT)
			r = tell_kept(db, run_id, visitor, &kept);
	}
	if (r == 0 && visitor->blocks)
		return tell_kept(db, run_id, visitor, &kept);
	return r < 0 || !visitor->sample ? r : go_to(samples, INT64_MAX);
}
