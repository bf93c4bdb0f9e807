#include "pmu/source.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <time.h>

#include "pmu/signal.h"
#include "pmu/stream.h"

const struct access_source *const pmu_sources[] = {
	/* A processor has one of these at most. */
	&pmu_source_pebs,
	&pmu_source_spe,
	&pmu_source_marked,
	&pmu_source_ibs,
	/* Any has these. */
	&pmu_source_clock,
	&pmu_source_signal,
	&pmu_source_faults,
	&pmu_source_pages,
	&pmu_source_tasks,
	NULL,
};

const struct access_source *pmu_source_find(const char *name)
{
	for (size_t i = 0; pmu_sources[i]; i++)
		if (strcmp(pmu_sources[i]->name, name) == 0)
			return pmu_sources[i];
	return NULL;
}

int pmu_stream_open(const struct access_source *source, const struct access_options *options,
		    struct access_stream **ret_stream, struct pmu_refusal *ret_refusal)
{
	return source->open(source, options, ret_stream, ret_refusal);
}

struct access_stream *pmu_stream_close(struct access_stream *stream)
{
	if (stream)
		stream->source->close(stream);
	return NULL;
}

int pmu_stream_enable(struct access_stream *stream, bool on)
{
	return stream->source->enable ? stream->source->enable(stream, on) : 0;
}

int pmu_stream_turn(struct access_stream *stream, size_t level, uint64_t random,
		    struct pmu_turn *ret_turn)
{
	return stream->source->turn ? stream->source->turn(stream, level, random, ret_turn) : 0;
}

int pmu_stream_begin_period(struct access_stream *stream, uint64_t period, const pid_t *pids,
			    size_t n_pids)
{
	return stream->source->begin_period
		       ? stream->source->begin_period(stream, period, pids, n_pids)
		       : -EOPNOTSUPP;
}

int pmu_stream_end_period(struct access_stream *stream, bool is_taken)
{
	return stream->source->end_period ? stream->source->end_period(stream, is_taken)
					  : -EOPNOTSUPP;
}

uint64_t pmu_stream_period(const struct access_stream *stream)
{
	return stream->source->period ? stream->source->period(stream) : 0;
}

ssize_t pmu_stream_read(struct access_stream *stream, pmu_sink sink, void *context)
{
	return stream->source->read ? stream->source->read(stream, sink, context) : 0;
}

ssize_t pmu_stream_read_aux(struct access_stream *stream, pmu_aux_sink sink, void *context)
{
	return stream->source->read_aux ? stream->source->read_aux(stream, sink, context) : 0;
}

int pmu_stream_losses(struct access_stream *stream, struct pmu_losses *ret_losses)
{
	*ret_losses = (struct pmu_losses){ .n_lost_is_exact = true };
	return stream->source->losses ? stream->source->losses(stream, ret_losses) : 0;
}

void pmu_stream_describe(const struct access_stream *stream, struct trace_source *ret_source)
{
	stream->source->describe(stream, ret_source);
}

void pmu_stream_detail(const struct access_stream *stream, struct trace_source_detail *ret_detail,
		       const char **ret_event)
{
	const struct access_source *source = stream->source;

	*ret_detail = (struct trace_source_detail){ .kind = source->kind,
						    .direction = source->direction };
	*ret_event = "";
	if (source->detail)
		source->detail(stream, ret_detail, ret_event);
}

void pmu_source_describe_refused(const struct access_source *source,
				 const struct access_options *options, int error,
				 struct trace_source *ret_source)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };

	if (source->configure)
		source->configure(options, &attr);
	*ret_source = (struct trace_source){
		.error = (uint32_t)-error,
		.perf_type = attr.type,
		.perf_config = attr.config,
		.sample_type = attr.sample_type,
		.regs_user = attr.sample_regs_user,
		.stack_bytes = attr.sample_stack_user,
		.period = attr.sample_period,
		.exclude_kernel = attr.exclude_kernel,
		.clock_id = CLOCK_MONOTONIC_RAW,
	};
}

const char *pmu_stream_unit(const struct access_stream *stream)
{
	const struct access_source *source = stream->source;

	return source->counted ? source->counted(stream) : source->unit;
}

int pmu_stream_perf_clock(struct access_stream *stream, struct trace_perf_clock *ret_clock)
{
	return stream->source->perf_clock ? stream->source->perf_clock(stream, ret_clock) : 0;
}

const char *pmu_stream_remarks(const struct access_stream *stream)
{
	return stream->source->remarks ? stream->source->remarks(stream) : "";
}

const char *pmu_stream_notes(const struct access_stream *stream)
{
	return stream->source->notes ? stream->source->notes(stream) : "";
}

size_t pmu_stream_fds(const struct access_stream *stream, const int **ret_fds)
{
	*ret_fds = NULL;
	return stream->source->fds ? stream->source->fds(stream, ret_fds) : 0;
}
