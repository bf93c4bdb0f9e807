#pragma once
/*
 * The source `uprobes`: probes of the kernel at places of files, in every thread of a process and
 * of its later children. Each time that one is met is a record, struct trace_probed of
 * schemas/trace-perf.h. Nothing of a program's stack is changed: a function is left where its
 * returns, and jumps out of it, have probes. Root only: CAP_SYS_ADMIN, or a tracefs that lets one
 * write, and CAP_PERFMON.
 *
 * All probes are one event of tracefs (Linux 5.5). Those of the PMU `uprobe` are not inherited: the
 * kernel reads their path anew, out of the memory of the process that forks.
 */
#include "pmu/source.h"

/*
 * Are they to be had? 0, or a negative errno with why, and what helps. Makes one and removes it;
 * removes those that a killed recorder has left. Any thread.
 */
int pmu_uprobes_check(struct pmu_refusal *ret_refusal);

extern const struct access_source pmu_source_uprobes;
