#include "store/slices/write.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/database.h"
#include "store/slices/exits.h"
#include "store/slices/levels.h"
#include "store/statement.h"
#include "store/touch.h"

/* Where few events have a row of their own the sums would be about as large as what they are of. */
#define EVENTS_A_BLOCK_ROW 8u
#define EVENTS_A_TOUCH_ROW 4u

struct source {
	enum source_measures measures;
	bool is_access;
};

struct slices {
	struct db *db;
	int64_t run_id;
	struct slice_levels blocks;
	struct slice_levels touches;
	size_t n_events; /* of the slice at hand */
	size_t n_least; /* before it may end */
	struct slice_exits *exits;
	bool is_out_of_order; /* blocks: there are none that a sum could be trusted of */
	int64_t last_birth_ns;
	int64_t last_id; /* that was born */
	int64_t *ends; /* ids of blocks that were born before the slice */
	size_t n_ends;
	size_t n_ends_allocated;
	int64_t last_sample; /* of the last touch */
	struct key_map source_of; /* of source.id: 1 + place in sources */
	struct source *sources;
	size_t n_sources;
	size_t n_sources_allocated;
};

struct slices *slices_close(struct slices *slices)
{
	if (!slices)
		return NULL;
	slice_levels_finish(&slices->blocks);
	slice_levels_finish(&slices->touches);
	slice_exits_close(slices->exits);
	free(slices->ends);
	key_map_finish(&slices->source_of);
	free(slices->sources);
	free(slices);
	return NULL;
}

static int add_source(struct slices *slices, sqlite3_stmt *row)
{
	int kind = sqlite3_column_int(row, 2);
	int r = grow_array(&slices->sources, slices->n_sources, &slices->n_sources_allocated,
			   sizeof(*slices->sources));

	if (r < 0)
		return r;
	struct source *source = &slices->sources[slices->n_sources];
	*source = (struct source){
		.measures = source_measures_read(statement_string(row, 1)),
		.is_access = sample_kind_is_access(kind),
	};
	return key_map_put(&slices->source_of, (uint64_t)sqlite3_column_int64(row, 0), 0,
			   ++slices->n_sources);
}

static int read_sources(struct slices *slices)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(slices->db),
				  "SELECT id, measures, kind FROM source WHERE run_id = ?", &row);

	if (r < 0)
		return r;
	statement_integer(row, 1, slices->run_id);
	while ((r = statement_step(row)) > 0) {
		r = add_source(slices, row);
		if (r < 0)
			return r;
	}
	return r;
}

static int open_levels(struct slices *slices, struct slice_levels *levels, bool is_blocks)
{
	*levels = (struct slice_levels){
		.db = slices->db,
		.run_id = slices->run_id,
		.is_blocks = is_blocks,
	};
	levels->first_thread = db_integer_of(
		slices->db, 1, "SELECT min(id) FROM thread WHERE run_id = ?1", "i", slices->run_id);
	return slice_levels_init(levels);
}

int slices_open(struct db *db, int64_t run_id, size_t n_events, struct slices **ret_slices)
{
	if (!statement_has_column(db_handle(db), "main", "slice", "level")) {
		*ret_slices = NULL;
		return 0;
	}
	struct slices *slices = calloc(1, sizeof(*slices));
	if (!slices)
		return -ENOMEM;
	slices->db = db;
	slices->run_id = run_id;
	slices->n_least = n_events;
	slices->last_birth_ns = INT64_MIN;
	int r = db_run(db, "DELETE FROM slice WHERE run_id = ?1", "n", run_id);
	if (r == 0)
		r = open_levels(slices, &slices->blocks, true);
	if (r == 0)
		r = open_levels(slices, &slices->touches, false);
	if (r == 0)
		r = slice_exits_open(db, run_id, &slices->exits);
	if (r == 0)
		r = read_sources(slices);
	if (r < 0)
		slices_close(slices);
	else
		*ret_slices = slices;
	return r;
}

static void widen_time(struct slice_span *span, int64_t time_ns)
{
	span->first_ns = time_ns < span->first_ns ? time_ns : span->first_ns;
	span->last_ns = time_ns > span->last_ns ? time_ns : span->last_ns;
}

/* ---- Blocks ---- */

static int compare_ids(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return left < right ? -1 : left > right;
}

static int close_blocks(struct slices *slices)
{
	struct slice_levels *levels = &slices->blocks;
	int r = 0;

	if (slices->n_ends)
		qsort(slices->ends, slices->n_ends, sizeof(*slices->ends), compare_ids);
	for (size_t i = 0; i < slices->n_ends && r == 0; i++)
		r = slice_blob_row(levels->blob, SLICE_ENDS, &slices->ends[i], 1);
	if (r == 0)
		r = slice_exits_pack(slices->exits, levels->blob);
	slices->n_ends = 0;
	slices->n_events = 0;
	return r < 0 ? r : slice_levels_close(levels);
}

/* What happens at one moment lies in one slice. */
static int begin_event(struct slices *slices, int64_t time_ns)
{
	struct slice_group *slice = &slices->blocks.groups[0];
	bool is_full = slices->n_events >= slices->n_least &&
		       slices->n_events >= slice->blocks.n_sites * EVENTS_A_BLOCK_ROW &&
		       time_ns > slice->span.last_ns;
	int r = is_full ? close_blocks(slices) : 0;

	slices->n_events++;
	widen_time(&slice->span, time_ns);
	return r;
}

static int64_t *room_for_end(struct slices *slices)
{
	int r = grow_array(&slices->ends, slices->n_ends, &slices->n_ends_allocated,
			   sizeof(*slices->ends));

	return r < 0 ? NULL : &slices->ends[slices->n_ends++];
}

static int end_process(struct slices *slices, const struct sweep_end *marker)
{
	struct slice_group *slice = &slices->blocks.groups[0];

	return slice_exits_take(slices->exits, marker, &slice->blocks);
}

int slices_end(struct slices *slices, const struct sweep_end *end)
{
	if (!slices || slices->is_out_of_order)
		return 0;
	int r = begin_event(slices, (int64_t)end->time);
	if (r < 0)
		return r;
	if (end->n == 0)
		return end_process(slices, end);
	const struct slice_span *span = &slices->blocks.groups[0].span;
	if (end->id < span->first_row) {
		int64_t *room = room_for_end(slices);
		if (!room)
			return -ENOMEM;
		*room = end->id;
	}
	return slice_blocks_end(&slices->blocks.groups[0].blocks, end);
}

static bool is_in_order(const struct slices *slices, const struct picture_row_block *block)
{
	return block->birth_ns >= 0 && block->birth_ns >= slices->last_birth_ns &&
	       block->id > slices->last_id && block->death_ns >= block->birth_ns &&
	       block->size >= 0 && block->stack_id >= 0;
}

int slices_birth(struct slices *slices, struct sweep *sweep, const struct picture_row_block *block)
{
	if (!slices || slices->is_out_of_order)
		return 0;
	if (!is_in_order(slices, block) ||
	    !slice_exits_may_have(slices->exits, block->process_id, block->birth_ns)) {
		slices->is_out_of_order = true;
		return 0;
	}
	const struct slice_birth birth = {
		.id = block->id,
		.stack_id = block->stack_id,
		.size = block->size,
		.birth_ns = block->birth_ns,
		.death_ns = block->death_ns,
		.thread_id = block->thread_id,
		.killer_id = block->killer_id,
	};
	int r = begin_event(slices, block->birth_ns);
	if (r < 0)
		return r;
	struct slice_group *slice = &slices->blocks.groups[0];
	slices->last_birth_ns = block->birth_ns;
	slices->last_id = block->id;
	if (block->id < slice->span.first_row)
		slice->span.first_row = block->id;
	slice->span.last_row = block->id;
	r = slice_blocks_birth(&slice->blocks, &birth);
	if (r == 0 && block->death_ns == INT64_MAX)
		r = slice_exits_add(slices->exits, block, sweep);
	return r;
}

/* Without slices of its blocks a part of the run is counted from its rows. */
static int drop(struct slices *slices)
{
	return db_run(slices->db, "DELETE FROM slice WHERE run_id = ?1 AND is_blocks", "n",
		      slices->run_id);
}

int slices_end_blocks(struct slices *slices)
{
	if (!slices)
		return 0;
	int r = close_blocks(slices);
	if (r == 0)
		r = slice_levels_flush(&slices->blocks);
	return r < 0 || !slices->is_out_of_order ? r : drop(slices);
}

/* ---- Samples and touches ---- */

static int close_touches(struct slices *slices)
{
	slices->n_events = 0;
	return slice_levels_close(&slices->touches);
}

/* Between two samples, if there is enough. */
static int begin_sample(struct slices *slices)
{
	if (slices->n_events < slices->n_least)
		return 0;
	size_t n_rows = slice_touches_n_rows(&slices->touches.groups[0].touches);
	return slices->n_events < n_rows * EVENTS_A_TOUCH_ROW ? 0 : close_touches(slices);
}

static const struct source *source_of(const struct slices *slices, int64_t id)
{
	uint64_t number = key_map_get(&slices->source_of, (uint64_t)id, 0);

	return number ? &slices->sources[number - 1] : NULL;
}

int slices_sample(struct slices *slices, const struct picture_row_sample *sample)
{
	const struct source *source = slices ? source_of(slices, sample->source_id) : NULL;

	if (!source)
		return 0;
	int r = begin_sample(slices);
	if (r < 0)
		return r;
	struct slice_group *slice = &slices->touches.groups[0];
	const struct sample_event taken = {
		.measures = source->measures,
		.time_ns = sample->time_ns,
		.weight = sample->weight,
		.thread_row = sample->thread_id,
	};
	slices->n_events++;
	widen_time(&slice->span, sample->time_ns);
	if (sample->id < slice->span.first_sample)
		slice->span.first_sample = sample->id;
	slice->span.last_sample = sample->id;
	slice->touches.n_clock += taken.measures == MEASURES_TIME;
	tally_sample(&slice->touches.tally, &taken);
	return 0;
}

static struct touch touch_of(const struct picture_row_touch *touch, const struct source *source)
{
	bool is_fault = touch->role == TRACE_ROLE_FAULT;

	return (struct touch){
		.sample = touch->sample_id,
		.time_ns = touch->time_ns,
		.weight = touch->weight,
		.process_row = touch->process_id,
		.thread_row = touch->thread_id,
		.measures = source->measures,
		.role = (enum trace_role)touch->role,
		.share = touch->share,
		.address = touch->address,
		.is_resolved = touch->has_address,
		.frame = touch->frame_id,
		.size = touch->size,
		.is_write = touch->is_write > 0,
		.owner = { .kind = (enum owner_kind)touch->owner_kind,
			   .phase = (enum owner_phase)touch->phase,
			   .id = touch->owner_id },
		.is_access = source->is_access,
		.source_row = touch->source_id,
		.data_src = touch->data_src,
		.latency = source->is_access ? (uint32_t)touch->latency : 0,
		.node_number = is_fault ? (uint32_t)touch->node : 0,
	};
}

int slices_touch(struct slices *slices, const struct picture_row_touch *row, int64_t site)
{
	const struct source *source = slices ? source_of(slices, row->source_id) : NULL;

	if (!source)
		return 0;
	int r = row->sample_id != slices->last_sample ? begin_sample(slices) : 0;
	if (r < 0)
		return r;
	struct slice_group *slice = &slices->touches.groups[0];
	struct touch touch = touch_of(row, source);
	slices->last_sample = row->sample_id;
	slices->n_events++;
	widen_time(&slice->span, row->time_ns);
	if (row->id < slice->span.first_row)
		slice->span.first_row = row->id;
	if (row->id > slice->span.last_row)
		slice->span.last_row = row->id;
	if (touch.owner.kind == OWNER_heap && site >= 0)
		r = tally_site(&slice->touches.tally, site, &touch.owner.site);
	return r < 0 ? r : tally_any_touch(&slice->touches.tally, &touch);
}

int slices_end_touches(struct slices *slices)
{
	if (!slices)
		return 0;
	int r = close_touches(slices);
	return r < 0 ? r : slice_levels_flush(&slices->touches);
}
