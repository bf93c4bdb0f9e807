/* The end of a trace: what was counted, lost and used. */
#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "runner/collector.h"
#include "runner/host/host-facts.h"
#include "runner/trace-records-write.h"

#define NS_PER_SECOND UINT64_C(1000000000)

static uint64_t timeval_ns(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * NS_PER_SECOND + (uint64_t)time->tv_usec * 1000;
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
		.collector_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID),
	};

	trace_writer_add(collector->writer, &record);
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
	struct store_loss undefined = {
		.count = totals->n_dropped_definition_bytes,
		.source = "collector",
		.reason = "bytes of code and definitions that had no room in the trace",
	};

	store_loss(collector->writer, &stopped);
	store_loss(collector->writer, &dropped);
	store_loss(collector->writer, &undefined);
	collector->n_dropped = dropped.count;
	collector->tracker.n_losses += samples_store_losses(&collector->samples) + dropped.count;
}

int collector_end(struct collector *collector)
{
	struct fact_writer facts = { .writer = collector->writer };
	char room[32];

	if (collector->tracker.images.n_live > 0) {
		/* Somebody runs on: let hooks that are under way finish what they have reserved. */
		struct timespec moment = { .tv_nsec = 2000000 };

		pool_end(collector->pool, RING_ENDED);
		nanosleep(&moment, NULL);
	}
	collector_round(collector);
	samples_flush(&collector->samples);
	collector_end_triggers(collector);
	collector_end_dump(collector);
	collector_settle_snapshots(collector);
	collector_end_control(collector);
	collector_end_picks(collector);
	uint64_t ticks = clock_ticks(collector->clock);
	watches_end(&collector->watches, ticks);
	tracker_finish(&collector->tracker, ticks);
	collector_settle_last(collector);
	/* The last events: what of them has no room is counted below. */
	trace_writer_hold(collector->writer, 0, false);
	if (collector->tracker.n_signal_stops)
		collector_warn(
			collector,
			"--source signal: a program uses the signal SIGRTMAX-3 itself; it was "
			"not sampled from there on");
	if (collector->tracker.n_signal_hidden)
		collector_warn(collector,
			       "--source signal: a static program without names of functions was "
			       "not sampled, for where it sets signals is not known; --source "
			       "clock needs no names");
	if (collector->tracker.n_dump_hidden)
		collector_warn(collector,
			       "--dump-signal: a static program without names of functions has no "
			       "handler of ours, for it could meet that: the signal does what it "
			       "does without memsight; `memsight ctl snapshot' makes one");
	collector_commit(collector);
	collector_end_last(collector);
	facts.ticks = ticks;
	if (collector->last.room_ns) {
		snprintf(room, sizeof(room), "%.2f s", (double)collector->last.room_ns / 1e9);
		write_end_fact(&facts, TRACE_CUT_FACT_ROOM, room);
	}
	run_facts(write_end_fact, &facts);
	collector->last_pair = clock_pair_read(collector->clock);
	store_clock(collector->writer, &collector->last_pair);
	store_losses(collector, ticks);
	store_counts(collector, ticks);
	store_exit(collector, ticks);
	struct trace_commit commit = collector_commit_at(collector, collector->last_pair.ticks);
	int err = trace_writer_finish(collector->writer, &commit);

	collector_tell_growth(collector);
	return err;
}
