#pragma once
/* What decides about large PEBS, for the source and its tests. */
struct perf_event_attr;

/*
 * Why the kernel would not let this event collect many samples for one interrupt; NULL: it would.
 * Pure. Source: arch/x86/events/intel/core.c, intel_pmu_large_pebs_flags and intel_pmu_hw_config.
 */
const char *pmu_pebs_not_large(const struct perf_event_attr *attr);
