/* The call stacks of programs that know their own. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mini-check.h"
#include "tests/support/suite.h"

static struct mini_run run;
static uint64_t pcs[300];

static void trace(const char *program, const char *name, uint32_t max_frames)
{
	const char *const argv[] = { program, name, NULL };
	struct mini_options options = {
		.stacks = RING_STACKS_FP,
		.max_frames = max_frames,
		.n_chunks = 256,
	};

	mini_run_well(&options, argv, &run);
}

static size_t stack_of(uint64_t size, size_t i)
{
	const struct mini_event *event = mini_find(&run, TRACE_OP_ALLOC, size, i);

	ck_assert_ptr_nonnull(event);
	return mini_stack(&run, event, pcs, 300);
}

START_TEST(a_stack_of_frame_pointers_is_whole_and_exact)
{
	trace(VICTIM_STACK_FP, "four", 0);
	/*
	 * third, second, first, four, run_program, main, and what called main; no stop behind it.
	 */
	ck_assert_uint_eq(stack_of(1111, 0), 7);
	ck_assert_uint_eq(pcs[0], mini_value(&run, "frame1"));
	ck_assert_uint_eq(pcs[1], mini_value(&run, "frame2"));
	ck_assert_uint_eq(pcs[2], mini_value(&run, "frame3"));
	ck_assert_uint_eq(pcs[3], mini_value(&run, "frame4"));
	ck_assert_uint_eq(pcs[6], mini_value(&run, "outermost-main"));
}
END_TEST

START_TEST(a_threads_stack_is_whole_and_exact)
{
	trace(VICTIM_STACK_FP, "in-thread", 0);
	ck_assert_uint_eq(stack_of(1111, 0), 5);
	ck_assert_uint_eq(pcs[0], mini_value(&run, "frame1"));
	ck_assert_uint_eq(pcs[1], mini_value(&run, "frame2"));
	ck_assert_uint_eq(pcs[2], mini_value(&run, "frame3"));
	ck_assert_uint_eq(pcs[3], mini_value(&run, "frame4"));
	ck_assert_uint_eq(pcs[4], mini_value(&run, "outermost"));
}
END_TEST

START_TEST(without_frame_pointers_the_caller_is_exact_and_the_rest_is_said_to_be_missing)
{
	trace(VICTIM_STACK_NO_FP, "four", 0);
	ck_assert_uint_eq(stack_of(1111, 0), 2);
	ck_assert_uint_eq(pcs[0], mini_value(&run, "frame1"));
	ck_assert_uint_eq(pcs[1], TRACE_STOP_NO_FRAME_POINTER);
}
END_TEST

START_TEST(two_callers_have_two_stacks)
{
	const struct mini_event *events[20];

	trace(VICTIM_STACK_FP, "two-callers", 0);
	for (size_t i = 0; i < 20; i++) {
		events[i] = mini_find(&run, TRACE_OP_ALLOC, 1212, i);
		ck_assert_ptr_nonnull(events[i]);
		ck_assert_uint_ne(events[i]->stack_id, 0);
		ck_assert_uint_eq(events[i]->stack_id, events[i % 2]->stack_id);
	}
	ck_assert_uint_ne(events[0]->stack_id, events[1]->stack_id);
	uint64_t first[300];
	size_t n = mini_stack(&run, events[0], first, 300);

	/* shared, caller_one or caller_two, two_callers, run_program, main, what called main. */
	ck_assert_uint_eq(n, 6);
	ck_assert_uint_eq(mini_stack(&run, events[1], pcs, 300), n);
	ck_assert_uint_eq(first[0], pcs[0]);
	ck_assert_uint_ne(first[1], pcs[1]);
	ck_assert_uint_ne(first[2], pcs[2]);
	for (size_t i = 3; i < n; i++)
		ck_assert_uint_eq(first[i], pcs[i]);
}
END_TEST

START_TEST(a_node_is_written_once)
{
	trace(VICTIM_STACK_FP, "two-callers", 0);
	for (size_t i = 0; i < run.n_events; i++)
		for (size_t j = 0; j < i; j++)
			ck_assert(run.events[i].op != TRACE_OP_NODE ||
				  run.events[j].op != TRACE_OP_NODE ||
				  run.events[i].thread != run.events[j].thread ||
				  run.events[i].address != run.events[j].address ||
				  run.events[i].size != run.events[j].size);
}
END_TEST

START_TEST(a_stack_that_is_too_deep_says_so)
{
	trace(VICTIM_STACK_FP, "deep", 16);
	ck_assert_uint_eq(stack_of(1313, 0), 17);
	ck_assert_uint_eq(pcs[16], TRACE_STOP_DEPTH);
	ck_assert_uint_gt(run.processes[0].n_truncated_stacks, 0);
	trace(VICTIM_STACK_FP, "deep", 0);
	ck_assert_uint_eq(stack_of(1313, 0), RING_MAX_FRAMES + 1);
	ck_assert_uint_eq(pcs[RING_MAX_FRAMES], TRACE_STOP_DEPTH);
}
END_TEST

START_TEST(a_stack_ends_where_the_c_library_has_no_frame_pointer)
{
	trace(VICTIM_STACK_FP, "through-libc", 0);
	ck_assert_uint_eq(stack_of(1414, 0), 3);
	ck_assert_uint_eq(pcs[0], mini_value(&run, "frame1"));
	ck_assert_uint_eq(pcs[1], mini_value(&run, "frame2"));
	ck_assert_uint_eq(pcs[2], TRACE_STOP_NO_FRAME_POINTER);
}
END_TEST

START_TEST(a_foreign_stack_is_not_walked)
{
	trace(VICTIM_STACK_FP, "other-stack", 0);
	ck_assert_uint_eq(stack_of(1515, 0), 2);
	ck_assert_uint_eq(pcs[0], mini_value(&run, "frame1"));
	ck_assert_uint_eq(pcs[1], TRACE_STOP_BAD_STACK);
}
END_TEST

START_TEST(data_in_rbp_makes_no_frames)
{
	const char *programs[] = { VICTIM_STACK_FP, VICTIM_STACK_NO_FP };
	uint64_t stop = _i ? TRACE_STOP_NO_FRAME_POINTER : TRACE_STOP_BAD_STACK;
	uint64_t n;

	trace(programs[_i], "data-in-rbp", 0);
	n = mini_value(&run, "n");
	ck_assert_uint_gt(n, 10);
	for (uint64_t i = 0; i < n; i++) {
		ck_assert_uint_eq(stack_of(1600 + i, 0), 2);
		ck_assert_uint_eq(pcs[0], mini_value(&run, "pc"));
		ck_assert_uint_eq(pcs[1], stop);
	}
}
END_TEST

START_TEST(a_full_table_begins_anew_and_stacks_stay_whole)
{
	size_t n_whole;
	size_t n_seen = 0;

	/* The table of nodes grows to its bound long before the last of 2^18 nodes. */
	trace(VICTIM_STACK_FP, "many-stacks", 0);
	n_whole = stack_of(1717, 0);
	ck_assert_uint_gt(n_whole, 20);
	for (size_t i = 0; i < run.n_events; i++) {
		const struct mini_event *event = &run.events[i];

		if (event->op != TRACE_OP_ALLOC || event->size != 1717 || n_seen++ % 64)
			continue;
		ck_assert_uint_eq(mini_stack(&run, event, pcs, 300), n_whole);
		ck_assert_uint_eq(pcs[n_whole - 1] < TRACE_STOP_MAX, false);
	}
	ck_assert_uint_ge(n_seen + run.processes[0].n_dropped, 1u << 17);
}
END_TEST

static Suite *stack_suite(void)
{
	Suite *suite = suite_create("stack");
	TCase *tests = tcase_create("all");

	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, a_stack_of_frame_pointers_is_whole_and_exact);
	tcase_add_test(tests, a_threads_stack_is_whole_and_exact);
	tcase_add_test(
		tests,
		without_frame_pointers_the_caller_is_exact_and_the_rest_is_said_to_be_missing);
	tcase_add_test(tests, two_callers_have_two_stacks);
	tcase_add_test(tests, a_node_is_written_once);
	tcase_add_test(tests, a_stack_that_is_too_deep_says_so);
	tcase_add_test(tests, a_stack_ends_where_the_c_library_has_no_frame_pointer);
	tcase_add_test(tests, a_foreign_stack_is_not_walked);
	tcase_add_loop_test(tests, data_in_rbp_makes_no_frames, 0, 2);
	tcase_add_test(tests, a_full_table_begins_anew_and_stacks_stay_whole);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	return suite_run(stack_suite());
}
