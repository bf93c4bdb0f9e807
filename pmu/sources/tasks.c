/*
 * No samples: an event that never counts, for the records that come along. Maps of files and of
 * anonymous memory, names, exec, births and ends of threads and processes.
 */
#include <linux/perf_event.h>

#include "pmu/stream.h"

static void configure(const struct access_options *options, struct perf_event_attr *attr)
{
	(void)options;
	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = PERF_COUNT_SW_DUMMY;
	attr->sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
	attr->exclude_kernel = 1;
	attr->exclude_hv = 1;
	attr->mmap = 1;
	attr->mmap2 = 1;
	attr->mmap_data = 1;
	attr->comm = 1;
	attr->comm_exec = 1;
	attr->task = 1;
	attr->build_id = 1;
}

const struct access_source pmu_source_tasks = {
	PMU_EVENT_STREAM,
	.name = "tasks",
	.unit = "records",
	.about = "mappings, names, starts and ends of threads and processes; no samples",
	.role = ACCESS_ROLE_TASKS,
	.kind = TRACE_SAMPLE_TASKS,
	.configure = configure,
	.ring_bytes = 256 << 10,
	.small_ring_bytes = 64 << 10,
};
