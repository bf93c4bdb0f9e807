/*
 * Intel's PEBS: the processor itself writes down instruction, address, data source and latency of a
 * sampled load or store. Loads and stores are two events, and two sources with a ring each: their
 * periods differ, and what a sample is, is told by its event, since kernels before August 2022 call
 * sampled stores of Sapphire Rapids and Alder Lake loads (patch "perf/x86/intel: Fix PEBS data
 * source encoding", and precise_store_data in arch/x86/events/intel/ds.c).
 *
 * Large PEBS: with a fixed period, and nothing in a sample that needs the kernel at that moment,
 * the processor collects many samples and interrupts once for all. That excludes a clock of our
 * choice (arch/x86/events/intel/core.c, intel_pmu_large_pebs_flags), so such samples carry perf's
 * own clock.
 */
#include "pmu/sources/pebs.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "pmu/hardware-event.h"

/*
 * Primes, since a period that divides the length of a loop would always meet the same load of it.
 */
#define PERIOD_LATENCY UINT64_C(20011) /* tagged loads: the processor follows one at a time */
#define PERIOD_PLAIN   UINT64_C(1000003) /* all loads, all stores */

/* PEBS_FREERUNNING_FLAGS of arch/x86/events/perf_event.h; TIME only with perf's own clock. */
#define LARGE_TYPES                                                                                \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_CPU |  \
	 PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_IDENTIFIER |                   \
	 PERF_SAMPLE_TRANSACTION | PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_REGS_INTR |                 \
	 PERF_SAMPLE_REGS_USER | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CODE_PAGE_SIZE |                 \
	 PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_TIME)

const char *pmu_pebs_not_large(const struct perf_event_attr *attr)
{
	if (attr->precise_ip == 0)
		return "the event is not precise";
	if (attr->freq)
		return "a rate in Hz needs the kernel at each sample";
	if (attr->wakeup_events && !attr->watermark)
		return "a wake-up for each sample";
	if (attr->sample_type & PERF_SAMPLE_CALLCHAIN)
		return "call chains need the kernel at each sample";
	if (attr->sample_type & ~(uint64_t)LARGE_TYPES)
		return "what was asked for with samples needs the kernel at each";
	return attr->use_clockid ? "perf's own clock cannot be read here" : NULL;
}

static void remark(const struct perf_event_attr *attr, struct pmu_notes *remarks)
{
	const char *why = pmu_pebs_not_large(attr);

	if (why)
		pmu_notes_add(remarks, "one interrupt for each sample: %s", why);
	else
		pmu_notes_add(remarks, "one interrupt for many samples (large PEBS)");
}

/* Without the facility for latencies any load will do: its address is as exact. */
static int find(const struct hardware_question *question, struct hardware_plan *plan,
		struct pmu_refusal *ret_refusal)
{
	const char *name = pmu_hardware_name(question);
	bool is_any_load = strcmp(name, pmu_words[PMU_WORD_LOADS]) == 0;

	if (question->variant == 0)
		return pmu_hardware_find(question, name, plan, ret_refusal);
	if (question->variant > 1 || !is_any_load)
		return -ERANGE;
	int r = pmu_hardware_find(question, pmu_words[PMU_WORD_ALL_LOADS], plan, ret_refusal);
	pmu_notes_add(&plan->notes, "loads without latency: the kernel refuses the event with it");
	return r;
}

static int plan(const struct hardware_question *question, struct hardware_plan *plan,
		struct pmu_refusal *ret_refusal)
{
	const struct access_options *options = question->options;
	int r = find(question, plan, ret_refusal);

	if (r < 0)
		return r;
	pmu_hardware_sample(options, plan);
	pmu_hardware_exclude(options, plan);
	pmu_hardware_rate(options, plan->events[0].is_latency ? PERIOD_LATENCY : PERIOD_PLAIN,
			  plan);
	plan->attr.exclude_guest = 1;
	plan->attr.precise_ip = 3;
	plan->wants_perf_clock = !pmu_pebs_not_large(&plan->attr);
	/* Where each sample has its interrupt anyway, the size of its page costs nothing more. */
	if (!plan->wants_perf_clock)
		plan->attr.sample_type |= PERF_SAMPLE_DATA_PAGE_SIZE;
	return 0;
}

static void explain(const struct pmu_host *host, int error, struct pmu_refusal *refusal)
{
	if (error == -EINVAL)
		pmu_refuse(
			refusal, error,
			"the kernel refuses this event or its period\n"
			"try another --load-event, --store-event or --period, or --source clock");
	else if (host->is_virtual)
		pmu_refuse(
			refusal, error,
			"no PEBS in this virtual machine (%s)\n"
			"run on the host, or give the machine a PMU with PEBS (KVM with Linux 6.0"
			" on Ice Lake-SP or later); --source clock needs no PMU",
			strerrorname_np(-error));
	else
		pmu_refuse(refusal, error,
			   "the processor or kernel has no PEBS for this event (%s)\n"
			   "try another --load-event or --store-event; --source clock needs no PMU",
			   strerrorname_np(-error));
}

static const struct hardware_kind loads = { .vendor = PMU_VENDOR_INTEL,
					    .word = PMU_WORD_LOADS,
					    .plan = plan,
					    .explain = explain,
					    .remark = remark };
static const struct hardware_kind stores = { .vendor = PMU_VENDOR_INTEL,
					     .word = PMU_WORD_STORES,
					     .plan = plan,
					     .explain = explain,
					     .remark = remark };

static const struct access_source pebs_stores = {
	PMU_HARDWARE_STORES(&stores),
	.name = "pebs-stores",
	.unit = "stores",
	.about = "Intel PEBS, stores: exact addresses",
};

const struct access_source pmu_source_pebs = {
	PMU_HARDWARE_LOADS(&loads),
	.companion = &pebs_stores,
	.name = "pebs",
	.unit = "loads",
	.about = "Intel PEBS: sampled loads with address, level and latency, and stores",
};
