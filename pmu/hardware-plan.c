/* What sources of the hardware ask for alike. */

#include "pmu/hardware-event.h"

const char *pmu_hardware_name(const struct hardware_question *question)
{
	enum pmu_word word = question->kind->word;
	const char *asked = word == PMU_WORD_STORES ? question->options->store_event
						    : question->options->load_event;

	return asked ? asked : pmu_words[word];
}

int pmu_hardware_find(const struct hardware_question *question, const char *name,
		      struct hardware_plan *plan, struct pmu_refusal *ret_refusal)
{
	int n = pmu_catalogue_find(question->host, name, question->options->min_latency,
				   plan->events, ret_refusal);

	if (n < 0)
		return n;
	plan->n_events = n;
	return 0;
}

void pmu_hardware_sample(const struct access_options *options, struct hardware_plan *plan)
{
	plan->attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				 PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU | PERF_SAMPLE_DATA_SRC |
				 PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_PHYS_ADDR;
	if (!options->has_call_chain)
		return;
	plan->attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	plan->attr.exclude_callchain_kernel = 1;
}

void pmu_hardware_exclude(const struct access_options *options, struct hardware_plan *plan)
{
	const struct pmu_event *event = &plan->events[0];
	bool is_named = event->exclude_user || event->exclude_kernel;

	plan->attr.exclude_user =
		is_named ? event->exclude_user : options->mode == ACCESS_MODE_KERNEL;
	plan->attr.exclude_kernel =
		is_named ? event->exclude_kernel : options->mode == ACCESS_MODE_USER;
	plan->attr.exclude_hv = 1;
}

void pmu_hardware_rate(const struct access_options *options, uint64_t usual,
		       struct hardware_plan *plan)
{
	plan->attr.freq = !options->period && options->freq_hz;
	if (plan->attr.freq) {
		plan->attr.sample_freq = options->freq_hz;
		plan->attr.sample_type |= PERF_SAMPLE_PERIOD; /* each stands for another number */
	} else {
		plan->attr.sample_period = options->period ? options->period : usual;
	}
}
