/*
 * POWER's marked events: the processor marks an instruction at random and follows it; SIER and SDAR
 * then tell the address, where the data came from and how long it took. The kernel offers
 * mem-loads and mem-stores (Documentation/admin-guide/perf, arch/powerpc/perf/isa207-common.c).
 * Both want the same counter, so they may take turns: two sources, and the losses tell.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pmu/hardware-event.h"

#define PERIOD UINT64_C(10007) /* marked instructions; prime */

static int plan(const struct hardware_question *question, struct hardware_plan *plan,
		struct pmu_refusal *ret_refusal)
{
	const struct access_options *options = question->options;

	if (question->variant > 0)
		return -ERANGE;
	int r = pmu_hardware_find(question, pmu_hardware_name(question), plan, ret_refusal);
	if (r < 0)
		return r;
	if (options->min_latency)
		pmu_notes_add(&plan->notes, "no least latency: POWER has none");
	pmu_hardware_sample(options, plan);
	pmu_hardware_exclude(options, plan);
	pmu_hardware_rate(options, PERIOD, plan);
	return 0;
}

static void explain(const struct pmu_host *host, int error, struct pmu_refusal *refusal)
{
	(void)host;
	pmu_refuse(refusal, error,
		   "the kernel refuses this marked event (%s)\n"
		   "try another --load-event or --store-event; --source clock needs no PMU",
		   strerrorname_np(-error));
}

static const struct hardware_kind loads = {
	.vendor = PMU_VENDOR_POWER, .word = PMU_WORD_LOADS, .plan = plan, .explain = explain
};
static const struct hardware_kind stores = {
	.vendor = PMU_VENDOR_POWER, .word = PMU_WORD_STORES, .plan = plan, .explain = explain
};

static const struct access_source marked_stores = {
	PMU_HARDWARE_STORES(&stores),
	.name = "marked-stores",
	.unit = "marked stores",
	.about = "POWER's marked stores: exact addresses",
};

const struct access_source pmu_source_marked = {
	PMU_HARDWARE_LOADS(&loads),
	.companion = &marked_stores,
	.name = "marked",
	.unit = "marked loads",
	.about = "POWER's marked instructions: loads with address, level and latency, and stores",
};
