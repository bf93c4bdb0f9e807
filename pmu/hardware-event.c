#include "pmu/hardware-event.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "pmu/perf-clock.h"

/* The trace's number for a clock that has none. */
#define PERF_CLOCK_ID UINT32_MAX

static struct hardware_stream *hardware(struct access_stream *stream)
{
	return (struct hardware_stream *)stream; /* base is the first member of its first member */
}

static const struct hardware_stream *hardware_const(const struct access_stream *stream)
{
	return (const struct hardware_stream *)stream;
}

int pmu_hardware_open(const struct access_source *source, const struct access_options *options,
		      struct access_stream **ret_stream, struct pmu_refusal *ret_refusal)
{
	auto_free struct hardware_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return pmu_refuse(ret_refusal, -ENOMEM, "no memory left");
	int r = pmu_hardware_init(source, options, stream, ret_refusal);
	if (r == 0)
		*ret_stream = &((struct hardware_stream *)steal_ptr(&stream))->events.base;
	return r;
}

static int enable(int fd, int leader_fd, bool on)
{
	unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;

	return ioctl(leader_fd >= 0 ? leader_fd : fd, request, 0) < 0 ? -errno : 0;
}

int pmu_hardware_enable(struct access_stream *base, bool on)
{
	const struct hardware_stream *stream = hardware(base);
	const struct pmu_event_set *set = &stream->events.set;
	int r = 0;

	for (size_t i = 0; r == 0 && i < set->n; i++)
		r = enable(set->fds[i], stream->members[i].leader_fd, on);
	for (size_t i = 0; r == 0 && i < set->n_more; i++)
		r = enable(set->more[i], stream->more_leaders[i], on);
	return r;
}

/*
 * With perf's clock many samples may wait in the processor's own buffer. Reading the count empties
 * it into the ring (intel_pmu_auto_reload_read), so that none is older than what was told before.
 */
static void flush(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t values[4];

		if (read(fds[i], values, sizeof(values)) < 0)
			continue; /* its task has ended, and emptied it before */
	}
}

ssize_t pmu_hardware_read(struct access_stream *base, pmu_sink sink, void *context)
{
	const struct pmu_event_set *set = &hardware(base)->events.set;

	if (hardware(base)->clock) {
		flush(set->fds, set->n);
		flush(set->more, set->n_more);
	}
	return pmu_event_stream_read(base, sink, context);
}

/* Times of throttling, too, are of the clock that the records are stamped with. */
int pmu_hardware_losses(struct access_stream *base, struct pmu_losses *ret_losses)
{
	uint64_t shift_ns = (uint64_t)hardware(base)->clock_shift_ns;
	struct pmu_losses losses;
	int r = pmu_event_stream_losses(base, &losses);

	if (r < 0)
		return r;
	if (hardware(base)->clock && losses.n_throttles) {
		losses.throttled_from_ns += shift_ns;
		losses.throttled_to_ns += shift_ns;
	}
	*ret_losses = losses;
	return 0;
}

void pmu_hardware_describe(const struct access_stream *base, struct trace_source *ret_source)
{
	pmu_event_stream_describe(base, ret_source);
	if (hardware_const(base)->clock)
		ret_source->clock_id = PERF_CLOCK_ID;
}

void pmu_hardware_detail(const struct access_stream *base, struct trace_source_detail *ret_detail,
			 const char **ret_event)
{
	const struct hardware_stream *stream = hardware_const(base);

	pmu_event_stream_detail(base, ret_detail, ret_event);
	if (stream->event.is_latency)
		ret_detail->min_latency = (uint32_t)stream->event.config1;
	*ret_event = stream->event.name;
}

const char *pmu_hardware_remarks(const struct access_stream *base)
{
	return hardware_const(base)->remarks.text;
}

int pmu_hardware_perf_clock(struct access_stream *base, struct trace_perf_clock *ret_clock)
{
	struct trace_perf_clock clock = { 0 };

	if (!hardware(base)->clock)
		return 0;
	int r = pmu_perf_clock_pair(hardware(base)->clock, &clock.perf_ns, &clock.raw_ns,
				    &clock.error_ns);
	if (r < 0)
		return r;
	hardware(base)->clock_shift_ns = (int64_t)(clock.raw_ns - clock.perf_ns);
	*ret_clock = clock;
	return 1;
}

void pmu_hardware_close(struct access_stream *base)
{
	struct hardware_stream *stream = hardware(base);

	pmu_hardware_finish(stream);
	free(stream);
}

/* ---- What of a plan all kinds share ---- */

/* What sources of the hardware ask for alike. */

const char *pmu_hardware_name(const struct hardware_question *question)
{
	enum pmu_word word = question->kind->word;
	const char *asked = word == PMU_WORD_STORES ? question->options->store_event
						    : question->options->load_event;

	return asked ? asked : pmu_words[word];
}

int pmu_hardware_find(const struct hardware_question *question, const char *name,
		      struct hardware_plan *plan, struct pmu_refusal *ret_refusal)
{
	int n = pmu_catalogue_find(question->host, name, question->options->min_latency,
				   plan->events, ret_refusal);

	if (n < 0)
		return n;
	plan->n_events = n;
	return 0;
}

void pmu_hardware_sample(const struct access_options *options, struct hardware_plan *plan)
{
	plan->attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				 PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU | PERF_SAMPLE_DATA_SRC |
				 PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_PHYS_ADDR;
	if (!options->has_call_chain)
		return;
	plan->attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	plan->attr.exclude_callchain_kernel = 1;
}

void pmu_hardware_exclude(const struct access_options *options, struct hardware_plan *plan)
{
	const struct pmu_event *event = &plan->events[0];
	bool is_named = event->exclude_user || event->exclude_kernel;

	plan->attr.exclude_user =
		is_named ? event->exclude_user : options->mode == ACCESS_MODE_KERNEL;
	plan->attr.exclude_kernel =
		is_named ? event->exclude_kernel : options->mode == ACCESS_MODE_USER;
	plan->attr.exclude_hv = 1;
}

void pmu_hardware_rate(const struct access_options *options, uint64_t usual,
		       struct hardware_plan *plan)
{
	plan->attr.freq = !options->period && options->freq_hz;
	if (plan->attr.freq) {
		plan->attr.sample_freq = options->freq_hz;
		plan->attr.sample_type |= PERF_SAMPLE_PERIOD; /* each stands for another number */
	} else {
		plan->attr.sample_period = options->period ? options->period : usual;
	}
}
