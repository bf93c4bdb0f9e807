#include "pmu/pmu-hardware.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "pmu/catalogue-sysfs.h"
#include "pmu/pmu-cpus.h"
#include "pmu/pmu-perf-clock.h"

/* The trace's number for a clock that has none. */
#define PERF_CLOCK_ID UINT32_MAX

/* ---- Plans ---- */

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

/* ---- Refusals ---- */

static bool is_about_rights(int error)
{
	return error == -EACCES || error == -EPERM || error == -EMFILE || error == -ENFILE ||
	       error == -EBUSY || error == -ESRCH || error == -ENOSYS || error == -ENOMEM;
}

/* One sentence for all of them, so that a list of refusals can say it once. */
static int refuse_vendor(const struct pmu_host *host, struct pmu_refusal *ret_refusal)
{
	static const char *const which[PMU_VENDOR_COUNT] = {
		[PMU_VENDOR_OTHER] = "another", [PMU_VENDOR_INTEL] = "an Intel",
		[PMU_VENDOR_AMD] = "an AMD",	[PMU_VENDOR_ARM] = "an Arm",
		[PMU_VENDOR_POWER] = "a POWER",
	};
	static const char *const instead[PMU_VENDOR_COUNT] = {
		[PMU_VENDOR_OTHER] = "",
		[PMU_VENDOR_INTEL] = "--source pebs is this processor's, ",
		[PMU_VENDOR_AMD] = "--source ibs is this processor's, ",
		[PMU_VENDOR_ARM] = "--source spe is this processor's, ",
		[PMU_VENDOR_POWER] = "--source marked is this processor's, ",
	};

	*ret_refusal = (struct pmu_refusal){ .error = EOPNOTSUPP };
	snprintf(ret_refusal->why, sizeof(ret_refusal->why), "this is %s processor",
		 which[host->vendor]);
	snprintf(ret_refusal->fix, sizeof(ret_refusal->fix), "%s--source clock needs no PMU",
		 instead[host->vendor]);
	return -EOPNOTSUPP;
}

static void explain(const struct hardware_kind *kind, const struct pmu_host *host,
		    enum pmu_step step, int error, struct pmu_refusal *ret_refusal)
{
	struct pmu_permissions permissions;

	pmu_permissions_read(&permissions);
	pmu_remedy(step, -error, &permissions, ret_refusal);
	if (step == PMU_STEP_OPEN && !is_about_rights(error))
		kind->explain(host, error, ret_refusal);
}

/* ---- One event on one CPU ---- */

/* What is being opened. */
struct opening {
	const struct pmu_host *host;
	const struct hardware_plan *plan;
	pid_t pid;
	struct pmu_notes *notes;
	struct perf_event_attr attr; /* of the event at hand; negotiated on its first CPU */
	bool is_negotiated;
	const struct pmu_event *event;
	struct pmu_event leader;
	bool has_leader;
};

/*
 * It only counts, so it takes no ring and no sample is its own. It has the group's clock, or the
 * kernel refuses the group; and it alone waits for the exec: a group runs when its leader does.
 */
static void fill_leader(const struct opening *opening, struct perf_event_attr *ret_attr)
{
	const struct perf_event_attr *attr = &opening->attr;

	*ret_attr = (struct perf_event_attr){
		.size = sizeof(*ret_attr),
		.type = opening->leader.type,
		.config = opening->leader.config,
		.disabled = 1,
		.inherit = attr->inherit,
		.enable_on_exec = opening->plan->attr.enable_on_exec,
		.exclude_user = attr->exclude_user,
		.exclude_kernel = attr->exclude_kernel,
		.exclude_hv = attr->exclude_hv,
		.exclude_guest = attr->exclude_guest,
		.use_clockid = attr->use_clockid,
		.clockid = attr->clockid,
	};
}

static int open_member(struct opening *opening, const struct pmu_place *place, int *ret_fd)
{
	if (opening->is_negotiated)
		return pmu_event_open_at(&opening->attr, place, ret_fd);
	return pmu_event_negotiate_at(&opening->attr, place, opening->notes, ret_fd);
}

static int open_led(struct opening *opening, int cpu, int *ret_leader_fd, int *ret_fd)
{
	struct pmu_place place = { opening->pid, cpu, -1 };
	struct perf_event_attr leader;
	auto_close int leader_fd = -1;
	int r;

	fill_leader(opening, &leader);
	r = pmu_event_open_at(&leader, &place, &leader_fd);
	if (r < 0)
		return r;
	place.leader_fd = leader_fd;
	opening->attr.disabled = 0;
	opening->attr.enable_on_exec = 0;
	r = open_member(opening, &place, ret_fd);
	if (r == 0)
		*ret_leader_fd = steal_fd(&leader_fd);
	return r;
}

static int open_on_cpu(struct opening *opening, int cpu, int *ret_leader_fd, int *ret_fd)
{
	int r = -ENODATA;

	if (!opening->has_leader)
		r = open_member(opening, &(struct pmu_place){ opening->pid, cpu, -1 }, ret_fd);
	/* ENODATA: "add an auxiliary event in front of it", also where sysfs names none. */
	if (r == -ENODATA && !opening->has_leader)
		opening->has_leader =
			pmu_catalogue_leader(opening->host, opening->event, true, &opening->leader);
	if (r == -ENODATA && opening->has_leader)
		r = open_led(opening, cpu, ret_leader_fd, ret_fd);
	opening->is_negotiated |= r == 0;
	return r;
}

static void begin(struct opening *opening, const struct pmu_event *event)
{
	struct perf_event_attr attr = opening->plan->attr;
	bool wants_perf_clock = opening->plan->wants_perf_clock;

	attr.type = event->type;
	attr.config = event->config;
	attr.config1 |= event->config1;
	attr.config2 |= event->config2;
	if (event->precise)
		attr.precise_ip = event->precise;
	pmu_event_fill_common(&attr);
	if (wants_perf_clock) {
		attr.use_clockid = 0;
		attr.clockid = 0;
	}
	opening->event = event;
	opening->attr = attr;
	opening->is_negotiated = false;
	opening->has_leader = pmu_catalogue_leader(opening->host, event, false, &opening->leader);
}

/* ---- On all CPUs of an event ---- */

static bool is_among(int cpu, const int *cpus, int n)
{
	for (int i = 0; i < n; i++)
		if (cpus[i] == cpu)
			return true;
	return n == 0; /* no list: all */
}

static int grow(struct hardware_stream *stream, size_t n)
{
	int **arrays[] = { &stream->events.set.fds, &stream->events.set.cpus, &stream->leader_fds };

	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
		int *longer = reallocarray(*arrays[i], n, sizeof(int));

		if (!longer)
			return -ENOMEM;
		*arrays[i] = longer;
	}
	return 0;
}

static int add_on_cpu(struct hardware_stream *stream, struct opening *opening, int cpu)
{
	struct pmu_event_set *set = &stream->events.set;
	int r = grow(stream, set->n + 1), leader_fd = -1;

	if (r == 0)
		r = open_on_cpu(opening, cpu, &leader_fd, &set->fds[set->n]);
	if (r < 0)
		return r;
	set->cpus[set->n] = cpu;
	stream->leader_fds[set->n++] = leader_fd;
	return 0;
}

static int add_event(struct hardware_stream *stream, struct opening *opening,
		     const struct pmu_event *event)
{
	auto_free int *online = NULL, *own = NULL;
	int n_online = pmu_cpus_online(&online);
	int n_own = pmu_sysfs_cpus(opening->host, event->pmu, &own);
	size_t n_before = stream->events.set.n;

	if (n_online < 0 || n_own < 0)
		return n_online < 0 ? n_online : n_own;
	begin(opening, event);
	for (int i = 0; i < n_online; i++) {
		int r = is_among(online[i], own, n_own) ? add_on_cpu(stream, opening, online[i])
							: 0;

		if (r == -ENODEV && n_online > 1) /* went offline since */
			pmu_notes_add(opening->notes, "CPU %d is offline", online[i]);
		else if (r < 0)
			return r;
	}
	return stream->events.set.n > n_before ? 0 : -ENODEV;
}

/* Records of all events of a source are read in one way. */
static bool is_alike(const struct perf_event_attr *a, const struct perf_event_attr *b)
{
	return a->sample_type == b->sample_type && a->read_format == b->read_format;
}

static void close_from(struct hardware_stream *stream, size_t first)
{
	struct pmu_event_set *set = &stream->events.set;

	for (size_t i = first; i < set->n; i++) {
		close(set->fds[i]);
		if (stream->leader_fds[i] >= 0)
			close(stream->leader_fds[i]);
	}
	set->n = first;
}

/*
 * Hybrid processors have one event for each kind of core. One that cannot be opened leaves its cores
 * out, which is said; all failing is a failure.
 */
static int add_events(struct hardware_stream *stream, struct opening *opening)
{
	struct pmu_event_set *set = &stream->events.set;
	int error = -ENODEV;

	for (int i = 0; i < opening->plan->n_events; i++) {
		const struct pmu_event *event = &opening->plan->events[i];
		size_t n_before = set->n;
		int r = add_event(stream, opening, event);

		if (r == 0 && n_before > 0 && !is_alike(&opening->attr, &set->attr))
			r = -EOPNOTSUPP;
		if (r < 0) {
			close_from(stream, n_before);
			error = error == -ENODEV ? r : error;
			if (opening->plan->n_events > 1)
				pmu_notes_add(opening->notes, "no samples on the cores of %s: %s",
					      event->pmu, strerrordesc_np(-r));
		} else if (n_before == 0) {
			set->attr = opening->attr;
			stream->event = *event;
		}
	}
	return set->n ? 0 : error;
}

/* ---- Sets ---- */

static int open_plan(const struct hardware_plan *plan, const struct pmu_host *host, pid_t pid,
		     struct hardware_stream *stream)
{
	struct opening opening = {
		.host = host, .plan = plan, .pid = pid, .notes = &stream->events.set.notes
	};
	int r;

	*stream = (struct hardware_stream){ .host = *host };
	stream->events.set.notes = plan->notes;
	stream->events.set.n_rungs = 1;
	if (plan->wants_perf_clock) {
		r = pmu_perf_clock_open(&stream->clock);
		if (r < 0)
			return r;
	}
	r = add_events(stream, &opening);
	if (r < 0)
		pmu_hardware_finish(stream);
	return r;
}

/* Without perf's clock in reach the stamps are of CLOCK_MONOTONIC_RAW, which costs large PEBS. */
static int open_plan_with_clock(struct hardware_plan *plan, const struct pmu_host *host, pid_t pid,
				struct hardware_stream *stream)
{
	struct pmu_perf_clock *clock = NULL;

	if (plan->wants_perf_clock && pmu_perf_clock_open(&clock) < 0)
		plan->wants_perf_clock = false;
	pmu_perf_clock_close(clock);
	return open_plan(plan, host, pid, stream);
}

static int try_variant(const struct hardware_question *question, pid_t pid,
		       struct hardware_stream *ret_stream, struct pmu_refusal *ret_refusal)
{
	const struct hardware_kind *kind = question->kind;
	struct hardware_plan plan = { .attr.size = sizeof(plan.attr) };
	int r = kind->plan(question, &plan, ret_refusal);

	if (r < 0)
		return r;
	plan.attr.enable_on_exec = question->options->enable_on_exec;
	r = open_plan_with_clock(&plan, question->host, pid, ret_stream);
	if (r < 0)
		explain(kind, question->host, PMU_STEP_OPEN, r, ret_refusal);
	return r;
}

/* The variants, best first. What is told is why the best failed, unless another lacks rights only. */
static int open_best(const struct hardware_kind *kind, const struct access_options *options,
		     pid_t pid, struct hardware_stream *ret_stream, struct pmu_refusal *ret_refusal)
{
	struct hardware_question question = { .kind = kind, .options = options };
	struct pmu_host host;
	int error = 0, r = 0;

	if (!options->host)
		pmu_host_read(&host);
	question.host = options->host ? options->host : &host;
	if (question.host->vendor != kind->vendor)
		return refuse_vendor(question.host, ret_refusal);
	do {
		struct pmu_refusal refusal = { 0 };

		r = try_variant(&question, pid, ret_stream, &refusal);
		if (r < 0 && r != -ERANGE && (!error || is_about_rights(r))) {
			error = r;
			*ret_refusal = refusal;
		}
		question.variant++;
	} while (r < 0 && r != -ERANGE && !is_about_rights(r));
	return r == 0 ? 0 : error;
}

int pmu_hardware_probe(const struct access_source *source, const struct access_options *options,
		       struct pmu_refusal *ret_refusal)
{
	struct hardware_stream stream;
	int r = open_best(source->hardware, options, 0, &stream, ret_refusal);

	if (r == 0)
		pmu_hardware_finish(&stream);
	return r;
}

int pmu_hardware_init(const struct access_source *source, const struct access_options *options,
		      struct hardware_stream *ret_stream, struct pmu_refusal *ret_refusal)
{
	const struct hardware_kind *kind = source->hardware;
	struct hardware_stream stream;
	struct pmu_event_set *set = &stream.events.set;
	int r = open_best(kind, options, options->pid, &stream, ret_refusal);

	if (r < 0)
		return r;
	set->rings = calloc(set->n, sizeof(*set->rings));
	r = set->rings ? pmu_event_set_map(set, pmu_event_ring_bytes(source, options)) : -ENOMEM;
	if (r < 0) {
		explain(kind, &stream.host, PMU_STEP_MAP, r, ret_refusal);
		pmu_hardware_finish(&stream);
		return r;
	}
	stream.events.base.source = source;
	/* One rung: primes, jitter of IBS and SPE, and the choice of what to tag are the hardware's. */
	pmu_ladder_plan(set->attr.sample_period, 1, 0, set->n, &stream.events.ladder);
	if (kind->remark)
		kind->remark(&set->attr, &stream.remarks);
	*ret_stream = stream;
	return 0;
}

void pmu_hardware_finish(struct hardware_stream *stream)
{
	struct pmu_event_set *set = &stream->events.set;

	for (size_t i = 0; i < set->n; i++) {
		if (set->rings)
			pmu_ring_finish(&set->rings[i]);
		close(set->fds[i]);
		if (stream->leader_fds[i] >= 0)
			close(stream->leader_fds[i]);
	}
	free(set->fds);
	free(set->rings);
	free(stream->leader_fds);
	free(set->cpus);
	pmu_perf_clock_close(stream->clock);
	*stream = (struct hardware_stream){ 0 };
}

/* ---- Streams ---- */

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
	int r;

	if (!stream) {
		*ret_refusal = (struct pmu_refusal){ .error = ENOMEM, .why = "no memory left" };
		return -ENOMEM;
	}
	r = pmu_hardware_init(source, options, stream, ret_refusal);
	if (r == 0)
		*ret_stream = &((struct hardware_stream *)steal_ptr(&stream))->events.base;
	return r;
}

int pmu_hardware_enable(struct access_stream *base, bool on)
{
	const struct hardware_stream *stream = hardware(base);
	unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;

	for (size_t i = 0; i < stream->events.set.n; i++) {
		int leader_fd = stream->leader_fds[i];

		if (ioctl(leader_fd >= 0 ? leader_fd : stream->events.set.fds[i], request, 0) < 0)
			return -errno;
	}
	return 0;
}

/*
 * With perf's clock many samples may wait in the processor's own buffer. Reading the count empties it
 * into the ring (intel_pmu_auto_reload_read), so that none is older than what was told before.
 */
static void flush(const struct hardware_stream *stream)
{
	for (size_t i = 0; i < stream->events.set.n; i++) {
		uint64_t values[4];

		if (read(stream->events.set.fds[i], values, sizeof(values)) < 0)
			continue; /* its task has ended, and emptied it before */
	}
}

ssize_t pmu_hardware_read(struct access_stream *base, pmu_sink sink, void *context)
{
	if (hardware(base)->clock)
		flush(hardware(base));
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
	int r;

	if (!hardware(base)->clock)
		return 0;
	r = pmu_perf_clock_pair(hardware(base)->clock, &clock.perf_ns, &clock.raw_ns,
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
