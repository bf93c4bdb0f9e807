#pragma once
/*
 * What a sample stands for. Samples carry their period, but for those of the thread that its source
 * was opened on: they carry a mark, and the trace tells which periods that thread had when (PERIOD
 * records). One thread.
 */
#include <stddef.h>
#include <stdint.h>

#include "schemas/trace-format.h"

#define SAMPLE_MAX_MARKS 8u /* more than a source has events on a CPU */

struct sample_turns {
	struct trace_period *items; /* in the order of the trace, which is that of time */
	size_t n;
	size_t n_allocated;
	uint64_t marks[SAMPLE_MAX_MARKS]; /* that there are */
	size_t n_marks;
	size_t *seen; /* for each CPU: the turn of the last sample with a mark, + 1 */
	size_t n_cpus;
};

/* 0 or -ENOMEM. */
int sample_turns_add(struct sample_turns *turns, const struct trace_period *record);

/*
 * The time that a sample stands for which carries a period or a mark, of source samples in order of
 * time. Without memory, a first one after a turn stands for its period only.
 */
uint64_t sample_turns_weight(struct sample_turns *turns, uint64_t raw_ns, uint32_t cpu,
			     uint64_t carried);

void sample_turns_finish(struct sample_turns *turns);
