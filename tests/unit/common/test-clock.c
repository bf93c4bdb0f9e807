#include "common/clock.h"
#include "tests/support/suite.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

static const enum ring_clock clocks[] = { RING_CLOCK_TICKS, RING_CLOCK_RAW };

/* The counter is only judged where the library itself would use it. */
static bool is_usable(enum ring_clock clock)
{
	return clock == RING_CLOCK_RAW || clock_choose() == RING_CLOCK_TICKS;
}

START_TEST(ticks_never_go_back)
{
	uint64_t last = clock_ticks(clocks[_i]);
	bool in_order = true;

	for (int i = 0; i < 200000 && is_usable(clocks[_i]); i++) {
		uint64_t now = clock_ticks(clocks[_i]);
		in_order = in_order && now >= last; /* an assertion of Check is a system call */
		last = now;
	}
	ck_assert(in_order);
}
END_TEST

/* Two threads hand one stamp to and fro; whoever gets it must read a later one. */
struct relay {
	_Atomic uint64_t stamp;
	_Atomic unsigned turn;
	enum ring_clock clock;
};

#define N_TURNS 2000u

static bool take_turns(struct relay *relay, unsigned parity)
{
	bool in_order = true;

	for (unsigned i = parity; i < N_TURNS; i += 2) {
		while (relay->turn != i)
			sched_yield();
		uint64_t now = clock_ticks(relay->clock);
		in_order = in_order && now >= relay->stamp;
		relay->stamp = now;
		relay->turn = i + 1;
	}
	return in_order;
}

static void *second_runner(void *arg)
{
	return take_turns(arg, 1) ? arg : NULL;
}

START_TEST(ticks_never_go_back_from_one_thread_to_another)
{
	struct relay relay = { .clock = clocks[_i] };
	pthread_t thread;
	void *in_order;

	if (!is_usable(clocks[_i]))
		return;
	ck_assert_int_eq(pthread_create(&thread, NULL, second_runner, &relay), 0);
	ck_assert(take_turns(&relay, 0));
	ck_assert_int_eq(pthread_join(thread, &in_order), 0);
	ck_assert_ptr_eq(in_order, &relay);
}
END_TEST

START_TEST(a_pair_between_two_others_lies_on_their_line_within_the_errors)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	struct clock_pair first, middle, last;

	if (!is_usable(clocks[_i]))
		return;
	first = clock_pair_read(clocks[_i]);
	nanosleep(&pause, NULL);
	middle = clock_pair_read(clocks[_i]);
	nanosleep(&pause, NULL);
	last = clock_pair_read(clocks[_i]);

	ck_assert_uint_lt(first.ticks, middle.ticks);
	ck_assert_uint_lt(middle.ticks, last.ticks);
	double share = (double)(middle.ticks - first.ticks) / (double)(last.ticks - first.ticks);
	double expected = share * (double)(last.raw_ns - first.raw_ns);
	double found = (double)(middle.raw_ns - first.raw_ns);
	double bound = (double)(first.error_ns + middle.error_ns + last.error_ns);
	ck_assert_double_le(expected - found, bound);
	ck_assert_double_le(found - expected, bound);
}
END_TEST

START_TEST(the_rate_and_both_conversions_agree)
{
	const struct clock_pair a = { 1000, 50000, 1 }, b = { 26001000, 10050000, 1 };
	uint64_t rate = clock_pair_rate(&a, &b);

	ck_assert_uint_eq(rate, 2600000000);
	ck_assert_uint_eq(clock_pair_raw_ns(&a, rate, b.ticks), b.raw_ns);
	ck_assert_uint_eq(clock_pair_ticks(&a, rate, b.raw_ns), b.ticks);
	ck_assert_uint_eq(clock_pair_raw_ns(&b, rate, a.ticks), a.raw_ns);
	ck_assert_uint_eq(clock_pair_ticks(&b, rate, a.raw_ns), a.ticks);
	ck_assert_uint_eq(clock_pair_raw_ns(&a, 1, 0), 0); /* long before zero */
	/* A year of 4 GHz: the product needs more than 64 bits. */
	ck_assert_uint_eq(clock_pair_raw_ns(&(struct clock_pair){ 0 }, 4000000000,
					    UINT64_C(126144000000000000)),
			  UINT64_C(31536000000000000));
}
END_TEST

START_TEST(pairs_that_are_not_apart_give_the_rate_of_nanoseconds)
{
	const struct clock_pair a = { 1000, 50000, 1 }, same_raw = { 2000, 50000, 1 },
				same_ticks = { 1000, 60000, 1 };

	ck_assert_uint_eq(clock_pair_rate(&a, &a), 1000000000);
	ck_assert_uint_eq(clock_pair_rate(&a, &same_raw), 1000000000);
	ck_assert_uint_eq(clock_pair_rate(&a, &same_ticks), 1000000000);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("clock");
	TCase *tests = tcase_create("clock");

	tcase_add_loop_test(tests, ticks_never_go_back, 0, 2);
	tcase_add_loop_test(tests, ticks_never_go_back_from_one_thread_to_another, 0, 2);
	tcase_add_loop_test(tests, a_pair_between_two_others_lies_on_their_line_within_the_errors,
			    0, 2);
	tcase_add_test(tests, the_rate_and_both_conversions_agree);
	tcase_add_test(tests, pairs_that_are_not_apart_give_the_rate_of_nanoseconds);
	suite_add_tcase(suite, tests);

	return suite_run(suite);
}
