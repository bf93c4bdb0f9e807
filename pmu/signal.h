#pragma once
/*
 * The source `signal`: samples that a program takes of itself by a timer on each thread's CPU time
 * (tracealloc/sampler.h). No perf event is opened; who reads the program's records pushes them, and
 * they come out as PERF_RECORD_SAMPLE, as those of `clock` do.
 */
#include <stdbool.h>
#include <stdint.h>

#include "pmu/source.h"

#define PMU_SIGNAL_REGISTERS 18u

struct pmu_signal_sample {
	uint32_t pid;
	uint32_t tid;
	uint64_t time_ns; /* CLOCK_MONOTONIC_RAW */
	uint32_t n_periods;
	bool is_kernel; /* the time was that of a system call */
	const uint64_t *registers; /* in the order of perf's bits */
	const uint8_t *stack; /* where the stack pointer is */
	uint32_t stack_bytes; /* from there up, a multiple of 8 at most 256 */
	uint32_t below_bytes; /* right below it, a multiple of 8 at most 128 */
};

/* Queue a sample; the next pmu_stream_read() gives it. 0 or -ENOMEM. */
int pmu_signal_push(struct access_stream *stream, const struct pmu_signal_sample *sample);

/* CPU time between two samples, in ns. */
uint64_t pmu_signal_period(const struct access_stream *stream);

extern const struct access_source pmu_source_signal;
