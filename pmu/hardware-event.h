#pragma once
/*
 * What the sources of the hardware share: an event by name, on the CPUs that have it, led by
 * another where the kernel wants that, with what this kernel and user get of what was asked for.
 */
#include "pmu/catalogue/catalogue.h"
#include "pmu/catalogue/model.h"
#include "pmu/stream.h"

struct pmu_perf_clock;

/* What to open. A source makes it of the host and the options. */
struct hardware_plan {
	struct perf_event_attr attr; /* without type and config: those are the events' */
	struct pmu_event events[PMU_MAX_EVENTS];
	int n_events;
	bool wants_perf_clock; /* stamps of perf's own clock are what large PEBS needs */
	struct pmu_notes notes; /* of what was asked for and cannot be */
};

struct hardware_kind;

/* What a plan is to be made for. */
struct hardware_question {
	const struct hardware_kind *kind;
	const struct pmu_host *host;
	const struct access_options *options;
	unsigned variant; /* from 0: each later one is a lesser choice, tried when those before
			     could not be opened */
};

/* How a source of the hardware differs from the others; access_source.hardware. */
struct hardware_kind {
	enum pmu_vendor vendor; /* whose processors have it */
	enum pmu_word word; /* LOADS or STORES: what is asked for where no event is named */

	/*
	 * Fill the plan, which is zeroed. -ERANGE: there is no such variant. Any other error comes
	 * with a refusal. The processor is of that vendor.
	 */
	int (*plan)(const struct hardware_question *question, struct hardware_plan *plan,
		    struct pmu_refusal *ret_refusal);
	/* Why the kernel has no such event, in words; errors of permission have theirs already. */
	void (*explain)(const struct pmu_host *host, int error, struct pmu_refusal *refusal);
	/* Something to say of what was opened (NULL: nothing). */
	void (*remark)(const struct perf_event_attr *attr, struct pmu_notes *remarks);
};

/* How an event of a stream was opened. */
struct hardware_member {
	struct perf_event_attr attr;
	struct perf_event_attr leader; /* where leader_fd is one */
	int leader_fd; /* -1: it has none */
};

struct hardware_stream {
	struct event_stream events; /* what is shared with plain sources works on this */
	struct pmu_host host;
	struct pmu_event event; /* the first one */
	struct pmu_notes remarks;
	struct hardware_member *members; /* one for each of events.set.fds */
	int *more_leaders; /* one for each of events.set.more; -1: it has none */
	int64_t clock_shift_ns; /* CLOCK_MONOTONIC_RAW less perf's clock when they were read last */
	struct pmu_perf_clock *clock; /* NULL: its stamps are of CLOCK_MONOTONIC_RAW */
};

/*
 * Open events and rings into *ret_stream. On failure nothing stays open and the refusal explains.
 */
int pmu_hardware_init(const struct access_source *source, const struct access_options *options,
		      struct hardware_stream *ret_stream, struct pmu_refusal *ret_refusal);

/* Close what is in it; not the memory. */
void pmu_hardware_finish(struct hardware_stream *stream);

/* Operations of a stream that begins with struct hardware_stream. */
int pmu_hardware_probe(const struct access_source *source, const struct access_options *options,
		       struct pmu_refusal *ret_refusal);
int pmu_hardware_open(const struct access_source *source, const struct access_options *options,
		      struct access_stream **ret_stream, struct pmu_refusal *ret_refusal);
int pmu_hardware_enable(struct access_stream *stream, bool on);
ssize_t pmu_hardware_read(struct access_stream *stream, pmu_sink sink, void *context);
int pmu_hardware_losses(struct access_stream *stream, struct pmu_losses *ret_losses);
void pmu_hardware_describe(const struct access_stream *stream, struct trace_source *ret_source);
void pmu_hardware_detail(const struct access_stream *stream, struct trace_source_detail *ret_detail,
			 const char **ret_event);
const char *pmu_hardware_remarks(const struct access_stream *stream);
int pmu_hardware_perf_clock(struct access_stream *stream, struct trace_perf_clock *ret_clock);
void pmu_hardware_close(struct access_stream *stream);

/*
 * All operations of a source that adds nothing to struct hardware_stream; its detail may be its
 * own.
 */
#define PMU_HARDWARE_STREAM_BUT_DETAIL                                                             \
	.probe = pmu_hardware_probe, .open = pmu_hardware_open, .enable = pmu_hardware_enable,     \
	.read = pmu_hardware_read, .losses = pmu_hardware_losses,                                  \
	.describe = pmu_hardware_describe, .notes = pmu_event_stream_notes,                        \
	.remarks = pmu_hardware_remarks, .perf_clock = pmu_hardware_perf_clock,                    \
	.fds = pmu_event_stream_fds, .close = pmu_hardware_close
#define PMU_HARDWARE_STREAM PMU_HARDWARE_STREAM_BUT_DETAIL, .detail = pmu_hardware_detail

/* Sources of loads, and of stores as their companion, in records of perf. */
#define PMU_HARDWARE_LOADS(of)                                                                     \
	PMU_HARDWARE_STREAM, .role = ACCESS_ROLE_ACCESS, .kind = TRACE_SAMPLE_ACCESS,              \
			     .direction = TRACE_DIRECTION_LOADS, .hardware = (of),                 \
			     .ring_bytes = 256 << 10, .small_ring_bytes = 128 << 10
#define PMU_HARDWARE_STORES(of)                                                                    \
	PMU_HARDWARE_STREAM, .role = ACCESS_ROLE_ACCESS, .kind = TRACE_SAMPLE_ACCESS,              \
			     .direction = TRACE_DIRECTION_STORES, .hardware = (of),                \
			     .ring_bytes = 256 << 10, .small_ring_bytes = 64 << 10

/* ---- For plans ---- */

/* The event that was asked for: --load-event or --store-event, or the kind's word. */
const char *pmu_hardware_name(const struct hardware_question *question);

/* Find the plan's events by name. Returns 0, or a negative errno with its refusal. */
int pmu_hardware_find(const struct hardware_question *question, const char *name,
		      struct hardware_plan *plan, struct pmu_refusal *ret_refusal);

/* Whose accesses are sampled: options->mode, unless the event's name says :u or :k. */
void pmu_hardware_exclude(const struct access_options *options, struct hardware_plan *plan);

/* A fixed period (options->period, or `usual` where no rate is given either), or a rate in Hz. */
void pmu_hardware_rate(const struct access_options *options, uint64_t usual,
		       struct hardware_plan *plan);

/* What every sample of an access has; call chains where the options want them. */
void pmu_hardware_sample(const struct access_options *options, struct hardware_plan *plan);
