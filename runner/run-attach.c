/* A run of a process that is there already: entered instead of started, left instead of ended. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "runner/launch/library.h"
#include "runner/run-internal.h"
#include "runner/trace-records-write.h"

static int refuse(struct run *run, int err, const char *message)
{
	run_fail(run, 0, "%s", message);
	return err;
}

/* Others open one event on one thread, or need a start of the program. */
static bool are_possible(const char *sources)
{
	static const char *const possible[] = { "clock", "faults", "none" };

	for (const char *at = sources; *at; at += strcspn(at, ","), at += *at == ',') {
		size_t n = strcspn(at, ",@");
		bool is_one = false;

		for (size_t i = 0; i < sizeof(possible) / sizeof(*possible); i++)
			is_one |= strlen(possible[i]) == n && strncmp(possible[i], at, n) == 0;
		if (!is_one)
			return false;
	}
	return true;
}

/* What is asked for must be possible, before anything is made. */
static int check_options(struct run *run)
{
	const struct run_options *options = run->options;

	if (!options->source || strcmp(options->source, "auto") == 0)
		run->options_now.source = "clock,faults";
	else if (!are_possible(options->source))
		return refuse(run, -EINVAL,
			      "--source: a process that is attached to is sampled by clock and "
			      "faults only (or none)");
	run->options_now.wait_child = true;
	run->options_now.no_follow = !options->attach_children;
	return 0;
}

int run_attach_find(struct run *run)
{
	pid_t pid = run->options->attach_pid;
	char message[ATTACH_MESSAGE_BYTES], path[64];
	ssize_t n;
	int err = check_options(run);

	/* Before it is looked at: who stands there then must be the same. */
	run->order.started = attach_started(pid);
	if (err == 0 && (err = attach_check(pid, message)) < 0)
		refuse(run, err, message);
	if (err < 0)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, run->program, sizeof(run->program) - 1);
	if (n < 0)
		return run_fail(run, -errno, "cannot read what process %d runs", (int)pid);
	run->program[n] = '\0';
	run->attached_command[0] = run->program;
	run->options_now.command = run->attached_command;
	return 0;
}

int run_attach_prepare(struct run *run)
{
	pid_t pid = run->options->attach_pid;
	int err = library_find(run->options->library, run->library, sizeof(run->library));

	if (err < 0)
		return run_fail(run, err, "%s is neither beside memsight nor installed",
				RECORDING_LIBRARY);
	run->launch.pid = pid;
	run->launch.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (run->launch.pidfd < 0)
		return run_fail(run, -errno, "there is no process %d", (int)pid);
	/* Where that fails it may find the socket by its path; if not, that is said. */
	recording_listen_for(&run->recording, pid);
	run->order = (struct attach_order){
		.pid = pid,
		.started = run->order.started,
		.library = run->library,
		.socket = run->recording.socket_path,
		.wants_blocks = !run->options->events || run->options->events & RING_EVENTS_HEAP,
		.timeout_ns = run->options->attach_timeout_ns ? run->options->attach_timeout_ns
							      : ATTACH_TIMEOUT_NS,
	};
	err = attacher_start(&run->order, &run->attacher);
	return err < 0 ? run_fail(run, err, "cannot start a process") : 0;
}

static int store_number(struct run *run, const char *key, uint64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	return store_fact(run->writer, key, text, run->first_pair.ticks, false);
}

/* Those that were there, before the first event; and a loss where they are not known. */
static void store_blocks(struct run *run, const struct attach_outcome *outcome)
{
	struct tracker *tracker = &run->collector.tracker;
	size_t n_bytes = outcome->n_blocks * sizeof(struct heap_block);
	auto_close int fd = outcome->blocks_fd;
	const struct heap_block *blocks = MAP_FAILED;

	if (fd >= 0)
		blocks = mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (blocks != MAP_FAILED) {
		tracker_store_before(tracker, blocks, outcome->n_blocks);
		munmap((void *)blocks, n_bytes);
		run->summary->n_before = outcome->n_blocks;
	} else if (fd >= 0) {
		tracker_lose_before(tracker, "no memory for them");
	}
	if (outcome->blocks_why[0])
		tracker_lose_before(tracker, outcome->blocks_why);
	store_number(run, "memsight.attach.blocks", outcome->n_blocks);
	store_number(run, "memsight.attach.walk_ns", outcome->walk_ns);
}

int run_attach_start(struct run *run)
{
	struct collector *collector = &run->collector;
	struct attach_outcome outcome = { .error = -EPIPE };
	int err = attacher_enter(&run->attacher);

	collector_mark_begin(collector);
	tracker_command_attached(&collector->tracker);
	if (err == 0)
		err = samples_begin(&collector->samples, true);
	if (err == 0)
		err = collector_run_until(collector, run->attacher.fd);
	if (err == 0)
		err = attacher_take(&run->attacher, &outcome);
	if (err == 0 && outcome.error < 0) {
		run_fail(run, 0, "%s", outcome.message);
		return outcome.error;
	}
	if (err < 0)
		return run_fail(run, err, "cannot attach to process %d",
				(int)run->options->attach_pid);
	err = samples_begin(&collector->samples, false);
	if (err < 0)
		return run_fail(run, err, "cannot begin to sample process %d",
				(int)run->options->attach_pid);
	collector->attacher = &run->attacher;
	store_blocks(run, &outcome);
	store_number(run, "memsight.attach.stood_ns", outcome.stood_ns);
	store_number(run, "memsight.attach.threads", outcome.n_threads);
	store_number(run, "memsight.attach.places", outcome.n_slots);
	return collector_watch_attacher(collector);
}
