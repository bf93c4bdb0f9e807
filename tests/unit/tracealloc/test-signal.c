/* Signal handlers in and out of hooks, and allocations before the real functions are known. */
#include <check.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "mini-check.h"
#include "tests/support/suite.h"

static struct mini_run run;

static void trace(struct mini_options options, const char *name)
{
	const char *const argv[] = { VICTIM_SIGNAL, name, NULL };

	options.stacks = RING_STACKS_FP;
	options.n_chunks = options.n_chunks ? options.n_chunks : 2048;
	mini_run_well(&options, argv, &run);
}

static uint64_t lost(void)
{
	return run.processes[0].n_dropped + run.processes[0].n_nested + run.processes[0].n_late;
}

/* Blocks of 100 to 107 bytes: those of the program itself. */
static uint64_t count_own(void)
{
	uint64_t n = 0;

	for (size_t i = 0; i < run.n_events; i++)
		n += run.events[i].op == TRACE_OP_ALLOC && run.events[i].size >= 100 &&
		     run.events[i].size < 108;
	return n;
}

static uint64_t count_sized(enum trace_op op, uint64_t size)
{
	uint64_t n = 0;

	for (size_t i = 0; i < run.n_events; i++)
		n += run.events[i].op == op && run.events[i].size == size;
	return n;
}

/* Every stack is made of nodes that came before, and ends in main's caller or a reason. */
static void check_some_stacks(void)
{
	uint64_t pcs[300];

	for (size_t i = 0; i < run.n_events; i += 503)
		ck_assert_uint_le(mini_stack(&run, &run.events[i], pcs, 300), 20);
}

START_TEST(a_handler_that_maps_tears_nothing)
{
	uint64_t handled;

	trace((struct mini_options){ 0 }, "maps");
	handled = mini_value(&run, "handled");
	ck_assert_uint_ge(handled, 100);
	ck_assert_uint_eq(lost(), 0);
	ck_assert_uint_eq(count_own(), mini_value(&run, "made"));
	ck_assert_uint_eq(count_sized(TRACE_OP_MMAP, 16384), handled);
	ck_assert_uint_eq(count_sized(TRACE_OP_MUNMAP, 16384), handled);
	check_some_stacks();
}
END_TEST

START_TEST(a_handler_that_mallocs_tears_nothing)
{
	uint64_t handled;

	trace((struct mini_options){ .preload = SHIM }, "mallocs");
	handled = mini_value(&run, "handled");
	ck_assert_uint_ge(handled, 100);
	ck_assert_uint_eq(lost(), 0);
	ck_assert_uint_eq(count_own(), mini_value(&run, "made"));
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 54321), handled);
	ck_assert_uint_eq(mini_count(&run, 0, TRACE_OP_FREE, 0),
			  handled + mini_value(&run, "made"));
	check_some_stacks();
}
END_TEST

START_TEST(a_jump_out_of_a_hook_does_not_leave_the_guard_set)
{
	trace((struct mini_options){ .preload = SHIM }, "jumps");
	ck_assert_uint_eq(lost(), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 9999), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_REALLOC, 9998), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 3101), 10);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 3102), 10);
	ck_assert_uint_eq(mini_count(&run, 0, TRACE_OP_FREE, 0), 21);
	/* The only nested call is the map that the shim makes for its area. */
	for (size_t i = 0; i < run.n_events; i++)
		ck_assert(!run.events[i].flags || run.events[i].op == TRACE_OP_MMAP);
}
END_TEST

START_TEST(a_jump_is_noticed_by_calls_from_further_down)
{
	trace((struct mini_options){ .preload = SHIM }, "jumps-then-deeper");
	ck_assert_uint_eq(lost(), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 3103), 5000);
	ck_assert_uint_eq(mini_count(&run, 0, TRACE_OP_FREE, 0), 5000);
	for (size_t i = 0; i < run.n_events; i++)
		ck_assert(!run.events[i].flags || run.events[i].op == TRACE_OP_MMAP);
}
END_TEST

START_TEST(cancellation_unwinds_through_a_hook)
{
	const struct mini_event *last = NULL;

	trace((struct mini_options){ .preload = SHIM }, "cancelled");
	ck_assert_uint_eq(mini_value(&run, "cancelled"), 1);
	ck_assert_uint_eq(lost(), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 9997), 0);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 3104), 1);
	ck_assert_uint_eq(mini_find(&run, TRACE_OP_ALLOC, 3104, 0)->flags, 0);
	for (size_t i = 0; i < run.n_events; i++)
		if (run.events[i].thread == 1)
			last = &run.events[i];
	ck_assert_uint_eq(last->op, TRACE_OP_THREAD_END);
}
END_TEST

START_TEST(allocations_inside_dlsym_are_served_and_can_be_given_back)
{
	trace((struct mini_options){ .preload = SHIM_DLSYM }, "early");
	ck_assert_uint_eq(mini_value(&run, "wrong"), 0);
	ck_assert_uint_eq(mini_value(&run, "aligned"), 1);
	ck_assert_uint_eq(count_sized(TRACE_OP_ALLOC, 3201), 1);
}
END_TEST

static Suite *signal_suite(void)
{
	Suite *suite = suite_create("signal");
	TCase *tests = tcase_create("all");

	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, a_handler_that_maps_tears_nothing);
	tcase_add_test(tests, a_handler_that_mallocs_tears_nothing);
	tcase_add_test(tests, a_jump_out_of_a_hook_does_not_leave_the_guard_set);
	tcase_add_test(tests, a_jump_is_noticed_by_calls_from_further_down);
	tcase_add_test(tests, cancellation_unwinds_through_a_hook);
	tcase_add_test(tests, allocations_inside_dlsym_are_served_and_can_be_given_back);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	return suite_run(signal_suite());
}
