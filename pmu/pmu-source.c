#include "pmu/pmu-source.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <time.h>

#include "pmu/pmu-stream.h"

const struct access_source *const pmu_sources[] = {
	&pmu_source_clock,
	&pmu_source_faults,
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

/* The first access source that opens; where none does the last, so that opening it tells why. */
static const struct access_source *best_access_source(const struct access_options *options)
{
	const struct access_source *best = NULL;
	struct pmu_refusal refusal;

	for (size_t i = 0; pmu_sources[i]; i++) {
		if (pmu_sources[i]->role != ACCESS_ROLE_ACCESS)
			continue;
		best = pmu_sources[i];
		if (best->probe(best, options, &refusal) == 0)
			break;
	}
	return best;
}

static int collect(const struct access_source *const chosen[], size_t n_chosen,
		   const struct access_source **ret_sources, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < n_chosen && n < max; i++)
		if (i == 0 || chosen[i] != chosen[0])
			ret_sources[n++] = chosen[i];
	return (int)n;
}

int pmu_sources_select(const char *choice, const struct access_options *options,
		       const struct access_source **ret_sources, size_t max)
{
	const struct access_source *source;

	if (strcmp(choice, "none") == 0)
		return 0;
	if (strcmp(choice, "auto") == 0)
		return collect((const struct access_source *[]){ best_access_source(options),
								 &pmu_source_faults,
								 &pmu_source_tasks },
			       3, ret_sources, max);
	source = pmu_source_find(choice);
	if (!source)
		return -EINVAL;
	return collect((const struct access_source *[]){ source, &pmu_source_tasks }, 2,
		       ret_sources, max);
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

const struct access_source *pmu_stream_source(const struct access_stream *stream)
{
	return stream->source;
}

int pmu_stream_enable(struct access_stream *stream, bool on)
{
	return stream->source->enable(stream, on);
}

ssize_t pmu_stream_read(struct access_stream *stream, pmu_sink sink, void *context)
{
	return stream->source->read(stream, sink, context);
}

int pmu_stream_losses(struct access_stream *stream, struct pmu_losses *ret_losses)
{
	return stream->source->losses(stream, ret_losses);
}

void pmu_stream_describe(const struct access_stream *stream, struct trace_source *ret_source)
{
	stream->source->describe(stream, ret_source);
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

const char *pmu_stream_notes(const struct access_stream *stream)
{
	return stream->source->notes(stream);
}

size_t pmu_stream_fds(const struct access_stream *stream, const int **ret_fds)
{
	return stream->source->fds(stream, ret_fds);
}
