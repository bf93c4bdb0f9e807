#include <errno.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/option.h"
#include "tests/support/suite.h"

#define MAX_ARGS 16

static struct option_set options;

static void clear_environment(void)
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		if (option_row((enum option_id)id)->variable)
			unsetenv(option_row((enum option_id)id)->variable);
	}
	unsetenv("MEMSIGHT_OPTIONS");
}

static void set_up(void)
{
	clear_environment();
}

static void tear_down(void)
{
	option_finish(&options);
	clear_environment();
}

/* Parse words that are parted by one blank. */
static int parse(enum command_id command, const char *line)
{
	static char copy[256];
	static char *argv[MAX_ARGS + 1];
	int n = 0;

	option_finish(&options);
	strncpy(copy, line, sizeof(copy) - 1);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[n++] = word;
	argv[n] = NULL;
	return option_parse(command, n, argv, &options);
}

START_TEST(a_default_stands_when_nothing_is_given)
{
	ck_assert_int_eq(parse(COMMAND_RECORD, "./app"), 0);
	ck_assert_uint_eq(option_frequency(&options, OPTION_FREQ), 997);
	ck_assert_uint_eq(option_size(&options, OPTION_BUFFER_SIZE), 64u << 20);
	ck_assert_str_eq(option_text(&options, OPTION_SOURCE), "auto");
	ck_assert_int_eq(option_origin(&options, OPTION_FREQ), OPTION_FROM_DEFAULT);
	ck_assert(!option_flag(&options, OPTION_FORCE));
	ck_assert_ptr_null(option_text(&options, OPTION_REPORT));
	ck_assert_int_eq(option_origin(&options, OPTION_REPORT), OPTION_UNSET);
}
END_TEST

START_TEST(every_default_is_a_value_of_its_own_type)
{
	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++) {
		parse((enum command_id)i, "one two");
		for (int id = 0; id < OPTION_COUNT; id++) {
			if (!option_is_of((enum option_id)id, (enum command_id)i) ||
			    !option_row((enum option_id)id)->preset)
				continue;
			ck_assert_int_eq(option_origin(&options, (enum option_id)id),
					 OPTION_FROM_DEFAULT);
		}
	}
}
END_TEST

static const struct {
	const char *line;
	bool is_plain;
} flag_lines[] = {
	{ "--no-plain x", false },
	{ "--plain x", true },
	{ "--no-plain --plain x", true },
	{ "--plain --no-plain x", false },
	{ "--plain=no x", false },
	{ "--no-plain=no x", true },
	{ "--no-plain --no-force x", false },
};

START_TEST(a_flag_is_undone_by_its_name_with_no_or_without)
{
	ck_assert_int_eq(parse(COMMAND_ANALYZE, flag_lines[_i].line), 0);
	ck_assert(option_flag(&options, OPTION_NO_PLAIN) == !flag_lines[_i].is_plain);
	ck_assert_int_eq(parse(COMMAND_ANALYZE, "--force --no-force x"), 0);
	ck_assert(!option_flag(&options, OPTION_FORCE));
}
END_TEST

/* Four ways to say the same. */
static const char *const frequency_lines[] = { "--freq=500 ./app", "--freq 500 ./app",
					       "-F500 ./app", "-F 500 -- ./app" };

START_TEST(a_value_stands_behind_an_equal_sign_or_in_the_next_word)
{
	ck_assert_int_eq(parse(COMMAND_RECORD, frequency_lines[_i]), 0);
	ck_assert_uint_eq(option_frequency(&options, OPTION_FREQ), 500);
	ck_assert_int_eq(option_origin(&options, OPTION_FREQ), OPTION_FROM_LINE);
	ck_assert_int_eq(options.n_operands, 1);
	ck_assert_str_eq(options.operands[0], "./app");
	ck_assert_ptr_null(options.operands[1]);
}
END_TEST

START_TEST(the_options_of_the_recorded_program_are_its_own)
{
	ck_assert_int_eq(parse(COMMAND_RECORD, "-q ./app --force -o x -- --freq=abc"), 0);
	ck_assert_int_eq(options.n_operands, 6);
	ck_assert_str_eq(options.operands[1], "--force");
	ck_assert_str_eq(options.operands[4], "--");
	ck_assert(option_flag(&options, OPTION_QUIET));
	ck_assert(!option_flag(&options, OPTION_FORCE));
}
END_TEST

START_TEST(a_report_takes_options_behind_its_operand)
{
	ck_assert_int_eq(parse(COMMAND_REPORT, "app.mst --sites --limit 5"), 0);
	ck_assert(option_flag(&options, OPTION_SITES));
	ck_assert_uint_eq(option_number(&options, OPTION_LIMIT), 5);
	ck_assert_int_eq(options.n_operands, 1);
}
END_TEST

START_TEST(a_word_behind_two_dashes_is_an_operand)
{
	ck_assert_int_eq(parse(COMMAND_REPORT, "-- --sites"), 0);
	ck_assert_str_eq(options.operands[0], "--sites");
	ck_assert(!option_flag(&options, OPTION_SITES));
}
END_TEST

START_TEST(letters_may_stand_together)
{
	ck_assert_int_eq(parse(COMMAND_RECORD, "-qfo out.mst ./app"), 0);
	ck_assert(option_flag(&options, OPTION_QUIET));
	ck_assert(option_flag(&options, OPTION_FORCE));
	ck_assert_str_eq(option_text(&options, OPTION_OUTPUT), "out.mst");
}
END_TEST

START_TEST(a_unique_beginning_of_a_name_is_enough)
{
	ck_assert_int_eq(parse(COMMAND_RECORD, "--buffer-s 1G ./app"), 0);
	ck_assert_uint_eq(option_size(&options, OPTION_BUFFER_SIZE), UINT64_C(1) << 30);
	ck_assert_int_eq(parse(COMMAND_RECORD, "--no ./app"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(options.message, "more than one"));
}
END_TEST

START_TEST(an_optional_value_is_not_taken_from_the_next_word)
{
	ck_assert_int_eq(parse(COMMAND_RECORD, "--report ./app"), 0);
	ck_assert_str_eq(option_text(&options, OPTION_REPORT), "-");
	ck_assert_int_eq(parse(COMMAND_RECORD, "--report=r.txt ./app"), 0);
	ck_assert_str_eq(option_text(&options, OPTION_REPORT), "r.txt");
}
END_TEST

START_TEST(the_last_of_two_equal_options_wins)
{
	ck_assert_int_eq(parse(COMMAND_RECORD, "--freq 1 --freq 2 --force --force=no ./app"), 0);
	ck_assert_uint_eq(option_frequency(&options, OPTION_FREQ), 2);
	ck_assert(!option_flag(&options, OPTION_FORCE));
}
END_TEST

/* Each origin against the one below it. */
START_TEST(line_beats_variable_beats_words_beat_file_beats_default)
{
	ck_assert_int_eq(parse(COMMAND_RECORD, "./app"), 0);
	ck_assert_int_eq(option_assign(&options, "freq", "11", OPTION_FROM_FILE), 0);
	ck_assert_uint_eq(option_frequency(&options, OPTION_FREQ), 11);

	setenv("MEMSIGHT_OPTIONS", "--freq=22", 1);
	ck_assert_int_eq(parse(COMMAND_RECORD, "./app"), 0);
	ck_assert_int_eq(option_assign(&options, "freq", "11", OPTION_FROM_FILE), 0);
	ck_assert_uint_eq(option_frequency(&options, OPTION_FREQ), 22);
	ck_assert_int_eq(option_origin(&options, OPTION_FREQ), OPTION_FROM_WORDS);

	setenv("MEMSIGHT_FREQ", "33", 1);
	ck_assert_int_eq(parse(COMMAND_RECORD, "./app"), 0);
	ck_assert_uint_eq(option_frequency(&options, OPTION_FREQ), 33);
	ck_assert_int_eq(option_origin(&options, OPTION_FREQ), OPTION_FROM_VARIABLE);

	ck_assert_int_eq(parse(COMMAND_RECORD, "--freq 44 ./app"), 0);
	ck_assert_uint_eq(option_frequency(&options, OPTION_FREQ), 44);
	ck_assert_int_eq(option_origin(&options, OPTION_FREQ), OPTION_FROM_LINE);
}
END_TEST

START_TEST(a_flag_variable_can_be_taken_back_on_the_line)
{
	setenv("MEMSIGHT_NO_ALLOC", "1", 1);
	ck_assert_int_eq(parse(COMMAND_RECORD, "./app"), 0);
	ck_assert(option_flag(&options, OPTION_NO_ALLOC));
	ck_assert_int_eq(parse(COMMAND_RECORD, "--no-alloc=no ./app"), 0);
	ck_assert(!option_flag(&options, OPTION_NO_ALLOC));
}
END_TEST

START_TEST(an_empty_variable_is_none)
{
	setenv("MEMSIGHT_FREQ", "", 1);
	ck_assert_int_eq(parse(COMMAND_RECORD, "./app"), 0);
	ck_assert_int_eq(option_origin(&options, OPTION_FREQ), OPTION_FROM_DEFAULT);
}
END_TEST

START_TEST(a_wrong_variable_is_named)
{
	setenv("MEMSIGHT_FREQ", "fast", 1);
	ck_assert_int_eq(parse(COMMAND_RECORD, "./app"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(options.message, "MEMSIGHT_FREQ"));
	ck_assert_ptr_nonnull(strstr(options.message, "fast"));
}
END_TEST

START_TEST(help_is_given_even_if_a_variable_is_wrong)
{
	setenv("MEMSIGHT_FREQ", "fast", 1);
	ck_assert_int_eq(parse(COMMAND_RECORD, "--help"), 0);
	ck_assert(option_flag(&options, OPTION_HELP));
}
END_TEST

START_TEST(variables_of_other_commands_are_not_looked_at)
{
	setenv("MEMSIGHT_FREQ", "fast", 1);
	ck_assert_int_eq(parse(COMMAND_REPORT, "app.mst"), 0);
}
END_TEST

START_TEST(the_words_serve_all_commands)
{
	setenv("MEMSIGHT_OPTIONS", "--limit 3 -o 'a b.mst' --force -F 5", 1);
	ck_assert_int_eq(parse(COMMAND_RECORD, "./app"), 0);
	ck_assert_str_eq(option_text(&options, OPTION_OUTPUT), "a b.mst");
	ck_assert_uint_eq(option_frequency(&options, OPTION_FREQ), 5);
	ck_assert_int_eq(parse(COMMAND_REPORT, "app.mst"), 0);
	ck_assert_uint_eq(option_number(&options, OPTION_LIMIT), 3);
	ck_assert_int_eq(options.n_operands, 1);
}
END_TEST

START_TEST(every_preset_is_made_of_options_of_its_commands)
{
	char line[64];
	int n = 0;

	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++) {
		const char *words = option_preset_words((enum option_choice)_i, (enum command_id)i);
		if (!words)
			continue;
		snprintf(line, sizeof(line), "--preset=%s one",
			 option_choice_name((enum option_choice)_i));
		ck_assert_msg(parse((enum command_id)i, line) == 0, "%s", options.message);
		for (int id = 0; id < OPTION_COUNT; id++)
			n += options.values[id].of_preset;
	}
	ck_assert_int_ge(n, 2); /* to record with, and to ask with */
}
END_TEST

START_TEST(an_option_wins_over_a_preset_from_the_same_place_only)
{
	ck_assert_int_eq(parse(COMMAND_RECORD, "--freq=5 --preset=hot ./app"), 0);
	ck_assert_uint_eq(option_frequency(&options, OPTION_FREQ), 5);
	ck_assert_int_eq(option_choice(&options, OPTION_SAMPLE_STACKS), CHOICE_SAMPLE_STACKS_FP);
	ck_assert_int_eq(parse(COMMAND_RECORD, "--preset=hot --freq=5 ./app"), 0);
	ck_assert_uint_eq(option_frequency(&options, OPTION_FREQ), 5);

	setenv("MEMSIGHT_FREQ", "6", 1);
	ck_assert_int_eq(parse(COMMAND_RECORD, "--preset=hot ./app"), 0);
	ck_assert_uint_eq(option_frequency(&options, OPTION_FREQ), 2999);
	setenv("MEMSIGHT_PRESET", "hot", 1);
	ck_assert_int_eq(parse(COMMAND_RECORD, "./app"), 0);
	ck_assert_uint_eq(option_frequency(&options, OPTION_FREQ), 6);
	ck_assert_int_eq(parse(COMMAND_RECORD, "--preset=none ./app"), 0);
	ck_assert_int_eq(option_choice(&options, OPTION_SAMPLE_STACKS), CHOICE_SAMPLE_STACKS_NONE);
}
END_TEST

START_TEST(a_preset_of_other_commands_is_refused_on_the_line_and_read_over_in_a_variable)
{
	ck_assert_int_eq(parse(COMMAND_CHECK, "--preset=hot app.mst"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(options.message, "record"));
	setenv("MEMSIGHT_PRESET", "hot", 1);
	ck_assert_int_eq(parse(COMMAND_CHECK, "app.mst"), 0);
}
END_TEST

START_TEST(a_series_mode_may_name_a_preset)
{
	ck_assert_int_eq(parse(COMMAND_RECORD, "./app"), 0);
	ck_assert_int_eq(option_assign(&options, "preset", "leaks", OPTION_FROM_FILE), 0);
	ck_assert_int_eq(option_take_preset(&options), 0);
	ck_assert_str_eq(option_text(&options, OPTION_SOURCE), "none");
	ck_assert_int_eq(option_origin(&options, OPTION_SOURCE), OPTION_FROM_FILE);
}
END_TEST

static const char *const bad_words[] = { "stray", "--frequenzy=1", "--freq", "'open", "--freq=x" };

START_TEST(wrong_words_are_refused_and_named)
{
	setenv("MEMSIGHT_OPTIONS", bad_words[_i], 1);
	ck_assert_int_eq(parse(COMMAND_RECORD, "./app"), -EINVAL);
	ck_assert_ptr_nonnull(strstr(options.message, "MEMSIGHT_OPTIONS"));
	ck_assert_ptr_null(strchr(options.message, '\n'));
}
END_TEST

static const struct {
	enum command_id command;
	const char *line;
	const char *says; /* must be part of the message */
} wrong_lines[] = {
	{ COMMAND_RECORD, "--frq 3 ./app", "did you mean --freq?" },
	{ COMMAND_RECORD, "--ouptut x ./app", "did you mean --output?" },
	{ COMMAND_REPORT, "--by byte x", "did you mean bytes?" },
	{ COMMAND_REPORT, "--format jsn x", "is not one of text|csv|json; did you mean json?" },
	{ COMMAND_RECORD, "--source clok ./app", "none; did you mean clock?" },
	{ COMMAND_RECORD, "--source xyzzy ./app", "none" },
	{ COMMAND_REPORT, "sites x", "too many: sites; did you mean --sites?" },
	{ COMMAND_REPORT, "x y", "one argument too many: y" },
	{ COMMAND_REPORT, "x --cold 60s", "did you mean --cold=DURATION?" },
	{ COMMAND_RECORD, "--zzzzzzzz ./app", "unknown option --zzzzzzzz" },
	{ COMMAND_RECORD, "-Z ./app", "unknown option -Z" },
	{ COMMAND_RECORD, "--freq 0 ./app", "between 1 and 100000" },
	{ COMMAND_RECORD, "--freq 100001 ./app", "between 1 and 100000" },
	{ COMMAND_RECORD, "--freq -5 ./app", "not a frequency" },
	{ COMMAND_RECORD, "--freq", "needs a value" },
	{ COMMAND_RECORD, "--recorder-threads 17 ./app", "'17' is more than 16" },
	{ COMMAND_RECORD, "--freq= ./app", "not a frequency" },
	{ COMMAND_RECORD, "--output= ./app", "empty" },
	{ COMMAND_RECORD, "--buffer-size 5X ./app", "not a size" },
	{ COMMAND_RECORD, "--buffer-size 99999999T ./app", "too big" },
	{ COMMAND_RECORD, "--force=perhaps ./app", "neither yes nor no" },
	{ COMMAND_RECORD, "--stacks lbr ./app", "auto|dwarf|fp|none" },
	{ COMMAND_RECORD, "--source fault ./app",
	  "auto, clock, pebs, spe, marked, ibs, faults, pages, signal, none" },
	{ COMMAND_RECORD, "-q", "missing" },
	{ COMMAND_QUERY, "app.mst", "missing" },
	{ COMMAND_QUERY, "app.mst one two", "too many: two" },
	{ COMMAND_REPORT, "app.mst --freq 3",
	  "unknown option --freq; it is one of memsight record" },
	{ COMMAND_ATTACH, "--no-alloc 1",
	  "unknown option --no-alloc; it is one of memsight record" },
	{ COMMAND_REPORT, "app.mst --limit=-1", "not a number" },
	{ COMMAND_REPORT, "app.mst --json", "unknown option --json; --format=json does that" },
	{ COMMAND_REPORT, "-i app.mst", "unknown option -i; the file is an argument" },
	{ COMMAND_ANALYZE, "--plain=perhaps x", "--plain: 'perhaps' is neither yes nor no" },
	{ COMMAND_ANALYZE, "--no-output x", "unknown option --no-output" },
	{ COMMAND_ATTACH, "-g 1", "call stacks are always taken" },
};

START_TEST(wrong_usage_is_refused_in_one_line_that_says_why)
{
	ck_assert_int_eq(parse(wrong_lines[_i].command, wrong_lines[_i].line), -EINVAL);
	ck_assert_msg(strstr(options.message, wrong_lines[_i].says) != NULL, "'%s' says: %s",
		      wrong_lines[_i].line, options.message);
	ck_assert_ptr_null(strchr(options.message, '\n'));
}
END_TEST

static const struct {
	enum command_id command;
	const char *word, *hint;
} foreign[] = {
#define FOREIGN(command, word, hint) { COMMAND_##command, word, hint },
#include "schemas/foreign-words.def"
#undef FOREIGN
};

START_TEST(a_word_of_another_tool_is_none_of_ours_and_says_what_is)
{
	char line[64];

	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
		if (foreign[i].command == COMMAND_GLOBAL) {
			for (int j = COMMAND_GLOBAL + 1; j < COMMAND_COUNT; j++)
				ck_assert_str_ne(option_command((enum command_id)j)->name,
						 foreign[i].word);
			continue;
		}
		snprintf(line, sizeof(line), "%s x", foreign[i].word);
		ck_assert_int_eq(parse(foreign[i].command, line), -EINVAL);
		ck_assert_msg(strstr(options.message, foreign[i].hint) != NULL, "'%s' says: %s",
			      line, options.message);
	}
}
END_TEST

START_TEST(a_file_key_is_not_abbreviated_and_no_action)
{
	ck_assert_int_eq(parse(COMMAND_RECORD, "./app"), 0);
	ck_assert_int_eq(option_assign(&options, "fre", "11", OPTION_FROM_FILE), -EINVAL);
	ck_assert_int_eq(option_assign(&options, "help", NULL, OPTION_FROM_FILE), -EINVAL);
	ck_assert_int_eq(option_assign(&options, "limit", "1", OPTION_FROM_FILE), -EINVAL);
	ck_assert_int_eq(option_assign(&options, "no-follow", NULL, OPTION_FROM_FILE), 0);
	ck_assert(option_flag(&options, OPTION_NO_FOLLOW));
}
END_TEST

START_TEST(global_options_stand_before_the_command)
{
	ck_assert_int_eq(parse(COMMAND_GLOBAL, "report --help"), 0);
	ck_assert(!option_flag(&options, OPTION_HELP));
	ck_assert_int_eq(options.n_operands, 2);
	ck_assert_int_eq(parse(COMMAND_GLOBAL, "--version"), 0);
	ck_assert(option_flag(&options, OPTION_VERSION));
}
END_TEST

/* What the table must keep so that the parser's rules hold. */
START_TEST(no_command_has_a_name_or_letter_twice)
{
	for (int a = 0; a < OPTION_COUNT; a++) {
		for (int b = a + 1; b < OPTION_COUNT; b++) {
			const struct option_row *one = option_row((enum option_id)a);
			const struct option_row *other = option_row((enum option_id)b);

			if ((one->commands & other->commands) == 0)
				continue;
			ck_assert_str_ne(one->name, other->name);
			ck_assert(one->letter == 0 || one->letter != other->letter);
		}
	}
}
END_TEST

START_TEST(options_of_one_name_agree_on_taking_a_value)
{
	for (int a = 0; a < OPTION_COUNT; a++) {
		for (int b = 0; b < OPTION_COUNT; b++) {
			const struct option_row *one = option_row((enum option_id)a);
			const struct option_row *other = option_row((enum option_id)b);

			if (strcmp(one->name, other->name) == 0)
				ck_assert_int_eq(one->type == OPTION_FLAG,
						 other->type == OPTION_FLAG);
			if (one->letter && one->letter == other->letter)
				ck_assert_int_eq(one->type == OPTION_FLAG,
						 other->type == OPTION_FLAG);
		}
	}
}
END_TEST

START_TEST(no_variable_is_one_that_memsight_uses_itself)
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		const char *variable = option_row((enum option_id)id)->variable;

		if (!variable)
			continue;
		ck_assert_str_ne(variable, "MEMSIGHT_OPTIONS");
		ck_assert_str_ne(variable, "MEMSIGHT_RECORDING");
	}
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static void add_tests(TCase *tests)
{
	tcase_add_test(tests, a_default_stands_when_nothing_is_given);
	tcase_add_test(tests, every_default_is_a_value_of_its_own_type);
	tcase_add_loop_test(tests, a_value_stands_behind_an_equal_sign_or_in_the_next_word, 0,
			    COUNT(frequency_lines));
	tcase_add_loop_test(tests, a_flag_is_undone_by_its_name_with_no_or_without, 0,
			    COUNT(flag_lines));
	tcase_add_test(tests, the_options_of_the_recorded_program_are_its_own);
	tcase_add_test(tests, a_report_takes_options_behind_its_operand);
	tcase_add_test(tests, a_word_behind_two_dashes_is_an_operand);
	tcase_add_test(tests, letters_may_stand_together);
	tcase_add_test(tests, a_unique_beginning_of_a_name_is_enough);
	tcase_add_test(tests, an_optional_value_is_not_taken_from_the_next_word);
	tcase_add_test(tests, the_last_of_two_equal_options_wins);
	tcase_add_test(tests, line_beats_variable_beats_words_beat_file_beats_default);
	tcase_add_test(tests, a_flag_variable_can_be_taken_back_on_the_line);
	tcase_add_test(tests, an_empty_variable_is_none);
	tcase_add_test(tests, a_wrong_variable_is_named);
	tcase_add_test(tests, help_is_given_even_if_a_variable_is_wrong);
	tcase_add_test(tests, variables_of_other_commands_are_not_looked_at);
	tcase_add_test(tests, the_words_serve_all_commands);
	tcase_add_loop_test(tests, every_preset_is_made_of_options_of_its_commands,
			    CHOICE_PRESET_NONE + 1, CHOICE_PRESET_CI + 1);
	tcase_add_test(tests, an_option_wins_over_a_preset_from_the_same_place_only);
	tcase_add_test(
		tests,
		a_preset_of_other_commands_is_refused_on_the_line_and_read_over_in_a_variable);
	tcase_add_test(tests, a_series_mode_may_name_a_preset);
	tcase_add_loop_test(tests, wrong_words_are_refused_and_named, 0, COUNT(bad_words));
	tcase_add_loop_test(tests, wrong_usage_is_refused_in_one_line_that_says_why, 0,
			    COUNT(wrong_lines));
	tcase_add_test(tests, a_word_of_another_tool_is_none_of_ours_and_says_what_is);
	tcase_add_test(tests, a_file_key_is_not_abbreviated_and_no_action);
	tcase_add_test(tests, global_options_stand_before_the_command);
	tcase_add_test(tests, no_command_has_a_name_or_letter_twice);
	tcase_add_test(tests, options_of_one_name_agree_on_taking_a_value);
	tcase_add_test(tests, no_variable_is_one_that_memsight_uses_itself);
}

int main(void)
{
	Suite *suite = suite_create("option");
	TCase *tests = tcase_create("option");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	add_tests(tests);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
