#include "pmu/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "pmu/cpus.h"
#include "pmu/period-ladder.h"

/* All sources' rings together, for each CPU, at their full sizes. */
#define FULL_RINGS_BYTES (UINT64_C(2) << 20)

static struct event_stream *event_stream(struct access_stream *stream)
{
	return (struct event_stream *)stream; /* base is its first member */
}

static const struct event_stream *event_stream_const(const struct access_stream *stream)
{
	return (const struct event_stream *)stream;
}

static void configure(const struct access_source *source, const struct access_options *options,
		      struct perf_event_attr *ret_attr)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.enable_on_exec = options->enable_on_exec };

	source->configure(options, &attr);
	if (options->has_call_chain && source->role != ACCESS_ROLE_TASKS) {
		attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
		attr.exclude_callchain_kernel = 1;
	}
	*ret_attr = attr;
}

int pmu_event_stream_probe(const struct access_source *source, const struct access_options *options,
			   struct pmu_refusal *ret_refusal)
{
	struct pmu_permissions permissions;
	struct perf_event_attr attr;
	struct pmu_notes notes = { 0 };
	auto_close int fd = -1;

	configure(source, options, &attr);
	attr.disabled = 1;
	int r = pmu_event_negotiate(&attr, 0, -1, &notes, &fd);
	if (r < 0) {
		pmu_permissions_read(&permissions);
		permissions.wants_kernel = attr.exclude_user;
		pmu_remedy(PMU_STEP_OPEN, -r, &permissions, ret_refusal);
	}
	return r;
}

/*
 * The kernel lets a user lock perf_event_mlock_kb for each CPU, and RLIMIT_MEMLOCK once. Where that
 * is not enough for all sources, each takes its share at once: halving on refusal alone would leave
 * the last one with nothing.
 */
bool pmu_fits_full_rings(void)
{
	struct pmu_permissions permissions;
	auto_free int *cpus = NULL;
	int n_cpus = pmu_cpus_online(&cpus);

	pmu_permissions_read(&permissions);
	if (permissions.paranoid < 0 || permissions.memlock_bytes == INT64_MAX ||
	    (permissions.has_ipc_lock && !permissions.in_user_namespace))
		return true;
	if (n_cpus <= 0 || permissions.mlock_kb < 0)
		return false;
	uint64_t wanted = (uint64_t)n_cpus * FULL_RINGS_BYTES;
	uint64_t allowed = (uint64_t)n_cpus * (uint64_t)permissions.mlock_kb * 1024 +
			   (uint64_t)permissions.memlock_bytes;
	return wanted <= allowed;
}

uint32_t pmu_event_ring_bytes(const struct access_source *source,
			      const struct access_options *options)
{
	if (options->ring_bytes)
		return options->ring_bytes;
	return pmu_fits_full_rings() ? source->ring_bytes : source->small_ring_bytes;
}

/* Periods of a timed source; the first becomes attr's own. */
static void plan_ladder(struct event_stream *stream, const struct access_options *options,
			struct perf_event_attr *attr)
{
	bool is_exact = !stream->base.source->is_timed || !options->has_jitter || options->period;
	auto_free int *cpus = NULL;
	int n_cpus = pmu_cpus_online(&cpus);
	size_t n_levels = is_exact ? 0 : options->n_levels ? options->n_levels : 1;

	pmu_ladder_plan(attr->sample_period, options->min_period, n_levels,
			n_cpus > 0 ? (size_t)n_cpus : 1, &stream->ladder);
	attr->sample_period = stream->ladder.periods[0];
	if (stream->ladder.is_exact)
		return;
	attr->sample_type |= PERF_SAMPLE_PERIOD;
	stream->set.mark_step = 2; /* marks are even */
}

void pmu_refuse_threads(int error, struct pmu_refusal *ret_refusal)
{
	bool lacks_files = error == -EMFILE || error == -ENFILE;

	pmu_refuse(ret_refusal, error, "not all threads that are there can be sampled\n%s",
		   lacks_files ? "raise the limit of open files (ulimit -n): each thread takes one"
				 " for each CPU and event"
			       : strerrordesc_np(-error));
}

int pmu_event_stream_init(const struct access_source *source, const struct access_options *options,
			  struct event_stream *stream, struct pmu_refusal *ret_refusal)
{
	struct perf_event_attr attr;

	configure(source, options, &attr);
	stream->base.source = source;
	plan_ladder(stream, options, &attr);
	int r = pmu_event_set_open(&attr, options->pid, pmu_event_ring_bytes(source, options),
				   &stream->set, ret_refusal);
	if (r < 0)
		return r;
	r = pmu_event_set_add_threads(&stream->set, options);
	if (r < 0)
		pmu_refuse_threads(r, ret_refusal);
	r = r ?: pmu_ladder_open(&stream->ladder, &stream->set, options->pid);
	if (r < 0)
		pmu_event_set_close(&stream->set);
	return r;
}

int pmu_event_stream_open(const struct access_source *source, const struct access_options *options,
			  struct access_stream **ret_stream, struct pmu_refusal *ret_refusal)
{
	auto_free struct event_stream *stream = calloc(1, sizeof(*stream));
	int r = stream ? pmu_event_stream_init(source, options, stream, ret_refusal)
		       : pmu_refuse(ret_refusal, -ENOMEM, "no memory left");

	if (r == 0)
		*ret_stream = &((struct event_stream *)steal_ptr(&stream))->base;
	return r;
}

int pmu_event_stream_enable(struct access_stream *base, bool on)
{
	struct event_stream *stream = event_stream(base);

	stream->is_off = !on;
	return pmu_event_set_enable(&stream->set, stream->rung, on);
}

/*
 * Not the same again, if the level has others: in threads that keep their periods, which have come
 * into step with what they do, a turn begins anew elsewhere.
 */
static size_t another_rung(const struct pmu_ladder *ladder, size_t level, size_t before,
			   uint64_t random)
{
	size_t n = ladder->n_jitters, first;

	if (level >= ladder->n_levels)
		level = ladder->n_levels - 1;
	first = level * n;
	if (n > 1 && before / n == level)
		return first + (before - first + 1 + random % (n - 1)) % n;
	return first + random % n;
}

int pmu_event_stream_turn(struct access_stream *base, size_t level, uint64_t random,
			  struct pmu_turn *ret_turn)
{
	struct event_stream *stream = event_stream(base);
	const struct pmu_ladder *ladder = &stream->ladder;
	size_t before = stream->rung;
	size_t rung = another_rung(ladder, level, before, random);
	int r = 0;

	if (ladder->is_exact || stream->is_off)
		return 0;
	if (rung != before)
		r = pmu_event_set_enable(&stream->set, before, false);
	if (r < 0)
		return r;
	*ret_turn = (struct pmu_turn){
		.raw_ns = clock_raw_ns(),
		.least = pmu_ladder_least(ladder, rung / ladder->n_jitters),
		.n = stream->set.n < PMU_TURN_CPUS ? stream->set.n : PMU_TURN_CPUS,
	};
	pmu_ladder_draw_all(ladder, rung, random / ladder->n_jitters, ret_turn->periods);
	for (size_t i = 0; i < ret_turn->n; i++)
		ret_turn->marks[i] = pmu_event_set_mark(&stream->set, ladder->periods[rung], i);
	stream->rung = rung;
	r = pmu_event_set_period(&stream->set, rung, ret_turn->periods, ret_turn->n);
	if (r == 0 && rung != before)
		r = pmu_event_set_enable(&stream->set, rung, true);
	return r < 0 ? r : 1;
}

uint64_t pmu_event_stream_period(const struct access_stream *base)
{
	const struct event_stream *stream = event_stream_const(base);
	const struct pmu_ladder *ladder = &stream->ladder;
	uint64_t period = ladder->nominal;

	for (size_t level = stream->rung / ladder->n_jitters; level > 0; level--)
		period *= PMU_LADDER_STEP;
	return stream->set.attr.freq ? 0 : period;
}

/* Each sample must carry its own: the source's record in a trace has the first one. */
static bool may_change(const struct event_stream *stream)
{
	return stream->base.source->is_timed && (stream->set.attr.sample_type & PERF_SAMPLE_PERIOD);
}

int pmu_event_stream_begin_period(struct access_stream *base, uint64_t period, const pid_t *pids,
				  size_t n_pids)
{
	struct event_stream *stream = event_stream(base);

	if (!may_change(stream))
		return -EOPNOTSUPP;
	/* Odd, which no mark of a turn is. */
	return pmu_event_set_prepare(&stream->set, period | 1, pids, n_pids, &stream->next);
}

int pmu_event_stream_end_period(struct access_stream *base, bool is_taken)
{
	struct event_stream *stream = event_stream(base);

	if (!is_taken) {
		pmu_event_set_discard(&stream->next);
		return 0;
	}
	int r = pmu_event_set_replace(&stream->set, &stream->next, !stream->is_off);
	stream->ladder = (struct pmu_ladder){ .nominal = stream->set.attr.sample_period,
					      .is_exact = true,
					      .n_levels = 1,
					      .n_jitters = 1 };
	stream->rung = 0;
	return r;
}

ssize_t pmu_event_stream_read(struct access_stream *base, pmu_sink sink, void *context)
{
	struct event_stream *stream = event_stream(base);

	return pmu_event_set_drain(&stream->set, sink, context, &stream->losses);
}

int pmu_event_stream_losses(struct access_stream *base, struct pmu_losses *ret_losses)
{
	struct event_stream *stream = event_stream(base);
	struct pmu_losses losses = stream->losses;
	int r = pmu_event_set_lost(&stream->set, &losses.n_lost);

	if (r < 0 && r != -EOPNOTSUPP)
		return r;
	losses.n_lost_is_exact = r == 0;
	*ret_losses = losses;
	return 0;
}

void pmu_event_stream_describe(const struct access_stream *base, struct trace_source *ret_source)
{
	const struct perf_event_attr *attr = &event_stream_const(base)->set.attr;

	*ret_source = (struct trace_source){
		.perf_type = attr->type,
		.perf_config = attr->config,
		.sample_type = attr->sample_type,
		.regs_user = attr->sample_regs_user,
		.stack_bytes = attr->sample_stack_user,
		.period = attr->freq ? 0 : event_stream_const(base)->ladder.nominal,
		.frequency_hz = attr->freq ? attr->sample_freq : 0,
		.exclude_kernel = attr->exclude_kernel,
		.clock_id = CLOCK_MONOTONIC_RAW,
	};
}

void pmu_event_stream_detail(const struct access_stream *base,
			     struct trace_source_detail *ret_detail, const char **ret_event)
{
	const struct perf_event_attr *attr = &event_stream_const(base)->set.attr;

	(void)ret_event; /* a source has one event only, which its name says */
	ret_detail->precise = attr->precise_ip;
	ret_detail->perf_config1 = attr->config1;
	ret_detail->perf_config2 = attr->config2;
	ret_detail->read_format = attr->read_format;
	ret_detail->regs_intr = attr->sample_regs_intr;
	ret_detail->branch_sample_type = attr->branch_sample_type;
}

const char *pmu_event_stream_unit(const struct access_stream *base)
{
	const struct perf_event_attr *attr = &event_stream_const(base)->set.attr;

	if (!base->source->is_timed || attr->exclude_kernel)
		return base->source->unit;
	return attr->exclude_user ? "ns of kernel CPU time" : "ns of CPU time";
}

const char *pmu_event_stream_notes(const struct access_stream *base)
{
	return event_stream_const(base)->set.notes.text;
}

size_t pmu_event_stream_fds(const struct access_stream *base, const int **ret_fds)
{
	*ret_fds = event_stream_const(base)->set.fds;
	return event_stream_const(base)->set.n;
}

void pmu_event_stream_close(struct access_stream *base)
{
	struct event_stream *stream = event_stream(base);

	pmu_event_set_close(&stream->set);
	free(stream);
}
