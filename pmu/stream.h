#pragma once
/*
 * What an open source looks like from inside pmu/, and the implementation that all sources share
 * which are one perf event with a ring for each CPU.
 */
#include "pmu/event-set.h"
#include "pmu/period-ladder.h"
#include "pmu/source.h"

/* Every kind of stream begins with this. */
struct access_stream {
	const struct access_source *source;
};

/* One perf event with a ring for each CPU. */
struct event_stream {
	struct access_stream base;
	struct pmu_event_set set;
	struct pmu_losses losses;
	struct pmu_ladder ladder;
	size_t rung;
	bool is_off;
	struct pmu_event_set
		next; /* of another period; between pmu_stream_begin_period() and end */
};

int pmu_event_stream_probe(const struct access_source *source, const struct access_options *options,
			   struct pmu_refusal *ret_refusal);
/* Open into a zeroed one of the caller's; on failure nothing stays open. */
int pmu_event_stream_init(const struct access_source *source, const struct access_options *options,
			  struct event_stream *stream, struct pmu_refusal *ret_refusal);
int pmu_event_stream_open(const struct access_source *source, const struct access_options *options,
			  struct access_stream **ret_stream, struct pmu_refusal *ret_refusal);
int pmu_event_stream_enable(struct access_stream *stream, bool on);
int pmu_event_stream_turn(struct access_stream *stream, size_t level, uint64_t random,
			  struct pmu_turn *ret_turn);
uint64_t pmu_event_stream_period(const struct access_stream *stream);
int pmu_event_stream_begin_period(struct access_stream *stream, uint64_t period, const pid_t *pids,
				  size_t n_pids);
int pmu_event_stream_end_period(struct access_stream *stream, bool is_taken);
ssize_t pmu_event_stream_read(struct access_stream *stream, pmu_sink sink, void *context);
int pmu_event_stream_losses(struct access_stream *stream, struct pmu_losses *ret_losses);
void pmu_event_stream_describe(const struct access_stream *stream, struct trace_source *ret_source);
void pmu_event_stream_detail(const struct access_stream *stream,
			     struct trace_source_detail *ret_detail, const char **ret_event);
const char *pmu_event_stream_notes(const struct access_stream *stream);
const char *pmu_event_stream_unit(const struct access_stream *stream);
size_t pmu_event_stream_fds(const struct access_stream *stream, const int **ret_fds);
void pmu_event_stream_close(struct access_stream *stream);

/* Events could not be opened on all threads of processes that run. */
void pmu_refuse_threads(int error, struct pmu_refusal *ret_refusal);

/* Has the user's limit of locked memory room for all sources' rings at their full sizes? */
bool pmu_fits_full_rings(void);

/* The registers that an address can be made of, as sample_regs_user; 0: not known here. */
uint64_t pmu_user_registers(void);

/*
 * How large a ring of this source may be on each CPU, by the options and the limit of locked
 * memory.
 */
uint32_t pmu_event_ring_bytes(const struct access_source *source,
			      const struct access_options *options);

/* The operations of such a source; its file adds name, unit, configure() and the ring's size. */
#define PMU_EVENT_STREAM                                                                           \
	.probe = pmu_event_stream_probe, .open = pmu_event_stream_open,                            \
	.enable = pmu_event_stream_enable, .turn = pmu_event_stream_turn,                          \
	.period = pmu_event_stream_period, .begin_period = pmu_event_stream_begin_period,          \
	.end_period = pmu_event_stream_end_period, .read = pmu_event_stream_read,                  \
	.losses = pmu_event_stream_losses, .describe = pmu_event_stream_describe,                  \
	.detail = pmu_event_stream_detail, .notes = pmu_event_stream_notes,                        \
	.counted = pmu_event_stream_unit, .fds = pmu_event_stream_fds,                             \
	.close = pmu_event_stream_close

extern const struct access_source pmu_source_pebs;
extern const struct access_source pmu_source_ibs;
extern const struct access_source pmu_source_spe;
extern const struct access_source pmu_source_marked;
extern const struct access_source pmu_source_clock;
extern const struct access_source pmu_source_faults;
extern const struct access_source pmu_source_pages;
extern const struct access_source pmu_source_tasks;
