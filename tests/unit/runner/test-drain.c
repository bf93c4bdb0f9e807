/*
 * The drain: order of chains, the commit time, chunks given back, and programs that write nonsense.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runner/ring/drain.h"
#include "tests/unit/runner/ring-writer.h"
#include "tests/support/suite.h"
#include "trace/reader.h"

#define N_CHUNKS     16
#define TICKS_PER_MS 1000
#define ROUND	     (TICKS_PER_MS) /* ticks between two rounds */
#define START	     1000000

static struct pool pool;
static struct drain drain;
static struct trace_writer *writer;
static char path[64];
static uint64_t now;
static int image;

/* What the handler was told. */
static uint32_t n_threads, n_ends, n_modules, n_execs;
static char last_path[256];

static uint32_t on_start(void *user, void *of, const struct ring_thread_start *start)
{
	(void)user;
	(void)start;
	ck_assert_ptr_eq(of, &image);
	return ++n_threads;
}

static void on_end(void *user, void *of, uint32_t thread_id, uint64_t ticks)
{
	(void)user;
	(void)of;
	(void)ticks;
	ck_assert_uint_ge(thread_id, 1);
	n_ends++;
}

static void on_name(void *user, void *of, uint32_t tid, const char *name, uint64_t ticks)
{
	(void)user;
	(void)of;
	(void)ticks;
	snprintf(last_path, sizeof(last_path), "%u %s", tid, name);
}

static void on_module(void *user, void *of, const struct drain_module *module)
{
	(void)user;
	(void)of;
	snprintf(last_path, sizeof(last_path), "%.*s", module->head.path_bytes, module->path);
	n_modules++;
}

static void on_exec(void *user, void *of, const struct drain_exec *exec)
{
	(void)user;
	(void)of;
	snprintf(last_path, sizeof(last_path), "%.*s", (int)exec->n_bytes, exec->path);
	n_execs++;
}

static void on_text(void *user, void *of, uint64_t id, const char *text, size_t n_bytes)
{
	(void)user;
	(void)of;
	snprintf(last_path, sizeof(last_path), "%lx %.*s", (unsigned long)id, (int)n_bytes, text);
}

static void on_heap_range(void *user, void *of, const struct drain_heap_range *range)
{
	(void)user;
	(void)of;
	snprintf(last_path, sizeof(last_path), "%lx+%lx %.*s in %.*s%s",
		 (unsigned long)range->start, (unsigned long)range->size, range->kind_bytes,
		 range->kind, range->place_bytes, range->place, range->is_removed ? ", gone" : "");
}

static const struct drain_handler handler = {
	.thread_start = on_start,
	.thread_end = on_end,
	.thread_name = on_name,
	.module = on_module,
	.text = on_text,
	.heap_range = on_heap_range,
	.exec = on_exec,
};

static void setup(void)
{
	const struct pool_config config = { .buffer_bytes = N_CHUNKS * RING_CHUNK_BYTES,
					    .ticks_per_ms = TICKS_PER_MS };
	const struct trace_file_header header = { .ticks_per_second = TICKS_PER_MS * 1000,
						  .start_ticks = START };

	snprintf(path, sizeof(path), "/tmp/test-drain-XXXXXX");
	ck_assert_int_eq(pool_init(&pool, &config), 0);
	ck_assert_int_eq(trace_writer_open(mkstemp(path), &header, &writer), 0);
	ck_assert_int_eq(drain_init(&drain, &pool, writer, &handler, TICKS_PER_MS), 0);
	now = START;
	n_threads = n_ends = n_modules = n_execs = 0;
	drain_attach(&drain, 0, &image);
}

static void teardown(void)
{
	drain_finish(&drain);
	trace_writer_close(writer);
	pool_finish(&pool);
	unlink(path);
}

static int64_t round_of(uint32_t max_chunks)
{
	now += ROUND;
	drain_begin(&drain, now);
	return drain_round(&drain, max_chunks);
}

/* Finish the trace and give the addresses of its events, in order. Returns how many there are. */
static size_t read_back(uint64_t *addresses, size_t max)
{
	const struct trace_commit commit = { .ticks = now };
	struct trace_reader *reader;
	struct trace_item item;
	size_t n = 0;

	ck_assert_int_eq(trace_writer_finish(writer, &commit), 0);
	ck_assert_int_eq(trace_reader_open(path, &reader), 0);
	while (trace_reader_next(reader, &item) > 0) {
		for (size_t i = 0; item.type == TRACE_FRAME_EVENTS && i < item.n && n < max; i++)
			addresses[n++] = item.events[i].address;
	}
	ck_assert(trace_reader_damage(reader)->ended);
	trace_reader_close(reader);
	return n;
}

START_TEST(events_keep_their_order_over_chunks_in_any_place)
{
	static const uint32_t places[] = { 9, 2, 15, 0 };
	struct ring_writer thread = { .pool = &pool };
	uint64_t addresses[64];

	for (unsigned i = 0; i < 4; i++) {
		ring_writer_take(&thread, places[i]);
		for (unsigned k = 0; k < 10; k++)
			ring_writer_event(&thread, TRACE_OP_ALLOC, now, 1 + i * 10 + k, 8);
		if (i < 3)
			ring_writer_hand_over(&thread);
	}
	ck_assert_int_eq(round_of(100), 40);
	ck_assert_uint_eq(read_back(addresses, 64), 40);
	for (unsigned i = 0; i < 40; i++)
		ck_assert_uint_eq(addresses[i], i + 1);
	/* The full ones are free again and zero; the last is still the thread's. */
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(pool_chunk_state(&pool, places[i]),
				 i < 3 ? RING_CHUNK_FREE : RING_CHUNK_OWNED);
	ck_assert_mem_eq(&pool.chunks[9], &pool.chunks[1], RING_CHUNK_BYTES);
}
END_TEST

START_TEST(a_chunk_that_is_not_at_hand_yet_is_waited_for)
{
	struct ring_writer thread = { .pool = &pool };
	uint64_t addresses[8];

	/* The scan may come upon the second chunk of a thread before the first. */
	thread.sequence = 1;
	ring_writer_take(&thread, 3);
	ring_writer_event(&thread, TRACE_OP_ALLOC, now, 2, 8);
	ck_assert_int_eq(round_of(100), 0);
	thread.sequence = 0;
	ring_writer_take(&thread, 4);
	ring_writer_event(&thread, TRACE_OP_ALLOC, now, 1, 8);
	ring_writer_hand_over(&thread);
	ck_assert_int_eq(round_of(100), 2);
	ck_assert_uint_eq(read_back(addresses, 8), 2);
	ck_assert_uint_eq(addresses[0], 1);
}
END_TEST

START_TEST(the_commit_time_follows_when_nothing_is_under_way)
{
	struct ring_writer thread = { .pool = &pool };

	ring_writer_take(&thread, 0);
	ring_writer_event(&thread, TRACE_OP_ALLOC, now, 1, 8);
	for (int i = 0; i < 5; i++)
		round_of(100);
	/* Never this round's start: a store may still be in a store buffer. */
	ck_assert_uint_eq(drain_safe_ticks(&drain), now - ROUND);
}
END_TEST

START_TEST(a_call_under_way_holds_the_commit_time_back)
{
	struct ring_writer thread = { .pool = &pool }, other = { .pool = &pool, .serial = 1 };
	struct ring_record2 *record;
	uint64_t reserved_at, addresses[8];

	ring_writer_take(&thread, 0);
	ring_writer_take(&other, 1);
	for (int i = 0; i < 3; i++)
		round_of(100);
	record = ring_writer_reserve(&thread, 2);
	record->begin_ticks = reserved_at = now;
	for (int i = 0; i < 5; i++) {
		ring_writer_event(&other, TRACE_OP_ALLOC, now, 100, 8);
		ck_assert_int_eq(round_of(100), 1);
	}
	ck_assert_uint_le(drain_safe_ticks(&drain), reserved_at);
	record->base.ticks = now;
	record->base.address = 7;
	ring_writer_commit(record, RING_HEAD(TRACE_OP_REALLOC, TRACE_CALL_REALLOC, 2, 0));
	ck_assert_int_eq(round_of(100), 2);
	round_of(100);
	ck_assert_uint_gt(drain_safe_ticks(&drain), reserved_at);
	ck_assert_uint_eq(read_back(addresses, 8), 6);
	ck_assert_uint_eq(drain.slots[0].losses.n_restamped, 0);
}
END_TEST

/*
 * A parent forks, and again before its first child has claimed a slot; the second fork is stamped
 * behind the begin of the round that reads it. What the first child shares is known as of its fork.
 */
START_TEST(a_fork_under_way_holds_the_commit_time_back)
{
	_Atomic uint64_t *forks = pool.forks;
	uint64_t forked_at = now;

	atomic_store(&pool.control->forks_used, 2);
	atomic_store(&forks[1], forked_at);
	for (int i = 0; i < 5; i++) {
		atomic_store(&forks[0], now + ROUND + 1);
		ck_assert_int_eq(round_of(100), 0);
	}
	ck_assert_uint_le(drain_safe_ticks(&drain), forked_at);
	atomic_store(&forks[0], 0);
	round_of(100);
	ck_assert_uint_le(drain_safe_ticks(&drain), forked_at);
	/* A child that claims its slot behind the look at slots is found by the next round. */
	now += ROUND;
	drain_begin(&drain, now);
	atomic_store(&forks[1], 0);
	ck_assert_int_eq(drain_round(&drain, 100), 0);
	ck_assert_uint_le(drain_safe_ticks(&drain), forked_at);
	round_of(100);
	ck_assert_uint_gt(drain_safe_ticks(&drain), forked_at);
}
END_TEST

START_TEST(a_fork_that_gets_no_child_is_not_waited_for_for_ever)
{
	uint64_t forked_at = now;

	atomic_store(&pool.control->forks_used, UINT32_MAX);
	atomic_store(&pool.forks[RING_MAX_FORKS - 1], forked_at);
	for (unsigned i = 0; i < RING_FORK_MS - 2; i++)
		round_of(100);
	ck_assert_uint_le(drain_safe_ticks(&drain), forked_at);
	for (int i = 0; i < 5; i++)
		round_of(100);
	ck_assert_uint_gt(drain_safe_ticks(&drain), forked_at);
}
END_TEST

START_TEST(an_empty_record_is_stepped_over)
{
	struct ring_writer thread = { .pool = &pool };
	uint64_t addresses[8];

	ring_writer_take(&thread, 0);
	ring_writer_commit(ring_writer_reserve(&thread, 2), RING_HEAD(TRACE_OP_PAD, 0, 2, 0));
	ring_writer_event(&thread, TRACE_OP_ALLOC, now, 5, 8);
	round_of(100);
	ck_assert_uint_eq(read_back(addresses, 8), 1);
	ck_assert_uint_eq(addresses[0], 5);
}
END_TEST

START_TEST(a_round_stops_at_its_budget_and_the_next_goes_on)
{
	struct ring_writer thread = { .pool = &pool };

	for (unsigned i = 0; i < 6; i++) {
		ring_writer_take(&thread, i);
		ring_writer_event(&thread, TRACE_OP_ALLOC, now, i, 8);
		ring_writer_hand_over(&thread);
	}
	ck_assert_int_eq(round_of(2), 2);
	ck_assert_uint_eq(drain_safe_ticks(&drain), 0); /* four are still to come */
	ck_assert_int_eq(round_of(100), 4);
}
END_TEST

/* Two threads write faster than is read: neither is behind the other for ever. */
START_TEST(the_commit_time_follows_rounds_that_are_cut_short)
{
	struct ring_writer threads[2] = { { .pool = &pool, .serial = 1 },
					  { .pool = &pool, .serial = 2 } };
	uint64_t first = now;

	for (unsigned i = 0; i < 8; i++) {
		struct ring_writer *thread = &threads[i % 2];

		ring_writer_take(thread, i);
		ring_writer_event(thread, TRACE_OP_ALLOC, first + i, i, 8);
		ring_writer_hand_over(thread);
	}
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(round_of(2), 2);
	/* Two of the one and four of the other, or less: what comes next of each is not passed. */
	ck_assert_uint_ge(drain_safe_ticks(&drain), first + 1);
	ck_assert_uint_le(drain_safe_ticks(&drain), first + 4);
	ck_assert_int_eq(round_of(100), 2);
	round_of(100);
	ck_assert_uint_gt(drain_safe_ticks(&drain), first + 7);
}
END_TEST

/* The recorder comes back sooner when chunks run out, however little they held. */
START_TEST(a_round_tells_how_many_chunks_it_gave_back)
{
	struct ring_writer thread = { .pool = &pool };

	for (unsigned i = 0; i < 3; i++) {
		ring_writer_take(&thread, i);
		ring_writer_event(&thread, TRACE_OP_THREAD_END, now, 0, 0);
		ring_writer_hand_over(&thread);
	}
	ring_writer_take(&thread, 3);
	ring_writer_event(&thread, TRACE_OP_ALLOC, now, 1, 8);
	round_of(100);
	ck_assert_uint_eq(drain.n_round_chunks, 3);
	round_of(100);
	ck_assert_uint_eq(drain.n_round_chunks, 0);
}
END_TEST

START_TEST(programs_are_told_when_chunks_are_free)
{
	struct ring_writer thread = { .pool = &pool };
	uint64_t heartbeat = atomic_load(&pool.control->heartbeat);
	uint32_t freed = atomic_load(&pool.control->chunks_freed);

	round_of(100);
	ck_assert_uint_gt(atomic_load(&pool.control->heartbeat), heartbeat);
	ck_assert_uint_eq(atomic_load(&pool.control->chunks_freed), freed);
	ring_writer_take(&thread, 0);
	ring_writer_hand_over(&thread);
	round_of(100);
	ck_assert_uint_ne(atomic_load(&pool.control->chunks_freed), freed);
}
END_TEST

START_TEST(an_ended_image_is_drained_and_its_slot_is_another)
{
	struct ring_writer thread = { .pool = &pool };
	struct drain_losses losses;
	uint64_t addresses[8];

	atomic_store(&pool.processes[0].state, RING_PROCESS_READY);
	ring_writer_take(&thread, 0);
	ring_writer_event(&thread, TRACE_OP_ALLOC, now, 1, 8);
	ring_writer_reserve(&thread, 2); /* killed inside realloc */
	ck_assert_int_eq(drain_detach(&drain, 0, &losses), 0);
	ck_assert_uint_eq(losses.n_in_flight, 1);
	ck_assert_uint_eq(losses.n_damaged, 0);
	ck_assert_int_eq(pool_chunk_state(&pool, 0), RING_CHUNK_FREE);
	ck_assert_uint_eq(atomic_load(&pool.processes[0].state), RING_PROCESS_FREE);
	ck_assert_uint_eq(pool.processes[0].generation, 1);
	ck_assert_uint_eq(read_back(addresses, 8), 1);

	/* A chunk of the old generation belongs to nobody. */
	drain_attach(&drain, 0, &image);
	ring_writer_take(&thread, 1);
	ring_writer_event(&thread, TRACE_OP_ALLOC, now, 2, 8);
	ck_assert_int_eq(round_of(100), 0);
}
END_TEST

START_TEST(threads_modules_texts_and_execs_reach_the_handler)
{
	struct ring_writer thread = { .pool = &pool };
	struct ring_module *module;
	struct ring_exec *exec;
	struct ring_heap_range *range;
	struct ring_text *text;

	ring_writer_take(&thread, 0);
	ring_writer_start(&thread, now, 42);
	module = ring_writer_reserve(&thread, 3);
	module->build_id_bytes = 2;
	module->path_bytes = 8;
	memcpy(module->bytes, "\1\2/lib/a.so", 11);
	ring_writer_commit(module, RING_HEAD(TRACE_OP_MODULE, 0, 3, 0));
	round_of(100);
	ck_assert_uint_eq(n_threads, 1);
	ck_assert_uint_eq(n_modules, 1);
	ck_assert_str_eq(last_path, "/lib/a.s");
	text = ring_writer_reserve(&thread, 2);
	text->id = 0xab;
	text->text_bytes = 5;
	memcpy(text->bytes, "phase", 5);
	ring_writer_commit(text, RING_HEAD(TRACE_OP_TEXT, 0, 2, 0));
	round_of(100);
	ck_assert_str_eq(last_path, "ab phase");
	range = ring_writer_reserve(&thread, 3);
	range->ticks = now;
	range->start = 0x7000;
	range->size = 0x1000;
	range->kind_bytes = 4;
	range->place_bytes = 4;
	memcpy(range->bytes, "pmem/mnt", 8);
	ring_writer_commit(range, RING_HEAD(TRACE_OP_HEAP_RANGE, 0, 3, 0));
	round_of(100);
	ck_assert_str_eq(last_path, "7000+1000 pmem in /mnt");
	exec = ring_writer_reserve(&thread, 2);
	exec->path_bytes = 7;
	memcpy(exec->bytes, "/bin/ls", 7);
	ring_writer_commit(exec, RING_HEAD(TRACE_OP_EXEC, 0, 2, 0));
	ring_writer_event(&thread, TRACE_OP_THREAD_END, now, 0, 0);
	ring_writer_hand_over(&thread);
	round_of(100);
	ck_assert_uint_eq(n_execs, 1);
	ck_assert_str_eq(last_path, "/bin/ls");
	ck_assert_uint_eq(n_ends, 1);
	ck_assert_ptr_null(drain.slots[0].chains);
}
END_TEST

/* A record whose lengths reach out of itself, of the chunk, or that is none. */
static const struct {
	uint64_t head;
	uint16_t build_id_bytes;
	uint16_t path_bytes;
} nonsense[] = {
	{ RING_HEAD(0x7f, 0, 1, 0), 0, 0 },
	{ RING_HEAD(TRACE_OP_ALLOC, 0, 0, 1), 0, 0 },
	{ RING_HEAD(TRACE_OP_REALLOC, 0, 1, 0), 0, 0 },
	{ RING_HEAD(TRACE_OP_MODULE, 0, 0xffff, 0), 0, 0 },
	{ RING_HEAD(TRACE_OP_MODULE, 0, 2, 0), 0xffff, 0xffff },
	{ RING_HEAD(TRACE_OP_MODULE, 0, 2, 0), 0, 1 },
	{ RING_HEAD(TRACE_OP_THREAD_START, 0, 2, 0), 0, 0 },
	{ RING_HEAD(TRACE_OP_TEXT, 0, 2, 0), 0xffff, 0 }, /* its text_bytes lie there */
	{ RING_HEAD(TRACE_OP_HEAP_RANGE, 0, 2, 0), 0xffff, 0 }, /* its kind_bytes lie there */
	{ RING_HEAD(TRACE_OP_EXEC, 0, 1, 0), 0xffff, 0 }, /* its path_bytes lie there */
};

START_TEST(nonsense_is_counted_and_harms_nobody_else)
{
	struct ring_writer bad = { .pool = &pool }, good = { .pool = &pool, .serial = 1 };
	struct ring_module *record;
	uint64_t addresses[8];

	ring_writer_take(&bad, 0);
	ring_writer_take(&good, 1);
	record = ring_writer_reserve(&bad, 2);
	record->build_id_bytes = nonsense[_i].build_id_bytes;
	record->path_bytes = nonsense[_i].path_bytes;
	if (RING_HEAD_OP(nonsense[_i].head) == TRACE_OP_TEXT)
		((struct ring_text *)record)->text_bytes = 0xffff;
	if (RING_HEAD_OP(nonsense[_i].head) == TRACE_OP_HEAP_RANGE)
		((struct ring_heap_range *)record)->kind_bytes = 0xffff;
	if (RING_HEAD_OP(nonsense[_i].head) == TRACE_OP_EXEC)
		((struct ring_exec *)record)->path_bytes = 0xffff;
	ring_writer_commit(record, nonsense[_i].head);
	ring_writer_event(&good, TRACE_OP_ALLOC, now, 9, 8);
	round_of(100);
	ck_assert_uint_gt(drain.slots[0].losses.n_damaged, 0);
	ck_assert_uint_eq(n_modules + n_execs, 0);
	ck_assert_uint_eq(read_back(addresses, 8), 1);
	ck_assert_uint_eq(addresses[0], 9);
}
END_TEST

START_TEST(a_hole_in_a_full_chunk_is_damage_and_an_overshoot_is_not)
{
	struct ring_writer thread = { .pool = &pool };

	ring_writer_take(&thread, 0);
	atomic_store(&pool.chunks[0].reserved, RING_CHUNK_BYTES + 64); /* it did not fit */
	ring_writer_hand_over(&thread);
	round_of(100);
	ck_assert_uint_eq(drain.slots[0].losses.n_damaged, 0);
	ring_writer_take(&thread, 1);
	ring_writer_reserve(&thread, 3);
	ring_writer_hand_over(&thread);
	round_of(100);
	ck_assert_uint_eq(drain.slots[0].losses.n_damaged, 3);
}
END_TEST

START_TEST(impossible_stamps_are_moved_and_counted)
{
	struct ring_writer thread = { .pool = &pool };

	ring_writer_take(&thread, 0);
	for (int i = 0; i < 4; i++)
		round_of(100);
	ring_writer_event(&thread, TRACE_OP_ALLOC, UINT64_MAX, 1, 8);
	ring_writer_event(&thread, TRACE_OP_ALLOC, 0, 2, 8);
	ring_writer_event(&thread, TRACE_OP_ALLOC, now, 3, 8);
	round_of(100);
	ck_assert_uint_eq(drain.slots[0].losses.n_restamped, 2);
}
END_TEST

static uint8_t likely_op(unsigned *seed)
{
	uint8_t op = (uint8_t)((uint32_t)rand_r(seed) % (TRACE_OP_COUNT + 1));

	return op > TRACE_OP_RESUME && op < TRACE_OP_NODE ? TRACE_OP_ALLOC : op;
}

/* A chunk as a program would begin it, with records that nearly make sense. */
static void write_nonsense(struct ring_writer *thread, unsigned *seed)
{
	thread->serial = (uint32_t)rand_r(seed) % 3;
	thread->sequence = (uint32_t)rand_r(seed) % 5;
	ring_writer_take(thread, (uint32_t)rand_r(seed) % N_CHUNKS);
	for (int i = 0; i < 40; i++) {
		uint32_t n_slots = 1 + (uint32_t)rand_r(seed) % 4;
		uint32_t *record = ring_writer_reserve(thread, n_slots);

		for (uint32_t k = 2; k < n_slots * RING_RECORD_BYTES / 4; k++)
			record[k] = (uint32_t)rand_r(seed) >> (rand_r(seed) % 32);
		if (rand_r(seed) % 50 == 0)
			n_slots = (uint16_t)rand_r(seed);
		ring_writer_commit(
			record, RING_HEAD(likely_op(seed), (uint8_t)rand_r(seed), n_slots, i % 8));
	}
	if (rand_r(seed) % 2)
		ring_writer_hand_over(thread);
}

/* Then anything, anywhere. */
static void scribble(unsigned *seed)
{
	uint32_t i = (uint32_t)rand_r(seed) % N_CHUNKS;
	uint32_t *words = (uint32_t *)&pool.chunks[i];
	size_t control_bytes = (size_t)((uint8_t *)pool.chunks - (uint8_t *)pool.control);

	words[(uint32_t)rand_r(seed) % 64] = (uint32_t)rand_r(seed) >> (rand_r(seed) % 32);
	words[(uint32_t)rand_r(seed) % (RING_CHUNK_BYTES / 4)] = (uint32_t)rand_r(seed);
	atomic_store(&pool.chunk_states[i], (uint32_t)rand_r(seed) % 4);
	((uint8_t *)pool.control)[(size_t)rand_r(seed) % control_bytes] = (uint8_t)rand_r(seed);
}

/* ---- Several threads that drain ---- */

#define N_WRITERS 4u
#define N_ROUNDS  10u
#define NAME_AT	  700u /* the record of a chunk that only the drain's own thread takes */
#define NODE_AT	  500u

/* All that fits into one chunk of a thread; its events' addresses count up. */
static void fill_chunk(struct ring_writer *thread, uint32_t i, uint64_t *next)
{
	ring_writer_take(thread, i);
	if (thread->sequence == 1)
		ring_writer_start(thread, now, 100 + thread->serial);
	for (uint32_t n = 0; pool_chunk_reserved(&pool, i) + 96 <= RING_CHUNK_BYTES; n++) {
		if (n == NAME_AT && thread->serial % 2) {
			struct ring_thread_name *record = ring_writer_reserve(thread, 2);

			record->ticks = now;
			record->tid = 100 + thread->serial;
			ring_writer_commit(record, RING_HEAD(TRACE_OP_THREAD_NAME, 0, 2, 0));
		} else if (n == NODE_AT) {
			struct ring_node *record = ring_writer_reserve(thread, 1);

			record->pc = thread->sequence;
			ring_writer_commit(record,
					   RING_HEAD(TRACE_OP_NODE, 0, 1, thread->sequence));
		}
		ring_writer_event(thread, TRACE_OP_ALLOC, now, (*next)++, 8);
	}
	ring_writer_hand_over(thread);
}

static void fill_pool(struct ring_writer threads[N_WRITERS], uint64_t next[N_WRITERS])
{
	for (uint32_t i = 0; i < N_CHUNKS; i++) {
		if (pool_chunk_state(&pool, i) == RING_CHUNK_FREE)
			fill_chunk(&threads[i % N_WRITERS], i, &next[i % N_WRITERS]);
	}
}

/* Each thread's events are all there, in order. Returns the nodes that there are. */
static size_t check_trace(const uint64_t next[N_WRITERS])
{
	const struct trace_commit commit = { .ticks = now };
	uint64_t found[N_WRITERS + 1] = { 0 }, sum = 0, wanted = 0;
	struct trace_reader *reader;
	struct trace_item item;
	size_t n_nodes = 0;

	ck_assert_int_eq(trace_writer_finish(writer, &commit), 0);
	ck_assert_int_eq(trace_reader_open(path, &reader), 0);
	while (trace_reader_next(reader, &item) > 0) {
		n_nodes += item.type == TRACE_FRAME_NODES ? item.n : 0;
		for (size_t i = 0; item.type == TRACE_FRAME_EVENTS && i < item.n; i++)
			ck_assert_uint_eq(item.events[i].address, ++found[item.stream_id]);
	}
	ck_assert(trace_reader_damage(reader)->ended);
	trace_reader_close(reader);
	for (unsigned i = 0; i < N_WRITERS; i++) {
		sum += found[i + 1];
		wanted += next[i] - 1;
	}
	ck_assert_uint_eq(sum, wanted);
	return n_nodes;
}

START_TEST(several_threads_read_what_one_reads)
{
	struct ring_writer threads[N_WRITERS];
	uint64_t next[N_WRITERS];
	uint32_t n_chunks = 0;

	ck_assert_uint_eq(drain_use_lanes(&drain, (unsigned)_i), _i);
	for (uint32_t i = 0; i < N_WRITERS; i++) {
		threads[i] = (struct ring_writer){ .pool = &pool, .serial = i };
		next[i] = 1;
	}
	for (unsigned k = 0; k < N_ROUNDS; k++) {
		fill_pool(threads, next);
		/* Fewer than there are, so that one round begins where the one before stopped. */
		ck_assert_int_gt(round_of(12), 0);
		if (k == N_ROUNDS / 2)
			trace_writer_commit(
				writer, &(struct trace_commit){ .ticks = drain_safe_ticks(&drain) },
				NULL);
	}
	while (round_of(100) > 0)
		continue;
	for (uint32_t i = 0; i < N_WRITERS; i++)
		n_chunks += threads[i].sequence;
	ck_assert_uint_eq(n_threads, N_WRITERS);
	ck_assert_uint_eq(pool_next_used(&pool, 0), N_CHUNKS);
	ck_assert_uint_eq(drain.slots[0].losses.n_damaged + drain.slots[0].losses.n_refused, 0);
	ck_assert_uint_gt(drain_safe_ticks(&drain), START);
	ck_assert_uint_eq(check_trace(next), n_chunks);
}
END_TEST

START_TEST(random_bytes_in_the_pool_never_crash_the_collector)
{
	struct ring_writer thread = { .pool = &pool };
	struct drain_losses losses;
	unsigned seed = (unsigned)_i;

	drain_use_lanes(&drain, _i % 2 ? 3 : 1);
	for (int n = 0; n < 1000; n++) {
		for (int k = rand_r(&seed) % 6; k > 0; k--)
			write_nonsense(&thread, &seed);
		for (int k = rand_r(&seed) % 4; k > 0; k--)
			scribble(&seed);
		ck_assert_int_ge(round_of((uint32_t)rand_r(&seed) % 20), 0);
		if (n % 20 == 19) {
			ck_assert_int_eq(drain_detach(&drain, 0, &losses), 0);
			drain_attach(&drain, 0, &image);
			thread.generation = drain.slots[0].generation;
			for (uint32_t i = 0; i < N_CHUNKS; i++)
				pool_chunk_free(&pool, i);
		}
	}
	/* Much of it was believed as far as it made sense. */
	ck_assert_uint_gt(n_threads, 10);
	ck_assert_uint_gt(trace_writer_pending_bytes(writer), 100 * TRACE_WRITER_EVENT_BYTES);
}
END_TEST

START_TEST(a_pool_cannot_be_shrunk_by_a_program)
{
	ck_assert_int_eq(ftruncate(pool.fd, 4096), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(fcntl(pool.fd, F_GETFD), FD_CLOEXEC);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("drain");
	TCase *tcase = tcase_create("chains");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, events_keep_their_order_over_chunks_in_any_place);
	tcase_add_test(tcase, a_chunk_that_is_not_at_hand_yet_is_waited_for);
	tcase_add_test(tcase, the_commit_time_follows_when_nothing_is_under_way);
	tcase_add_test(tcase, a_call_under_way_holds_the_commit_time_back);
	tcase_add_test(tcase, a_fork_under_way_holds_the_commit_time_back);
	tcase_add_test(tcase, a_fork_that_gets_no_child_is_not_waited_for_for_ever);
	tcase_add_test(tcase, an_empty_record_is_stepped_over);
	tcase_add_test(tcase, a_round_stops_at_its_budget_and_the_next_goes_on);
	tcase_add_test(tcase, the_commit_time_follows_rounds_that_are_cut_short);
	tcase_add_test(tcase, a_round_tells_how_many_chunks_it_gave_back);
	tcase_add_test(tcase, programs_are_told_when_chunks_are_free);
	tcase_add_test(tcase, an_ended_image_is_drained_and_its_slot_is_another);
	tcase_add_test(tcase, threads_modules_texts_and_execs_reach_the_handler);
	tcase_add_loop_test(tcase, nonsense_is_counted_and_harms_nobody_else, 0,
			    sizeof(nonsense) / sizeof(*nonsense));
	tcase_add_loop_test(tcase, several_threads_read_what_one_reads, 1, 5);
	tcase_add_test(tcase, a_hole_in_a_full_chunk_is_damage_and_an_overshoot_is_not);
	tcase_add_test(tcase, impossible_stamps_are_moved_and_counted);
	tcase_add_loop_test(tcase, random_bytes_in_the_pool_never_crash_the_collector, 1, 21);
	tcase_add_test(tcase, a_pool_cannot_be_shrunk_by_a_program);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
