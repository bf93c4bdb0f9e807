/*
 * How often what is watched may be hit before it rests. No register is armed: an item without
 * ranges has none.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runner/watch/arming.h"
#include "tests/support/suite.h"

#define TICKS_PER_MS 1000000u
#define RATE	     20000u

static char path[64];
static struct trace_writer *writer;
static struct watches watches;
static struct images images;
static uint64_t now;

static void setup(void)
{
	const struct trace_file_header header = { .ticks_per_second = TICKS_PER_MS * 1000 };

	snprintf(path, sizeof(path), "/tmp/test-watch-rate-XXXXXX");
	ck_assert_int_eq(trace_writer_open(mkstemp(path), &header, &writer), 0);
	watches = (struct watches){
		.writer = writer,
		.clock = RING_CLOCK_RAW,
		.ticks_per_second = TICKS_PER_MS * 1000,
		.stream = (struct access_stream *)&watches, /* there is one; nobody looks into it */
		.rate = RATE,
		.hit_ns = 3500,
	};
	for (unsigned i = 0; i < 4; i++)
		watches.items[i] = (struct watch_item){ .is_armed = true,
							.address = 4096 * (i + 1),
							.n_bytes = 8,
							.target.text = "x" };
	now = UINT64_C(1) << 50;
	watches_round(&watches, &images, now);
}

static void teardown(void)
{
	trace_writer_close(writer);
	unlink(path);
}

/*
 * So many ms pass, in which an item that does not rest is hit so often in each; how often it was.
 */
static uint64_t run(unsigned n_items, unsigned n_ms, unsigned hits_per_ms)
{
	uint64_t n = 0;

	for (unsigned ms = 0; ms < n_ms; ms++) {
		for (unsigned i = 0; i < n_items; i++) {
			for (unsigned k = 0; !watches.items[i].is_paused && k < hits_per_ms; k++) {
				watches_hit(&watches, watches.items[i].address + 3);
				n++;
			}
		}
		now += TICKS_PER_MS;
		watches_round(&watches, &images, now);
	}
	return n;
}

START_TEST(what_is_hit_as_often_as_the_rate_allows_never_rests)
{
	ck_assert_uint_eq(run(1, 3000, 19), 57000);
	ck_assert_uint_eq(watches.items[0].first_off_ticks, 0);
}
END_TEST

START_TEST(what_is_hit_more_often_rests_for_the_rest_of_a_slice)
{
	uint64_t n = run(1, 3000, 200);

	/* A slice ends with the first round behind 100 ms. */
	ck_assert_uint_le(n, 3 * RATE + 200 * 31);
	ck_assert_uint_ge(n, 2 * RATE);
	ck_assert_uint_ne(watches.items[0].first_off_ticks, 0);
}
END_TEST

/* 100 us each: the rate alone would let the program do nothing else. */
START_TEST(dear_hits_take_a_fifth_of_the_time_after_a_burst)
{
	watches.hit_ns = 100000;
	uint64_t n = run(1, 10000, 10);

	ck_assert_uint_le(n * watches.hit_ns, (250 + 10000 / 5 + 20) * UINT64_C(1000000));
	ck_assert_uint_ge(n * watches.hit_ns, (10000 / 5 - 20) * UINT64_C(1000000));
}
END_TEST

/*
 * The program would have had time for more of them if they did not cost more than they did at the
 * start.
 */
START_TEST(hits_that_take_a_tenth_of_the_time_are_taken_to_take_all)
{
	watches.hit_ns = 10000;
	uint64_t n = run(1, 10000, 19);

	ck_assert_uint_le(n, (250 + 10000 / 5 + 20) * 19);
	ck_assert_uint_ge(n, (10000 / 5 - 20) * 19);
}
END_TEST

/*
 * A round of 90 ms finds a ring full of hits that make no tenth of it: the program has done nothing
 * else all the same.
 */
START_TEST(a_full_ring_stands_for_all_the_time_since_it_was_read)
{
	uint64_t armed_ms = 0;

	watches.ring_hits = 650;
	watches.rate = 1000000;
	for (unsigned ms = 0; ms < 9000; ms += 90) {
		bool is_paused = watches.items[0].is_paused;

		for (unsigned i = 0; !is_paused && i < 1300; i++)
			watches_hit(&watches, watches.items[0].address);
		armed_ms += is_paused ? 0 : 90;
		now += 90 * TICKS_PER_MS;
		watches_round(&watches, &images, now);
	}
	ck_assert_uint_le(armed_ms, 250 + 9000 / 5 + 2 * 90);
	ck_assert_uint_ge(armed_ms, 9000 / 5 - 2 * 90);
}
END_TEST

/* Others have the CPUs: ten seconds go by, and the program (this one) has none of them. */
START_TEST(time_in_which_the_program_does_not_run_pays_for_nothing)
{
	struct image image = { .pid = getpid() };

	images.first = &image;
	watches.hit_ns = 100000;
	watches_hit(&watches, watches.items[0].address);
	watches.items[0].spent_ns = 400000000;
	for (unsigned i = 0; i < 100; i++) {
		now += 100 * TICKS_PER_MS;
		watches_round(&watches, &images, now);
	}
	images.first = NULL;
	ck_assert(watches.items[0].is_paused);
	ck_assert_uint_ge(watches.items[0].spent_ns, 300000000);
}
END_TEST

START_TEST(all_watches_share_that_fifth)
{
	watches.hit_ns = 100000;
	uint64_t n = run(4, 10000, 10);

	ck_assert_uint_le(n * watches.hit_ns, (4 * 270 + 10000 / 5) * UINT64_C(1000000));
}
END_TEST

START_TEST(a_burst_of_dear_hits_is_whole)
{
	watches.hit_ns = 100000;
	ck_assert_uint_eq(run(1, 1, 1800), 1800);
	ck_assert(!watches.items[0].is_paused);
	ck_assert(watches_want_haste(&watches));
}
END_TEST

START_TEST(an_item_that_is_armed_again_has_no_new_burst)
{
	watches.hit_ns = 100000;
	run(1, 1, 3000);
	ck_assert(watches.items[0].is_paused);
	watches_end_item(&watches, &watches.items[0], now);
	watches.items[0].is_armed = true;
	watches.items[0].slice_hits = 0;
	run(1, 1, 1);
	ck_assert(watches.items[0].is_paused);
}
END_TEST

START_TEST(without_a_rate_nothing_rests)
{
	watches.rate = 0;
	watches.hit_ns = 100000;
	ck_assert_uint_eq(run(2, 1000, 1000), 2000000);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("watch-rate");
	TCase *tcase = tcase_create("rate");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, what_is_hit_as_often_as_the_rate_allows_never_rests);
	tcase_add_test(tcase, what_is_hit_more_often_rests_for_the_rest_of_a_slice);
	tcase_add_test(tcase, dear_hits_take_a_fifth_of_the_time_after_a_burst);
	tcase_add_test(tcase, hits_that_take_a_tenth_of_the_time_are_taken_to_take_all);
	tcase_add_test(tcase, a_full_ring_stands_for_all_the_time_since_it_was_read);
	tcase_add_test(tcase, time_in_which_the_program_does_not_run_pays_for_nothing);
	tcase_add_test(tcase, all_watches_share_that_fifth);
	tcase_add_test(tcase, a_burst_of_dear_hits_is_whole);
	tcase_add_test(tcase, an_item_that_is_armed_again_has_no_new_burst);
	tcase_add_test(tcase, without_a_rate_nothing_rests);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
