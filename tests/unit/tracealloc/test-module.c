/* Modules that come and go, the first allocation of all, and the stack that hooks use. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "mini-check.h"
#include "tests/support/suite.h"

static struct mini_run run;

static void trace_stacks(enum ring_stacks stacks, const char *program, const char *name,
			 bool is_untraced)
{
	const char *const argv[] = { program, name, NULL };
	struct mini_options options = {
		.stacks = stacks,
		.no_preload = is_untraced,
		.n_chunks = 256,
	};

	mini_run_well(&options, argv, &run);
}

static void trace(const char *program, const char *name, bool is_untraced)
{
	trace_stacks(RING_STACKS_FP, program, name, is_untraced);
}

static size_t find_plugin(enum trace_op op, size_t nth)
{
	for (size_t i = 0; i < run.n_events; i++)
		if (run.events[i].op == op && strstr(run.events[i].path, "libta-plugin.so") &&
		    nth-- == 0)
			return i;
	return run.n_events;
}

START_TEST(a_library_found_by_runpath_is_told_before_its_first_stack)
{
	const struct mini_event *allocation;
	size_t told;
	uint64_t pcs[300];

	trace(VICTIM_MODULE, "once", false);
	told = find_plugin(TRACE_OP_MODULE, 0);
	allocation = mini_find(&run, TRACE_OP_ALLOC, 3001, 0);
	ck_assert_ptr_nonnull(allocation);
	ck_assert_uint_lt(told, (size_t)(allocation - run.events));
	ck_assert_uint_ge(mini_stack(&run, allocation, pcs, 300), 2);
	ck_assert_uint_ge(pcs[0], mini_value(&run, "make"));
	ck_assert_uint_lt(pcs[0], mini_value(&run, "make") + 64);
	ck_assert_uint_ge(pcs[0], run.events[told].module->start);
	ck_assert_uint_lt(pcs[0], run.events[told].module->end);
	ck_assert_uint_gt(run.events[told].module->build_id_bytes, 0);
	for (size_t i = 0; i < told; i++)
		ck_assert(run.events[i].op != TRACE_OP_NODE || run.events[i].address != pcs[0]);
}
END_TEST

START_TEST(a_closed_library_is_told_as_unloaded)
{
	size_t told;
	size_t gone;

	trace(VICTIM_MODULE, "once", false);
	told = find_plugin(TRACE_OP_MODULE, 0);
	gone = find_plugin(TRACE_OP_MODULE_UNLOAD, 0);
	ck_assert_uint_lt(gone, run.n_events);
	ck_assert_uint_eq(run.events[gone].address, run.events[told].address);
	ck_assert_uint_gt(run.events[gone].ticks, mini_find(&run, TRACE_OP_ALLOC, 3001, 0)->ticks);
	ck_assert_uint_eq(find_plugin(TRACE_OP_MODULE_UNLOAD, 1), run.n_events);
}
END_TEST

START_TEST(a_library_loaded_again_is_told_again)
{
	trace(VICTIM_MODULE, "thrice", false);
	for (size_t i = 0; i < 3; i++) {
		const struct mini_event *allocation = mini_find(&run, TRACE_OP_ALLOC, 3001, i);
		size_t told = find_plugin(TRACE_OP_MODULE, i);
		size_t gone = find_plugin(TRACE_OP_MODULE_UNLOAD, i);

		ck_assert_uint_lt(told, (size_t)(allocation - run.events));
		ck_assert_uint_gt(gone, (size_t)(allocation - run.events));
		ck_assert_uint_lt(gone, run.n_events);
	}
}
END_TEST

START_TEST(threads_that_load_and_unload_do_not_hang)
{
	size_t n = 0;

	trace(VICTIM_MODULE, "loading-threads", false);
	for (size_t i = 0; i < run.n_events; i++)
		n += run.events[i].op == TRACE_OP_ALLOC && run.events[i].size == 3001;
	ck_assert_uint_eq(n + run.processes[0].n_dropped, 8 * 300);
}
END_TEST

START_TEST(an_allocation_before_all_constructors_is_recorded)
{
	const struct mini_event *allocation;

	trace(VICTIM_MODULE, "preinit", false);
	allocation = mini_find(&run, TRACE_OP_ALLOC, 808, 0);
	ck_assert_ptr_nonnull(allocation);
	ck_assert_uint_eq(allocation->address, mini_value(&run, "block"));
	ck_assert_uint_eq(run.processes[0].n_late, 0);
}
END_TEST

START_TEST(a_hook_uses_less_than_two_kilobytes_of_stack)
{
	static const char *const calls[] = {
		"first", "second", "realloc", "free", "push", "paused"
	};
	uint64_t plain[6];

	trace(VICTIM_DEPTH, "", true);
	for (size_t i = 0; i < 6; i++)
		plain[i] = mini_value(&run, calls[i]);
	mini_finish(&run);
	trace_stacks((enum ring_stacks)_i, VICTIM_DEPTH, "", false);
	ck_assert_uint_eq(mini_count(&run, 0, TRACE_OP_REALLOC, 0), 1);
	for (size_t i = 0; i < 6; i++)
		ck_assert_msg(mini_value(&run, calls[i]) < plain[i] + 2048,
			      "stacks %d: %s: %lu, untraced %lu", _i, calls[i],
			      (unsigned long)mini_value(&run, calls[i]), (unsigned long)plain[i]);
}
END_TEST

static Suite *module_suite(void)
{
	Suite *suite = suite_create("module");
	TCase *tests = tcase_create("all");

	tcase_add_test(tests, a_library_found_by_runpath_is_told_before_its_first_stack);
	tcase_add_test(tests, a_closed_library_is_told_as_unloaded);
	tcase_add_test(tests, a_library_loaded_again_is_told_again);
	tcase_add_test(tests, threads_that_load_and_unload_do_not_hang);
	tcase_add_test(tests, an_allocation_before_all_constructors_is_recorded);
	tcase_add_loop_test(tests, a_hook_uses_less_than_two_kilobytes_of_stack, RING_STACKS_NONE,
			    RING_STACKS_DWARF + 1);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	return suite_run(module_suite());
}
