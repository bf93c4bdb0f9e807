/*
 * AMD's Instruction Based Sampling: of all micro-ops one in so many is followed to its end. Loads
 * and stores come from the one event that there is; most samples are of ops that touch no memory,
 * and are counted as such when they are decoded (arch/x86/events/amd/ibs.c; perf-amd-ibs(1)).
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "pmu/catalogue/sysfs.h"
#include "pmu/hardware-event.h"

#define PMU "ibs_op"

/* The hardware counts in steps of 16, and varies the lowest bits of the count itself. */
#define STEP   UINT64_C(16)
#define PERIOD (STEP * UINT64_C(62501)) /* micro-ops; 62501 is prime */

#define SWFILT UINT64_C(1) /* config2: samples of others are dropped by the driver */

static bool has_format(const struct pmu_host *host, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "format/%s", name);
	return pmu_sysfs_has(host, PMU, path);
}

/* What this processor's IBS has of what is wished for. */
static void make_name(const struct pmu_host *host, const struct access_options *options, char *name,
		      size_t n_bytes, struct pmu_notes *notes)
{
	/* Counting ops, not cycles: every op is as likely, also where few retire. */
	size_t n = (size_t)snprintf(name, n_bytes, PMU "/%s",
				    has_format(host, "cnt_ctl") ? "cnt_ctl=1" : "");

	if (options->min_latency && has_format(host, "ldlat"))
		n += (size_t)snprintf(name + n, n_bytes - n, ",ldlat=%u", options->min_latency);
	else if (options->min_latency)
		pmu_notes_add(notes, "no least latency: this processor's IBS has none");
	snprintf(name + n, n_bytes - n, "/");
}

static int find(const struct hardware_question *question, struct hardware_plan *plan,
		struct pmu_refusal *ret_refusal)
{
	const struct access_options *options = question->options;
	const char *asked = options->load_event ? options->load_event : options->store_event;
	char name[96];

	make_name(question->host, options, name, sizeof(name), &plan->notes);
	int r = pmu_hardware_find(question, asked ? asked : name, plan, ret_refusal);
	if (r < 0 || strcmp(plan->events[0].pmu, PMU) == 0)
		return r;
	return pmu_refuse(ret_refusal, -EINVAL,
			  "event %.80s has no addresses: on AMD only " PMU " gives them\n"
			  "--load-event " PMU "/cnt_ctl=1/",
			  asked);
}

static void set_period(const struct access_options *options, struct hardware_plan *plan)
{
	pmu_hardware_rate(options, PERIOD, plan);
	uint64_t wanted = plan->attr.sample_period;
	if (plan->attr.freq || wanted % STEP == 0)
		return;
	plan->attr.sample_period = wanted < STEP ? STEP : wanted - wanted % STEP;
	pmu_notes_add(&plan->notes, "period %llu instead of %llu: IBS counts in steps of 16",
		      (unsigned long long)plan->attr.sample_period, (unsigned long long)wanted);
}

static int refuse_hidden(const struct pmu_host *host, struct pmu_refusal *ret_refusal)
{
	return pmu_refuse(ret_refusal, -ENOENT, "%s; --source clock needs no PMU",
			  host->is_virtual ? "virtual machines have no IBS\nrun on the host"
					   : "the BIOS hides IBS, or the processor has none\n"
					     "enable IBS in the BIOS");
}

/*
 * Variant 0 leaves out the kernel by the driver's filter (Linux 6.14), or as newer drivers do;
 * variant 1 cannot, so it wants more rights, and the kernel's samples are left out by analyze.
 */
static int plan(const struct hardware_question *question, struct hardware_plan *plan,
		struct pmu_refusal *ret_refusal)
{
	const struct access_options *options = question->options;

	if (question->variant > 1 || (question->variant == 1 && options->mode != ACCESS_MODE_USER))
		return -ERANGE;
	if (!pmu_sysfs_has(question->host, PMU, "type"))
		return refuse_hidden(question->host, ret_refusal);
	int r = find(question, plan, ret_refusal);
	if (r < 0)
		return r;
	pmu_hardware_sample(options, plan);
	plan->attr.sample_type |= PERF_SAMPLE_RAW;
	set_period(options, plan);
	if (question->variant == 1) {
		pmu_notes_add(&plan->notes,
			      "the kernel's samples come too: this IBS has no filter");
		return 0;
	}
	pmu_hardware_exclude(options, plan);
	plan->attr.exclude_hv = 0; /* the driver refuses hv, idle, host and guest */
	if (has_format(question->host, "swfilt"))
		plan->attr.config2 |= SWFILT;
	return 0;
}

static void explain(const struct pmu_host *host, int error, struct pmu_refusal *refusal)
{
	(void)host;
	pmu_refuse(refusal, error, "the kernel refuses IBS (%s)\n%s", strerrorname_np(-error),
		   error == -EINVAL ? "run as root: before Linux 6.14 IBS samples whole CPUs or"
				      " root's tasks; or --source clock"
				    : "--source clock needs no PMU");
}

static const struct hardware_kind kind = {
	.vendor = PMU_VENDOR_AMD, .word = PMU_WORD_LOADS, .plan = plan, .explain = explain
};

/* Without PERF_SAMPLE_RAW, which may want more rights, there is what the driver makes of it. */
static void detail(const struct access_stream *stream, struct trace_source_detail *ret_detail,
		   const char **ret_event)
{
	const struct hardware_stream *hardware = (const struct hardware_stream *)stream;

	pmu_hardware_detail(stream, ret_detail, ret_event);
	if (!(hardware->events.set.attr.sample_type & PERF_SAMPLE_RAW))
		ret_detail->kind = TRACE_SAMPLE_ACCESS;
	if (pmu_sysfs_has(&hardware->host, PMU, "format/ldlat"))
		ret_detail->min_latency = (uint32_t)hardware->events.set.attr.config1 & 0xfff;
}

const struct access_source pmu_source_ibs = {
	PMU_HARDWARE_STREAM_BUT_DETAIL,
	.detail = detail,
	.hardware = &kind,
	.name = "ibs",
	.unit = "micro-ops",
	.about = "AMD IBS: sampled micro-ops; of loads and stores the address, level and latency",
	.role = ACCESS_ROLE_ACCESS,
	.kind = TRACE_SAMPLE_IBS,
	.direction = TRACE_DIRECTION_EACH,
	.ring_bytes = 512 << 10,
	.small_ring_bytes = 256 << 10,
};
