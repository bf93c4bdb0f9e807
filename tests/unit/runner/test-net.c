/*
 * What is left of events that have no room: births and ends of memory that was there before, or is
 * there now, in whatever order threads are read.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runner/ring/net.h"
#include "tests/support/suite.h"
#include "trace/reader.h"

#define ADDRESS 0x1000
#define MOST	8

static struct event_net net;
static struct trace_writer *writer;
static char path[64];

static void setup(void)
{
	const struct trace_file_header header = { .ticks_per_second = 1000000, .start_ticks = 1 };

	net = (struct event_net){ 0 };
	snprintf(path, sizeof(path), "/tmp/test-net-XXXXXX");
	ck_assert_int_eq(trace_writer_open(mkstemp(path), &header, &writer), 0);
}

static void teardown(void)
{
	net_finish(&net);
	trace_writer_close(writer);
	unlink(path);
}

static void take(uint32_t thread, enum trace_op op, uint64_t ticks, uint64_t safe_ticks)
{
	const struct trace_event event = {
		.op = (uint8_t)op,
		.call = op == TRACE_OP_ALLOC ? TRACE_CALL_MALLOC : TRACE_CALL_FREE,
		.ticks = ticks,
		.begin_ticks = ticks,
		.address = ADDRESS,
		.size = op == TRACE_OP_ALLOC ? 64 : 0,
	};

	net_take(&net, 1, thread, &event, safe_ticks);
}

/* How many ticks there are of what is left, in the order of the file. */
static size_t give(uint64_t safe_ticks, uint64_t ticks[MOST], uint64_t *n_dropped)
{
	const struct trace_commit commit = { .ticks = 100 };
	struct trace_reader *reader;
	struct trace_item item;
	size_t n = 0;

	ck_assert_int_eq(net_give(&net, writer, safe_ticks, n_dropped), 0);
	ck_assert_int_eq(trace_writer_finish(writer, &commit), 0);
	ck_assert_int_eq(trace_reader_open(path, &reader), 0);
	while (trace_reader_next(reader, &item) > 0)
		for (size_t i = 0; item.type == TRACE_FRAME_EVENTS && i < item.n && n < MOST; i++)
			ticks[n++] = item.events[i].ticks;
	trace_reader_close(reader);
	return n;
}

START_TEST(what_began_and_ended_in_between_is_left_out)
{
	uint64_t ticks[MOST], n_dropped;

	take(1, TRACE_OP_FREE, 10, 0); /* of a block from before */
	for (uint64_t at = 11; at < 20; at += 2) {
		take(1, TRACE_OP_ALLOC, at, at);
		take(1, TRACE_OP_FREE, at + 1, at);
	}
	take(1, TRACE_OP_ALLOC, 30, 20);
	ck_assert_uint_eq(give(40, ticks, &n_dropped), 2);
	ck_assert_uint_eq(ticks[0], 10);
	ck_assert_uint_eq(ticks[1], 30);
	ck_assert_uint_eq(n_dropped, 10);
}
END_TEST

/* Thread 1 makes a block at 10 and frees another at 20: thread 2, read later, did the rest. */
START_TEST(nothing_is_left_out_that_an_older_event_may_come_for)
{
	uint64_t ticks[MOST], n_dropped;

	take(1, TRACE_OP_ALLOC, 10, 5);
	take(1, TRACE_OP_FREE, 20, 5);
	ck_assert_uint_eq(give(12, ticks, &n_dropped), 2);
	ck_assert_uint_eq(ticks[0], 10);
	ck_assert_uint_eq(ticks[1], 20);
	ck_assert_uint_eq(n_dropped, 0);
}
END_TEST

START_TEST(what_is_read_late_takes_its_place_by_its_time)
{
	uint64_t ticks[MOST], n_dropped;

	take(1, TRACE_OP_ALLOC, 10, 5);
	take(1, TRACE_OP_FREE, 20, 5);
	take(2, TRACE_OP_FREE, 12, 5);
	take(2, TRACE_OP_ALLOC, 14, 5);
	take(1, TRACE_OP_ALLOC, 22, 21);
	ck_assert_uint_eq(give(23, ticks, &n_dropped), 1);
	ck_assert_uint_eq(ticks[0], 22);
	ck_assert_uint_eq(n_dropped, 4);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("net");
	TCase *tcase = tcase_create("all");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, what_began_and_ended_in_between_is_left_out);
	tcase_add_test(tcase, nothing_is_left_out_that_an_older_event_may_come_for);
	tcase_add_test(tcase, what_is_read_late_takes_its_place_by_its_time);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
