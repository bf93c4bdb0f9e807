/* A run of processes that are there already: entered instead of started, left instead of ended. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "pmu/choice.h"
#include "runner/launch/library.h"
#include "runner/processes/image-proc.h"
#include "runner/run-internal.h"
#include "runner/trace-records-write.h"

static int refuse(struct run *run, int err, const char *message)
{
	run_fail(run, 0, "%s", message);
	return err;
}

/* What is asked for must be possible, before anything is made. */
static int check_options(struct run *run)
{
	const struct run_options *options = run->options;
	char message[PMU_CHOICE_MESSAGE_BYTES];
	struct pmu_choice choice;

	if (options->source && pmu_choice_parse(options->source, &choice, message) == 0 &&
	    pmu_choice_has(&choice, "signal"))
		return refuse(run, -EINVAL,
			      "--source signal: its timers begin with a thread, so a process that "
			      "is attached to cannot have it; --source clock");
	run->options_now.wait_child = true;
	run->options_now.no_follow = !options->attach_children;
	return 0;
}

/* Before it is looked at: who stands there then must be the same. */
static int find_one(struct run *run, struct attached *attached)
{
	pid_t pid = attached->order.pid;
	char message[ATTACH_MESSAGE_BYTES];

	attached->order.started = attach_started(pid);
	int err = attach_check(pid, message);
	if (err < 0)
		return refuse(run, err, message);
	if (!image_read_link(pid, "exe", attached->program, sizeof(attached->program)))
		return run_fail(run, -errno, "cannot read what process %d runs", (int)pid);
	return 0;
}

int run_attach_find(struct run *run)
{
	size_t n = run->options->n_attach;
	int err = check_options(run);

	run->attached = calloc(n, sizeof(*run->attached));
	if (!run->attached)
		return run_fail(run, -ENOMEM, "cannot attach");
	run->n_attached = n;
	for (size_t i = 0; i < n; i++)
		run->attached[i].attacher = ATTACHER_CLOSED;
	for (size_t i = 0; err == 0 && i < n; i++) {
		run->attached[i].order.pid = run->options->attach_pids[i];
		err = find_one(run, &run->attached[i]);
	}
	if (err < 0)
		return err;
	memcpy(run->program, run->attached[0].program, sizeof(run->program));
	run->attached_command[0] = run->program;
	run->options_now.command = run->attached_command;
	return 0;
}

static int prepare_one(struct run *run, struct attached *attached)
{
	const struct run_options *options = run->options;
	struct attach_order *order = &attached->order;

	/* Where that fails it may find the socket by its path; if not, that is said. */
	recording_listen_for(&run->recording, order->pid);
	order->library = run->library;
	order->socket = run->recording.socket_path;
	/* Of picked blocks only the ends are known: those from before would never end. */
	order->wants_blocks =
		!options->sample_bytes && (!options->events || options->events & RING_EVENTS_HEAP);
	order->wants_contents = order->wants_blocks && !options->no_guess;
	order->has_plugins = run->load[0] != '\0';
	order->timeout_ns =
		options->attach_timeout_ns ? options->attach_timeout_ns : ATTACH_TIMEOUT_NS;
	int err = attacher_start(order, &attached->attacher);
	return err < 0 ? run_fail(run, err, "cannot start a process") : 0;
}

int run_attach_prepare(struct run *run)
{
	pid_t pid = run->options->attach_pids[0];
	int err = library_find(run->options->library, run->library, sizeof(run->library));

	if (err < 0)
		return run_fail(run, err, "%s is neither beside memsight nor installed",
				RECORDING_LIBRARY);
	run->launch.pid = pid;
	run->launch.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (run->launch.pidfd < 0)
		return run_fail(run, -errno, "there is no process %d", (int)pid);
	for (size_t i = 0; err == 0 && i < run->n_attached; i++)
		err = prepare_one(run, &run->attached[i]);
	return err;
}

void run_attach_finish(struct run *run)
{
	array_free(run->attached, run->n_attached, it, side_process_finish(&it->attacher.process));
	run->attached = NULL;
	run->n_attached = 0;
}

static int store_number(struct run *run, const char *key, uint64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	return store_fact(run->writer, key, text, run->first_pair.ticks, false);
}

/* Those that were there, before the first event; and a loss where they are not known. */
static void store_blocks(struct run *run, pid_t pid, const struct attach_outcome *outcome)
{
	struct tracker *tracker = &run->collector.tracker;
	size_t n_bytes = outcome->n_blocks * sizeof(struct heap_block);
	auto_close int fd = outcome->blocks_fd;
	const struct heap_block *blocks = MAP_FAILED;

	if (fd >= 0)
		blocks = mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (blocks != MAP_FAILED) {
		tracker_store_before(tracker, pid, blocks, outcome->n_blocks);
		munmap((void *)blocks, n_bytes);
		run->summary->n_before += outcome->n_blocks;
	} else if (fd >= 0) {
		tracker_lose_before(tracker, pid, "no memory for them");
	}
	if (outcome->blocks_why[0])
		tracker_lose_before(tracker, pid, outcome->blocks_why);
}

/* What entering took, of all together; the longest time that one stood. */
struct entering {
	uint64_t n_blocks;
	uint64_t walk_ns;
	uint64_t stood_ns;
	uint64_t n_threads;
	uint64_t n_slots;
	uint64_t n_entries;
	uint64_t n_functions;
};

static int enter_one(struct run *run, struct attached *attached, struct entering *entering)
{
	struct collector *collector = &run->collector;
	struct attach_outcome outcome = { .error = -EPIPE, .blocks_fd = -1 };

	tracker_attached(&collector->tracker, attached->order.pid);
	int err = attacher_enter(&attached->attacher);
	err = err ?: collector_run_until(collector, attached->attacher.process.fd);
	err = err ?: attacher_take(&attached->attacher, &outcome);
	if (err == 0 && outcome.error < 0) {
		run_fail(run, 0, "%s", outcome.message);
		return outcome.error;
	}
	if (err < 0)
		return run_fail(run, err, "cannot attach to process %d", (int)attached->order.pid);
	store_blocks(run, attached->order.pid, &outcome);
	if (outcome.entries_why[0])
		tracker_lose_pointers(&collector->tracker, attached->order.pid,
				      outcome.entries_why);
	tracker_lose_functions(&collector->tracker, attached->order.pid, outcome.n_functions_lost);
	entering->n_functions += outcome.n_functions;
	entering->n_blocks += outcome.n_blocks;
	entering->walk_ns += outcome.walk_ns;
	entering->n_threads += outcome.n_threads;
	entering->n_slots += outcome.n_slots;
	entering->n_entries += outcome.n_entries;
	if (outcome.stood_ns > entering->stood_ns)
		entering->stood_ns = outcome.stood_ns;
	attached->is_in = true;
	return 0;
}

/* What is loaded already comes with no record of perf's: watches are armed before it runs on. */
static void watch_map(void *user, const struct image_map *map)
{
	struct run *run = user;
	const struct image *image = images_find(&run->collector.tracker.images, run->watched_pid);
	const struct pmu_map as_record = {
		.address = map->start,
		.size = map->end - map->start,
		.file_offset = map->file_offset,
		.prot = map->prot,
		.path = map->path,
	};

	if (image)
		watches_map(&run->collector.watches, image, &as_record);
}

/* All or nothing. Events are read meanwhile: nobody who is being left may wait for room. */
static void leave_entered(struct run *run)
{
	struct attach_outcome outcome;

	for (size_t i = 0; i < run->n_attached; i++) {
		struct attacher *attacher = &run->attached[i].attacher;

		if (run->attached[i].is_in && attacher_leave(attacher) == 0 &&
		    collector_run_until(&run->collector, attacher->process.fd) == 0 &&
		    attacher_take(attacher, &outcome) == 0)
			cleanup_close(&outcome.blocks_fd);
	}
}

int run_attach_start(struct run *run)
{
	struct collector *collector = &run->collector;
	struct entering entering = { 0 };

	collector_mark_begin(collector);
	int err = samples_begin(&collector->samples, true);
	for (size_t i = 0; err == 0 && i < run->n_attached; i++)
		err = enter_one(run, &run->attached[i], &entering);
	if (err == 0 && (err = samples_begin(&collector->samples, false)) < 0)
		run_fail(run, err, "cannot begin to sample");
	if (err < 0) {
		leave_entered(run);
		return err;
	}
	for (size_t i = 0; watches_wanted(&collector->watches) && i < run->n_attached; i++) {
		run->watched_pid = run->attached[i].order.pid;
		image_each_map(run->watched_pid, watch_map, run);
	}
	pmu_counters_begin(&collector->counters);
	if (run->options->duration_ns)
		collector->leave_ns = collector->command_begin_ns + run->options->duration_ns;
	store_number(run, "memsight.attach.blocks", entering.n_blocks);
	store_number(run, "memsight.attach.walk_ns", entering.walk_ns);
	store_number(run, "memsight.attach.stood_ns", entering.stood_ns);
	store_number(run, "memsight.attach.threads", entering.n_threads);
	store_number(run, "memsight.attach.places", entering.n_slots);
	store_number(run, "memsight.attach.entries", entering.n_entries);
	store_number(run, "memsight.attach.functions", entering.n_functions);
	return collector_watch_attachers(collector);
}
