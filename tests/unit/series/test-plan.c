/* The order of a series: complete blocks, from the seed alone. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "series/heimdallr-command.h"
#include "series/plan.h"
#include "tests/support/suite.h"

static struct series *make_series(unsigned n_workloads, unsigned n_modes, uint32_t repetitions)
{
	struct series *series = series_create();
	char name[32], command[64];

	ck_assert_ptr_nonnull(series);
	series->repetitions = repetitions;
	for (unsigned i = 0; i < n_workloads; i++) {
		snprintf(name, sizeof(name), "w%u", i);
		snprintf(command, sizeof(command), "/bin/prog -n %u", i);
		struct series_workload *workload = series_add_workload(series, name);
		ck_assert_ptr_nonnull(workload);
		ck_assert_int_eq(series_texts_add(&workload->commands, command), 0);
	}
	for (unsigned i = 0; i < n_modes; i++) {
		snprintf(name, sizeof(name), "m%u", i);
		ck_assert_ptr_nonnull(series_add_mode(series, name));
	}
	return series;
}

static struct series_plan make_plan(const struct series *series, uint64_t seed)
{
	char message[SERIES_MESSAGE_BYTES] = "";
	struct series_plan plan;
	int err = series_plan_make(series, seed, &plan, message);

	ck_assert_msg(err == 0, "%d: %s", err, message);
	return plan;
}

static bool same_items(const struct series_item *a, const struct series_item *b, size_t n)
{
	return memcmp(a, b, n * sizeof(*a)) == 0;
}

START_TEST(each_block_has_every_program_and_mode_once)
{
	auto_series struct series *series = make_series(4, 3, 10);
	struct series_plan plan = make_plan(series, 1);

	ck_assert_uint_eq(plan.n_items, 120);
	for (size_t block = 0; block < 10; block++) {
		bool seen[4][3] = { { false } };

		for (size_t i = block * 12; i < block * 12 + 12; i++) {
			const struct series_item *item = &plan.items[i];

			ck_assert_uint_eq(item->repetition, block + 1);
			ck_assert(!seen[item->program][item->mode]);
			seen[item->program][item->mode] = true;
		}
	}
	series_plan_finish(&plan);
}
END_TEST

START_TEST(the_seed_alone_decides_and_other_seeds_differ)
{
	auto_series struct series *series = make_series(5, 4, 3);
	struct series_plan one = make_plan(series, 7);
	struct series_plan again = make_plan(series, 7);
	struct series_plan other = make_plan(series, 8);

	ck_assert(same_items(one.items, again.items, one.n_items));
	ck_assert(!same_items(one.items, other.items, one.n_items));
	/* No block repeats the one before: that would be an order, not a draw. */
	ck_assert_uint_eq(one.n_items, 60);
	bool differs = false;
	for (size_t i = 0; i < 20; i++)
		differs |= one.items[i].program != one.items[i + 20].program;
	ck_assert(differs);
	series_plan_finish(&one);
	series_plan_finish(&again);
	series_plan_finish(&other);
}
END_TEST

START_TEST(more_repetitions_only_add_blocks)
{
	auto_series struct series *series = make_series(3, 3, 4);
	struct series_plan few = make_plan(series, 99);

	series->repetitions = 9;
	struct series_plan more = make_plan(series, 99);
	ck_assert(same_items(few.items, more.items, few.n_items));
	series_plan_finish(&few);
	series_plan_finish(&more);
}
END_TEST

/* Each of the 6 orders of 3 runs: 1,000 of 6,000 expected, sd 29; 5 sd. */
START_TEST(every_order_of_a_block_is_as_likely_as_another)
{
	auto_series struct series *series = make_series(3, 1, 6000);
	struct series_plan plan = make_plan(series, 20261122);
	unsigned n[27] = { 0 };

	for (size_t i = 0; i < plan.n_items; i += 3)
		n[plan.items[i].program * 9 + plan.items[i + 1].program * 3 +
		  plan.items[i + 2].program]++;
	for (unsigned i = 0; i < 27; i++)
		ck_assert(n[i] == 0 || (n[i] > 855 && n[i] < 1145));
	series_plan_finish(&plan);
}
END_TEST

START_TEST(sequential_goes_program_by_program_and_mode_by_mode)
{
	auto_series struct series *series = make_series(2, 2, 2);

	series->order = SERIES_ORDER_SEQUENTIAL;
	struct series_plan plan = make_plan(series, 5);
	const struct series_item expected[] = {
		{ 0, 0, 1 }, { 0, 0, 2 }, { 0, 1, 1 }, { 0, 1, 2 },
		{ 1, 0, 1 }, { 1, 0, 2 }, { 1, 1, 1 }, { 1, 1, 2 }
	};
	ck_assert(same_items(plan.items, expected, 8));
	series_plan_finish(&plan);
}
END_TEST

START_TEST(shuffle_within_mode_keeps_modes_in_sequence)
{
	auto_series struct series *series = make_series(4, 3, 5);

	series->order = SERIES_ORDER_WITHIN_MODE;
	struct series_plan plan = make_plan(series, 5);
	bool is_shuffled = false;

	for (size_t i = 0; i < plan.n_items; i++) {
		ck_assert_uint_eq(plan.items[i].mode, i / 20);
		is_shuffled |=
			i % 20 > 0 && plan.items[i].repetition < plan.items[i - 1].repetition;
	}
	ck_assert(is_shuffled);
	series_plan_finish(&plan);
}
END_TEST

START_TEST(programs_of_one_base_name_stay_apart)
{
	char *const words[] = { "out", "2", "./a/foo -n 3", "./b/foo -n 3", "./foo" };
	char message[SERIES_MESSAGE_BYTES];
	auto_series struct series *series = NULL;
	char name[SERIES_NAME_BYTES];

	ck_assert_int_eq(series_compat(words, 5, &series, message), 0);
	ck_assert_int_eq(series_compat_mode(series, SERIES_COMPAT_MODE, message), 0);
	struct series_plan plan = make_plan(series, 1);
	ck_assert_uint_eq(plan.n_programs, 3);
	ck_assert_str_eq(plan.programs[0].name, "foo-n3");
	ck_assert_str_eq(plan.programs[1].name, "foo-n3-2");
	ck_assert_str_eq(plan.programs[2].name, "foo");
	series_item_name(&plan, &(struct series_item){ 1, 0, 2 }, name);
	ck_assert_str_eq(name, "foo-n3-2.1loc_50.2");
	series_plan_finish(&plan);
}
END_TEST

/* Make a section of command lines, NULL behind the last. */
static void add_section(struct series *series, const char *name, const char *const *lines)
{
	struct series_workload *workload = series_add_workload(series, name);

	ck_assert_ptr_nonnull(workload);
	for (; *lines; lines++)
		ck_assert_int_eq(series_texts_add(&workload->commands, *lines), 0);
}

START_TEST(sections_keep_their_names_in_every_order)
{
	static const enum series_order orders[] = { SERIES_ORDER_BLOCKS, SERIES_ORDER_SEQUENTIAL,
						    SERIES_ORDER_WITHIN_MODE };
	static const char *const names[] = { "foo-1",	  "foo-2",     "bar", "small-foo",
					     "sweep-bar", "sweep-foo", "foo", "large" };

	for (size_t o = 0; o < 3; o++) {
		auto_series struct series *series = make_series(0, 1, 2);

		series->order = orders[o];
		add_section(series, "foo-1", (const char *[]){ "./foo -n 1", NULL });
		add_section(series, "foo-2", (const char *[]){ "./foo -n 2", NULL });
		add_section(series, "small", (const char *[]){ "./bar 1", "./foo 1", NULL });
		add_section(series, "sweep", (const char *[]){ "./bar 2", "./deep/foo 2", NULL });
		add_section(series, "foo", (const char *[]){ "./bar -x", NULL });
		add_section(series, "large", (const char *[]){ "./foo", NULL });

		struct series_plan plan = make_plan(series, 1);
		ck_assert_uint_eq(plan.n_programs, 8);
		for (size_t i = 0; i < 8; i++)
			ck_assert_str_eq(plan.programs[i].name, names[i]);
		series_plan_finish(&plan);
	}
}
END_TEST

START_TEST(a_second_program_of_a_section_is_numbered)
{
	auto_series struct series *series = make_series(0, 1, 1);

	add_section(series, "a", (const char *[]){ "./foo 1", "./x/foo 2", "./foo 3", NULL });
	add_section(series, "foo-3", (const char *[]){ "./foo", NULL });
	add_section(series, "b", (const char *[]){ "./foo 1", "./foo 2", NULL });

	static const char *const names[] = { "foo", "foo-2", "foo-4", "foo-3", "b-foo", "b-foo-2" };
	struct series_plan plan = make_plan(series, 1);
	ck_assert_uint_eq(plan.n_programs, 6);
	for (size_t i = 0; i < 6; i++)
		ck_assert_str_eq(plan.programs[i].name, names[i]);
	series_plan_finish(&plan);
}
END_TEST

START_TEST(a_pattern_becomes_a_program_for_each_file)
{
	auto_series struct series *series = make_series(0, 1, 1);
	struct series_workload *workload = series_add_workload(series, "tools");
	char message[SERIES_MESSAGE_BYTES];
	struct series_plan plan;

	ck_assert_int_eq(series_texts_add(&workload->commands, "/bin/l[sn] --version"), 0);
	plan = make_plan(series, 1);
	ck_assert_uint_eq(plan.n_programs, 2);
	ck_assert_str_eq(plan.programs[0].name, "ln");
	ck_assert_str_eq(plan.programs[0].words[0], "/bin/ln");
	ck_assert_str_eq(plan.programs[0].words[1], "--version");
	ck_assert_str_eq(plan.programs[1].name, "ls");
	series_plan_finish(&plan);

	ck_assert_int_eq(series_texts_add(&workload->commands, "/nowhere/*.A"), 0);
	ck_assert_int_eq(series_plan_make(series, 1, &plan, message), -2);
	ck_assert_ptr_nonnull(strstr(message, "no file fits '/nowhere/*.A'"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("series-plan");
	TCase *tests = tcase_create("plan");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, each_block_has_every_program_and_mode_once);
	tcase_add_test(tests, the_seed_alone_decides_and_other_seeds_differ);
	tcase_add_test(tests, more_repetitions_only_add_blocks);
	tcase_add_test(tests, every_order_of_a_block_is_as_likely_as_another);
	tcase_add_test(tests, sequential_goes_program_by_program_and_mode_by_mode);
	tcase_add_test(tests, shuffle_within_mode_keeps_modes_in_sequence);
	tcase_add_test(tests, programs_of_one_base_name_stay_apart);
	tcase_add_test(tests, sections_keep_their_names_in_every_order);
	tcase_add_test(tests, a_second_program_of_a_section_is_numbered);
	tcase_add_test(tests, a_pattern_becomes_a_program_for_each_file);

	return suite_run(suite);
}
