#include "tests/support/make-trace/make-trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/support/make-trace/world.h"

#define MACHINE_X86_64 62

static int commit(struct world *world)
{
	struct trace_commit now = { world->ticks, world_raw_ns(world->ticks) };

	return trace_writer_commit(world->writer, &now, NULL);
}

/*
 * Clock records and commits as the collector makes them: each second, and when a segment is full.
 */
static int keep_up(struct world *world)
{
	bool is_due = world->ticks >= world->next_clock_ticks;

	if (!is_due && trace_writer_pending_bytes(world->writer) < TRACE_SEGMENT_BYTES)
		return 0;
	if (is_due) {
		int r = world_write_clock(world);
		if (r < 0)
			return r;
		world->next_clock_ticks += WORLD_TICKS_PER_SECOND;
	}
	return commit(world);
}

/* Events, with the samples spread evenly between them. */
static int run(struct world *world)
{
	uint64_t due = 0; /* samples times n_events */

	for (uint64_t i = 0; i < world->options.n_events; i++) {
		int r = world_step(world);
		for (due += world->options.n_samples; r == 0 && due >= world->options.n_events;
		     due -= world->options.n_events)
			r = world_sample(world);
		if (r == 0)
			r = keep_up(world);
		if (r < 0)
			return r;
	}
	return 0;
}

static int write_trace(struct world *world)
{
	int r = world_write_start(world);

	if (r == 0)
		r = run(world);
	world->ticks += 1000;
	if (r == 0)
		r = world_write_end(world);
	if (r < 0)
		return r;

	struct trace_commit last = { world->ticks, world_raw_ns(world->ticks) };
	world->truth->end_ns = world_run_ns(world->ticks);
	return trace_writer_finish(world->writer, &last);
}

static int open_writer(int fd, const struct make_trace_options *options,
		       struct trace_writer **ret_writer)
{
	struct trace_file_header header = { .machine = MACHINE_X86_64,
					    .ticks_per_second = WORLD_NOMINAL_TICKS,
					    .start_ticks = WORLD_START_TICKS };

	memcpy(header.recording_id, "make-trace", 8);
	memcpy(header.recording_id + 8, &options->seed, 8);
	return trace_writer_open(fd, &header, ret_writer);
}

static bool are_good(const struct make_trace_options *options)
{
	return options->n_processes >= 1 && options->n_processes <= 10000 &&
	       options->n_threads >= 1 && options->n_threads <= 5000 && options->n_live >= 1 &&
	       options->n_live <= 100000000 && options->n_stacks >= 1 &&
	       options->n_stacks <= CALL_TREE_MAX_PATHS && options->kind >= 0 &&
	       options->kind < MAKE_TRACE_KIND_COUNT;
}

int make_trace(int fd, const struct make_trace_options *options,
	       struct make_trace_truth **ret_truth)
{
	auto_close int owned = fd;
	struct trace_writer *writer;
	struct world world;

	if (!are_good(options))
		return -EINVAL;
	int r = open_writer(steal_fd(&owned), options, &writer);
	if (r < 0)
		return r;

	r = world_init(&world, options);
	world.writer = writer;
	if (r == 0)
		r = write_trace(&world);
	if (r == 0 && ret_truth)
		*ret_truth = steal_ptr(&world.truth);
	trace_writer_close(writer);
	world_finish(&world);
	return r;
}
