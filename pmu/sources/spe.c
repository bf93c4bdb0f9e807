/*
 * Arm's Statistical Profiling Extension: the processor writes packets of its own into an AUX area
 * beside the ring; the ring tells by AUX records which bytes came, of which thread, and whether
 * some are missing. They are kept as they are and decoded later (drivers/perf/arm_spe_pmu.c,
 * perf-arm-spe(1); packets: Arm ARM, D10).
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "perf/record.h"
#include "pmu/catalogue/sysfs.h"
#include "pmu/hardware-event.h"

#define PMU "arm_spe_"

/* The interval counts in steps of 256, and jitter varies it: a prime number of steps. */
#define STEP   UINT64_C(256)
#define PERIOD (STEP * UINT64_C(3907))

#define AREA_BYTES     (UINT64_C(1) << 20) /* 16 pages of 64 KiB: enough, as NMO's authors found */
#define MIN_AREA_BYTES (UINT64_C(64) << 10)

struct area {
	uint8_t *bytes;
	uint64_t n_bytes; /* a power of two */
	uint64_t tail; /* given to the sink up to here */
	uint64_t told; /* AUX records have told up to here ... */
	uint64_t flags; /* ... with these flags since the last giving */
};

struct spe_stream {
	struct hardware_stream hardware;
	struct area *areas; /* one for each ring */
};

/* ---- What to ask for ---- */

struct finding {
	const struct hardware_question *question;
	struct hardware_plan *plan;
	const char *asked; /* by name; NULL: our own wishes */
	struct pmu_refusal refusal;
	int error;
};

static bool has_format(const struct pmu_host *host, const char *pmu, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "format/%s", name);
	return pmu_sysfs_has(host, pmu, path);
}

static bool may_have_physical(void)
{
	struct pmu_permissions permissions;

	pmu_permissions_read(&permissions);
	return permissions.paranoid < 2 ||
	       (permissions.has_perfmon && !permissions.in_user_namespace);
}

static void make_name(const struct finding *finding, const char *pmu, char *name, size_t n_bytes)
{
	const struct pmu_host *host = finding->question->host;
	uint32_t latency = finding->question->options->min_latency;
	size_t n = (size_t)snprintf(name, n_bytes,
				    "%s/ts_enable=1,jitter=1,load_filter=1,store_filter=1", pmu);

	if (has_format(host, pmu, "pa_enable") && may_have_physical())
		n += (size_t)snprintf(name + n, n_bytes - n, ",pa_enable=1");
	if (latency && has_format(host, pmu, "min_latency"))
		n += (size_t)snprintf(name + n, n_bytes - n, ",min_latency=%u", latency);
	snprintf(name + n, n_bytes - n, "/");
}

/* Processors with two kinds of core have two of these PMUs. */
static int find_one(void *context, const char *pmu)
{
	struct finding *finding = context;
	struct hardware_plan *plan = finding->plan;
	struct hardware_plan one = { .n_events = 0 };
	char name[PMU_EVENT_NAME_BYTES];

	if (strncmp(pmu, PMU, strlen(PMU)) != 0 || plan->n_events == PMU_MAX_EVENTS)
		return 0;
	make_name(finding, pmu, name, sizeof(name));
	finding->error = pmu_hardware_find(finding->question, name, &one, &finding->refusal);
	if (finding->error == 0)
		plan->events[plan->n_events++] = one.events[0];
	return finding->error;
}

static int refuse_absent(struct pmu_refusal *ret_refusal)
{
	return pmu_refuse(ret_refusal, -ENOENT,
			  "the cores have no SPE, or a virtual machine or the firmware hides it\n"
			  "run on the host, load the module arm_spe_pmu, boot with kpti=off where"
			  " the kernel asks for that; --source clock needs no PMU");
}

static int find(const struct hardware_question *question, struct hardware_plan *plan,
		struct pmu_refusal *ret_refusal)
{
	const struct access_options *options = question->options;
	const char *asked = options->load_event ? options->load_event : options->store_event;
	struct finding finding = { .question = question, .plan = plan };

	if (!asked) {
		pmu_sysfs_each_pmu(question->host, find_one, &finding);
		*ret_refusal = finding.refusal;
		return plan->n_events  ? 0
		       : finding.error ? finding.error
				       : refuse_absent(ret_refusal);
	}
	int r = pmu_hardware_find(question, asked, plan, ret_refusal);
	if (r < 0 || strncmp(plan->events[0].pmu, PMU, strlen(PMU)) == 0)
		return r;
	return pmu_refuse(ret_refusal, -EINVAL,
			  "event %.80s has no addresses: on Arm only " PMU "0 gives them\n"
			  "--load-event " PMU "0/ts_enable=1,load_filter=1/",
			  asked);
}

static void set_period(const struct hardware_question *question, struct hardware_plan *plan)
{
	const struct access_options *options = question->options;
	uint64_t least, wanted = options->period ? options->period : PERIOD;

	if (options->freq_hz && !options->period)
		pmu_notes_add(&plan->notes, "no rate in Hz: SPE takes one operation in %llu",
			      (unsigned long long)PERIOD);
	plan->attr.sample_period = wanted;
	if (pmu_sysfs_number(question->host, plan->events[0].pmu, "caps/min_interval", &least) <
		    0 ||
	    wanted >= least)
		return;
	plan->attr.sample_period = least;
	pmu_notes_add(&plan->notes, "period %llu instead of %llu: the least of this SPE",
		      (unsigned long long)least, (unsigned long long)wanted);
}

static int plan(const struct hardware_question *question, struct hardware_plan *plan,
		struct pmu_refusal *ret_refusal)
{
	if (question->variant > 0)
		return -ERANGE;
	int r = find(question, plan, ret_refusal);
	if (r < 0)
		return r;
	/* Of the records in the ring; the samples have their own form. */
	plan->attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
	pmu_hardware_exclude(question->options, plan);
	set_period(question, plan);
	return 0;
}

static void explain(const struct pmu_host *host, int error, struct pmu_refusal *refusal)
{
	(void)host;
	pmu_refuse(refusal, error,
		   "the kernel refuses SPE (%s)\n"
		   "try another --load-event or --ldlat; --source clock needs no PMU",
		   strerrorname_np(-error));
}

static const struct hardware_kind kind = {
	.vendor = PMU_VENDOR_ARM, .word = PMU_WORD_LOADS, .plan = plan, .explain = explain
};

/* ---- Areas ---- */

static void unmap_areas(struct spe_stream *stream)
{
	for (size_t i = 0; stream->areas && i < stream->hardware.events.set.n; i++)
		if (stream->areas[i].bytes)
			munmap(stream->areas[i].bytes, stream->areas[i].n_bytes);
	free(stream->areas);
	stream->areas = NULL;
}

/* The ring's page tells the kernel where the area will lie: behind the ring. */
static int map_area(const struct pmu_ring *ring, int fd, uint64_t n_bytes, struct area *ret_area)
{
	uint64_t offset = (uint64_t)sysconf(_SC_PAGESIZE) + ring->body_bytes;

	ring->page->aux_offset = offset;
	ring->page->aux_size = n_bytes;
	void *bytes = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (bytes == MAP_FAILED)
		return -errno;
	*ret_area = (struct area){ .bytes = bytes, .n_bytes = n_bytes };
	return 0;
}

static int map_areas(struct spe_stream *stream, uint64_t n_bytes)
{
	const struct pmu_event_set *set = &stream->hardware.events.set;
	int r = 0;

	stream->areas = calloc(set->n, sizeof(*stream->areas));
	if (!stream->areas)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < set->n; i++)
		r = map_area(&set->rings[i], set->fds[i], n_bytes, &stream->areas[i]);
	if (r < 0)
		unmap_areas(stream);
	return r;
}

/* EPERM: the limit of locked memory, as for rings. */
static int map_halving(struct spe_stream *stream)
{
	uint64_t n_bytes = AREA_BYTES;
	int r = map_areas(stream, n_bytes);

	while ((r == -EPERM || r == -ENOMEM) && n_bytes > MIN_AREA_BYTES) {
		n_bytes /= 2;
		r = map_areas(stream, n_bytes);
	}
	if (r == 0 && n_bytes < AREA_BYTES)
		pmu_notes_add(&stream->hardware.events.set.notes,
			      "AUX areas of %llu instead of %llu KiB for each CPU: limit of locked"
			      " memory",
			      (unsigned long long)n_bytes / 1024,
			      (unsigned long long)AREA_BYTES / 1024);
	return r;
}

/* ---- Streams ---- */

static int open_spe(const struct access_source *source, const struct access_options *options,
		    struct access_stream **ret_stream, struct pmu_refusal *ret_refusal)
{
	auto_free struct spe_stream *stream = calloc(1, sizeof(*stream));
	struct pmu_permissions permissions;

	if (!stream)
		return pmu_refuse(ret_refusal, -ENOMEM, "no memory left");
	int r = pmu_hardware_init(source, options, &stream->hardware, ret_refusal);
	if (r < 0)
		return r;
	r = map_halving(stream);
	if (r < 0) {
		pmu_permissions_read(&permissions);
		pmu_remedy(PMU_STEP_MAP, -r, &permissions, ret_refusal);
		pmu_hardware_finish(&stream->hardware);
		return r;
	}
	*ret_stream = &((struct spe_stream *)steal_ptr(&stream))->hardware.events.base;
	return 0;
}

static struct spe_stream *spe(struct access_stream *stream)
{
	return (struct spe_stream *)stream; /* base begins all that it begins with */
}

struct listening {
	struct spe_stream *stream;
	struct area *area;
	pmu_sink sink;
	void *context;
};

/* Hear what the AUX records say on their way to the sink. */
static int listen(void *context, const void *records, size_t n_bytes, uint32_t n_samples)
{
	struct listening *listening = context;
	const struct pmu_format no_trailer = { 0 };
	const uint8_t *at = records, *end = at + n_bytes;
	int r = listening->sink(listening->context, records, n_bytes, n_samples);

	while (r == 0 && at < end) {
		struct pmu_record record;
		int length = pmu_record_parse(&no_trailer, at, (size_t)(end - at), &record);

		if (length > 0 && record.type == PERF_RECORD_AUX) {
			uint64_t behind = record.aux.offset + record.aux.size;

			listening->area->flags |= record.aux.flags;
			if (behind > listening->area->told)
				listening->area->told = behind;
		}
		length = pmu_record_length(at, (size_t)(end - at));
		if (length <= 0)
			break;
		at += length;
	}
	return r;
}

static ssize_t read_records(struct access_stream *base, pmu_sink sink, void *context)
{
	struct spe_stream *stream = spe(base);
	struct event_stream *events = &stream->hardware.events;
	ssize_t sum = 0;

	for (size_t i = 0; i < events->set.n; i++) {
		struct listening listening = { stream, &stream->areas[i], sink, context };
		ssize_t n =
			pmu_ring_drain(&events->set.rings[i], listen, &listening, &events->losses);

		if (n < 0)
			return n;
		sum += n;
	}
	return sum;
}

/* What lies up to the end of the area, in one piece; what goes on at its beginning comes next. */
static ssize_t give_piece(struct area *area, struct perf_event_mmap_page *page, uint32_t cpu,
			  pmu_aux_sink sink, void *context)
{
	uint64_t at = area->tail & (area->n_bytes - 1);
	uint64_t n = area->told - area->tail;
	struct trace_aux aux = {
		.raw_ns = clock_raw_ns(), .offset = area->tail, .flags = area->flags, .cpu = cpu
	};

	if (n > area->n_bytes - at)
		n = area->n_bytes - at;
	aux.n_bytes = (uint32_t)n;
	int r = sink(context, &aux, area->bytes + at);
	if (r < 0)
		return r;
	area->flags = 0;
	area->tail += n;
	/* Pairs with the kernel's load of aux_tail: we have read all bytes below it. */
	__atomic_store_n(&page->aux_tail, area->tail, __ATOMIC_RELEASE);
	return (ssize_t)n;
}

static ssize_t read_aux(struct access_stream *base, pmu_aux_sink sink, void *context)
{
	struct spe_stream *stream = spe(base);
	const struct pmu_event_set *set = &stream->hardware.events.set;
	ssize_t sum = 0;

	for (size_t i = 0; i < set->n; i++) {
		struct area *area = &stream->areas[i];
		/* Pairs with the kernel's store to aux_head: bytes below it are complete. */
		uint64_t head = __atomic_load_n(&set->rings[i].page->aux_head, __ATOMIC_ACQUIRE);

		if (area->told > head)
			area->told = head;
		if (area->told - area->tail > area->n_bytes && area->told > area->tail)
			area->tail = area->told - area->n_bytes; /* never by the protocol */
		while (area->tail < area->told) {
			ssize_t n = give_piece(area, set->rings[i].page, (uint32_t)set->cpus[i],
					       sink, context);

			if (n < 0)
				return n;
			sum += n;
		}
	}
	return sum;
}

static void close_spe(struct access_stream *base)
{
	struct spe_stream *stream = spe(base);

	unmap_areas(stream);
	pmu_hardware_finish(&stream->hardware);
	free(stream);
}

static void detail(const struct access_stream *base, struct trace_source_detail *ret_detail,
		   const char **ret_event)
{
	const struct hardware_stream *stream = (const struct hardware_stream *)base;

	pmu_hardware_detail(base, ret_detail, ret_event);
	/* min_latency is config2:0-11 since the driver's first version. */
	ret_detail->min_latency = (uint32_t)stream->events.set.attr.config2 & 0xfff;
}

const struct access_source pmu_source_spe = {
	.probe = pmu_hardware_probe,
	.open = open_spe,
	.enable = pmu_hardware_enable,
	.read = read_records,
	.read_aux = read_aux,
	.losses = pmu_event_stream_losses,
	.describe = pmu_hardware_describe,
	.detail = detail,
	.notes = pmu_event_stream_notes,
	.remarks = pmu_hardware_remarks,
	.perf_clock = pmu_hardware_perf_clock,
	.fds = pmu_event_stream_fds,
	.close = close_spe,
	.name = "spe",
	.unit = "operations",
	.about = "Arm SPE: sampled loads and stores with address, level and latency",
	.role = ACCESS_ROLE_ACCESS,
	.kind = TRACE_SAMPLE_SPE,
	.direction = TRACE_DIRECTION_EACH,
	.hardware = &kind,
	.ring_bytes = 64 << 10,
	.small_ring_bytes = 32 << 10,
};
