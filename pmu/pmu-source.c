#include "pmu/pmu-source.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
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

static size_t add(const struct access_source *source, const struct access_source **ret_sources,
		  size_t n, size_t max)
{
	for (; source && n < max; source = source->companion) {
		bool is_there = false;

		for (size_t i = 0; i < n; i++)
			is_there |= ret_sources[i] == source;
		if (!is_there)
			ret_sources[n++] = source;
	}
	return n;
}

static int collect(const struct access_source *const chosen[], size_t n_chosen,
		   const struct access_source **ret_sources, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < n_chosen; i++)
		n = add(chosen[i], ret_sources, n, max);
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

void pmu_sources_refusals(const struct access_source *chosen, const struct access_options *options,
			  char *ret_text, size_t n_bytes)
{
	size_t used = 0;

	ret_text[0] = '\0';
	for (size_t i = 0; pmu_sources[i] && pmu_sources[i] != chosen && used < n_bytes; i++) {
		struct pmu_refusal refusal;

		if (pmu_sources[i]->role != ACCESS_ROLE_ACCESS ||
		    pmu_sources[i]->probe(pmu_sources[i], options, &refusal) == 0)
			continue;
		used += (size_t)snprintf(ret_text + used, n_bytes - used, "%s%s: %s",
					 used ? "; " : "", pmu_sources[i]->name, refusal.why);
	}
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

ssize_t pmu_stream_read_aux(struct access_stream *stream, pmu_aux_sink sink, void *context)
{
	return stream->source->read_aux ? stream->source->read_aux(stream, sink, context) : 0;
}

int pmu_stream_losses(struct access_stream *stream, struct pmu_losses *ret_losses)
{
	return stream->source->losses(stream, ret_losses);
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

const char *pmu_stream_notes(const struct access_stream *stream)
{
	return stream->source->notes(stream);
}

size_t pmu_stream_fds(const struct access_stream *stream, const int **ret_fds)
{
	return stream->source->fds(stream, ret_fds);
}
