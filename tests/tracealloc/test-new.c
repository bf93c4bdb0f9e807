/* C++: operator new in all forms, and exceptions. */
#include <check.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "mini-collector.h"

static struct mini_run run;

static void trace(const char *name)
{
	const char *const argv[] = { VICTIM_NEW, name, NULL };
	struct mini_options options = { .stacks = RING_STACKS_FP };

	mini_run(&options, argv, &run);
	ck_assert_msg(WIFEXITED(run.status) && WEXITSTATUS(run.status) == 0, "status 0x%x: %s",
		      (unsigned)run.status, run.output);
	ck_assert_uint_eq(run.n_bad, 0);
	ck_assert_uint_eq(run.n_uncommitted, 0);
}

START_TEST(every_form_of_new_is_one_block)
{
	static const uint64_t sizes[] = { 4101, 4102, 4103, 4104, 4352 };

	trace("forms");
	ck_assert_uint_eq(mini_value(&run, "thrown"), 1);
	ck_assert_uint_eq(mini_value(&run, "refused"), 1);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const struct mini_event *birth = mini_find(&run, TRACE_OP_ALLOC, sizes[i], 0);
		size_t n_frees = 0;

		ck_assert_ptr_nonnull(birth);
		ck_assert_uint_eq(birth->address % (sizes[i] == 4352 ? 256 : 16), 0);
		ck_assert_ptr_null(mini_find(&run, TRACE_OP_ALLOC, sizes[i], 1));
		for (const struct mini_event *j = birth + 1; j < run.events + run.n_events; j++)
			if (j->op == TRACE_OP_ALLOC && j->address == birth->address)
				break;
			else
				n_frees += j->op == TRACE_OP_FREE && j->address == birth->address;
		ck_assert_uint_eq(n_frees, 1);
	}
}
END_TEST

START_TEST(exceptions_run_every_destructor)
{
	size_t n = 0;

	trace("exceptions");
	ck_assert_uint_eq(mini_value(&run, "unwound"), 2000);
	for (size_t i = 0; i < run.n_events; i++)
		n += run.events[i].op == TRACE_OP_ALLOC && run.events[i].size == 4201;
	ck_assert_uint_eq(n, 2000);
	ck_assert_uint_eq(mini_count(&run, UINT32_MAX, TRACE_OP_THREAD_END, 0), 4);
}
END_TEST

static Suite *new_suite(void)
{
	Suite *suite = suite_create("new");
	TCase *tests = tcase_create("all");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, every_form_of_new_is_one_block);
	tcase_add_test(tests, exceptions_run_every_destructor);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	SRunner *runner = srunner_create(new_suite());
	int n_failed;

	srunner_run_all(runner, CK_NORMAL);
	n_failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
