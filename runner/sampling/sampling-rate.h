#pragma once
/*
 * How often samples are taken: the period changes at random moments between a few near the asked
 * one (against lock-step with the program), and, with --budget, to longer ones while sampling costs
 * more than its share. One thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmu/source.h"
#include "runner/run-options.h"

#define SAMPLES_RATE_LEVELS 3

struct samples_rate {
	uint32_t budget_ppm; /* of the program's CPU time; 0: none */
	uint64_t cost_ns; /* of a sample, in the program; measured at the start */
	uint64_t freq_hz; /* that was chosen; 0: as asked */
	uint64_t limit_hz; /* the asked rate was above this limit of the kernel's; 0: it was not */
	size_t level;
	uint64_t n_changes; /* of the level */
	uint64_t n_turns;
	uint64_t turn_ns; /* spent on turning */
	uint64_t next_turn_ns; /* CLOCK_MONOTONIC */
	uint64_t next_look_ns;
	uint64_t n_births; /* at the last look */
	uint64_t allocated_ns; /* when it saw some last */
	uint64_t turned_ns; /* CLOCK_MONOTONIC of the last turn */
	uint64_t birth_turn_ns; /* not sooner again, for births */
	uint64_t looked_ns;
	uint64_t random;
	uint64_t cpu_ns; /* of the collector, for samples: so far, at the last look, ... */
	uint64_t looked_cpu_ns;
	uint64_t looked_samples;
	double spent_ns; /* what sampling cost the program and the collector so far */
	double program_ns; /* CPU time that the samples stand for */
};

/*
 * Read "2%", "0.5%" or "2" as a part of the program's CPU time in ppm. Returns 0, or -EINVAL: not
 * above 0 and at most 50 %.
 */
int samples_rate_parse_budget(const char *text, uint32_t *ret_ppm);

/*
 * Choose the rate of a timed source before it is opened: below the kernel's limit, and within the
 * budget, whose cost is measured here. Changes access->freq_hz, min_period, n_levels and
 * has_jitter.
 */
void samples_rate_choose(struct samples_rate *rate, const struct access_source *source,
			 struct access_options *access);

/* CPU time of this thread, to be given to samples_rate_spent(). 0 without a budget. */
uint64_t samples_rate_begin(const struct samples_rate *rate);
void samples_rate_spent(struct samples_rate *rate, uint64_t begin_ns);

/*
 * When it is time, turn a stream to another period: soon where threads and processes were born
 * since the last look, as those of one turn have one period. now_ns: CLOCK_MONOTONIC; n_taken:
 * samples of the stream so far. Returns 1 when it turned, 0 or a negative errno.
 */
struct samples_rate_now {
	uint64_t now_ns;
	uint64_t n_taken;
	uint64_t n_births; /* so far */
};
int samples_rate_look(struct samples_rate *rate, struct access_stream *stream,
		      const struct samples_rate_now *now, struct pmu_turn *ret_turn);

/* Whether threads and processes are being born, so that the next look should be soon. */
bool samples_rate_wants_haste(const struct samples_rate *rate);
