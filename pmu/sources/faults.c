/*
 * Every page fault in user code, with the exact byte that was touched: the first touch of each
 * page.
 */
#include <linux/perf_event.h>

#include "perf/record.h"
#include "pmu/stream.h"

#if defined(__x86_64__)
#define STACK_POINTER (UINT64_C(1) << PMU_X86_STACK_POINTER) /* whose stack it is */
#else
#define STACK_POINTER UINT64_C(0)
#endif

static void configure(const struct access_options *options, struct perf_event_attr *attr)
{
	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = PERF_COUNT_SW_PAGE_FAULTS;
	attr->sample_period = options->period ? options->period : 1;
	attr->sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
			    PERF_SAMPLE_CPU;
	/* By default the same as root and as user: read(2) into new pages is left out. */
	attr->exclude_kernel = options->mode == ACCESS_MODE_USER;
	attr->exclude_user = options->mode == ACCESS_MODE_KERNEL;
	attr->exclude_hv = 1;
	if (STACK_POINTER != 0) {
		attr->sample_type |= PERF_SAMPLE_REGS_USER;
		attr->sample_regs_user = STACK_POINTER;
	}
}

const struct access_source pmu_source_faults = {
	PMU_EVENT_STREAM,
	.name = "faults",
	.unit = "page faults",
	.about = "page faults of user code: the first touch of each page, exact address",
	.role = ACCESS_ROLE_FAULTS,
	.kind = TRACE_SAMPLE_FAULT,
	.configure = configure,
	.ring_bytes = 1 << 20, /* 64 bytes each, up to 600,000 a second: 27 ms */
	.small_ring_bytes = 128 << 10,
};
