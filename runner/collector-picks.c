/*
 * Production mode (--sample-bytes): what it may be used with, and the interval between picks, which
 * --budget makes longer while picks cost the program more than it allows. Each pick is recorded
 * with the interval that it was drawn for, so totals stay unbiased.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "common/text.h"
#include "pmu/choice.h"
#include "runner/collector.h"
#include "runner/trace-records-write.h"

#define NS_PER_MS     UINT64_C(1000000)
#define LOOK_NS	      (250 * NS_PER_MS)
#define LEAST_CPU_NS  (50 * NS_PER_MS) /* of the program, for a look to say something */
#define RELAX_DIVISOR 3 /* below this part of the budget the interval is halved again */
#define MAX_SHIFT     20
#define MAX_STEP      4

/* --usdt without --sample-bytes: probes fire for all blocks. */
static int check_probes(const struct run_options *options, char *message, size_t n_bytes)
{
	const char *problem = NULL;

	if (!options->usdt)
		return 0;
	if (options->min_bytes)
		problem = "and --min-size exclude each other: for fewer blocks use --sample-bytes";
	else if (options->no_alloc)
		problem = "needs allocations, which --no-alloc leaves out";
	else if (options->events && !(options->events & RING_EVENTS_HEAP))
		problem = "needs `heap' among --events";
	if (!problem)
		return 0;
	return text_refuse(-EINVAL, message, n_bytes, "--usdt %s", problem);
}

int collector_picks_check(const struct run_options *options, char *message, size_t n_bytes)
{
	struct pmu_choice choice;
	char why[PMU_CHOICE_MESSAGE_BYTES];
	const char *problem = NULL;
	bool has_pages =
		pmu_choice_parse(options->source ? options->source : "auto", &choice, why) == 0 &&
		pmu_choice_has(&choice, "pages");

	if (options->sample_bytes == 0)
		return check_probes(options, message, n_bytes);
	if (options->sample_bytes > RING_MAX_SAMPLE_BYTES)
		problem = "at most 4G";
	else if (options->min_bytes)
		problem = "and --min-size exclude each other: picks go by size already";
	else if (options->no_alloc)
		problem = "needs allocations, which --no-alloc leaves out";
	else if (options->events && !(options->events & RING_EVENTS_HEAP))
		problem = "needs `heap' among --events";
	else if (has_pages || (options->pages && strcmp(options->pages, "off") != 0))
		problem = "cannot say whose pages are: leave out --pages and --source pages, which "
			  "need every block";
	else if (options->live_totals)
		problem = "and live totals exclude each other: `memsight top' needs every block";
	if (!problem)
		return 0;
	return text_refuse(-EINVAL, message, n_bytes, "--sample-bytes%s %s",
			   options->sample_bytes > RING_MAX_SAMPLE_BYTES ? ":" : "", problem);
}

void collector_begin_picks(struct collector *collector)
{
	struct collector_picks *picks = &collector->picks;

	if (collector->options->sample_bytes && collector->options->budget)
		samples_rate_parse_budget(collector->options->budget, &picks->budget_ppm);
}

/* What an image has used since the last look; of one that is new nothing is known yet. */
static void look_at(struct collector *collector, struct image *image)
{
	struct collector_picks *picks = &collector->picks;
	const struct ring_process *slots = collector->pool->processes;
	bool has_slot = image->slot < collector->pool->n_processes;
	uint64_t cpu_ns = image_cpu_ns(image);
	uint64_t ticks = has_slot ? atomic_load(&slots[image->slot].pick_ticks) : 0;

	if (image->picks_cpu_ns && cpu_ns > image->picks_cpu_ns && ticks >= image->picks_ticks) {
		picks->program_ns += (double)(cpu_ns - image->picks_cpu_ns);
		picks->cost_ns += 1e9 * (double)(ticks - image->picks_ticks) /
				  (double)collector->ticks_per_second;
	}
	image->picks_cpu_ns = cpu_ns;
	image->picks_ticks = ticks;
}

/* Twice the interval has half the picks. */
static void adapt(struct collector *collector, double share)
{
	struct collector_picks *picks = &collector->picks;
	double budget = picks->budget_ppm / 1e6;
	uint32_t shift = picks->shift;

	if (share > budget)
		shift += (uint32_t)fmin(ceil(log2(share / budget)), MAX_STEP);
	else if (share < budget / RELAX_DIVISOR && shift > 0)
		shift--;
	if (shift > MAX_SHIFT)
		shift = MAX_SHIFT;
	if (shift == picks->shift)
		return;
	picks->shift = shift;
	picks->n_changes++;
	atomic_store(&collector->pool->control->sample_shift, shift);
}

void collector_tick_picks(struct collector *collector)
{
	struct collector_picks *picks = &collector->picks;

	if (!picks->budget_ppm || collector->now_ns < picks->next_ns)
		return;
	picks->next_ns = collector->now_ns + LOOK_NS;
	for (struct image *image = collector->tracker.images.first; image; image = image->next)
		look_at(collector, image);
	if (picks->program_ns < (double)LEAST_CPU_NS)
		return;
	adapt(collector, picks->cost_ns / picks->program_ns);
	picks->all_program_ns += picks->program_ns;
	picks->all_cost_ns += picks->cost_ns;
	picks->program_ns = picks->cost_ns = 0;
}

void collector_end_picks(struct collector *collector)
{
	const struct collector_picks *picks = &collector->picks;

	if (!picks->budget_ppm)
		return;
	store_counter(collector->writer, 0, "cost of picks", "ns", (uint64_t)picks->all_cost_ns);
	store_counter(collector->writer, 0, "CPU time with picks", "ns",
		      (uint64_t)picks->all_program_ns);
	store_counter(collector->writer, 0, "changes of the interval of picks", "changes",
		      picks->n_changes);
}
