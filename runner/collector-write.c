/* What goes into the trace besides events: segments, limits, memory of processes, the end. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runner/collector.h"
#include "runner/host/host-facts.h"
#include "runner/trace-records-write.h"

#define NS_PER_SECOND UINT64_C(1000000000)

static struct trace_commit commit_at(const struct collector *collector, uint64_t ticks)
{
	return (struct trace_commit){
		.ticks = ticks,
		.raw_ns = clock_pair_raw_ns(&collector->last_pair, collector->ticks_per_second,
					    ticks),
	};
}

void collector_stop(struct collector *collector, const char *reason)
{
	if (collector->stopped_ticks)
		return;
	collector->stopped_ticks = clock_ticks(collector->clock);
	snprintf(collector->stop_reason, sizeof(collector->stop_reason), "%s", reason);
	pool_end(collector->pool, RING_STOPPED);
	tracker_stop(&collector->tracker, collector->stopped_ticks);
	trace_writer_hold(collector->writer, 0);
	collector->retry_ns = 0;
	collector->drain.is_muted = true;
	samples_mute(&collector->samples);
	collector_warn(collector, "recording to %s has stopped: %s; the program goes on",
		       collector->output->path, reason);
}

int collector_commit(struct collector *collector)
{
	struct trace_commit commit;
	int err;

	/* Events of a segment are put in time by lines that end in it, and not by a guess. */
	collector->last_pair = clock_pair_read(collector->clock);
	store_clock(collector->writer, &collector->last_pair);
	commit = commit_at(collector, drain_safe_ticks(&collector->drain));
	err = trace_writer_commit(collector->writer, &commit, NULL);

	collector->committed_ticks = commit.ticks;
	collector_look_at_room(collector);
	switch (-err) {
	case 0:
		collector->retry_ns = 0;
		collector->retry_wait_ns = 0;
		return 0;
	case EAGAIN:
		collector_wait_for_room(collector);
		return 0;
	case ENOSPC:
		collector_stop(collector, "the disk is full: no space left on device");
		return 0;
	case EDQUOT:
		collector_stop(collector, "the quota of the disk is used up");
		return 0;
	case EFBIG:
		collector_stop(collector, collector->most_reason);
		return 0;
	case EIO:
		collector_stop(collector, "the disk reports an error");
		return 0;
	default:
		return err;
	}
}

static void sample_process(struct collector *collector, struct image *image)
{
	struct run_node_bytes nodes[RUN_MAX_NODES];
	struct trace_process_sample sample = { 0 };
	struct trace_string pairs = { .bytes = nodes };

	if (run_process_sample(&image->sampler, &sample, nodes, RUN_MAX_NODES) < 0)
		return;
	sample.head.type = TRACE_RECORD_PROCESS_SAMPLE;
	sample.ticks = clock_ticks(collector->clock);
	sample.process_id = image->id;
	pairs.n_bytes = sample.node_bytes;
	trace_writer_record(collector->writer, &sample, sizeof(sample), &pairs, 1);
}

void collector_sample_processes(struct collector *collector)
{
	if (collector->stopped_ticks)
		return;
	for (struct image *image = collector->tracker.images.first; image; image = image->next) {
		if (image->is_written) /* a sample in front of its PROCESS record means nothing */
			sample_process(collector, image);
	}
}

static uint64_t timeval_ns(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * NS_PER_SECOND + (uint64_t)time->tv_usec * 1000;
}

static uint64_t own_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static void store_exit(struct collector *collector, uint64_t ticks)
{
	const struct rusage *usage = &collector->usage;
	struct trace_exit record = {
		.head.type = TRACE_RECORD_EXIT,
		.ticks = ticks,
		.status = collector->wait_status,
		.user_ns = timeval_ns(&usage->ru_utime),
		.system_ns = timeval_ns(&usage->ru_stime),
		.max_rss_bytes = (uint64_t)usage->ru_maxrss * 1024,
		.minor_faults = (uint64_t)usage->ru_minflt,
		.major_faults = (uint64_t)usage->ru_majflt,
		.collector_cpu_ns = own_cpu_ns(),
	};

	trace_writer_record(collector->writer, &record, sizeof(record), NULL, 0);
	/* The run's own times begin before its recorder was ready. */
	if (collector->command_end_ns)
		store_counter(collector->writer, 0, "wall clock", "ns",
			      collector_wall_ns(collector));
}

/* What was counted; of what could not be, a fact says why. */
static void store_counts(struct collector *collector, uint64_t ticks)
{
	for (size_t i = 0; i < collector->counters.n; i++) {
		const struct pmu_counter *counter = &collector->counters.counters[i];
		char key[PMU_COUNTER_NAME_BYTES + 16], why[512];
		struct pmu_count count;

		snprintf(key, sizeof(key), "counter.%s", counter->name);
		snprintf(why, sizeof(why), "not supported here: %s%s%s", counter->refusal.why,
			 counter->refusal.fix[0] ? "; " : "", counter->refusal.fix);
		if (pmu_counter_read(counter, &count) == 0)
			store_count(collector->writer, counter, &count);
		else
			store_fact(collector->writer, key, why, ticks, true);
	}
}

struct fact_writer {
	struct trace_writer *writer;
	uint64_t ticks;
};

static int write_end_fact(void *context, const char *key, const char *value)
{
	struct fact_writer *to = context;

	return store_fact(to->writer, key, value, to->ticks, true);
}

/* Losses of the whole run. */
static void store_losses(struct collector *collector, uint64_t ticks)
{
	const struct trace_writer_totals *totals = trace_writer_totals(collector->writer);
	struct store_loss stopped = {
		.count = collector->stopped_ticks ? 1 : 0,
		.from_ticks = collector->stopped_ticks,
		.to_ticks = ticks,
		.source = "collector",
		.reason = collector->stop_reason,
	};
	struct store_loss dropped = {
		.count = totals->n_dropped_events + totals->n_dropped_samples,
		.source = "collector",
		.reason = "could not be written",
	};

	store_loss(collector->writer, &stopped);
	store_loss(collector->writer, &dropped);
	collector->n_dropped = dropped.count;
	collector->tracker.n_losses += samples_store_losses(&collector->samples) + dropped.count;
}

int collector_end(struct collector *collector)
{
	struct fact_writer facts = { .writer = collector->writer };
	struct trace_commit commit;
	uint64_t ticks;

	if (collector->tracker.images.n_live > 0) {
		/* Somebody runs on: let hooks that are under way finish what they have reserved. */
		struct timespec moment = { .tv_nsec = 2000000 };

		pool_end(collector->pool, RING_ENDED);
		nanosleep(&moment, NULL);
	}
	collector_round(collector);
	ticks = clock_ticks(collector->clock);
	watches_end(&collector->watches, ticks);
	tracker_finish(&collector->tracker, ticks);
	/* The last events: what of them has no room is counted below. */
	trace_writer_hold(collector->writer, 0);
	if (collector->tracker.n_signal_stops)
		collector_warn(
			collector,
			"--source signal: a program uses the signal SIGRTMAX-3 itself; it was "
			"not sampled from there on");
	collector_commit(collector);
	facts.ticks = ticks;
	run_facts(write_end_fact, &facts);
	collector->last_pair = clock_pair_read(collector->clock);
	store_clock(collector->writer, &collector->last_pair);
	store_losses(collector, ticks);
	store_counts(collector, ticks);
	store_exit(collector, ticks);
	commit = commit_at(collector, collector->last_pair.ticks);
	return trace_writer_finish(collector->writer, &commit);
}
