/*
 * The sources that a trace describes: what their samples are, and when their records were stamped.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "analyze/samples/samples-internal.h"
#include "common/array.h"
#include "trace/reader.h"

static struct sample_source *source_of(struct samples *samples, uint32_t number)
{
	return array_find(samples->sources, samples->n_sources, it, it->number == number);
}

struct sample_source *samples_source_of_frame(struct samples *samples, uint32_t number)
{
	struct sample_source *source = source_of(samples, number);

	samples->n_orphans += !source;
	return source;
}

static enum sample_kind kind_of(const struct trace_source *record)
{
	if (record->perf_type == PERF_TYPE_SOFTWARE &&
	    (record->perf_config == PERF_COUNT_SW_PAGE_FAULTS ||
	     record->perf_config == PERF_COUNT_SW_PAGE_FAULTS_MIN ||
	     record->perf_config == PERF_COUNT_SW_PAGE_FAULTS_MAJ))
		return SAMPLE_FAULT;
	if (record->perf_type == PERF_TYPE_BREAKPOINT)
		return SAMPLE_WATCH;
	if (record->sample_type & PERF_SAMPLE_REGS_USER)
		return SAMPLE_CLOCK;
	return record->sample_type & PERF_SAMPLE_ADDR ? SAMPLE_ADDRESS : SAMPLE_TIME;
}

int samples_source(struct samples *samples, const struct trace_source *record)
{
	size_t n_name;
	const char *name = trace_record_string(&record->head, 0, &n_name);

	if (source_of(samples, record->source_id))
		return 0;
	if (grow_array(&samples->sources, samples->n_sources, &samples->n_sources_allocated,
		       sizeof(*samples->sources)) < 0)
		return -ENOMEM;

	int row = sample_rows_source(samples->rows, record);
	if (row < 0)
		return row;
	samples->sources[samples->n_sources] = (struct sample_source){
		.number = record->source_id,
		.row = row,
		.kind = kind_of(record),
		.period = record->period ? (int64_t)record->period : 1,
		.has_run = record->error == 0,
		.stack_bytes = record->stack_bytes,
		.has_own_clock = record->clock_id == UINT32_MAX,
		.format = { .sample_type = record->sample_type, .regs_user = record->regs_user },
		.name = strndup(name, n_name),
	};
	return samples->sources[samples->n_sources++].name ? 0 : -ENOMEM;
}

/* Of enum trace_sample_kind; a kind that is not here: as without a detail. */
static const struct {
	uint16_t told;
	enum sample_kind kind;
} told_kinds[] = {
	{ TRACE_SAMPLE_TIME, SAMPLE_TIME },   { TRACE_SAMPLE_REGISTERS, SAMPLE_CLOCK },
	{ TRACE_SAMPLE_FAULT, SAMPLE_FAULT }, { TRACE_SAMPLE_ACCESS, SAMPLE_ADDRESS },
	{ TRACE_SAMPLE_IBS, SAMPLE_IBS },     { TRACE_SAMPLE_SPE, SAMPLE_SPE },
	{ TRACE_SAMPLE_WATCH, SAMPLE_WATCH }, { TRACE_SAMPLE_TASKS, SAMPLE_TIME },
	{ TRACE_SAMPLE_PAGES, SAMPLE_TIME },  { TRACE_SAMPLE_CALLS, SAMPLE_CALLS },
};

int samples_source_detail(struct samples *samples, const struct trace_source_detail *record)
{
	struct sample_source *source = source_of(samples, record->source_id);

	if (!source)
		return -EBADMSG;
	for (size_t i = 0; i < sizeof(told_kinds) / sizeof(told_kinds[0]); i++) {
		if (told_kinds[i].told == record->kind)
			source->kind = told_kinds[i].kind;
	}
	source->direction = record->direction;
	source->format.read_format = record->read_format;
	source->format.regs_intr = record->regs_intr;
	source->format.branch_sample_type = record->branch_sample_type;
	samples->queue.n_looked = 0; /* it was parsed otherwise */
	return sample_rows_detail(samples->rows, (uint32_t)source->row, record);
}

int samples_source_ledger(struct samples *samples, const struct trace_source_ledger *record)
{
	struct sample_source *source = source_of(samples, record->source_id);

	if (!source)
		return -EBADMSG;
	source->ledger = *record;
	return 0;
}

int samples_perf_clock(struct samples *samples, const struct trace_perf_clock *record)
{
	struct sample_source *source = source_of(samples, record->source_id);
	struct merge_clock *clock = source ? &source->clock : &samples->clock;
	const struct trace_clock pair = {
		.ticks = record->perf_ns,
		.raw_ns = record->raw_ns,
		.error_ns = record->error_ns,
	};

	if (clock->n == 0)
		merge_clock_init(clock, record->perf_ns, 0);
	return merge_clock_add(clock, &pair);
}

int samples_period(struct samples *samples, const struct trace_period *record)
{
	struct sample_source *source = source_of(samples, record->source_id);

	return source ? sample_turns_add(&source->turns, record) : -EBADMSG;
}

uint64_t samples_clock_error(const struct samples *samples)
{
	uint64_t error_ns = 0;

	for (size_t i = 0; i < samples->n_sources; i++) {
		const struct sample_source *source = &samples->sources[i];
		const struct merge_clock *clock =
			source->clock.n ? &source->clock : &samples->clock;

		if (source->has_own_clock && clock->error_ns > error_ns)
			error_ns = clock->error_ns;
	}
	return error_ns;
}

int64_t samples_time_of(struct samples *samples, struct sample_source *source, uint64_t time_ns)
{
	const struct sample_clock *to = &samples->context.clock;
	struct merge_clock *clock = source->clock.n ? &source->clock : &samples->clock;

	if (!source->has_own_clock)
		return to->from_raw(to->user, time_ns);
	source->losses[SAMPLE_LOSS_NO_CLOCK] += clock->n == 0;
	if (clock->n == 0)
		return 0;
	return to->from_raw(to->user,
			    clock->start_raw_ns + (uint64_t)merge_clock_of_ticks(clock, time_ns));
}
