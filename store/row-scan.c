#include "store/row-scan.h"

#include <math.h>
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

/* ---- Samples ---- */

enum {
	SAMPLE_ID,
	SAMPLE_PROCESS,
	SAMPLE_THREAD,
	SAMPLE_SOURCE,
	SAMPLE_TIME,
	SAMPLE_WEIGHT,
	SAMPLE_STACK,
	SAMPLE_COLUMNS
};
#define SAMPLE "process_id, thread_id, source_id, time_ns, weight, stack_id"

/* NULL is 0, as SQLite has it. columns: from that of the id on. */
static struct picture_row_sample sample_of(const int64_t *const *columns, uint32_t i)
{
	return (struct picture_row_sample){
		.id = columns[SAMPLE_ID][i],
		.process_id = or_else(columns[SAMPLE_PROCESS][i], 0),
		.thread_id = or_else(columns[SAMPLE_THREAD][i], 0),
		.source_id = columns[SAMPLE_SOURCE][i],
		.time_ns = columns[SAMPLE_TIME][i],
		.weight = columns[SAMPLE_WEIGHT][i],
		.stack_id = or_else(columns[SAMPLE_STACK][i], 0),
	};
}

/* ---- Touches ---- */

enum {
	TOUCH_KIND,
	TOUCH_OWNER,
	TOUCH_ROLE,
	TOUCH_ADDRESS,
	TOUCH_WRITE,
	TOUCH_DATA_SRC,
	TOUCH_SHARE,
	TOUCH_PHASE,
	TOUCH_FRAME,
	TOUCH_SIZE,
	TOUCH_PICTURE,
	TOUCH_LATENCY,
	TOUCH_NODE,
	TOUCH_SITE,
	TOUCH_TABLES,
	TOUCH_SAMPLE,
	TOUCH_TIME = TOUCH_SAMPLE + SAMPLE_TIME,
};
_Static_assert(TOUCH_SAMPLE + SAMPLE_COLUMNS <= SCAN_COLUMNS, "there is room for them");

static struct picture_row_touch touch_of(const int64_t *const *columns, uint32_t i)
{
	int64_t is_write = columns[TOUCH_WRITE][i], node = columns[TOUCH_NODE][i];
	double share;

	memcpy(&share, &columns[TOUCH_SHARE][i], sizeof(share));
	return (struct picture_row_touch){
		.sample = sample_of(columns + TOUCH_SAMPLE, i),
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
		.latency = or_else(columns[TOUCH_LATENCY][i], 0),
		.node = node == SCAN_NULL ? 0 : (int64_t)((uint64_t)node + 1),
		.site_id = or_else(columns[TOUCH_SITE][i], 0),
		.picture = columns[TOUCH_PICTURE][i],
	};
}

/* Those of some blocks. */
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

/* A sample, and its touches behind it. */
static int read_touches(const struct picture_touch_visitor *visitor, const struct scan_rows *rows)
{
	int r = 0;

	for (uint32_t i = 0; i < rows->n && r == 0; i++) {
		int64_t time_ns = rows->columns[TOUCH_TIME][i];
		int64_t tables = rows->columns[TOUCH_TABLES][i];
		if (time_ns < visitor->from_ns || time_ns > visitor->to_ns)
			continue;
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
	const struct scan_query query = {
		"touch",
		"owner_kind, owner_id, role, address, is_write, data_src, share, phase, frame_id,"
		" size, picture, latency, node, site_id, tables, sample_id, " SAMPLE,
		run_id,
	};
	const struct scan_choice choice = { TOUCH_OWNER + 1, choose_touches, visitor->blocks };
	const struct scan_bound bound = { TOUCH_TIME, visitor->from_ns, visitor->to_ns, false };
	const struct scan_rows *rows;
	int r = scan_open(db, &query, &scan);

	if (r < 0)
		return r;
	scan_bound(scan, &bound);
	if (visitor->blocks)
		scan_choose(scan, &choice);
	while (r == 0 && (r = scan_next(scan, &rows)) == 1)
		r = read_touches(visitor, rows);
	return r;
}
