/*
 * What an event costs the recorder's threads: a pool full of chunks of several threads is drained
 * by 1, 2, ... threads in turns, into a trace that is written to memory. The programs' side is not
 * in the time, so what is seen is what the recorder could read where each of its threads has a CPU.
 *
 * bench-drain [THREADS [LANES [ROUNDS]]]: threads of the program (8), most lanes (2), rounds (9)
 *
 * Prints the least wall time of a drain by so many lanes in ns an event, and events a second.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "runner/ring/drain.h"
#include "tests/unit/runner/ring-writer.h"

#define N_CHUNKS	1024u /* the default pool */
#define MOST_THREADS	64u
#define TICKS_PER_MS	1000000u
#define EVENTS_OF_CHUNK ((RING_CHUNK_BYTES - 256) / RING_RECORD_BYTES)

static uint32_t on_start(void *user, void *image, const struct ring_thread_start *start)
{
	(void)image;
	(void)start;
	return ++*(uint32_t *)user;
}

static void no_end(void *user, void *image, uint32_t thread_id, uint64_t ticks)
{
	(void)user, (void)image, (void)thread_id, (void)ticks;
}

/* As many mallocs and frees as a chunk has room for, of blocks that lie apart. */
static void fill_chunk(struct ring_writer *thread, uint32_t i, uint64_t *ticks)
{
	ring_writer_take(thread, i);
	if (thread->sequence == 1)
		ring_writer_start(thread, *ticks, thread->serial + 1);
	for (unsigned n = 0; n < EVENTS_OF_CHUNK; n++) {
		uint64_t address = 0x7f0000000000 + (n * UINT64_C(7919) % 4096) * 64;

		*ticks += 40 + n % 13;
		ring_writer_event(thread, n % 2 ? TRACE_OP_FREE : TRACE_OP_ALLOC, *ticks, address,
				  n % 2 ? 0 : 16 + n % 512);
	}
	ring_writer_hand_over(thread);
}

struct recorder {
	struct pool pool;
	struct drain drain;
	struct trace_writer *writer;
	struct ring_writer threads[MOST_THREADS];
	unsigned n_threads;
	uint32_t n_started;
	uint64_t ticks;
};

static void begin(struct recorder *recorder, unsigned n_threads)
{
	const struct pool_config config = { .buffer_bytes = N_CHUNKS * (uint64_t)RING_CHUNK_BYTES,
					    .ticks_per_ms = TICKS_PER_MS };
	const struct trace_file_header header = { .ticks_per_second = TICKS_PER_MS * 1000 };
	const struct drain_handler handler = { .user = &recorder->n_started,
					       .thread_start = on_start,
					       .thread_end = no_end };

	if (pool_init(&recorder->pool, &config) < 0 ||
	    trace_writer_open(memfd_create("trace", 0), &header, &recorder->writer) < 0 ||
	    drain_init(&recorder->drain, &recorder->pool, recorder->writer, &handler,
		       TICKS_PER_MS) < 0)
		exit(1);
	drain_attach(&recorder->drain, 0, recorder);
	recorder->n_threads = n_threads;
	recorder->ticks = 1;
	for (unsigned i = 0; i < n_threads; i++)
		recorder->threads[i] = (struct ring_writer){ .pool = &recorder->pool, .serial = i };
}

/* Fill the pool, drain it; ns of an event. */
static double turn(struct recorder *recorder, unsigned n_lanes)
{
	const struct trace_commit commit = { .ticks = recorder->ticks };
	int64_t n = 1, n_slots = 0;

	for (uint32_t i = 0; i < N_CHUNKS; i++)
		fill_chunk(&recorder->threads[i % recorder->n_threads], i, &recorder->ticks);
	drain_use_lanes(&recorder->drain, n_lanes);
	uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
	while (n > 0) {
		drain_begin(&recorder->drain, recorder->ticks);
		n = drain_round(&recorder->drain, 128 * n_lanes);
		n_slots += n;
	}
	uint64_t ns = clock_ns(CLOCK_MONOTONIC) - begin_ns;
	if (trace_writer_commit(recorder->writer, &commit, NULL) < 0 || n < 0)
		exit(1);
	return (double)ns / (double)n_slots;
}

int main(int argc, char **argv)
{
	unsigned n_threads = argc > 1 ? (unsigned)atoi(argv[1]) : 8;
	unsigned most = argc > 2 ? (unsigned)atoi(argv[2]) : 2;
	int n_rounds = argc > 3 ? atoi(argv[3]) : 9;
	double least[DRAIN_MOST_LANES + 1];
	struct recorder recorder = { 0 };

	if (n_threads < 1 || n_threads > MOST_THREADS || most < 1 || most > DRAIN_MOST_LANES) {
		fprintf(stderr, "bench-drain: 1 to %u threads, 1 to %u lanes\n", MOST_THREADS,
			DRAIN_MOST_LANES);
		return 2;
	}
	begin(&recorder, n_threads);
	turn(&recorder, most); /* threads begin, memory is touched */
	for (unsigned i = 1; i <= most; i++)
		least[i] = 1e9;
	for (int k = 0; k < n_rounds; k++) {
		for (unsigned i = 1; i <= most; i++) {
			double ns = turn(&recorder, i);

			least[i] = ns < least[i] ? ns : least[i];
		}
	}
	for (unsigned i = 1; i <= most; i++)
		printf("%u threads, read by %u: %.1f ns an event, %.1f M events/s\n", n_threads, i,
		       least[i], 1e3 / least[i]);
	drain_finish(&recorder.drain);
	trace_writer_close(recorder.writer);
	pool_finish(&recorder.pool);
	return 0;
}
