#include "analyze/input/merge.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/input/clock-map.h"
#include "analyze/live/freed-pages.h"
#include "store/totals/timeline.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/support/suite.h"
#include "trace/columns.h"

#define START UINT64_C(1000)

static struct merge *merge;
static size_t n_told;

static void count_told(void *context, uint32_t thread, const struct merge_event *events, size_t n)
{
	for (size_t i = 0; i < n; i++) /* each is there to be read */
		*(size_t *)context += thread < 3 && events[i].address % 16 == 0;
}

static void set_up(void)
{
	const struct merge_listener listener = { &n_told, count_told };

	n_told = 0;
	ck_assert_int_eq(merge_open(50, &listener, &merge), 0);
}

static void tear_down(void)
{
	merge = merge_close(merge);
}

static void push(uint32_t thread, enum trace_op op, uint64_t ticks, uint64_t address)
{
	struct trace_event event = {
		.op = op, .ticks = START + ticks, .begin_ticks = START + ticks, .address = address
	};

	check_equal(merge_push(merge, thread, 1, &event, START), 0);
}

static void push_realloc(uint32_t thread, uint64_t begin, uint64_t ticks, uint64_t from,
			 uint64_t to)
{
	struct trace_event event = {
		.op = TRACE_OP_REALLOC,
		.begin_ticks = START + begin,
		.ticks = START + ticks,
		.old_address = from,
		.address = to,
	};

	ck_assert_int_eq(merge_push(merge, thread, 1, &event, START), 0);
}

static struct merge_event take(uint32_t thread, int64_t time)
{
	struct merge_event event;
	uint32_t from;

	ck_assert_int_eq(merge_next(merge), time);
	ck_assert_int_eq(merge_take(merge, &from, &event), 0);
	ck_assert_uint_eq(from, thread);
	ck_assert_int_eq(event.time, time);
	return event;
}

START_TEST(events_of_threads_come_in_the_order_of_time)
{
	push(1, TRACE_OP_ALLOC, 10, 0x10);
	push(1, TRACE_OP_ALLOC, 30, 0x20);
	push(2, TRACE_OP_ALLOC, 20, 0x30);
	push(2, TRACE_OP_ALLOC, 40, 0x40);
	take(1, 10);
	take(2, 20);
	take(1, 30);
	take(2, 40);
	ck_assert_int_eq(merge_next(merge), INT64_MAX);
}
END_TEST

START_TEST(a_thread_whose_stamps_run_backwards_keeps_its_order)
{
	push(1, TRACE_OP_ALLOC, 30, 0x10);
	push(1, TRACE_OP_FREE, 20, 0x10);
	push(2, TRACE_OP_ALLOC, 25, 0x30);
	take(2, 25);
	ck_assert_uint_eq(take(1, 30).op, TRACE_OP_ALLOC);
	ck_assert_uint_eq(take(1, 30).op, TRACE_OP_FREE);
}
END_TEST

START_TEST(a_realloc_is_an_end_and_a_birth_that_know_each_other)
{
	push_realloc(1, 10, 90, 0x10, 0x20);
	push(2, TRACE_OP_ALLOC, 50, 0x10);
	struct merge_event end = take(1, 10);
	ck_assert_uint_ne(end.flags & MERGE_IS_END, 0);
	ck_assert_uint_eq(end.address, 0x10);
	take(2, 50);
	struct merge_event allocation = take(1, 90);
	ck_assert_uint_ne(allocation.flags & MERGE_IS_ALLOCATION, 0);
	ck_assert_uint_eq(allocation.address, 0x20);
	ck_assert_uint_ne(allocation.link, 0);
	ck_assert_uint_eq(allocation.link, end.link);
}
END_TEST

START_TEST(a_realloc_of_nothing_is_a_birth_and_one_to_nothing_an_end)
{
	push_realloc(1, 10, 20, 0, 0x20);
	push_realloc(1, 30, 40, 0x20, 0);
	ck_assert_uint_eq(take(1, 20).flags, MERGE_IS_ALLOCATION);
	struct merge_event end = take(1, 30);
	ck_assert_uint_eq(end.flags, MERGE_IS_END);
	ck_assert_uint_eq(end.link, 0);
	ck_assert_int_eq(merge_next(merge), INT64_MAX);
}
END_TEST

START_TEST(what_a_signal_handler_does_within_a_realloc_comes_between_its_halves)
{
	push_realloc(1, 10, 90, 0x10, 0x20); /* reserved before, stamped after the handler */
	push(1, TRACE_OP_ALLOC, 40, 0x30);
	push(1, TRACE_OP_FREE, 50, 0x30);
	push(1, TRACE_OP_ALLOC, 95, 0x40);
	ck_assert_uint_eq(take(1, 10).flags, MERGE_IS_END);
	ck_assert_uint_eq(take(1, 40).address, 0x30);
	ck_assert_uint_eq(take(1, 50).op, TRACE_OP_FREE);
	ck_assert_uint_eq(take(1, 90).flags, MERGE_IS_ALLOCATION);
	ck_assert_uint_eq(take(1, 95).address, 0x40);
}
END_TEST

START_TEST(an_end_that_is_late_is_taken_out_once)
{
	struct merge_wanted wanted = { .process = 1, .thread = 1, .address = 0x10, .time = 100 };
	struct merge_event event;
	uint32_t thread;
	bool is_next;

	push(2, TRACE_OP_ALLOC, 120, 0x99);
	push(2, TRACE_OP_FREE, 130, 0x10);
	push(2, TRACE_OP_ALLOC, 140, 0x98);
	push(3, TRACE_OP_FREE, 125, 0x10);
	ck_assert_int_eq(merge_take_end(merge, &wanted, &thread, &event, &is_next), 1);
	ck_assert_uint_eq(thread, 3); /* the earlier of the two */
	ck_assert(is_next);
	ck_assert_int_eq(merge_take_end(merge, &wanted, &thread, &event, &is_next), 1);
	ck_assert_uint_eq(thread, 2);
	ck_assert(!is_next);
	ck_assert_int_eq(merge_take_end(merge, &wanted, &thread, &event, &is_next), 0);
	take(2, 120);
	take(2, 140);
	ck_assert_int_eq(merge_next(merge), INT64_MAX);
}
END_TEST

/* A free by whom, when: not the one that is late. */
static const struct {
	uint32_t thread;
	uint32_t process;
	uint64_t ticks;
	enum trace_op before;
} others[] = {
	{ 1, 1, 110, TRACE_OP_NONE }, /* the thread itself frees what it got */
	{ 2, 2, 110, TRACE_OP_NONE }, /* another process */
	{ 2, 1, 151, TRACE_OP_NONE }, /* too late for a stamp */
	{ 2, 1, 120, TRACE_OP_ALLOC }, /* of an allocation that is still to come */
};

START_TEST(an_end_of_another_block_is_left_where_it_is)
{
	struct merge_wanted wanted = { .process = 1, .thread = 1, .address = 0x10, .time = 100 };
	struct trace_event end = { .op = TRACE_OP_FREE, .address = 0x10 };
	struct merge_event event;
	uint32_t thread;
	bool is_next;

	if (others[_i].before == TRACE_OP_ALLOC)
		push(others[_i].thread, TRACE_OP_ALLOC, others[_i].ticks - 1, 0x10);
	end.ticks = end.begin_ticks = START + others[_i].ticks;
	ck_assert_int_eq(merge_push(merge, others[_i].thread, others[_i].process, &end, START), 0);
	ck_assert_int_eq(merge_take_end(merge, &wanted, &thread, &event, &is_next), 0);
}
END_TEST

START_TEST(many_threads_are_merged_and_their_memory_given_back)
{
	int64_t last = -1;
	uint64_t n = 0;

	for (uint32_t i = 0; i < 3000; i++) {
		for (uint64_t j = 0; j < 20; j++)
			push(i + 1, TRACE_OP_ALLOC, (i * 7919 + j * 104729) % 100000 + j * 100000,
			     j);
	}
	for (; merge_next(merge) != INT64_MAX; n++) {
		struct merge_event event;
		uint32_t thread;
		check_equal(merge_take(merge, &thread, &event), 0);
		check_equal(event.time >= last, true);
		last = event.time;
	}
	check_equal(n, 60000);
	merge_shrink(merge);
	push(5, TRACE_OP_ALLOC, 3000000, 1);
	take(5, 3000000);
}
END_TEST

/* Events of a thread, some of which move blocks, or were reserved before what comes first here. */
static struct trace_event random_event(uint64_t *ticks)
{
	struct trace_event event = { .op = rand() % 3 ? TRACE_OP_FREE : TRACE_OP_REALLOC };

	*ticks += (uint64_t)rand() % 9;
	event.begin_ticks = event.ticks = START + *ticks;
	event.address = (uint64_t)(rand() % 50) * 16;
	event.size = 24;
	if (event.op == TRACE_OP_REALLOC) {
		event.old_address = (uint64_t)(rand() % 50) * 16;
		event.ticks += (uint64_t)rand() % 2000;
	}
	return event;
}

static void add_frame(uint32_t thread, const struct trace_event *events, size_t n)
{
	struct trace_columns columns = { 0 };
	struct iovec parts[TRACE_COLUMNS_PARTS];
	uint8_t body[60000];
	size_t n_bytes = 0;

	ck_assert_int_eq(trace_columns_reserve(&columns, (uint32_t)n), 0);
	for (size_t i = 0; i < n; i++)
		trace_columns_append(&columns, &events[i]);
	ck_assert_uint_le(trace_columns_parts(&columns, parts), sizeof(body));
	for (size_t i = 0; i < TRACE_COLUMNS_PARTS; i++) {
		memcpy(body + n_bytes, parts[i].iov_base, parts[i].iov_len);
		n_bytes += parts[i].iov_len;
	}
	struct merge_frame frame = { thread, 1, START, body, n_bytes };
	ck_assert_int_eq(merge_add(merge, &frame), 0);
	trace_columns_finish(&columns);
}

/* One of each next, at times with an end that is asked for early. */
static bool take_same(struct merge *other, uint64_t step)
{
	struct merge_wanted wanted = { 1, 9, step % 50 * 16, merge_next(merge) };
	struct merge_event event, expected;
	uint32_t thread, expected_thread;
	bool is_next, is_expected;

	check_equal(merge_next(merge), merge_next(other));
	if (merge_next(merge) == INT64_MAX)
		return false;
	int r = step % 3 ? 0 : merge_take_end(merge, &wanted, &thread, &event, &is_next);
	if (step % 3 == 0)
		check_equal(
			merge_take_end(other, &wanted, &expected_thread, &expected, &is_expected),
			r);
	if (r == 0) {
		check_equal(merge_take(merge, &thread, &event), 0);
		check_equal(merge_take(other, &expected_thread, &expected), 0);
	}
	check_equal(thread, expected_thread);
	check_equal(event.link != 0, expected.link != 0);
	event.link = expected.link = 0;
	check_equal(memcmp(&event, &expected, sizeof(event)), 0);
	return true;
}

START_TEST(frames_give_the_same_as_their_events)
{
	struct trace_event events[3][600];
	struct merge *other;
	uint64_t step = 0;

	srand((unsigned)_i);
	ck_assert_int_eq(merge_open(50, NULL, &other), 0);
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 3; i++) {
			uint64_t ticks = round * 3000 + i;
			for (size_t j = 0; j < 600; j++)
				events[i][j] = random_event(&ticks);
			for (size_t j = 0; j < 600; j++)
				ck_assert_int_eq(merge_push(other, i, 1, &events[i][j], START), 0);
			add_frame(i, events[i], 200);
			add_frame(i, events[i] + 200, 399);
			add_frame(i, events[i] + 599, 1);
		}
		for (int i = 0; i < 500; i++)
			take_same(other, step++);
	}
	while (take_same(other, step))
		step++;
	ck_assert_uint_gt(step, 3600);
	ck_assert_uint_eq(n_told, step);
	merge_close(other);
}
END_TEST

/* ---- The clock ---- */

static void add_pair(struct merge_clock *clock, uint64_t ticks, uint64_t raw_ns)
{
	struct trace_clock record = { .ticks = ticks, .raw_ns = raw_ns, .error_ns = 5 };

	ck_assert_int_eq(merge_clock_add(clock, &record), 0);
}

START_TEST(ticks_between_pairs_lie_on_straight_lines)
{
	struct merge_clock clock;

	merge_clock_init(&clock, 1000, 2000000000);
	ck_assert_int_eq(merge_clock_of_ticks(&clock, 3000), 1000); /* nominal: 2 ticks are 1 ns */
	add_pair(&clock, 1000, 50000);
	ck_assert_int_eq(merge_clock_of_ticks(&clock, 3000), 1000);
	add_pair(&clock, 5000, 52000);
	add_pair(&clock, 9000, 56000); /* here 1 tick is 1 ns */
	ck_assert_int_eq(merge_clock_of_ticks(&clock, 1000), 0);
	ck_assert_int_eq(merge_clock_of_ticks(&clock, 3000), 1000);
	ck_assert_int_eq(merge_clock_of_ticks(&clock, 5000), 2000);
	ck_assert_int_eq(merge_clock_of_ticks(&clock, 7000), 4000);
	ck_assert_int_eq(merge_clock_of_ticks(&clock, 11000), 8000); /* the last line goes on */
	ck_assert_int_eq(merge_clock_of_ticks(&clock, 3000), 1000);
	ck_assert_int_eq(merge_clock_of_ticks(&clock, 0), -500); /* and the first */
	ck_assert_int_eq(merge_clock_of_raw(&clock, 54000), 4000);
	ck_assert_uint_eq(clock.error_ns, 5);
	merge_clock_finish(&clock);
}
END_TEST

START_TEST(pairs_that_run_backwards_are_refused)
{
	struct merge_clock clock;

	merge_clock_init(&clock, 0, 1000000000);
	add_pair(&clock, 1000, 1000);
	add_pair(&clock, 900, 2000);
	add_pair(&clock, 2000, 900);
	ck_assert_uint_eq(clock.n_refused, 2);
	add_pair(&clock, 2000, 2000);
	ck_assert_int_eq(merge_clock_of_ticks(&clock, 2000), 1000); /* no start: the first pair */
	merge_clock_finish(&clock);
}
END_TEST

START_TEST(absurd_stamps_do_not_overflow)
{
	static const uint64_t stamps[] = { 0, 1, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX };
	struct merge_clock clock;

	merge_clock_init(&clock, stamps[_i % 5], 3);
	add_pair(&clock, stamps[_i / 5], UINT64_MAX / 2);
	add_pair(&clock, stamps[_i / 5] + 1, UINT64_MAX - 1);
	for (int i = 0; i < 5; i++) {
		int64_t ns = merge_clock_of_ticks(&clock, stamps[i]);
		ck_assert_int_le(ns, INT64_C(1) << 62);
		ck_assert_int_ge(ns, -(INT64_C(1) << 62));
	}
	merge_clock_finish(&clock);
}
END_TEST

/* ---- The timeline ---- */

START_TEST(a_timeline_keeps_sums_and_peaks_while_its_intervals_double)
{
	struct timeline timeline;
	uint64_t n = 0, n_frees = 0, peak = 0;
	int64_t time_ns = 0;

	timeline_init(&timeline);
	srand(1);
	for (int i = 0; i < 20000; i++) {
		uint64_t live = (uint64_t)rand() % 1000;
		time_ns += rand() % (i < 10000 ? 100 : 1000000);
		timeline_change(&timeline, time_ns, live);
		timeline_at(&timeline, time_ns)->n_allocations++;
		timeline_at(&timeline, rand() % (time_ns + 1))->n_frees++;
		peak = live > peak ? live : peak;
	}
	ck_assert_uint_le(timeline.n, TIMELINE_MAX);
	ck_assert_uint_gt(timeline.n, TIMELINE_MAX / 2 - 1);
	uint64_t max = 0;
	for (unsigned i = 0; i < timeline.n; i++) {
		n += timeline.slots[i].n_allocations;
		n_frees += timeline.slots[i].n_frees;
		ck_assert_uint_le(timeline.slots[i].live_bytes, timeline.slots[i].max_live_bytes);
		max = timeline.slots[i].max_live_bytes > max ? timeline.slots[i].max_live_bytes
							     : max;
	}
	ck_assert_uint_eq(n, 20000);
	ck_assert_uint_eq(n_frees, 20000);
	ck_assert_uint_eq(max, peak);
	ck_assert_uint_eq(timeline.slots[timeline.n - 1].live_bytes, timeline.live_bytes);
}
END_TEST

/* ---- Pages of what was freed ---- */

START_TEST(freed_pages_are_those_of_the_ranges_added)
{
	static const struct {
		uint64_t address;
		uint64_t size;
	} ranges[] = {
		{ 0x1000, 1 },	      { 0x5fff, 2 },
		{ 0x1ff000, 0x2000 }, { 0x40000000, 0x800000 },
		{ 0x70000000, 0 },    { UINT64_MAX - 10, 11 },
	};
	struct freed_pages pages = { 0 };

	for (size_t i = 0; i < 6; i++) {
		uint64_t address = ranges[i].address, size = ranges[i].size;
		ck_assert(!freed_pages_has(&pages, address));
		ck_assert_int_eq(freed_pages_add(&pages, address, size), 0);
		ck_assert(freed_pages_has(&pages, address));
		if (size > 0)
			ck_assert(freed_pages_has(&pages, address + size - 1));
		ck_assert(!freed_pages_has(&pages, (address & ~UINT64_C(4095)) - 1));
		if (address + size > address)
			ck_assert(!freed_pages_has(&pages, address + size + 4096));
	}
	freed_pages_finish(&pages);
	ck_assert(!freed_pages_has(&pages, 0x1000));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("merge");
	TCase *order = tcase_create("order");
	TCase *parts = tcase_create("parts");

	tcase_add_checked_fixture(order, set_up, tear_down);
	tcase_add_test(order, events_of_threads_come_in_the_order_of_time);
	tcase_add_test(order, a_thread_whose_stamps_run_backwards_keeps_its_order);
	tcase_add_test(order, a_realloc_is_an_end_and_a_birth_that_know_each_other);
	tcase_add_test(order, a_realloc_of_nothing_is_a_birth_and_one_to_nothing_an_end);
	tcase_add_test(order, what_a_signal_handler_does_within_a_realloc_comes_between_its_halves);
	tcase_add_test(order, an_end_that_is_late_is_taken_out_once);
	tcase_add_loop_test(order, an_end_of_another_block_is_left_where_it_is, 0, 4);
	tcase_add_test(order, many_threads_are_merged_and_their_memory_given_back);
	tcase_add_loop_test(order, frames_give_the_same_as_their_events, 0, 20);
	tcase_add_test(parts, ticks_between_pairs_lie_on_straight_lines);
	tcase_add_test(parts, pairs_that_run_backwards_are_refused);
	tcase_add_loop_test(parts, absurd_stamps_do_not_overflow, 0, 25);
	tcase_add_test(parts, a_timeline_keeps_sums_and_peaks_while_its_intervals_double);
	tcase_add_test(parts, freed_pages_are_those_of_the_ranges_added);
	suite_add_tcase(suite, order);
	suite_add_tcase(suite, parts);
	return suite_run(suite);
}
