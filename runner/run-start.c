/* From the command that waits at its gate to one that runs and is collected. */
#include "runner/processes/image-proc.h"
#include "runner/run-internal.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/collect-words.h"
#include "runner/agent/inject.h"
#include "runner/host/host-facts.h"
#include "runner/trace-records-write.h"

/* ---- What the trace says of the run ---- */

static size_t command_bytes(char *const *command)
{
	size_t n = 0;

	for (; *command; command++)
		n += strlen(*command) + 1;
	return n;
}

/* Arguments separated by NUL. NULL: no memory. */
static char *join_command(char *const *command, size_t *ret_bytes)
{
	char *joined = malloc(command_bytes(command) + 1);
	size_t n = 0;

	for (; joined && *command; command++) {
		memcpy(joined + n, *command, strlen(*command) + 1);
		n += strlen(*command) + 1;
	}
	*ret_bytes = n > 0 ? n - 1 : 0;
	return joined;
}

static int store_run(struct trace_writer *writer, const struct run_options *options)
{
	const char *slash = strrchr(options->command[0], '/');
	const char *file = slash ? slash + 1 : options->command[0];
	const char *program = options->program ? options->program : file;
	const char *mode = options->mode ? options->mode : "default";
	char directory[PATH_MAX] = "";
	size_t n_bytes = 0;
	auto_free char *command = join_command(options->command, &n_bytes);

	if (!command)
		return -ENOMEM;
	if (!getcwd(directory, sizeof(directory)))
		directory[0] = '\0';
	struct trace_run record = {
		.head.type = TRACE_RECORD_RUN,
		.start_unix_ns = clock_ns(CLOCK_REALTIME),
		.repetition = options->repetition ? options->repetition : 1,
	};
	return trace_writer_add(writer, &record, trace_text(program), trace_text(mode),
				trace_bytes(command, n_bytes), trace_text(directory));
}

static int store_run_fact(void *context, const char *key, const char *value)
{
	struct run *run = context;

	return store_fact(run->writer, key, value, run->first_pair.ticks, false);
}

/* What is recorded, and what becomes of it. */
static int store_options(struct run *run)
{
	const struct run_options *options = run->options;
	static const char *const stacks[] = {
		[RING_STACKS_NONE] = "none", [RING_STACKS_FP] = "fp", [RING_STACKS_DWARF] = "dwarf"
	};
	char events[COLLECT_TEXT_BYTES];
	const struct run_fact texts[] = {
		{ "version", MEMSIGHT_VERSION },
		{ "stacks", stacks[options->stacks] },
		{ "alloc", options->no_alloc ? "no" : "yes" },
		{ "follow", options->no_follow ? "no" : "yes" },
		{ "private", options->private_samples ? "yes" : "no" },
		{ "natural", options->is_natural ? "yes" : "no" },
		{ "events", events },
		{ "sink", options->null_sink ? "null" : "trace" },
		{ "api", options->api_marks ? "marks" : "obey" },
	};
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "min_bytes", options->min_bytes },
		{ "sample_bytes", options->sample_bytes },
		{ "buffer_bytes", options->buffer_bytes },
		{ "stack_depth", options->max_frames ? options->max_frames : RING_MAX_FRAMES },
	};
	char key[64], digits[24];
	int err = 0;

	collect_format(options->events ? options->events : RING_EVENTS_ALL, events);
	for (size_t i = 0; err == 0 && i < sizeof(texts) / sizeof(texts[0]); i++) {
		snprintf(key, sizeof(key), "memsight.%s", texts[i].key);
		err = store_run_fact(run, key, texts[i].value);
	}
	for (size_t i = 0; err == 0 && i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		snprintf(key, sizeof(key), "memsight.%s", numbers[i].key);
		snprintf(digits, sizeof(digits), "%" PRIu64, numbers[i].value);
		err = store_run_fact(run, key, digits);
	}
	return err;
}

/*
 * Write what a trace begins with: the RUN record, the facts of the host and of the options, the
 * first pair of clocks. Returns 0 or a negative errno.
 */
static int run_records_begin(struct run *run)
{
	const struct run_options *options = run->options;
	int err = store_run(run->writer, options);

	err = err ?: store_clock(run->writer, &run->first_pair);
	err = err ?: run_facts(store_run_fact, run);
	err = err ?: store_options(run);
	for (size_t i = 0; i < options->n_facts && err == 0; i++)
		err = store_run_fact(run, options->facts[i].key, options->facts[i].value);
	return err;
}

#define COLLECTOR_NICE	  (-10)
#define COLLECTOR_TURN_NS 100000u /* the least that the kernel gives */

/* The hard one: launch_prepare() has raised the soft one to it. 0: none. */
static uint64_t file_limit(const struct run *run)
{
	rlim_t limit = run->state.file_bytes.rlim_max;

	return limit == RLIM_INFINITY ? 0 : limit;
}

/* --strict: something that was asked for cannot be had. */
static int refuse_strictly(struct run *run)
{
	const struct samples *samples = &run->collector.samples;

	run->summary->exit_status = 2;
	run_fail(run, 0, "--strict: %s",
		 samples->refusal[0] ? samples->refusal : samples->given_up);
	return -EPERM;
}

/* sched_attr(2), its first version: C libraries do not have it, or have it twice. */
struct turns {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns;
	uint64_t deadline_ns;
	uint64_t period_ns;
};

/*
 * Who asks for short turns is let in soon after it wakes, whatever else runs (6.12 and newer;
 * measured there: 0.6 ms late instead of 2.7, beside six busy programs on two CPUs). Nobody has to
 * allow it.
 */
static void ask_for_short_turns(void)
{
	struct turns turns = { .size = sizeof(turns) };

	if (syscall(SYS_sched_getattr, 0, &turns, sizeof(turns), 0) < 0 ||
	    turns.policy != SCHED_OTHER)
		return;
	turns.runtime_ns = COLLECTOR_TURN_NS;
	syscall(SYS_sched_setattr, 0, &turns, 0);
}

static int prepare_collector(struct run *run)
{
	struct collector *collector = &run->collector;

	collector->options = run->options;
	collector->observer = run->observer;
	collector->pool = &run->pool;
	collector->recording = &run->recording;
	collector->helper = &run->helper;
	collector->output = &run->output;
	collector->writer = run->writer;
	collector->program = run->program;
	collector->command_pid = run->launch.pid;
	collector->attached = run->attached;
	collector->n_attached = run->n_attached;
	/* One that waits behind busy programs for 10 ms loses events. Root may put it first. */
	setpriority(PRIO_PROCESS, 0, COLLECTOR_NICE);
	ask_for_short_turns();
	collector_limit_room(collector, file_limit(run));
	return collector_init(collector, &run->first_pair, run->ticks_per_second, run->signal_fd);
}

static int open_sources(struct run *run)
{
	struct collector *collector = &run->collector;
	int err = tracker_add_command(&collector->tracker, run->launch.pid, run->program);

	for (size_t i = 1; err == 0 && i < run->n_attached; i++)
		err = tracker_add_command(&collector->tracker, run->attached[i].order.pid,
					  run->attached[i].program);
	err = err ?: samples_open(&collector->samples, run->options, run->launch.pid);
	if (err == 0)
		err = run->options->n_attach
			      ? pmu_counters_attach(run->options->counters,
						    run->options->attach_pids,
						    run->options->n_attach, &collector->counters)
			      : pmu_counters_open(run->options->counters, run->launch.pid,
						  &collector->counters);
	return err;
}

/* Whenever the recorder is killed, its file tells of what run it is. */
static int store_facts(struct run *run)
{
	int err = run_records_begin(run);

	err = err ?: placement_facts(&run->placement, run->options, store_run_fact, run);
	err = err ?: samples_facts(&run->collector.samples, run->options, store_run_fact, run);
	return err == 0 ? collector_commit(&run->collector) : err;
}

static void begin_watches(struct run *run)
{
	struct collector *collector = &run->collector;

	collector->samples.watches = &collector->watches;
	run->pool.control->signal_period_ns = samples_signal_period(&collector->samples);
	watches_open(&collector->watches, samples_watch_stream(&collector->samples));
	collector_begin_touches(collector);
	samples_watch(&collector->samples, collector->epoll_fd, UINT64_C(3) << 32);
}

int run_collector_start(struct run *run)
{
	struct collector *collector = &run->collector;
	int err = prepare_collector(run) ?: open_sources(run) ?: store_facts(run);

	if (err == -EPERM && run->options->is_strict)
		return refuse_strictly(run);
	if (err < 0)
		return run_fail(run, err, "cannot start to record");
	begin_watches(run);
	collector_begin_control(collector);
	collector_begin_dump(collector);
	collector_begin_last(collector);
	if (run->output.left_behind[0])
		collector_warn(collector, "%s is what a killed recording left; it can be analysed",
			       run->output.left_behind);
	if (collector->samples.refusal[0])
		collector_warn(collector, "%s", collector->samples.refusal);
	if (collector->samples.given_up[0])
		collector_warn(collector, "%s", collector->samples.given_up);
	return 0;
}

/* "allocations", or which events of them: without those of the heap it would promise too much. */
static void name_events(const struct run_options *options, char text[COLLECT_TEXT_BYTES])
{
	text[0] = '\0';
	if (options->no_alloc)
		return;
	if (!options->events || options->events & RING_EVENTS_HEAP)
		snprintf(text, COLLECT_TEXT_BYTES, "allocations");
	else
		collect_format(options->events, text);
}

/* At samples of other sources nothing of ours runs in the program. */
static void check_plugins(struct run *run)
{
	const char *why = run->options->n_attach
				  ? "not asked at samples: a process that is attached to has no "
				    "--source signal"
				  : "not asked at samples: only --source signal has a handler in "
				    "the program; it goes with others, as faults,signal";
	const struct store_loss loss = { .count = 1, .source = "plug-ins", .reason = why };

	if (!run->at_samples[0] || samples_signal_period(&run->collector.samples) ||
	    !samples_has(&run->collector.samples, ACCESS_ROLE_ACCESS))
		return; /* or there are no samples */
	collector_warn(&run->collector, "plug-ins (%s) are %s", run->at_samples, why);
	store_loss(run->collector.writer, &loss);
}

static void tell_start(struct run *run)
{
	check_plugins(run);
	char sources[512], events[COLLECT_TEXT_BYTES];
	const char *slash = strrchr(run->options->command[0], '/');
	struct run_start start = {
		.pid = run->launch.pid,
		.program = slash ? slash + 1 : run->options->command[0],
		.n_more = run->n_attached > 1 ? run->n_attached - 1 : 0,
		.output = run->output.path,
		.sources = sources,
	};
	const char *sampled = run->collector.samples.sources;
	const char *passed = run->collector.samples.passed;

	name_events(run->options, events);
	snprintf(sources, sizeof(sources), "%s%s%s%s%s%s", events,
		 events[0] && sampled[0] ? " + " : "", sampled, passed[0] ? " (" : "", passed,
		 passed[0] ? ")" : "");
	if (run->observer && run->observer->started)
		run->observer->started(run->observer->user, &start);
}

/* CPUs and policy as the program has them now, beside what was asked for. */
static void check_binding(struct run *run)
{
	const struct placement_binding *binding = &run->placement.binding;
	char cpus[PLACEMENT_LIST_BYTES], policy[PLACEMENT_LIST_BYTES];

	if (!binding->has_cpus && binding->policy.mode == 0)
		return;
	if (!placement_check(binding, run->launch.pid, cpus, policy, sizeof(cpus)))
		collector_warn(&run->collector,
			       "the program is not bound as asked for: CPUs %.200s, memory %.200s",
			       cpus, policy);
	if (cpus[0])
		store_run_fact(run, "memsight.cpus_found", cpus);
	if (policy[0])
		store_run_fact(run, "memsight.policy_found", policy);
}

static const char *why_refused(void)
{
	int scope = image_ptrace_scope();

	if (scope >= 3)
		return "kernel.yama.ptrace_scope is 3 until the machine starts anew";
	if (scope == 2 && geteuid() != 0)
		return "kernel.yama.ptrace_scope is 2: `sysctl kernel.yama.ptrace_scope=1' as root "
		       "permits it";
	return "a container or a security module forbids it; `--cap-add=SYS_PTRACE' of docker and "
	       "podman permits it";
}

/* Of the command, which is linked statically. */
static void say_static(struct run *run, const char *what, const char *why, const char *hint)
{
	char line[PATH_MAX + 2 * INJECT_MESSAGE_BYTES];

	snprintf(line, sizeof(line),
		 "%s is linked statically: its allocations are not recorded (%s%s%s%s)",
		 run->options->command[0], what, why, hint[0] ? ": " : "", hint);
	run_say(run, line);
	run_say_without_code(run);
}

/* Into one that is linked statically our library cannot be loaded: the agent is put there. */
static int go(struct run *run)
{
	struct side_process tracer = SIDE_PROCESS_CLOSED;
	struct inject_news news;
	int r = run->is_static ? helper_trace(&run->agent_order, run->launch.pid, &tracer) : 0;

	if (tracer.pid > 0)
		r = launch_allow(&run->launch, tracer.pid) ?: helper_traces(&tracer);
	int err = launch_open(&run->launch);
	if (tracer.pid > 0 && helper_hear(&tracer, true, &news)) {
		say_static(run, "", news.why, "");
		tracker_note_static(&run->collector.tracker, news.name, news.why);
	}
	side_process_finish(&tracer);
	if (r < 0)
		say_static(run, "ptrace is refused, ", strerror(-r), why_refused());
	return err == 0 ? launch_wait(&run->launch) : err;
}

int run_command_start(struct run *run)
{
	int err;

	if (run->options->n_attach) {
		err = run_attach_start(run);
		if (err == 0)
			tell_start(run);
		return err;
	}
	collector_mark_begin(&run->collector);
	err = go(run);
	if (err < 0) {
		waitpid(run->launch.pid, NULL, 0);
		run->summary->exit_status = launch_exit_status(err);
		return run_fail_command(run, err);
	}
	tracker_command_started(&run->collector.tracker);
	check_binding(run);
	tell_start(run);
	return 0;
}
