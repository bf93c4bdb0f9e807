/* The pool in shared memory that a run collects from, as large as limits let it be. */
#include "runner/run-internal.h"

#include <errno.h>

#include "runner/attach/attach.h"
#include "runner/launch/memory-limit.h"

#define CALIBRATION_NS	     UINT64_C(1000000)
#define MEMORY_LIMIT_DIVISOR 8

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
	       (options->api_marks ? RING_FLAG_API_MARKS : 0) |
	       (options->usdt ? RING_FLAG_USDT : 0) |
	       (options->functions && options->functions->are_steered ? RING_FLAG_STEERED : 0) |
	       (collector_pages_interval(options) == INT64_MAX ? 0 : RING_FLAG_LEAVE);
}

/*
 * Limits of address space or of file size, as which shared memory counts: with less of it. Tracing
 * may fail, the program may not.
 */
static int make_small_pool(struct run *run, struct pool_config *config)
{
	const uint64_t smallest = POOL_MIN_CHUNKS * RING_CHUNK_BYTES;

	config->extra_chunks = 0;
	int err = pool_init(&run->pool, config);
	if (err != -EFBIG)
		return err;
	while (err == -EFBIG && config->buffer_bytes > smallest) {
		config->buffer_bytes /= 2;
		err = pool_init(&run->pool, config);
	}
	if (err == 0)
		run_say(run,
			"--buffer-size is smaller than asked for: the file size limit (ulimit -f) "
			"allows no more");
	if (err != -EFBIG)
		return err;
	run_say(run, "allocations are not recorded: the file size limit "
		     "(ulimit -f) is below the smallest --buffer-size");
	run->options_now.no_alloc = true;
	config->is_private = true;
	config->buffer_bytes = 0;
	return pool_init(&run->pool, config);
}

/* What of the pool is ever written counts towards the memory limit of the control group. */
static void fit_memory_limit(const struct run *run, struct pool_config *config)
{
	uint64_t most = run_memory_limit(0) / MEMORY_LIMIT_DIVISOR;

	if (most == 0 || config->buffer_bytes <= most || config->dir || config->is_private)
		return;
	config->buffer_bytes = most;
	run_say(run, "--buffer-size is made an eighth of the memory limit of the control group");
}

int run_pool_make(struct run *run)
{
	enum ring_clock clock = clock_choose();
	struct pool_config config = {
		.buffer_bytes = run->options->buffer_bytes,
		.events = run->options->events ? run->options->events : RING_EVENTS_ALL,
		.flags = ring_flags(run->options),
		.min_bytes = run->options->min_bytes,
		.sample_bytes = run->options->sample_bytes,
		.max_frames = run->options->max_frames,
		.dir = run->placement.buffers_dir[0] ? run->placement.buffers_dir : NULL,
		.mode = run->placement.buffers.mode,
		.nodes = run->placement.buffers.mask,
		.stacks = run->options->stacks,
		.clock = clock,
		.extra_chunks = run->options->no_alloc ? 0 : POOL_EXTRA_CHUNKS,
		.is_private = run->options->no_alloc,
		.n_trips = run->options->functions && run->options->functions->trips_only
				   ? (uint32_t)run->options->functions->n
				   : 0,
	};

	run->first_pair = clock_pair_read(clock);
	int err = recording_init(&run->recording);
	if (err < 0)
		return run_fail(run, err,
				"cannot make a folder for the recording in XDG_RUNTIME_DIR, "
				"TMPDIR or /tmp%s",
				err == -EPERM ? ", where others could replace it; set TMPDIR to a "
						"folder of your own"
					      : "");
	calibrate(run, clock);
	config.ticks_per_ms = run->ticks_per_second / 1000;
	fit_memory_limit(run, &config);
	err = pool_init(&run->pool, &config);
	if (err == -EFBIG || err == -ENOMEM)
		err = make_small_pool(run, &config);
	if (err == 0)
		run->pool.control->recorder = attach_recorder();
	return err < 0 ? run_fail(run, err, "cannot make the shared memory of --buffer-size%s",
				  run->placement.buffers_kind[0] ? " as --buffers wants it" : "")
		       : 0;
}
