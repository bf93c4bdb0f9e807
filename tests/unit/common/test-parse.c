#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/parse.h"
#include "tests/support/suite.h"

static const struct {
	const char *text;
	int result;
	uint64_t value;
} numbers[] = {
	{ "0", 0, 0 },
	{ "997", 0, 997 },
	{ "18446744073709551615", 0, UINT64_MAX },
	{ "18446744073709551616", -ERANGE, 0 },
	{ "99999999999999999999999", -ERANGE, 0 },
	{ "", -EINVAL, 0 },
	{ "-1", -EINVAL, 0 },
	{ "+1", -EINVAL, 0 },
	{ " 1", -EINVAL, 0 },
	{ "1 ", -EINVAL, 0 },
	{ "1x", -EINVAL, 0 },
	{ "0x10", -EINVAL, 0 },
};

START_TEST(a_number_is_digits_and_nothing_else)
{
	uint64_t value = 4242;

	ck_assert_int_eq(parse_number(numbers[_i].text, &value), numbers[_i].result);
	ck_assert_uint_eq(value, numbers[_i].result < 0 ? 4242 : numbers[_i].value);
}
END_TEST

static const struct {
	const char *text;
	int result;
	uint64_t value;
} sizes[] = {
	{ "4096", 0, 4096 },
	{ "12B", 0, 12 },
	{ "64K", 0, 65536 },
	{ "64k", 0, 65536 },
	{ "64KiB", 0, 65536 },
	{ "64kB", 0, 64000 },
	{ "3M", 0, 3145728 },
	{ "3MB", 0, 3000000 },
	{ "2GiB", 0, UINT64_C(2147483648) },
	{ "1T", 0, UINT64_C(1099511627776) },
	{ "16777215T", 0, UINT64_C(16777215) << 40 },
	{ "16777216T", -ERANGE, 0 },
	{ "M", -EINVAL, 0 },
	{ "1.5M", -EINVAL, 0 },
	{ "1 M", -EINVAL, 0 },
	{ "1MM", -EINVAL, 0 },
	{ "", -EINVAL, 0 },
};

START_TEST(a_size_has_a_unit_as_in_gnu_tools)
{
	uint64_t value = 4242;

	ck_assert_int_eq(parse_size(sizes[_i].text, &value), sizes[_i].result);
	ck_assert_uint_eq(value, sizes[_i].result < 0 ? 4242 : sizes[_i].value);
}
END_TEST

static const struct {
	const char *line;
	int result;
	const char *joined; /* the words with | behind each */
} lines[] = {
	{ "", 0, "" },
	{ "  \t\n ", 0, "" },
	{ "one", 0, "one|" },
	{ " one  two ", 0, "one|two|" },
	{ "'a b' c", 0, "a b|c|" },
	{ "a'b c'd", 0, "ab cd|" },
	{ "''", 0, "|" },
	{ "\"\" x", 0, "|x|" },
	{ "\"it's\"", 0, "it's|" },
	{ "a\\ b", 0, "a b|" },
	{ "'a\\b'", 0, "a\\b|" },
	{ "\"a\\\"b\\c\"", 0, "a\"b\\c|" },
	{ "x\\", 0, "x\\|" },
	{ "'open", -EINVAL, "" },
	{ "a \"b", -EINVAL, "" },
	{ "1 2 3 4", 0, "1|2|3|4|" },
	{ "1 2 3 4 5", -E2BIG, "" },
};

START_TEST(words_are_split_as_a_shell_does)
{
	char buffer[64];
	char joined[64] = "";
	char *words[4];
	size_t n = 0;

	strcpy(buffer, lines[_i].line);
	ck_assert_int_eq(parse_words(buffer, words, 4, &n), lines[_i].result);
	for (size_t i = 0; i < n; i++) {
		strcat(joined, words[i]);
		strcat(joined, "|");
	}
	ck_assert_str_eq(joined, lines[_i].joined);
}
END_TEST

static const struct {
	const char *word;
	const char *nearest; /* among the names below; NULL: none */
} typos[] = {
	{ "record", "record" }, { "recrod", "record" },	 { "recor", "record" },
	{ "rexord", "record" }, { "recoord", "record" }, { "limt", "limit" },
	{ "lis", "list" },	{ "xyz", NULL },	 { "q", NULL },
	{ "", NULL },
};

START_TEST(a_typo_finds_its_nearest_name)
{
	static const char *const names[] = { "record", "report", "list", "limit" };
	struct parse_nearest nearest = { .word = typos[_i].word };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		parse_nearest_offer(&nearest, names[i]);
	if (typos[_i].nearest)
		ck_assert_str_eq(nearest.name, typos[_i].nearest);
	else
		ck_assert_ptr_null(nearest.name);
}
END_TEST

START_TEST(a_very_long_word_is_near_to_nothing)
{
	char word[5001] = { 0 };
	struct parse_nearest nearest = { .word = word };

	memset(word, 'x', sizeof(word) - 1);
	parse_nearest_offer(&nearest, word);
	parse_nearest_offer(&nearest, "x");
	ck_assert_ptr_null(nearest.name);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const struct {
	const char *text;
	int result;
	int64_t ns;
} durations[] = {
	{ "0", 0, 0 },
	{ "7ns", 0, 7 },
	{ "1.5s", 0, 1500000000 },
	{ "200ms", 0, 200000000 },
	{ "0.0000000019s", 0, 1 },
	{ "2min", 0, INT64_C(120000000000) },
	{ "1.us", 0, 1000 },
	{ "5", -EINVAL, 0 },
	{ "s", -EINVAL, 0 },
	{ "1.5", -EINVAL, 0 },
	{ "1 s", -EINVAL, 0 },
	{ "-1s", -EINVAL, 0 },
	{ "9223372036s", 0, INT64_C(9223372036000000000) },
	{ "9223372037s", -ERANGE, 0 },
};

START_TEST(a_duration_has_a_unit)
{
	int64_t ns = 0;

	ck_assert_int_eq(parse_duration(durations[_i].text, &ns), durations[_i].result);
	ck_assert_int_eq(ns, durations[_i].ns);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("parse");
	TCase *tests = tcase_create("parse");

	tcase_add_loop_test(tests, a_number_is_digits_and_nothing_else, 0, COUNT(numbers));
	tcase_add_loop_test(tests, a_size_has_a_unit_as_in_gnu_tools, 0, COUNT(sizes));
	tcase_add_loop_test(tests, words_are_split_as_a_shell_does, 0, COUNT(lines));
	tcase_add_loop_test(tests, a_typo_finds_its_nearest_name, 0, COUNT(typos));
	tcase_add_test(tests, a_very_long_word_is_near_to_nothing);
	tcase_add_loop_test(tests, a_duration_has_a_unit, 0,
			    sizeof(durations) / sizeof(*durations));
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
