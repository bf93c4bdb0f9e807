#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "store/database.h"
#include "store/row-limit.h"
#include "store/row-scan.h"
#include "store/selection/count.h"
#include "store/statement.h"
#include "store/touch.h"

struct source {
	int64_t id;
	enum source_measures measures;
	int kind;
};

struct touches {
	struct count *count;
	struct source *sources;
	size_t n_sources;
	int64_t stacked; /* the last sample whose stack is counted */
	struct touch *lines; /* accesses that are put in order */
	size_t n_lines;
	size_t n_allocated;
};

static void finish(struct touches *touches)
{
	free(touches->sources);
	free(touches->lines);
}
#define auto_touches __attribute__((cleanup(finish)))

static int read_sources(struct touches *touches)
{
	auto_statement sqlite3_stmt *row = NULL;
	size_t n_allocated = 0;
	int r = statement_prepare(db_handle(touches->count->db),
				  "SELECT id, measures, kind FROM main.source WHERE run_id = ?",
				  &row);

	if (r == 0)
		statement_integer(row, 1, touches->count->run_id);
	while (r == 0 && (r = statement_step(row)) == 1)
		r = array_add(touches->sources, touches->n_sources, n_allocated,
			      (struct source){
				      .id = sqlite3_column_int64(row, 0),
				      .measures = source_measures_read(statement_string(row, 1)),
				      .kind = sqlite3_column_int(row, 2),
			      });
	return r;
}

static const struct source *source_of(const struct touches *touches, int64_t id)
{
	return array_find(touches->sources, touches->n_sources, it, it->id == id);
}

/* ---- Samples ---- */

/* The stack of a sample, once. */
static int add_stack(struct touches *touches, const struct picture_row_sample *sample,
		     const struct source *source)
{
	if (touches->stacked == sample->id)
		return 0;
	touches->stacked = sample->id;
	return stack_totals_add(&touches->count->tally->stacks, source->measures, sample->stack_id,
				sample->weight);
}

/* The source of a sample that is of the selection; NULL: it is not. */
static const struct source *source_of_taken(const struct touches *touches,
					    const struct picture_row_sample *sample)
{
	const struct count *count = touches->count;
	const struct filter *filter = count->filter;
	bool is_within = sample->time_ns >= count->from_ns && sample->time_ns < count->to_ns;

	return (is_within || !filter->is_timed) && filter_takes(filter, sample->process_id,
								sample->thread_id, sample->time_ns)
		       ? source_of(touches, sample->source_id)
		       : NULL;
}

static int add_sample(void *context, const struct picture_row_sample *sample)
{
	struct touches *touches = context;
	struct count *count = touches->count;
	const struct source *source = source_of_taken(touches, sample);

	if (!source)
		return 0;
	struct sample_event taken = {
		.measures = source->measures,
		.weight = sample->weight,
		.thread_row = sample->thread_id,
	};
	int r = count_distance(count->selection->from_ns, sample->time_ns, &taken.time_ns);
	if (r < 0 || !row_is_below(taken.thread_row, count->max_threads))
		return -EBADMSG;
	count->n_clock += taken.measures == MEASURES_TIME;
	tally_sample(count->tally, &taken);
	/* Addresses are those that a sample touched. */
	return count->selection->high ? 0 : add_stack(touches, sample, source);
}

/* ---- Touches ---- */

static struct touch touch_of(const struct picture_row_touch *row, const struct source *source)
{
	bool has_latency = sample_kind_is_access(source->kind);
	bool has_node = row->role == TRACE_ROLE_FAULT;

	return (struct touch){
		.sample = row->sample.id,
		.weight = row->sample.weight,
		.process_row = row->sample.process_id,
		.thread_row = row->sample.thread_id,
		.address = row->address,
		.size = row->size,
		.is_write = row->is_write > 0,
		.is_resolved = row->has_address,
		.frame = row->frame_id,
		.measures = source->measures,
		.role = (enum trace_role)row->role,
		.share = row->share,
		.owner = { .kind = (enum owner_kind)row->owner_kind,
			   .phase = (enum owner_phase)row->phase,
			   .id = row->owner_id },
		.is_access = has_latency,
		.source_row = source->id,
		.data_src = row->data_src,
		.latency = has_latency ? (uint32_t)row->latency : 0,
		.node_number = has_node ? (uint32_t)row->node : 0,
	};
}

static int keep_line(struct touches *touches, const struct touch *touch)
{
	bool is_access = touch->role == TRACE_ROLE_EXACT || touch->role == TRACE_ROLE_WINDOW;

	if (!(touches->count->selection->wants & SELECTION_LINES) || !touch->is_resolved ||
	    !is_access)
		return 0;
	return array_add(touches->lines, touches->n_lines, touches->n_allocated, *touch);
}

static int add_touch(void *context, const struct picture_row_touch *row)
{
	struct touches *touches = context;
	struct count *count = touches->count;
	const struct source *source = source_of_taken(touches, &row->sample);

	if (!source ||
	    (count->selection->high &&
	     (!row->has_address || !filter_has_bytes(count->filter, (int64_t)row->address, 1))))
		return 0;
	struct touch touch = touch_of(row, source);
	int r = count_distance(count->selection->from_ns, row->sample.time_ns, &touch.time_ns);
	if (r == 0 && touch.owner.kind == OWNER_heap)
		r = row_is_below(row->site_id, count->max_stacks)
			    ? tally_site(count->tally, row->site_id, &touch.owner.site)
			    : -EBADMSG;
	r = r ?: tally_any_touch(count->tally, &touch);
	if (r == 0 && count->selection->high)
		r = add_stack(touches, &row->sample, source);
	return r < 0 ? r : keep_line(touches, &touch);
}

/* ---- Lines that threads share ---- */

/*
 * Who was first depends on the order of accesses: by time, then by sample. Two touches of one
 * sample are told apart by what they say, since touches have no id of their own.
 */
DEFINE_ORDER(compare, struct touch,
	     BY(time_ns)
		     ?: BY(sample) ?: ORDER((int64_t)a->address, (int64_t)b->address) ?: BY(role)
		     ?: BY(owner.kind) ?: BY(owner.id) ?: BY(is_write) ?: BY(size) ?: BY(share));

static int add_lines(struct touches *touches)
{
	int r = 0;

	if (touches->n_lines > 1)
		qsort(touches->lines, touches->n_lines, sizeof(*touches->lines), compare);
	for (size_t i = 0; i < touches->n_lines && r == 0; i++)
		r = tally_line(touches->count->tally, &touches->lines[i]);
	return r;
}

int count_touches(struct count *count)
{
	auto_touches struct touches touches = { .count = count };
	const struct picture_touch_visitor visitor = {
		.sample = add_sample,
		.touch = add_touch,
		.context = &touches,
		.from_ns = count->filter->is_timed ? count->from_ns : INT64_MIN,
		.to_ns = count->filter->is_timed ? count->to_ns - 1 : INT64_MAX,
	};
	int r = read_sources(&touches);

	r = r ?: picture_scan_touches(db_handle(count->db), count->run_id, &visitor);
	return r < 0 ? r : add_lines(&touches);
}
