#include "runner/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "runner/host/plugins.h"
#include "runner/run-command.h"
#include "runner/run-internal.h"

static void finish(struct run *run)
{
	collector_finish(&run->collector);
	run->writer = trace_writer_close(run->writer);
	if (!run->summary->has_trace && !run->keeps_partial)
		output_remove(&run->output);
	output_finish(&run->output);
	run_attach_finish(run);
	launch_finish(&run->launch);
	side_process_finish(&run->helper);
	pool_finish(&run->pool);
	recording_finish(&run->recording);
	environment_free(run->envp);
	cleanup_close(&run->signal_fd);
	if (run->has_state)
		launch_restore(&run->state);
}

static int find_command(struct run *run)
{
	const char *name = run->options->command ? run->options->command[0] : NULL;

	if (run->options->n_attach)
		return run_attach_find(run);
	int err = run_command_find(name, run->program);

	if (err == 0)
		return 0;
	run->summary->exit_status = launch_exit_status(err);
	return run_fail_command(run, err);
}

static int find_watches(struct run *run)
{
	struct watches *watches = &run->collector.watches;
	int err = watches_init(watches, run->options->watches, run->summary->problem,
			       sizeof(run->summary->problem));

	if (err < 0 || !run->options->watch_hot)
		return err;
	err = watches_init_hot(watches);
	return err < 0 ? run_fail(run, err, "--watch-hot") : 0;
}

/* What was asked for of kinds, nodes and CPUs is found out before anything starts. */
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

static int note_component(void *user, const struct plugin_component *component)
{
	struct run *run = user;
	size_t n = strlen(run->at_samples);

	if (component->is_chosen && component->where[0])
		snprintf(run->at_samples + n, sizeof(run->at_samples) - n, "%s%s", n ? ", " : "",
			 component->name);
	return 0;
}

/* Plug-ins are tried, too. */
static int find_plugins(struct run *run)
{
	return plugins_prepare(run->options, run->load, note_component, run, run->summary->problem);
}

static int prepare_signals(struct run *run)
{
	sigset_t signals;

	/*
	 * All of them are the program's: whatever somebody sends to us, or the kernel for a timer
	 * that was set before us. Those of a fault of our own end us though they are blocked.
	 */
	sigfillset(&signals);
	int err = launch_prepare(&signals, &run->state);
	if (err < 0)
		return run_fail(run, err, "cannot prepare the process");
	run->has_state = true;
	run->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return run->signal_fd < 0 ? run_fail(run, -errno, "cannot make a signalfd") : 0;
}

/* What programs are, where they end, and what they map: without it nothing of that is known. */
static int check_proc(struct run *run)
{
	if (access("/proc/self/stat", R_OK) == 0)
		return 0;
	return run_fail(
		run, -errno,
		"/proc is not mounted or cannot be read, and recording needs it (mount -t proc "
		"proc /proc)");
}

/* The command, which may see another name than the one it is found by. */
static int launch_command(struct run *run)
{
	char *const *command = run->options->command;
	size_t n = 0;

	while (command[n])
		n++;
	auto_free char **argv = calloc(n + 1, sizeof(*argv));
	if (!argv)
		return -ENOMEM;
	memcpy(argv, command, n * sizeof(*argv));
	if (run->options->argv0)
		argv[0] = (char *)(uintptr_t)run->options->argv0;
	return launch_fork(command[0], argv, run->envp, &run->state, &run->launch);
}

static int launch(struct run *run)
{
	if (run->options->n_attach)
		return run_attach_prepare(run);
	run_agent_find(run);
	int err = run_environment_make(run);
	run->state.binding = &run->placement.binding;
	err = err ?: launch_command(run);
	if (err < 0)
		return run_fail(run, err, "cannot start a process");
	run_agent_start(run);
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
	summary->exit_status = run->options->n_attach ? 0 : 128 + SIGINT;
	summary->has_left = collector->has_left;
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
	summary->n_cut_off = collector->last.n_dropped;
	summary->last_room_ns = collector->last.room_ns;
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

	int err = collector_run(collector);
	if (err < 0) {
		collector_stop(collector, strerror(-err));
		while (!collector->command_has_ended && !run->options->n_attach &&
		       wait4(run->launch.pid, &collector->wait_status, 0, &collector->usage) < 0 &&
		       errno == EINTR)
			continue;
	}
	int end_err = collector_end(collector);
	summarize(run);
	run->summary->collector_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	if (err < 0 || end_err < 0)
		run_fail(run, err < 0 ? err : end_err, "the trace ends early");
	else if (collector->stopped_ticks)
		run_fail(run, 0, "the trace ends early: %s", collector->stop_reason);
}

int run_check(const struct run_options *options, char *message, size_t n_bytes)
{
	struct triggers triggers;
	char triggers_message[TRIGGER_MESSAGE] = "";
	int err = collector_pages_interval(options) < 0 ? -EINVAL : 0;

	if (err < 0)
		snprintf(message, n_bytes,
			 "--pages: '%s' is neither `off' nor a time of 10ms or more, such as 100ms",
			 options->pages);
	else
		err = samples_check(options, message, n_bytes);
	err = err ?: collector_picks_check(options, message, n_bytes);
	err = err ?: collector_control_check(options, NULL, message, n_bytes);
	err = err ?: collector_triggers_check(options, &triggers, triggers_message);
	err = err ?: collector_dump_check(options, message, n_bytes);
	err = err ?: collector_last_check(options, message, n_bytes);
	if (err < 0 && triggers_message[0])
		snprintf(message, n_bytes, "%s", triggers_message);
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
		.helper = SIDE_PROCESS_CLOSED,
		.output = OUTPUT_CLOSED,
		.collector = { .epoll_fd = -1,
			       .pulse = PULSE_CLOSED,
			       .control.notify_fd = -1,
			       .last = { .fd = -1, .source_fd = -1 } },
		.signal_fd = -1,
	};

	run.options = &run.options_now;
	*ret_summary = (struct run_summary){ .exit_status = 1, .wait_status = -1 };
	int err = check_proc(&run) ?: find_command(&run);
	err = err ?: find_plugins(&run);
	err = err ?: prepare_signals(&run);
	err = err ?: find_placement(&run);
	err = err ?: find_watches(&run);
	err = err ?: run_pool_make(&run);
	if (err == 0)
		memcpy(run.pool.control->load, run.load, sizeof(run.load));
	err = err ?: run_libraries_find(&run);
	err = err ?: launch(&run);
	err = err ?: run_output_open(&run);
	err = err ?: run_output_check(&run);
	err = err ?: run_collector_start(&run);
	err = err ?: run_command_start(&run);
	if (err == 0) {
		collect(&run);
		run_output_name(&run);
		collector_end_commands(&run.collector);
	}
	finish(&run);
	return err;
}
