/*
 * What may be changed while a recording goes on (`memsight ctl set KEY=VALUE`), and why the rest
 * may not.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/parse.h"
#include "common/text.h"
#include "pmu/cost.h"
#include "runner/collector.h"
#include "schemas/control.h"

#define NS_PER_SECOND	UINT64_C(1000000000)
#define LEAST_PERIOD_NS UINT64_C(10000) /* the kernel's timers fire no more often */
#define MOST_PERIOD_NS	(60 * NS_PER_SECOND)
#define MOST_HZ		100000
#define RATE_TRIES	50
#define MOST_SHIFT	20

/* What came of it, for a person: why not, or what it was before. */
struct outcome {
	char why[256];
	char before[64];
};

static int refuse(struct outcome *outcome, const char *why)
{
	return text_refuse(-EINVAL, outcome->why, sizeof(outcome->why), "%s", why);
}

/* ---- The rate of samples ---- */

static int list_processes(struct collector *collector, pid_t **ret_pids, size_t *ret_n)
{
	auto_free pid_t *pids = NULL;
	size_t n = 0;

	for (struct image *image = collector->tracker.images.first; image; image = image->next) {
		if (image->pid <= 0 || image->is_gone)
			continue;
		if (grow_array_of(&pids, n, 1, sizeof(*pids)) < 0)
			return -ENOMEM;
		pids[n++] = image->pid;
	}
	*ret_pids = steal_ptr(&pids);
	*ret_n = n;
	return 0;
}

/* The kernel's records of births are there as soon as a thread is. */
static int read_births(struct collector *collector)
{
	return samples_read(&collector->samples, clock_ticks(collector->clock),
			    &collector->last_pair, collector->ticks_per_second);
}

/*
 * Events of the new period on all threads that there are. Whoever was born meanwhile may have them
 * twice: then it was in vain. 1: done, 0: in vain, or a negative errno.
 */
static int try_period(struct collector *collector, uint64_t period_ns)
{
	struct samples *samples = &collector->samples;
	auto_free pid_t *pids = NULL;
	uint64_t n_births;
	size_t n_pids;
	int r = read_births(collector);

	n_births = samples->n_births;
	r = r ?: list_processes(collector, &pids, &n_pids);
	r = r ?: samples_begin_period(samples, period_ns, pids, n_pids);
	if (r < 0)
		return r;
	bool is_alone = read_births(collector) == 0 && samples->n_births == n_births;
	r = samples_end_period(samples, is_alone);
	return r < 0 ? r : is_alone;
}

static const char *why_no_rate(const struct collector *collector, int err)
{
	if (collector->options->budget)
		return "--budget chooses the rate: set budget";
	switch (-err) {
	case ENODEV:
		return "no source that samples by time is open";
	case EOPNOTSUPP:
		return "this source keeps its period: only that of `clock' can be changed, where "
		       "it was begun with --freq, and not attached";
	case ENODATA:
		return "without records of threads (source tasks) those that are born meanwhile "
		       "cannot be told";
	case EMFILE:
		return "the recorder may not open as many files as that takes (ulimit -n)";
	default:
		return strerror(-err);
	}
}

static int set_rate(struct collector *collector, uint64_t period_ns, struct outcome *outcome)
{
	uint64_t limit_hz = pmu_max_sample_rate();
	int r = collector->options->budget ? -EBUSY : 0;

	if (r == 0 && limit_hz && NS_PER_SECOND / period_ns > limit_hz)
		return text_refuse(-EINVAL, outcome->why, sizeof(outcome->why),
				   "at most %" PRIu64
				   " samples a second (kernel.perf_event_max_sample_rate)",
				   limit_hz);
	for (int i = 0; r == 0 && i < RATE_TRIES; i++)
		r = try_period(collector, period_ns);
	if (r < 0)
		return refuse(outcome, why_no_rate(collector, r));
	return r == 1 ? 0
		      : refuse(outcome, "threads are born all the time, and each must be sampled "
					"once: try again");
}

static uint64_t period_now(const struct collector *collector)
{
	return samples_period_now(&collector->samples);
}

static int set_freq(struct collector *collector, const char *value, struct outcome *outcome)
{
	uint64_t hz, before = period_now(collector);

	if (parse_number(value, &hz) < 0 || hz < 1 || hz > MOST_HZ)
		return refuse(outcome, "it is no number of Hz between 1 and 100000");
	if (before)
		snprintf(outcome->before, sizeof(outcome->before), "%" PRIu64,
			 (NS_PER_SECOND + before / 2) / before);
	return set_rate(collector, NS_PER_SECOND / hz, outcome);
}

static int set_period(struct collector *collector, const char *value, struct outcome *outcome)
{
	uint64_t ns;

	if (parse_number(value, &ns) < 0 || ns < LEAST_PERIOD_NS || ns > MOST_PERIOD_NS)
		return refuse(outcome, "it is no number of ns between 10000 and 60000000000");
	snprintf(outcome->before, sizeof(outcome->before), "%" PRIu64, period_now(collector));
	return set_rate(collector, ns, outcome);
}

/* ---- The others ---- */

static int set_budget(struct collector *collector, const char *value, struct outcome *outcome)
{
	uint32_t *rate_ppm = &collector->samples.rate.budget_ppm;
	uint32_t *picks_ppm = &collector->picks.budget_ppm;
	uint32_t ppm, before = *rate_ppm ? *rate_ppm : *picks_ppm;

	if (before == 0)
		return refuse(outcome,
			      "the recording was begun without --budget: neither costs nor "
			      "longer periods are there");
	if (collector->touches.is_on)
		return refuse(outcome, "that of --source pages was shared out when it began");
	if (samples_rate_parse_budget(value, &ppm) < 0)
		return refuse(outcome, "it is not a part such as 2% or 0.5% (at most 50%)");
	snprintf(outcome->before, sizeof(outcome->before), "%g%%", before / 1e4);
	if (*rate_ppm)
		*rate_ppm = ppm;
	if (*picks_ppm)
		*picks_ppm = ppm;
	return 0;
}

static int set_sample_bytes(struct collector *collector, const char *value, struct outcome *outcome)
{
	uint64_t first = collector->options->sample_bytes, bytes;
	uint32_t shift = 0;

	if (first == 0)
		return refuse(outcome, "the recording was begun without --sample-bytes: programs "
				       "record each block");
	if (collector->picks.budget_ppm)
		return refuse(outcome, "--budget chooses the interval: set budget");
	if (parse_size(value, &bytes) < 0)
		return refuse(outcome, "it is no size such as 512K");
	while (shift < MOST_SHIFT && first << shift < bytes)
		shift++;
	if (first << shift != bytes || bytes > RING_MAX_SAMPLE_BYTES)
		return refuse(outcome, "it must be what the recording began with, or 2, 4, 8 ... "
				       "times that, at most 4G");
	snprintf(outcome->before, sizeof(outcome->before), "%" PRIu64,
		 first << collector->picks.shift);
	collector->picks.shift = shift;
	collector->picks.n_changes++;
	atomic_store(&collector->pool->control->sample_shift, shift);
	return 0;
}

static int set_pages(struct collector *collector, const char *value, struct outcome *outcome)
{
	const struct run_options with = { .pages = value };
	int64_t ns = collector_pages_interval(&with);

	if (collector->pages_ns == INT64_MAX)
		return refuse(outcome, "the recording was begun with --pages off");
	if (collector->touches.is_on)
		return refuse(outcome, "the intervals of --source pages have their length");
	if (ns < 0 || ns == INT64_MAX)
		return refuse(outcome, "it is no time of 10ms or more, such as 100ms");
	if (collector->pages_ns)
		snprintf(outcome->before, sizeof(outcome->before), "%gms",
			 (double)collector->pages_ns / 1e6);
	else
		snprintf(outcome->before, sizeof(outcome->before), "at peaks and ends");
	collector->pages_ns = ns;
	collector->next_pages_ns = collector->now_ns;
	return 0;
}

static int set_cooldown(struct collector *collector, const char *value, struct outcome *outcome)
{
	struct collector_triggers *own = &collector->triggers;
	uint64_t ns = trigger_time_ns(value);

	if (own->list.n == 0)
		return refuse(outcome, "the recording was begun without a --trigger");
	if (ns == 0)
		return refuse(outcome, "it is no time of a second or more, such as 60s");
	snprintf(outcome->before, sizeof(outcome->before), "%gs", (double)own->cooldown_ns / 1e9);
	own->cooldown_ns = ns;
	return 0;
}

/* Another bound for the first condition of its kind; it may fire at once. */
static int set_trigger(struct collector *collector, const char *value, struct outcome *outcome)
{
	const char *const texts[] = { value, NULL };
	struct triggers *list = &collector->triggers.list;
	struct triggers wanted;
	struct trigger *found = NULL;
	int err = triggers_read(texts, &wanted, outcome->why);

	if (err < 0)
		return err;
	for (size_t i = 0; i < list->n && !found; i++)
		if (list->items[i].kind == wanted.items[0].kind)
			found = &list->items[i];
	if (!found)
		return refuse(outcome, "the recording was begun without a --trigger of this kind");
	if (trigger_is_of_end(found))
		return refuse(outcome, "it has no bound");
	snprintf(outcome->before, sizeof(outcome->before), "%s", found->text);
	*found = wanted.items[0];
	return 0;
}

static int set_recorder_threads(struct collector *collector, const char *value,
				struct outcome *outcome)
{
	uint64_t n;

	if (parse_number(value, &n) < 0 || n > DRAIN_MOST_LANES)
		return refuse(outcome, "it is no number up to 16 (0: as CPUs are idle)");
	snprintf(outcome->before, sizeof(outcome->before), "%u", collector->n_lanes);
	collector->lanes_wanted = (unsigned)n;
	collector_use_lanes(collector);
	return 0;
}

#define PROGRAMS "programs took it over when they started"
#define SOURCES	 "the sources were opened with it"
#define HANDS	 "`memsight ctl' pauses and resumes by hand"
#define TRACE	 "the trace is being written there"
#define POOL	 "programs have mapped the buffers as they are"

static const struct setting {
	const char *key; /* as the option is called */
	int (*set)(struct collector *collector, const char *value, struct outcome *outcome);
	const char *why_not;
} settings[] = {
	{ "freq", set_freq, NULL },
	{ "period", set_period, NULL },
	{ "budget", set_budget, NULL },
	{ "sample-bytes", set_sample_bytes, NULL },
	{ "pages", set_pages, NULL },
	{ "recorder-threads", set_recorder_threads, NULL },
	{ "trigger", set_trigger, NULL },
	{ "cooldown", set_cooldown, NULL },
	{ "on-trigger", NULL, "conditions can be changed, what is done then cannot" },
	{ "events", NULL, PROGRAMS },
	{ "min-size", NULL, PROGRAMS },
	{ "stacks", NULL, PROGRAMS },
	{ "stack-depth", NULL, PROGRAMS },
	{ "dump-signal", NULL, PROGRAMS },
	{ "heap", NULL, PROGRAMS },
	{ "api", NULL, PROGRAMS },
	{ "source", NULL, SOURCES },
	{ "count", NULL, SOURCES },
	{ "sample-stacks", NULL, SOURCES },
	{ "ldlat", NULL, SOURCES },
	{ "load-event", NULL, SOURCES },
	{ "store-event", NULL, SOURCES },
	{ "private", NULL, SOURCES },
	{ "counters", NULL, "events are counted over all of the run" },
	{ "watch", NULL, "debug registers are armed when a program starts" },
	{ "watch-hot", NULL, "debug registers are armed when a program starts" },
	{ "windows", NULL, HANDS },
	{ "start-after", NULL, HANDS },
	{ "last", NULL, "what was cut off does not come back" },
	{ "max-size", NULL, "near the end of it segments have become small already" },
	{ "live-totals", NULL, "they count from the start of a recording" },
	{ "old-after", NULL, "live totals count by it from the start" },
	{ "buffer-size", NULL, POOL },
	{ "buffers", NULL, POOL },
	{ "output", NULL, TRACE },
	{ "dir", NULL, TRACE },
};
#define N_SETTINGS (sizeof(settings) / sizeof(settings[0]))

static const struct setting *find(const char *key, struct outcome *outcome)
{
	struct parse_nearest nearest = { .word = key };

	for (size_t i = 0; i < N_SETTINGS; i++) {
		if (strcmp(settings[i].key, key) == 0)
			return &settings[i];
		parse_nearest_offer(&nearest, settings[i].key);
	}
	if (nearest.name)
		snprintf(outcome->why, sizeof(outcome->why),
			 "there is no such setting; is %s meant?", nearest.name);
	else
		snprintf(outcome->why, sizeof(outcome->why),
			 "there is no such setting: freq, period, budget, sample-bytes, pages, "
			 "recorder-threads, trigger and cooldown can be changed");
	return NULL;
}

void collector_set(struct collector *collector, const char *text, struct control_reply *answer)
{
	struct outcome outcome = { .why = "" };
	char key[32];
	size_t n_key = strcspn(text, "=");
	int err = -EINVAL;

	snprintf(key, sizeof(key), "%.*s", (int)n_key, text);
	const struct setting *setting = find(key, &outcome);
	if (setting && !setting->set)
		refuse(&outcome, setting->why_not);
	else if (setting)
		err = setting->set(collector, text + n_key + (text[n_key] == '='), &outcome);
	answer->error = err;
	if (err < 0)
		snprintf(answer->message, sizeof(answer->message), "set %.100s: %s", text,
			 outcome.why);
	else
		snprintf(answer->message, sizeof(answer->message), "%.100s (was %s)", text,
			 outcome.before);
}
