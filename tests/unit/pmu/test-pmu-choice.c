/* What --source means: names, rates, combinations. Opens nothing but what auto tries. */
#include <check.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "pmu/choice.h"
#include "tests/support/suite.h"

static struct pmu_choice choice;
static char message[PMU_CHOICE_MESSAGE_BYTES];

static void resolve(const char *text)
{
	const struct access_options options = { .pid = getpid() };

	message[0] = '\0';
	ck_assert_msg(pmu_choice_parse(text, &choice, message) == 0, "%s: %s", text, message);
	pmu_choice_resolve(&choice, &options);
}

static const struct {
	const char *text;
	const char *names[4];
} lists[] = {
	{ "none", { NULL } },
	{ "clock", { "clock", "tasks", NULL } },
	{ "faults", { "faults", "tasks", NULL } },
	{ "tasks", { "tasks", NULL } },
	{ "tasks,clock", { "clock", "tasks", NULL } },
	{ "faults@2,clock@100", { "faults", "clock", "tasks", NULL } },
};

START_TEST(a_list_names_its_sources_and_tasks_come_last)
{
	size_t wanted = 0;

	resolve(lists[_i].text);
	while (lists[_i].names[wanted])
		wanted++;
	ck_assert_uint_eq(choice.n, wanted);
	for (size_t i = 0; i < wanted; i++)
		ck_assert_str_eq(choice.items[i].source->name, lists[_i].names[i]);
}
END_TEST

START_TEST(auto_is_one_open_source_those_better_ones_that_do_not_open_faults_and_tasks)
{
	size_t n_open = 0, i = 0;

	resolve("auto");
	for (; choice.items[i].source->role == ACCESS_ROLE_ACCESS; i++) {
		n_open += choice.items[i].error == 0 && !choice.items[i].source->is_opt_in;
		if (choice.items[i].error)
			ck_assert_str_ne(choice.items[i].refusal.why, "");
	}
	ck_assert_uint_le(n_open, 2); /* one, and its companion */
	ck_assert_str_eq(choice.items[i].source->name, "faults");
	ck_assert_str_eq(choice.items[i + 1].source->name, "tasks");
	ck_assert_uint_eq(choice.n, i + 2);
}
END_TEST

static const struct {
	const char *text;
	uint64_t freq_hz;
	uint64_t period;
} rates[] = {
	{ "clock", 0, 0 },
	{ "clock@1000", 1000, 0 },
	{ "clock@1000Hz", 1000, 0 },
	{ "clock@100000", 100000, 0 },
	{ "clock@1000003p", 0, 1000003 },
	{ "faults@1", 0, 1 },
	{ "faults@7p", 0, 7 },
};

START_TEST(a_rate_is_hertz_of_timed_sources_and_else_a_period)
{
	const struct access_options options = { .freq_hz = 50, .mode = ACCESS_MODE_BOTH };
	bool is_faults = strncmp(rates[_i].text, "faults", 6) == 0;
	bool is_bare = !strchr(rates[_i].text, '@');
	struct access_options own;

	resolve(rates[_i].text);
	own = pmu_chosen_options(&choice.items[0], &options);
	ck_assert_uint_eq(choice.items[0].freq_hz, rates[_i].freq_hz);
	ck_assert_uint_eq(choice.items[0].period, rates[_i].period);
	ck_assert_uint_eq(own.freq_hz, is_bare && !is_faults ? 50 : rates[_i].freq_hz);
	ck_assert_uint_eq(own.period, rates[_i].period);
	ck_assert_int_eq(own.mode, ACCESS_MODE_BOTH);
}
END_TEST

START_TEST(the_general_rate_is_not_for_faults)
{
	const struct access_options options = { .freq_hz = 50, .period = 12 };
	struct access_options own;

	resolve("faults");
	own = pmu_chosen_options(&choice.items[0], &options);
	ck_assert_uint_eq(own.freq_hz, 0);
	ck_assert_uint_eq(own.period, 0);
}
END_TEST

static const struct {
	const char *text;
	const char *says;
} refused[] = {
	{ "clocks", "'clocks' is not one of auto, none" },
	{ "", "'' is not one of" },
	{ "clock,", "'' is not one of" },
	{ ",clock", "'' is not one of" },
	{ "clock,clock", "clock stands there twice" },
	{ "clock@", "a rate is a number above 0" },
	{ "clock@0", "a rate is a number above 0" },
	{ "clock@-5", "a rate is a number above 0" },
	{ "clock@Hz", "a rate is a number above 0" },
	{ "clock@100001", "between 1 and 100000 Hz" },
	{ "faults@5Hz", "faults@N takes one in N" },
	{ "tasks@5", "tasks has no rate" },
	{ "auto@5", "auto has no rate of its own" },
	{ "auto,clock", "name either auto or the sources" },
	{ "none,clock", "none goes with no other" },
	{ "none,auto", "none goes with no other" },
	{ "clock@11111111111111111111111111111111111111111111", "is not one of" },
	{ "cloooooooooooooooooooooooooooooooooooooock", "is not one of" },
};

START_TEST(what_cannot_be_says_why)
{
	ck_assert_int_eq(pmu_choice_parse(refused[_i].text, &choice, message), -EINVAL);
	ck_assert_msg(strstr(message, refused[_i].says) != NULL, "%s: %s", refused[_i].text,
		      message);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pmu-choice");
	TCase *tcase = tcase_create("choice");

	tcase_add_loop_test(tcase, a_list_names_its_sources_and_tasks_come_last, 0,
			    sizeof(lists) / sizeof(lists[0]));
	tcase_add_test(tcase,
		       auto_is_one_open_source_those_better_ones_that_do_not_open_faults_and_tasks);
	tcase_add_loop_test(tcase, a_rate_is_hertz_of_timed_sources_and_else_a_period, 0,
			    sizeof(rates) / sizeof(rates[0]));
	tcase_add_test(tcase, the_general_rate_is_not_for_faults);
	tcase_add_loop_test(tcase, what_cannot_be_says_why, 0,
			    sizeof(refused) / sizeof(refused[0]));
	suite_add_tcase(suite, tcase);

	return suite_run(suite);
}
