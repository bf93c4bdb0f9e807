/* C++: operator new in all forms, and exceptions. */
#include <check.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "mini-check.h"
#include "tests/support/suite.h"

static struct mini_run run;

static void trace_program(const char *program, const char *name)
{
	const char *const argv[] = { program, name, NULL };
	struct mini_options options = { .stacks = RING_STACKS_FP };

	mini_run_well(&options, argv, &run);
}

static void trace(const char *name)
{
	trace_program(VICTIM_NEW, name);
}

/* The frees of a block, before its address is another's. */
static const struct mini_event *find_free(const struct mini_event *allocation, size_t *ret_n)
{
	const struct mini_event *found = NULL;

	*ret_n = 0;
	for (const struct mini_event *i = allocation + 1; i < run.events + run.n_events; i++) {
		if (i->address == allocation->address && i->op == TRACE_OP_ALLOC)
			break;
		if (i->address != allocation->address || i->op != TRACE_OP_FREE)
			continue;
		found = found ? found : i;
		++*ret_n;
	}
	return found;
}

/* Blocks of 4101, 4102 ... bytes: the calls that their events must name. */
static const struct {
	enum trace_call new;
	enum trace_call delete;
} forms[] = {
	{ TRACE_CALL_NEW, TRACE_CALL_DELETE },
	{ TRACE_CALL_NEW, TRACE_CALL_DELETE },
	{ TRACE_CALL_NEW, TRACE_CALL_DELETE },
	{ TRACE_CALL_NEW_ARRAY, TRACE_CALL_DELETE_ARRAY },
	{ TRACE_CALL_NEW_ARRAY, TRACE_CALL_DELETE_ARRAY },
	{ TRACE_CALL_NEW_ARRAY, TRACE_CALL_DELETE_ARRAY },
	{ TRACE_CALL_NEW_ALIGNED, TRACE_CALL_DELETE },
	{ TRACE_CALL_NEW_ALIGNED, TRACE_CALL_DELETE },
	{ TRACE_CALL_NEW_ALIGNED, TRACE_CALL_DELETE },
	{ TRACE_CALL_NEW_ARRAY_ALIGNED, TRACE_CALL_DELETE_ARRAY },
	{ TRACE_CALL_NEW_ARRAY_ALIGNED, TRACE_CALL_DELETE_ARRAY },
	{ TRACE_CALL_NEW_ARRAY_ALIGNED, TRACE_CALL_DELETE_ARRAY },
};

START_TEST(every_form_of_new_is_one_block_of_its_kind)
{
	trace("forms");
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		uint64_t size = 4101 + i;
		const struct mini_event *allocation = mini_find(&run, TRACE_OP_ALLOC, size, 0);
		const struct mini_event *freed;
		size_t n_frees;

		ck_assert_ptr_nonnull(allocation);
		ck_assert_uint_eq(allocation->call, forms[i].new);
		ck_assert_uint_eq(allocation->address % (size > 4106 ? 256 : 16), 0);
		ck_assert_ptr_null(mini_find(&run, TRACE_OP_ALLOC, size, 1));
		freed = find_free(allocation, &n_frees);
		ck_assert_uint_eq(n_frees, 1);
		ck_assert_uint_eq(freed->call, forms[i].delete);
	}
	ck_assert_uint_eq(mini_count(&run, UINT32_MAX, TRACE_OP_FREE, TRACE_CALL_DELETE), 6);
	ck_assert_uint_eq(mini_count(&run, UINT32_MAX, TRACE_OP_FREE, TRACE_CALL_DELETE_ARRAY), 6);
}
END_TEST

START_TEST(a_new_that_fails_throws_and_leaves_no_event)
{
	trace("refusals");
	ck_assert_uint_eq(mini_value(&run, "handled"), 2);
	ck_assert_uint_eq(mini_value(&run, "thrown"), 4);
	ck_assert_uint_eq(mini_value(&run, "refused"), 2);
	ck_assert_uint_eq(mini_value(&run, "empty"), 1);
	for (size_t i = 0; i < run.n_events; i++)
		ck_assert(run.events[i].op != TRACE_OP_ALLOC || run.events[i].size < 1u << 20);
	ck_assert_ptr_nonnull(mini_find(&run, TRACE_OP_ALLOC, 0, 1));
	ck_assert_ptr_null(mini_find(&run, TRACE_OP_ALLOC, 0, 2));
	ck_assert_uint_eq(mini_count(&run, UINT32_MAX, TRACE_OP_FREE, TRACE_CALL_DELETE), 2);
}
END_TEST

START_TEST(operators_of_the_program_itself_are_left_alone)
{
	static const uint64_t sizes[] = { 1009001, 1009002, 1009004 };

	trace_program(VICTIM_OWN_NEW, NULL);
	ck_assert_uint_eq(mini_value(&run, "live"), 0);
	ck_assert_uint_eq(mini_value(&run, "made"), 300);
#ifdef __OPTIMIZE__ /* else the compiler calls where it could jump */
	ck_assert_uint_eq(mini_value(&run, "ours"), 0); /* in no call stack */
#endif
	for (size_t i = 0; i < 3; i++) {
		ck_assert_ptr_nonnull(mini_find(&run, TRACE_OP_ALLOC, sizes[i], 99));
		ck_assert_ptr_null(mini_find(&run, TRACE_OP_ALLOC, sizes[i], 100));
	}
	for (enum trace_call call = TRACE_CALL_NEW; call <= TRACE_CALL_DELETE_ARRAY; call++)
		ck_assert_uint_eq(mini_count(&run, UINT32_MAX, TRACE_OP_ALLOC, call) +
					  mini_count(&run, UINT32_MAX, TRACE_OP_FREE, call),
				  0);
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

	tcase_add_test(tests, every_form_of_new_is_one_block_of_its_kind);
	tcase_add_test(tests, a_new_that_fails_throws_and_leaves_no_event);
	tcase_add_test(tests, operators_of_the_program_itself_are_left_alone);
	tcase_add_test(tests, exceptions_run_every_destructor);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	return suite_run(new_suite());
}
