#include "store/row-scan.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "store/compact/scan.h"
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

/* ---- Touches, and the samples that they are of ---- */

enum {
	TOUCH_KIND,
	TOUCH_OWNER,
	TOUCH_TIME,
	TOUCH_PROCESS,
	TOUCH_THREAD,
	TOUCH_SOURCE,
	TOUCH_WEIGHT,
	TOUCH_ROLE,
	TOUCH_ADDRESS,
	TOUCH_WRITE,
	TOUCH_DATA_SRC,
	TOUCH_SHARE,
	TOUCH_FRAME,
	TOUCH_LATENCY,
	TOUCH_TABLES,
	/* Nobody asks for these of some blocks: */
	TOUCH_SAMPLE,
	TOUCH_STACK,
	TOUCH_PHASE,
	TOUCH_SIZE,
	TOUCH_PICTURE,
	TOUCH_NODE,
	TOUCH_SITE,
	TOUCH_COLUMNS
};
#define OF_SOME                                                                                    \
	"owner_kind, owner_id, time_ns, process_id, thread_id, source_id, weight, role, address,"  \
	" is_write, data_src, share, frame_id, latency, tables"
#define OF_ALL OF_SOME ", sample_id, stack_id, phase, size, picture, node, site_id"
_Static_assert(TOUCH_COLUMNS <= SCAN_COLUMNS, "there is room for them");

/* NULL, and what is not read, is 0. */
static int64_t number_at(const int64_t *const *columns, unsigned column, uint32_t i)
{
	return columns[column] ? or_else(columns[column][i], 0) : 0;
}

static struct picture_row_sample sample_of(const int64_t *const *columns, uint32_t i)
{
	return (struct picture_row_sample){
		.id = number_at(columns, TOUCH_SAMPLE, i),
		.process_id = number_at(columns, TOUCH_PROCESS, i),
		.thread_id = number_at(columns, TOUCH_THREAD, i),
		.source_id = columns[TOUCH_SOURCE][i],
		.time_ns = columns[TOUCH_TIME][i],
		.weight = columns[TOUCH_WEIGHT][i],
		.stack_id = number_at(columns, TOUCH_STACK, i),
	};
}

static struct picture_row_touch touch_of(const int64_t *const *columns, uint32_t i)
{
	int64_t is_write = columns[TOUCH_WRITE][i];
	int64_t node = columns[TOUCH_NODE] ? columns[TOUCH_NODE][i] : SCAN_NULL;
	double share;

	memcpy(&share, &columns[TOUCH_SHARE][i], sizeof(share));
	return (struct picture_row_touch){
		.sample = sample_of(columns, i),
		.role = (int)columns[TOUCH_ROLE][i],
		.has_address = columns[TOUCH_ADDRESS][i] != SCAN_NULL,
		.address = (uint64_t)or_else(columns[TOUCH_ADDRESS][i], 0),
		.is_write = is_write == SCAN_NULL ? -1 : (int)is_write,
		.data_src = or_else(columns[TOUCH_DATA_SRC][i], 0),
		.owner_kind = (int)columns[TOUCH_KIND][i],
		.owner_id = or_else(columns[TOUCH_OWNER][i], 0),
		.share = isnan(share) ? 0 : share, /* which SQLite has no number for */
		.phase = (int)number_at(columns, TOUCH_PHASE, i),
		.frame_id = or_else(columns[TOUCH_FRAME][i], 0),
		.size = columns[TOUCH_SIZE] ? columns[TOUCH_SIZE][i] : SCAN_NULL,
		.latency = or_else(columns[TOUCH_LATENCY][i], 0),
		.node = node == SCAN_NULL ? 0 : (int64_t)((uint64_t)node + 1),
		.site_id = number_at(columns, TOUCH_SITE, i),
		.picture = number_at(columns, TOUCH_PICTURE, i),
	};
}

static bool is_timed(const struct picture_touch_visitor *visitor)
{
	return visitor->from_ns > INT64_MIN || visitor->to_ns < INT64_MAX;
}

/* Those of the time, and of the blocks that are meant. */
static uint32_t choose_touches(const void *context, const int64_t *const *columns, uint32_t n,
			       uint32_t *chosen)
{
	const struct picture_touch_visitor *visitor = context;
	const int64_t *times = is_timed(visitor) ? columns[TOUCH_TIME] : NULL;
	uint32_t n_chosen = 0;

	for (uint32_t i = 0; i < n; i++) {
		bool fits = !times || (times[i] >= visitor->from_ns && times[i] <= visitor->to_ns);
		if (fits && visitor->blocks)
			fits = columns[TOUCH_KIND][i] == OWNER_heap &&
			       row_ids_have(visitor->blocks, or_else(columns[TOUCH_OWNER][i], 0));
		chosen[n_chosen] = i;
		n_chosen += fits;
	}
	return n_chosen;
}

/* A sample, and its touches behind it. */
static int read_touches(const struct picture_touch_visitor *visitor, const struct scan_rows *rows)
{
	int r = 0;

	for (uint32_t i = 0; i < rows->n && r == 0; i++) {
		int64_t tables = rows->columns[TOUCH_TABLES][i];
		const struct picture_row_touch touch = touch_of(rows->columns, i);
		if (tables & SHOWN_SAMPLE && visitor->sample)
			r = visitor->sample(visitor->context, &touch.sample);
		if (tables & SHOWN_TOUCH && r == 0)
			r = visitor->touch(visitor->context, &touch);
	}
	return r;
}

int picture_scan_touches(sqlite3 *db, int64_t run_id, const struct picture_touch_visitor *visitor)
{
	auto_scan struct scan *scan = NULL;
	const struct scan_query query = { "touch", visitor->blocks ? OF_SOME : OF_ALL, run_id };
	const struct scan_choice choice = { is_timed(visitor) ? TOUCH_TIME + 1 : TOUCH_OWNER + 1,
					    choose_touches, visitor };
	const struct scan_bound bound = { TOUCH_TIME, visitor->from_ns, visitor->to_ns, false };
	const struct scan_rows *rows;
	int r = scan_open(db, &query, &scan);

	if (r < 0)
		return r;
	scan_bound(scan, &bound);
	if (visitor->blocks || is_timed(visitor))
		scan_choose(scan, &choice);
	while (r == 0 && (r = scan_next(scan, &rows)) == 1)
		r = read_touches(visitor, rows);
	return r;
}
