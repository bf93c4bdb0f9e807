#pragma once
/* Records of a perf.data on their way into samples.h: as the kernel writes them today. */
#include <stddef.h>
#include <stdint.h>

#include "analyze/input/perf-data/file.h"

/* Records of one event, one behind the other. All zero is empty. */
struct perf_records {
	uint8_t *bytes;
	size_t n_bytes;
	size_t n_allocated;
};

void perf_records_finish(struct perf_records *records);

/* Add a record as it is. 0 or -ENOMEM. */
int perf_records_add(struct perf_records *records, const void *bytes, size_t n_bytes);

/*
 * Add MMAP, MMAP2, COMM, FORK or EXIT anew from what was parsed of it: maps with their build-id
 * (n_build_id bytes; 0: that of the record), all with the trailer of the format. Other types and
 * what is too long add nothing. 0 or -ENOMEM.
 */
int perf_records_add_task(struct perf_records *records, const struct pmu_format *format,
			  const struct pmu_record *record, const uint8_t *build_id,
			  size_t n_build_id);

/* The time of a SAMPLE of that format; 0: it has none. */
uint64_t perf_records_sample_time(const struct pmu_format *format, const void *bytes,
				  size_t n_bytes);
