#include "runner/run.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/collect-words.h"
#include "common/program-file.h"
#include "runner/collector.h"
#include "runner/environment.h"
#include "runner/image-proc.h"
#include "runner/launch.h"
#include "runner/library.h"
#include "runner/memory-limit.h"
#include "runner/placement.h"
#include "runner/store.h"
#include "runner/run-records.h"
#include "runner/run-command.h"
#include "schemas/recording.h"

#define NS_PER_SECOND	     UINT64_C(1000000000)
#define CALIBRATION_NS	     UINT64_C(1000000)
#define COLLECTOR_NICE	     (-10)
#define MEMORY_LIMIT_DIVISOR 8

/* Everything that a run holds, so that one destructor ends it from any state. */
struct run {
	struct run_options options_now; /* as they can be followed here */
	const struct run_options *options;
	const struct run_observer *observer;
	struct run_summary *summary;
	struct recording recording;
	struct pool pool;
	struct launch launch;
	struct launch_state state;
	bool has_state;
	struct output output;
	struct collector collector;
	struct trace_writer *writer;
	char **envp;
	int signal_fd;
	struct clock_pair first_pair;
	uint64_t ticks_per_second;
	char program[PATH_MAX]; /* where PATH leads to */
	char library[2 * PATH_MAX]; /* for LD_PRELOAD: with the heap's two, parted by ':' */
	struct placement placement;
	bool keeps_partial;
};

static void finish(struct run *run)
{
	collector_finish(&run->collector);
	run->writer = trace_writer_close(run->writer);
	if (!run->summary->has_trace && !run->keeps_partial)
		output_remove(&run->output);
	output_finish(&run->output);
	launch_finish(&run->launch);
	pool_finish(&run->pool);
	recording_finish(&run->recording);
	environment_free(run->envp);
	cleanup_close(&run->signal_fd);
	if (run->has_state)
		launch_restore(&run->state);
}

/* Put the one line for a person together; returns err. */
__attribute__((format(printf, 3, 4))) static int fail(struct run *run, int err, const char *format,
						      ...)
{
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(run->summary->problem, sizeof(run->summary->problem), format, arguments);
	va_end(arguments);
	if (n >= 0 && (size_t)n < sizeof(run->summary->problem) && err < 0)
		snprintf(run->summary->problem + n, sizeof(run->summary->problem) - (size_t)n,
			 ": %s", strerror(-err));
	return err;
}

static void say(const struct run *run, const char *line)
{
	if (run->observer && run->observer->warn)
		run->observer->warn(run->observer->user, line);
}

static int find_command(struct run *run)
{
	const char *name = run->options->command[0];
	int err = run_command_find(name, run->program);

	if (err == 0)
		return 0;
	run->summary->exit_status = launch_exit_status(err);
	return fail(run, err, "cannot run '%s'", name);
}

/* Append the library at path to what is preloaded. */
static int preload(struct run *run, const char *path)
{
	size_t n = strlen(run->library);
	int err;

	if (n > 0)
		run->library[n++] = ':';
	err = library_preload_name(path, run->recording.folder, run->library + n,
				   sizeof(run->library) - n);
	return err < 0 ? fail(run, err, "cannot name %s for the loader", path) : 0;
}

static int find_library(struct run *run)
{
	char path[PATH_MAX];
	int err;

	if (run->options->no_alloc)
		return 0;
	err = library_find(run->options->library, path, sizeof(path));
	if (err < 0)
		return fail(run, err, "%s is neither beside memsight nor installed",
			    RECORDING_LIBRARY);
	err = preload(run, path);
	if (err < 0 || !run->placement.kind[0])
		return err;
	err = library_find_beside(RECORDING_HEAP_LIBRARY, path, sizeof(path));
	if (err < 0)
		return fail(run, err,
			    "--heap: %s is neither beside memsight nor installed (it is built "
			    "where libmemkind and libnuma are)",
			    RECORDING_HEAP_LIBRARY);
	return preload(run, path);
}

/* What was asked for of kinds, nodes and CPUs is found out before anything starts. */
static int find_watches(struct run *run)
{
	struct watches *watches = &run->collector.watches;
	int err = watches_init(watches, run->options->watches, run->summary->problem,
			       sizeof(run->summary->problem));

	if (err < 0 || !run->options->watch_hot)
		return err;
	err = watches_init_hot(watches);
	return err < 0 ? fail(run, err, "--watch-hot") : 0;
}

static int find_placement(struct run *run)
{
	uint64_t *buffer_bytes = &run->options_now.buffer_bytes;
	int err = placement_find(run->options, &run->placement, run->summary->problem,
				 sizeof(run->summary->problem));

	if (*buffer_bytes == 0)
		*buffer_bytes = run->placement.buffers_bytes;
	if (*buffer_bytes == 0)
		*buffer_bytes = RUN_DEFAULT_BUFFER_BYTES;
	return err;
}

/* What an administrator tells a service with, too: nginx ends by QUIT, PostgreSQL by INT. */
static const int taken_signals[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH };

static int prepare_signals(struct run *run)
{
	sigset_t signals;
	int err;

	sigemptyset(&signals);
	for (size_t i = 0; i < sizeof(taken_signals) / sizeof(taken_signals[0]); i++)
		sigaddset(&signals, taken_signals[i]);
	err = launch_prepare(&signals, &run->state);
	if (err < 0)
		return fail(run, err, "cannot prepare the process");
	run->has_state = true;
	run->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return run->signal_fd < 0 ? fail(run, -errno, "cannot make a signalfd") : 0;
}

/* The nominal rate: only bounds depend on it, CLOCK records are exact. */
static void calibrate(struct run *run, enum ring_clock clock)
{
	struct clock_pair pair;

	do {
		pair = clock_pair_read(clock);
	} while (pair.raw_ns - run->first_pair.raw_ns < CALIBRATION_NS);
	run->ticks_per_second = clock_pair_rate(&run->first_pair, &pair);
	run->first_pair = pair;
}

static uint32_t ring_flags(const struct run_options *options)
{
	return (options->no_follow ? 0 : RING_FLAG_FOLLOW) |
	       (options->null_sink ? RING_FLAG_NULL_SINK : 0) |
	       (options->api_marks ? RING_FLAG_API_MARKS : 0);
}

/*
 * Limits of address space or of file size, as which shared memory counts: with less of it. Tracing may
 * fail, the program may not.
 */
static int make_small_pool(struct run *run, struct pool_config *config)
{
	const uint64_t smallest = POOL_MIN_CHUNKS * RING_CHUNK_BYTES;
	int err;

	config->extra_chunks = 0;
	err = pool_init(&run->pool, config);
	if (err != -EFBIG)
		return err;
	while (err == -EFBIG && config->buffer_bytes > smallest) {
		config->buffer_bytes /= 2;
		err = pool_init(&run->pool, config);
	}
	if (err == 0)
		say(run, "--buffer-size is smaller than asked for: the file size limit (ulimit -f) "
			 "allows no more");
	if (err != -EFBIG)
		return err;
	say(run,
	    "allocations are not recorded: the file size limit (ulimit -f) is below the smallest "
	    "--buffer-size");
	run->options_now.no_alloc = true;
	config->is_private = true;
	config->buffer_bytes = 0;
	return pool_init(&run->pool, config);
}

/* What of the pool is ever written counts towards the memory limit of the control group. */
static void fit_memory_limit(const struct run *run, struct pool_config *config)
{
	uint64_t most = run_memory_limit() / MEMORY_LIMIT_DIVISOR;

	if (most == 0 || config->buffer_bytes <= most || config->dir || config->is_private)
		return;
	config->buffer_bytes = most;
	say(run, "--buffer-size is made an eighth of the memory limit of the control group");
}

static int make_pool(struct run *run)
{
	enum ring_clock clock = clock_choose();
	struct pool_config config = {
		.buffer_bytes = run->options->buffer_bytes,
		.events = run->options->events ? run->options->events : RING_EVENTS_ALL,
		.flags = ring_flags(run->options),
		.min_bytes = run->options->min_bytes,
		.max_frames = run->options->max_frames,
		.dir = run->placement.buffers_dir[0] ? run->placement.buffers_dir : NULL,
		.mode = run->placement.buffers.mode,
		.nodes = run->placement.buffers.mask,
		.stacks = run->options->stacks,
		.clock = clock,
		.extra_chunks = run->options->no_alloc ? 0 : POOL_EXTRA_CHUNKS,
		.is_private = run->options->no_alloc,
	};
	int err;

	run->first_pair = clock_pair_read(clock);
	err = recording_init(&run->recording);
	if (err < 0)
		return fail(run, err,
			    "cannot make a folder for the recording in XDG_RUNTIME_DIR, "
			    "TMPDIR or /tmp");
	calibrate(run, clock);
	config.ticks_per_ms = run->ticks_per_second / 1000;
	fit_memory_limit(run, &config);
	err = pool_init(&run->pool, &config);
	if (err == -EFBIG || err == -ENOMEM)
		err = make_small_pool(run, &config);
	return err < 0 ? fail(run, err, "cannot make the shared memory of --buffer-size%s",
			      run->placement.buffers_kind[0] ? " as --buffers wants it" : "")
		       : 0;
}

/* What a command is whose allocations cannot be recorded. */
static const char *const untraced_kinds[TRACE_NOT_COUNT] = {
	[TRACE_NOT_STATIC] = "is linked statically",
	[TRACE_NOT_SETUID] = "runs with more rights than we have (setuid)",
	[TRACE_NOT_32BIT] = "is a 32-bit program",
	[TRACE_NOT_SANITIZER] = "is built with a sanitizer, which has its own malloc",
};

/*
 * What to preload. NULL: nothing, since ld.so would complain on the program's standard error, or a
 * sanitizer would not run.
 */
static const char *choose_preload(struct run *run)
{
	int why_not = image_command_why_not(run->program);
	char line[PATH_MAX + 128];

	if (program_list_has_sanitizer(getenv(RECORDING_ENV_PRELOAD)))
		why_not = TRACE_NOT_SANITIZER;
	if (untraced_kinds[why_not]) {
		snprintf(line, sizeof(line), "%s %s: its allocations are not recorded",
			 run->options->command[0], untraced_kinds[why_not]);
		say(run, line);
	} else if (image_file_has_malloc(run->program)) {
		snprintf(line, sizeof(line),
			 "%s has a malloc of its own: blocks that it does not take from the C "
			 "library are not recorded",
			 run->options->command[0]);
		say(run, line);
	}
	return why_not == TRACE_NOT_32BIT || why_not == TRACE_NOT_SANITIZER ? NULL : run->library;
}

static int make_environment(struct run *run)
{
	auto_free char *placement = NULL;

	if (run->options->no_alloc)
		return environment_copy(environ, &run->envp);
	if (run->placement.kind[0]) {
		placement = placement_variable(&run->placement, run->options);
		if (!placement)
			return -ENOMEM;
	}
	return environment_make(environ, choose_preload(run), run->recording.socket_path, placement,
				&run->envp);
}

static int launch(struct run *run)
{
	int err = make_environment(run);

	run->state.binding = &run->placement.binding;
	if (err == 0)
		err = launch_fork(run->options->command, run->envp, &run->state, &run->launch);
	return err < 0 ? fail(run, err, "cannot start a process") : 0;
}

static int explain_output(struct run *run, int err)
{
	const char *path = run->output.path;

	switch (-err) {
	case EEXIST:
		return fail(run, err,
			    "%s is there already; --force overwrites it, -o names another", path);
	case EINVAL:
		return fail(run, 0, "the output '%s' has a %% that is none of %%e %%p %%r %%n %%%%",
			    run->options->output),
		       err;
	case ENOTSUP:
		return fail(run, 0, "%s is no regular file; -o names another", path), err;
	default:
		return fail(run, err, "cannot write %s (-o FILE or --dir DIR names another place)",
			    path[0] ? path : "the output");
	}
}

static int open_output(struct run *run)
{
	struct trace_file_header header = {
		.machine = EM_X86_64,
		.clock = (uint16_t)run->pool.control->clock,
		.ticks_per_second = run->ticks_per_second,
		.start_ticks = run->first_pair.ticks,
	};
	struct output_names names = {
		.pattern = run->options->output,
		.dir = run->options->dir,
		.program = run->options->command[0],
		.pid = run->launch.pid,
		.force = run->options->force,
	};
	int err = output_open(&names, &run->output);

	if (err < 0)
		return explain_output(run, err);
	if (getrandom(header.recording_id, sizeof(header.recording_id), 0) < 0)
		return fail(run, -errno, "cannot make a random number");
	err = trace_writer_open(steal_fd(&run->output.fd), &header, &run->writer);
	return err < 0 ? fail(run, err, "cannot write %s", run->output.partial) : 0;
}

static int check_disk(struct run *run)
{
	uint64_t free_bytes, total_bytes;

	if (output_disk(&run->output, &free_bytes, &total_bytes) < 0 ||
	    free_bytes >= total_bytes / 20)
		return 0;
	fail(run, 0, "less than 5 %% of the disk of %s are free; --dir names another",
	     run->output.path);
	return -ENOSPC;
}

/* The hard one: launch_prepare() has raised the soft one to it. 0: none. */
static uint64_t file_limit(const struct run *run)
{
	rlim_t limit = run->state.file_bytes.rlim_max;

	return limit == RLIM_INFINITY ? 0 : limit;
}

static int store_run_fact(void *context, const char *key, const char *value)
{
	struct run *run = context;

	return store_fact(run->writer, key, value, run->first_pair.ticks, false);
}

/* --strict: something that was asked for cannot be had. */
static int refuse_strictly(struct run *run)
{
	const struct samples *samples = &run->collector.samples;

	run->summary->exit_status = 2;
	fail(run, 0, "--strict: %s", samples->refusal[0] ? samples->refusal : samples->given_up);
	return -EPERM;
}

static int start_collector(struct run *run)
{
	struct collector *collector = &run->collector;
	int err;

	collector->options = run->options;
	collector->observer = run->observer;
	collector->pool = &run->pool;
	collector->recording = &run->recording;
	collector->output = &run->output;
	collector->writer = run->writer;
	collector->command_pid = run->launch.pid;
	/* One that waits behind busy programs for 10 ms loses events. Root may put it first. */
	setpriority(PRIO_PROCESS, 0, COLLECTOR_NICE);
	collector_limit_room(collector, file_limit(run));
	err = collector_init(collector, &run->first_pair, run->ticks_per_second, run->signal_fd);
	if (err == 0)
		err = tracker_add_command(&collector->tracker, run->launch.pid, run->program);
	if (err == 0)
		err = samples_open(&collector->samples, run->options, run->launch.pid);
	if (err == 0)
		err = pmu_counters_open(run->options->counters, run->launch.pid,
					&collector->counters);
	if (err == 0)
		err = run_records_begin(run->writer, run->options, &run->first_pair);
	if (err == 0)
		err = placement_facts(&run->placement, run->options, store_run_fact, run);
	if (err == 0)
		err = samples_facts(&collector->samples, run->options, store_run_fact, run);
	/* Whenever the recorder is killed, its file tells of what run it is. */
	if (err == 0)
		err = collector_commit(collector);
	if (err == -EPERM && run->options->is_strict)
		return refuse_strictly(run);
	if (err < 0)
		return fail(run, err, "cannot start to record");
	collector->samples.watches = &collector->watches;
	run->pool.control->signal_period_ns = samples_signal_period(&collector->samples);
	watches_open(&collector->watches, samples_watch_stream(&collector->samples));
	samples_watch(&collector->samples, collector->epoll_fd, UINT64_C(3) << 32);
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

static void tell_start(struct run *run)
{
	char sources[512], events[COLLECT_TEXT_BYTES];
	const char *slash = strrchr(run->options->command[0], '/');
	struct run_start start = {
		.pid = run->launch.pid,
		.program = slash ? slash + 1 : run->options->command[0],
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

static int go(struct run *run)
{
	int err;

	collector_mark_begin(&run->collector);
	err = launch_go(&run->launch);
	if (err < 0) {
		waitpid(run->launch.pid, NULL, 0);
		run->summary->exit_status = launch_exit_status(err);
		return fail(run, err, "cannot run '%s'", run->options->command[0]);
	}
	tracker_command_started(&run->collector.tracker);
	check_binding(run);
	tell_start(run);
	return 0;
}

static void summarize(struct run *run)
{
	struct run_summary *summary = run->summary;
	struct collector *collector = &run->collector;
	struct tracker *tracker = &collector->tracker;
	const struct trace_writer_totals *totals = trace_writer_totals(run->writer);

	summary->wait_status = collector->wait_status;
	summary->was_let_go = collector->was_let_go;
	summary->exit_status = 128 + SIGINT;
	if (collector->wait_status >= 0)
		summary->exit_status = WIFSIGNALED(collector->wait_status)
					       ? 128 + WTERMSIG(collector->wait_status)
					       : WEXITSTATUS(collector->wait_status);
	summary->wall_ns = collector_wall_ns(collector);
	summary->n_events = totals->n_events - totals->n_dropped_events;
	summary->n_samples = samples_count(&collector->samples, ACCESS_ROLE_ACCESS);
	summary->n_faults = samples_count(&collector->samples, ACCESS_ROLE_FAULTS);
	summary->has_faults = samples_has(&collector->samples, ACCESS_ROLE_FAULTS);
	/* The trace's own end may have had no room either. */
	summary->n_losses = tracker->n_losses + totals->n_dropped_events +
			    totals->n_dropped_samples - collector->n_dropped;
	summary->n_below_min = tracker->n_below_min;
	summary->wait_ns = tracker->wait_ns;
	summary->file_bytes = trace_writer_file_bytes(run->writer);
	summary->n_processes = tracker->n_processes;
	summary->n_traced = tracker->n_traced;
	summary->n_threads = tracker->next_thread_id;
	memcpy(summary->n_why_not, tracker->n_why_not, sizeof(tracker->n_why_not));
	memcpy(summary->why_not_example, tracker->why_not_example,
	       sizeof(tracker->why_not_example));
}

/* From here on a trace exists: an error ends it early, and the program is still waited for. */
static void collect(struct run *run)
{
	struct collector *collector = &run->collector;
	struct timespec cpu;
	int err, end_err;

	err = collector_run(collector);
	if (err < 0) {
		collector_stop(collector, strerror(-err));
		while (!collector->command_has_ended &&
		       wait4(run->launch.pid, &collector->wait_status, 0, &collector->usage) < 0 &&
		       errno == EINTR)
			continue;
	}
	end_err = collector_end(collector);
	summarize(run);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	run->summary->collector_cpu_ns =
		(uint64_t)cpu.tv_sec * NS_PER_SECOND + (uint64_t)cpu.tv_nsec;
	if (err < 0 || end_err < 0)
		fail(run, err < 0 ? err : end_err, "the trace ends early");
	else if (collector->stopped_ticks)
		fail(run, 0, "the trace ends early: %s", collector->stop_reason);
}

static void name_output(struct run *run)
{
	int err;

	run->writer = trace_writer_close(run->writer);
	err = output_rename(&run->output);
	run->summary->has_trace = true;
	snprintf(run->summary->output, sizeof(run->summary->output), "%s",
		 err < 0 ? run->output.partial : run->output.path);
	if (err < 0)
		fail(run, err, "cannot name the trace %s", run->output.path);
	run->keeps_partial = err < 0;
}

int run_check(const struct run_options *options, char *message, size_t n_bytes)
{
	int err = samples_check(options, message, n_bytes);
	int n = err == 0 && options->counters ? snprintf(message, n_bytes, "--counters: ") : 0;

	return n > 0 ? pmu_counters_check(options->counters, message + n, n_bytes - (size_t)n)
		     : err;
}

int run_record(const struct run_options *options, const struct run_observer *observer,
	       struct run_summary *ret_summary)
{
	struct run run = {
		.options_now = *options,
		.observer = observer,
		.summary = ret_summary,
		.recording = RECORDING_CLOSED,
		.pool = POOL_CLOSED,
		.launch = LAUNCH_CLOSED,
		.output = OUTPUT_CLOSED,
		.collector = { .epoll_fd = -1, .pulse = PULSE_CLOSED },
		.signal_fd = -1,
	};
	int err;

	run.options = &run.options_now;
	*ret_summary = (struct run_summary){ .exit_status = 1, .wait_status = -1 };
	err = find_command(&run);
	if (err == 0)
		err = prepare_signals(&run);
	if (err == 0)
		err = find_placement(&run);
	if (err == 0)
		err = find_watches(&run);
	if (err == 0)
		err = make_pool(&run);
	if (err == 0)
		err = find_library(&run);
	if (err == 0)
		err = launch(&run);
	if (err == 0)
		err = open_output(&run);
	if (err == 0)
		err = check_disk(&run);
	if (err == 0)
		err = start_collector(&run);
	if (err == 0)
		err = go(&run);
	if (err == 0) {
		collect(&run);
		name_output(&run);
	}
	finish(&run);
	return err;
}
