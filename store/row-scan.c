#include "store/row-scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "store/compact/scan.h"
#include "store/statement.h"

#define N_SAMPLES 65536u /* that touches may be behind */

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

/* Samples and their details beside the touches, each read once in the order of their ids. */
struct samples {
	struct scan *scan;
	int64_t low, high; /* ids of all that are read: others lie at other times */
	const struct scan_rows *rows; /* at hand; NULL: none yet */
	uint32_t next; /* row of them */
	struct scan *details;
	const struct scan_rows *detail_rows; /* at hand; NULL: none any more */
	uint32_t next_detail;
	sqlite3_stmt *one; /* a sample by its id: of touches out of order */
	int64_t last; /* sample that was read; INT64_MAX: all were */
	const struct picture_touch_visitor *visitor;
	struct picture_row_sample kept[N_SAMPLES]; /* by id; 0: none */
};

static void close_samples(struct samples **samples)
{
	if (*samples) {
		scan_close((*samples)->scan);
		scan_close((*samples)->details);
		sqlite3_finalize((*samples)->one);
	}
	free(*samples);
}

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

static int next_details(struct samples *samples)
{
	int r = scan_next(samples->details, &samples->detail_rows);

	samples->next_detail = 0;
	if (r <= 0)
		samples->detail_rows = NULL;
	return r;
}

/* Of the samples that are read. */
static int open_details(sqlite3 *db, int64_t run_id, struct samples *samples)
{
	const struct scan_query query = { "access_detail", "sample_id, latency, node", run_id };
	const struct scan_bound bound = { DETAIL_SAMPLE, samples->low, samples->high, false };
	int r = scan_open(db, &query, &samples->details);

	if (r < 0)
		return r;
	scan_bound(samples->details, &bound);
	return next_details(samples);
}

/* Ids of what is read are from *ret_low to *ret_high. */
static int open_samples(sqlite3 *db, int64_t run_id, struct samples *samples, int64_t *ret_low,
			int64_t *ret_high)
{
	const struct scan_query query = { "sample", SAMPLE, run_id };
	const struct scan_bound bound = { SAMPLE_TIME, samples->visitor->from_ns,
					  samples->visitor->to_ns, false };
	int r = scan_open(db, &query, &samples->scan);

	if (r < 0)
		return r;
	scan_bound(samples->scan, &bound);
	scan_extent(samples->scan, SAMPLE_ID, ret_low, ret_high);
	samples->low = *ret_low;
	samples->high = *ret_high;
	r = open_details(db, run_id, samples);
	if (r < 0)
		return r;
	return statement_prepare(
		db,
		"SELECT " SAMPLE ", (SELECT latency FROM access_detail WHERE sample_id ="
		" sample.id), (SELECT node + 1 FROM access_detail WHERE sample_id = sample.id)"
		" FROM sample WHERE id = ?1 AND +run_id = ?2",
		&samples->one);
}

static int64_t node_of(int64_t value)
{
	return value == SCAN_NULL ? 0 : (int64_t)((uint64_t)value + 1);
}

static int read_detail(struct samples *samples, struct picture_row_sample *sample)
{
	const struct scan_rows *rows;

	while ((rows = samples->detail_rows)) {
		uint32_t i = samples->next_detail;
		int64_t id = i < rows->n ? rows->columns[DETAIL_SAMPLE][i] : INT64_MIN;
		int r = i < rows->n ? 0 : next_details(samples);
		if (r < 0)
			return r;
		if (id == sample->id) {
			sample->latency = or_else(rows->columns[DETAIL_LATENCY][i], 0);
			sample->node = node_of(rows->columns[DETAIL_NODE][i]);
		}
		if (id >= sample->id)
			break;
		samples->next_detail += i < rows->n;
	}
	return 0;
}

/* NULL is 0, as SQLite has it. */
static struct picture_row_sample *keep_sample(struct samples *samples, const int64_t *values)
{
	struct picture_row_sample *sample = &samples->kept[(uint64_t)values[SAMPLE_ID] % N_SAMPLES];

	*sample = (struct picture_row_sample){
		.id = values[SAMPLE_ID],
		.process_id = or_else(values[SAMPLE_PROCESS], 0),
		.thread_id = or_else(values[SAMPLE_THREAD], 0),
		.source_id = values[SAMPLE_SOURCE],
		.time_ns = values[SAMPLE_TIME],
		.weight = values[SAMPLE_WEIGHT],
		.stack_id = or_else(values[SAMPLE_STACK], 0),
	};
	return sample;
}

static int read_next(struct samples *samples)
{
	const struct picture_touch_visitor *visitor = samples->visitor;
	int64_t values[SAMPLE_STACK + 1];

	if (!samples->rows || samples->next == samples->rows->n) {
		int r = scan_next(samples->scan, &samples->rows);
		samples->next = 0;
		if (r <= 0) {
			samples->last = INT64_MAX;
			return r;
		}
	}
	for (unsigned i = 0; i <= SAMPLE_STACK; i++)
		values[i] = samples->rows->columns[i][samples->next];
	samples->next++;
	struct picture_row_sample *sample = keep_sample(samples, values);
	samples->last = sample->id;
	if (sample->time_ns < visitor->from_ns || sample->time_ns > visitor->to_ns)
		return 0;
	int r = read_detail(samples, sample);
	return r < 0 || !visitor->sample ? r : visitor->sample(visitor->context, sample);
}

/* One that has been left behind; 0: there is none. */
static int look_up(struct samples *samples, int64_t id,
		   const struct picture_row_sample **ret_sample)
{
	statement_integer(samples->one, 1, id);
	int r = statement_step(samples->one);

	if (r > 0) {
		int64_t values[SAMPLE_STACK + 1];
		for (int i = 0; i <= SAMPLE_STACK; i++)
			values[i] = sqlite3_column_int64(samples->one, i);
		struct picture_row_sample *sample = keep_sample(samples, values);
		sample->latency = sqlite3_column_int64(samples->one, SAMPLE_STACK + 1);
		sample->node = sqlite3_column_int64(samples->one, SAMPLE_STACK + 2);
		*ret_sample = sample;
	}
	sqlite3_reset(samples->one);
	return r;
}

/* Returns 1, 0: there is no such sample, or what reading it returned. */
static int find_sample(struct samples *samples, int64_t id,
		       const struct picture_row_sample **ret_sample)
{
	const struct picture_row_sample *sample = &samples->kept[(uint64_t)id % N_SAMPLES];

	if (id < samples->low || id > samples->high)
		return 0;
	while (samples->last < id) {
		int r = read_next(samples);
		if (r != 0)
			return r;
	}
	if (sample->id != id)
		return look_up(samples, id, ret_sample);
	*ret_sample = sample;
	return 1;
}

enum {
	TOUCH_SAMPLE,
	TOUCH_ROLE,
	TOUCH_ADDRESS,
	TOUCH_WRITE,
	TOUCH_DATA_SRC,
	TOUCH_KIND,
	TOUCH_OWNER,
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

static int read_touches(struct samples *samples, const struct scan_rows *rows)
{
	const struct picture_row_sample *sample = NULL;
	int r = 0;

	for (uint32_t i = 0; i < rows->n && r == 0; i++) {
		r = find_sample(samples, rows->columns[TOUCH_SAMPLE][i], &sample);
		if (r <= 0)
			continue;
		const struct picture_row_touch touch = touch_of(rows->columns, i, sample);
		r = samples->visitor->touch(samples->visitor->context, &touch);
	}
	return r;
}

/* Those behind the last touch. */
static int read_rest(struct samples *samples)
{
	int r = 0;

	while (samples->last < INT64_MAX && r == 0)
		r = read_next(samples);
	return r;
}

int picture_scan_touches(sqlite3 *db, int64_t run_id, const struct picture_touch_visitor *visitor)
{
	auto_scan struct scan *scan = NULL;
	const struct scan_query query = {
		"touch",
		"sample_id, role, address, is_write, data_src, owner_kind, owner_id, share, phase,"
		" frame_id, size",
		run_id,
	};
	struct scan_bound bound = { .column = TOUCH_SAMPLE };
	const struct scan_rows *rows;
	__attribute__((cleanup(close_samples))) struct samples *samples =
		calloc(1, sizeof(*samples));

	if (!samples)
		return -ENOMEM;
	samples->visitor = visitor;
	int r = open_samples(db, run_id, samples, &bound.low, &bound.high);
	if (r == 0)
		r = scan_open(db, &query, &scan);
	if (r < 0)
		return r;
	statement_integer(samples->one, 2, run_id);
	scan_bound(scan, &bound);
	while (r == 0 && (r = scan_next(scan, &rows)) == 1)
		r = read_touches(samples, rows);
	return r < 0 ? r : read_rest(samples);
}
