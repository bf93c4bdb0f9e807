#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "report/report.h"
#include "report/text/fit-text.h"
#include "report/text/table.h"
#include "tests/support/suite.h"

static sqlite3 *db;
static char *text;
static size_t n_bytes;

static void setup(void)
{
	ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
	ck_assert_int_eq(report_functions_register(db), SQLITE_OK);
	text = NULL;
}

static void teardown(void)
{
	sqlite3_close(db);
	free(text);
}

/* Run a query into `text`. */
static int run(const char *sql, const struct table_style *style)
{
	free(text);
	text = NULL;
	FILE *out = open_memstream(&text, &n_bytes);
	int r = query_write(out, db, sql, style);

	fclose(out);
	return r;
}

START_TEST(csv_quotes_what_a_reader_could_misread)
{
	struct table_style style = { .format = TABLE_CSV };

	ck_assert_int_eq(run("SELECT 1 AS a, 'x,y' AS \"b\"\"\", 'say \"hi\"' AS c, NULL AS d,"
			     " x'00ff' AS e, 'two' || char(10) || 'lines' AS f",
			     &style),
			 0);
	ck_assert_str_eq(text, "a,\"b\"\"\",c,d,e,f\n"
			       "1,\"x,y\",\"say \"\"hi\"\"\",,00ff,\"two\nlines\"\n");
}
END_TEST

START_TEST(csv_names_its_columns_even_without_rows)
{
	struct table_style style = { .format = TABLE_CSV };

	ck_assert_int_eq(run("SELECT 1 AS a, 2 AS b WHERE 0", &style), 0);
	ck_assert_str_eq(text, "a,b\n");
}
END_TEST

START_TEST(json_is_an_array_of_objects)
{
	struct table_style style = { .format = TABLE_JSON };

	ck_assert_int_eq(run("SELECT 1 AS a, 0.5 AS b, NULL AS c, 'q\"\\' || char(9) AS d", &style),
			 0);
	ck_assert_str_eq(text, "[\n{\"a\":1,\"b\":0.5,\"c\":null,\"d\":\"q\\\"\\\\\\u0009\"}\n]\n");
	ck_assert_int_eq(run("SELECT 1 WHERE 0", &style), 0);
	ck_assert_str_eq(text, "[]\n");
}
END_TEST

/* Bytes that are no UTF-8, each followed by an x that must survive. */
static const char *const bad_utf8[] = { "\xff",		"\xc0\xaf",	    "\xe0\x80\x80",
					"\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82" };

START_TEST(json_stays_valid_whatever_bytes_a_path_has)
{
	struct table_style style = { .format = TABLE_JSON };
	char sql[128];

	snprintf(sql, sizeof(sql), "SELECT '%sx\xc3\xa9' AS a", bad_utf8[_i]);
	ck_assert_int_eq(run(sql, &style), 0);
	ck_assert_ptr_null(strstr(text, bad_utf8[_i]));
	ck_assert_ptr_nonnull(strstr(text, "\xef\xbf\xbdx\xc3\xa9\"")); /* the accent stays */
}
END_TEST

START_TEST(text_columns_are_aligned_and_numbers_stand_right)
{
	static const enum table_kind kinds[] = { TABLE_PLAIN, TABLE_BYTES };
	struct table_style style = { .kinds = kinds, .n_kinds = 2 };

	ck_assert_int_eq(run("SELECT 'a' AS name, 1024 AS size, 'x' AS last "
			     "UNION ALL SELECT 'long name', 5, NULL",
			     &style),
			 0);
	ck_assert_str_eq(text, "name           size  last\n"
			       "a          1.00 KiB  x\n"
			       "long name       5 B  -\n");
}
END_TEST

START_TEST(texts_are_cut_to_the_width_of_the_terminal)
{
	static const char stack[] =
		"SELECT 1 AS n, 'inner_function a.c:1 < outer_function b.c:22 < more c.c:3' AS v";
	static const char name[] =
		"SELECT 1 AS n, 'A::name<of a template, that is long>::and_on(int, int) a.cc:42' "
		"AS v";
	struct table_style style = { .width = 20 };

	ck_assert_int_eq(run("SELECT 'ab' AS k, 'abcdefghijklmnopqrstuvwxyz' AS v", &style), 0);
	ck_assert_str_eq(text, "k\n    v\nab\n    abcdefghij…vwxyz\n");
	style.width = 50;
	ck_assert_int_eq(run(stack, &style), 0);
	ck_assert_str_eq(text, "n  v\n1  inner_function a.c:1 < …\n");
	style.width = 51;
	ck_assert_int_eq(run(stack, &style), 0);
	ck_assert_str_eq(text, "n  v\n1  inner_function a.c:1 < outer_function b.c:22 < …\n");
	ck_assert_int_eq(run(name, &style), 0);
	ck_assert_str_eq(text, "n  v\n1  A::name<…>::and_on(int, int) a.cc:42\n");
	/* Rows that would read the same have a line of their own for it. */
	ck_assert_int_eq(
		run("SELECT 1 AS n,"
		    " 'a_rather_long_function one.c:1 < caller_of_kind_1_of_all two.c:2' AS v"
		    " UNION SELECT 2,"
		    " 'a_rather_long_function one.c:1 < caller_of_kind_2_of_all two.c:2'",
		    &style),
		0);
	ck_assert_ptr_nonnull(strstr(text, "n\n    v\n1\n    a_rather_long_function one.c:1 < "));
	style.width = 56;
	ck_assert_int_eq(
		run("SELECT 1 AS n, 'a_rather_long_function one.c:1 < which_one two.c:2' AS v"
		    " UNION SELECT 2, 'a_rather_long_function one.c:1 < another_one two.c:3'"
		    " UNION SELECT 3, 'a_rather_long_function one.c:1 < "
		    "a_third_one_that_is_longer two.c:4'",
		    &style),
		0);
	ck_assert_str_eq(text, "n  v\n"
			       "1  a_rather_long_function one.c:1 < which_one two.c:2\n"
			       "2  a_rather_long_function one.c:1 < another_one two.c:3\n"
			       "3  a_rather_long_function one.c:1 < a_third_…ger two.c:4\n");
	style.width = 0;
	ck_assert_int_eq(run(stack, &style), 0);
	ck_assert_ptr_nonnull(strstr(text, "< more c.c:3\n"));
}
END_TEST

START_TEST(columns_that_say_the_same_in_all_rows_make_room_for_a_text)
{
	static const enum table_kind kinds[] = { TABLE_PLAIN, TABLE_PLAIN, TABLE_BYTES };
	static const char two[] =
		"SELECT 1 AS n, NULL AS empty, 0 AS size, 'a_process' AS process,"
		" 'a_function_with_a_long_name_of_its_own file.c:1' AS v UNION ALL"
		" SELECT 2, NULL, 0, 'a_process', 'another_function_with_a_long_name file.c:20'";
	static const char one[] =
		"SELECT 1 AS n, 0 AS size, 'a_process' AS process,"
		" 'a_function_with_a_name_that_is_very_long_of_its_own file.c:1' AS v";
	struct table_style style = { .kinds = kinds, .n_kinds = 3, .width = 60 };

	ck_assert_int_eq(run(two, &style), 0);
	ck_assert_str_eq(text, "n  v\n"
			       "1  a_function_with_a_long_name_of_its_own file.c:1\n"
			       "2  another_function_with_a_long_name file.c:20\n"
			       "in all these rows: empty -, size 0 B, process a_process\n");
	style.width = 80; /* there is room */
	ck_assert_int_eq(run(two, &style), 0);
	ck_assert_ptr_nonnull(strstr(text, "n  empty  size  process    v\n"));
	ck_assert_ptr_null(strstr(text, "in all"));
	style.width = 50; /* of one row there is nothing to compare */
	ck_assert_int_eq(run(one, &style), 0);
	ck_assert_ptr_nonnull(strstr(text, "process"));
	ck_assert_ptr_null(strstr(text, "in all"));
}
END_TEST

static const struct {
	const char *text;
	unsigned width;
	const char *cut;
} cuts[] = {
	/* It fits. */
	{ "std::vector<int>::push_back(int) a.cc:7", 40,
	  "std::vector<int>::push_back(int) a.cc:7" },
	/* Template arguments first, then parameters, as far as needed and no further. */
	{ "std::vector<std::string, std::allocator<std::string> >::push_back(int) a.cc:7", 40,
	  "std::vector<…>::push_back(int) a.cc:7" },
	{ "std::map<int, long, std::less<int> >::fill(std::pair<int, long> const&) a.cc:7", 30,
	  "std::map<…>::fill(…) a.cc:7" },
	{ "void sort<int, long>(std::vector<std::string>) a.cc:7", 48,
	  "void sort<…>(std::vector<std::string>) a.cc:7" },
	/* Operators and places are no groups. */
	{ "bool box<int, long, short>::operator<(box<int, long, short> const&) const a.cc:7", 40,
	  "bool box<…>::operator<(…) const a.cc:7" },
	{ "box<int, long, short>::operator->(unsigned long, char) a.cc:7", 34,
	  "box<…>::operator->(…) a.cc:7" },
	{ "box<int, long, short>::operator()(unsigned long, char) a.cc:7", 34,
	  "box<…>::operator()(…) a.cc:7" },
	{ "(anonymous namespace)::table<long, char const*>::fill() a.cc:7", 50,
	  "(anonymous namespace)::table<…>::fill() a.cc:7" },
	/* Then what is in the middle, but not the function's name. */
	{ "one_long_name::another_long_name::of_many<int>::names::the_function(long) a.cc:7", 36,
	  "one_long_na…::the_function(…) a.cc:7" },
	/* Of 29 columns 6 are the place's, and 7 of the other 23 of what is before it. */
	{ "a_name_of_a_function_that_is_long_and_in_c a.c:7", 30,
	  "a_name_of_a_func…nd_in_c a.c:7" },
	/* What a call led to in libraries goes from its inner end on; the call is cut last. */
	{ "Cache::get a.cc:7 › map::operator[] › allocate", 40,
	  "Cache::get a.cc:7 › map::operator[] › …" },
	{ "Cache::get a.cc:7 › map::operator[] › allocate", 30, "Cache::get a.cc:7 › …" },
	{ "Cache::get a.cc:7 › map::operator[] › allocate < main a.cc:9", 34,
	  "Cache::get a.cc:7 › … < …" },
	{ "a_name_of_a_function_that_is_long_and_in_c a.c:7 › malloc", 34,
	  "a_name_of_a_func…nd_in_c a.c:7 › …" },
	/* The library of a function that is named goes first; where only it is known, it stays. */
	{ "node (liblayout.so.6+0xb3e1) › zmalloc < place (liblayout.so.6+0x14c72) < main", 60,
	  "node (+0xb3e1) › zmalloc < place (+0x14c72) < main" },
	{ "node (liblayout.so.6+0xb3e1) › zmalloc < liblayout.so.6+0x6267 < main", 60,
	  "node (+0xb3e1) › zmalloc < liblayout.so.6+0x6267 < main" },
	{ "f(int) (in libc.so.6) (libc.so.6+0x1g) a name that is long", 30,
	  "f(…) (in libc.so… that is long" },
	/* Brackets that nothing ends: 3 of 9. */
	{ "a<b<c<d<e<f<g<h<i<j<k<l<m<n<o<p", 10, "a<b<c<…o<p" },
};

START_TEST(names_keep_their_function_when_they_are_cut)
{
	char *cut = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&cut, &n);

	fit_write(out, cuts[_i].text, cuts[_i].width);
	fclose(out);
	ck_assert_uint_le(fit_columns(cut), cuts[_i].width);
	ck_assert_str_eq(cut, cuts[_i].cut);
	free(cut);
}
END_TEST

START_TEST(a_bar_keeps_its_scale_at_every_width)
{
	static const enum table_kind kinds[] = { TABLE_PLAIN, TABLE_BAR };

	for (unsigned width = 35; width <= 200; width += 5) {
		unsigned room =
			width - 22 < 40 ? width - 22 : 40; /* behind 20 columns and two blanks */
		const struct table_style style = { TABLE_TEXT, kinds, 2, width, true };
		char half[64] = "", all[64] = "";
		room = room < 12 ? 12 : room;
		memset(half, '#', (room + 1) / 2);
		memset(all, '#', room);
		ck_assert_int_eq(run("SELECT 'aaaaaaaaaaaaaaaaaaaa' AS a, 1.0 AS b "
				     "UNION ALL SELECT 'x', 0.5",
				     &style),
				 0);
		char expected[200];
		snprintf(expected, sizeof(expected),
			 "\naaaaaaaaaaaaaaaaaaaa  %s\nx                     %s\n", all, half);
		ck_assert_msg(strstr(text, expected), "width %u:\n%s", width, text);
	}
}
END_TEST

START_TEST(numbers_that_have_no_room_are_below_behind_their_names)
{
	static const char sql[] = "SELECT 'a' AS name, 11111111 AS first, 22222222 AS second,"
				  " 33333333 AS third, 4 AS fourth, printf('%.60c', 'x') AS what";
	static const struct {
		unsigned width;
		const char *shown;
	} cases[] = {
		{ 38, "name     first    second     third\n    what\n"
		      "a     11111111  22222222  33333333\n    fourth 4\n    xxxx" },
		{ 27, "name     first    second\n    what\n"
		      "a     11111111  22222222\n    third 33333333  fourth 4\n    xxxx" },
		{ 64, "fourth\n    what\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct table_style style = { TABLE_TEXT, NULL, 0, cases[i].width, false };
		ck_assert_int_eq(run(sql, &style), 0);
		ck_assert_msg(strstr(text, cases[i].shown), "width %u:\n%s", cases[i].width, text);
	}
}
END_TEST

START_TEST(a_value_and_its_interval_are_one_cell)
{
	static const struct {
		enum table_kind kind;
		const char *values, *shown;
	} cases[] = {
		{ TABLE_SHARE, "0.413, 0.404, 0.421", "41.3 \u00b10.9 %" },
		{ TABLE_SHARE, "0.4, 0.37, 0.51", "37.0-51.0 %" }, /* more than a quarter of it */
		{ TABLE_SHARE, "0.766, 0.312, 1.22", "\u226531.2 %" },
		{ TABLE_SHARE, "0.999, 0.996, 1", "\u226599.6 %" }, /* would reach above 100 */
		{ TABLE_SHARE, "NULL, 0.024, 0.108", "2.4-10.8 %" },
		{ TABLE_SHARE, "NULL, 0, 1", "0.0-100.0 %" },
		{ TABLE_SHARE, "0.5, NULL, NULL", "50.0 %" },
		{ TABLE_SHARE, "NULL, NULL, NULL", "-" },
		{ TABLE_SHARE, "1.0, 1.0, 1.0", "100.0 \u00b10.0 %" },
		{ TABLE_SHARE_HALF, "0.2, 0.01", "20.0 \u00b11.0 %" },
		{ TABLE_SHARE_HALF, "0.02, 0.03", "\u22645.0 %" },
		{ TABLE_SHARE_HALF, "NULL, 0.03", "-" },
		{ TABLE_WITH_INTERVAL, "8.4, 8.1, 8.7", "8.4 \u00b10.3" },
		{ TABLE_WITH_INTERVAL, "NULL, 35.2, 45.7", "35.2-45.7" },
		{ TABLE_WITH_INTERVAL, "NULL, 0, 0.02", "\u22640.02" },
		{ TABLE_WITH_INTERVAL, "100, 4300, 380000", "4300-380000" },
		{ TABLE_WITH_INTERVAL, "NULL, NULL, NULL", "-" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const enum table_kind kinds[] = { TABLE_PLAIN, cases[i].kind };
		struct table_style style = { TABLE_TEXT, kinds, 2, 0, false };
		char sql[200], expected[200];

		snprintf(sql, sizeof(sql),
			 "WITH v(a, b, c, d, e) AS (VALUES (1, %s, 'x'%s)) SELECT a, b, c, d%s "
			 "FROM v",
			 cases[i].values, cases[i].kind == TABLE_SHARE_HALF ? ", 0" : "",
			 cases[i].kind == TABLE_SHARE_HALF ? "" : ", e");
		ck_assert_int_eq(run(sql, &style), 0);
		snprintf(expected, sizeof(expected), "%s  x\n", cases[i].shown);
		ck_assert_msg(strstr(text, expected) != NULL && strstr(text, "a  ") == text &&
				      strstr(text, "b \u00b195 %  ") != NULL &&
				      !strstr(text, " c "),
			      "%s: %s", cases[i].values, text);
	}
}
END_TEST

START_TEST(control_characters_do_not_reach_the_terminal)
{
	struct table_style style = { 0 };

	ck_assert_int_eq(run("SELECT 'a' || char(27) || '[2J' || char(10) || 'b' AS v", &style), 0);
	ck_assert_str_eq(text, "v\na?[2J?b\n");
}
END_TEST

START_TEST(more_rows_than_are_read_ahead_all_appear)
{
	struct table_style style = { 0 };
	size_t n_lines = 0;

	ck_assert_int_eq(run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
			     " WHERE i < 2500) SELECT i FROM n",
			     &style),
			 0);
	for (const char *c = text; *c; c++)
		n_lines += *c == '\n';
	ck_assert_uint_eq(n_lines, 2501);
	ck_assert_ptr_nonnull(strstr(text, "\n2500\n"));
}
END_TEST

START_TEST(an_sql_error_is_told_apart_from_nothing_to_do)
{
	struct table_style style = { 0 };

	ck_assert_int_eq(run("SELECT nothing FROM nowhere", &style), -EPROTO);
	ck_assert_int_eq(run("  -- only a comment", &style), -EINVAL);
	ck_assert_int_eq(run("", &style), -EINVAL);
	ck_assert_int_eq(run("SELECT 1; SELECT 2", &style), 0);
	ck_assert_str_eq(text, "1\n1\n2\n2\n");
}
END_TEST

static const struct {
	const char *text, *copy;
} any_bytes[] = {
	{ "", "" },
	{ "a\u00e4\u20ac\U0001f600z", "a\u00e4\u20ac\U0001f600z" },
	{ "a\xff\x62", "a\xef\xbf\xbd\x62" },
	{ "\xc3", "\xef\xbf\xbd" },
	{ "\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd" },
	{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
};

START_TEST(what_is_no_utf8_is_replaced_byte_by_byte)
{
	char *copy = utf8_copy(any_bytes[_i].text);

	ck_assert_str_eq(copy, any_bytes[_i].copy);
	free(copy);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("table");
	TCase *tcase = tcase_create("table");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, csv_quotes_what_a_reader_could_misread);
	tcase_add_test(tcase, csv_names_its_columns_even_without_rows);
	tcase_add_test(tcase, json_is_an_array_of_objects);
	tcase_add_loop_test(tcase, json_stays_valid_whatever_bytes_a_path_has, 0,
			    sizeof(bad_utf8) / sizeof(*bad_utf8));
	tcase_add_test(tcase, text_columns_are_aligned_and_numbers_stand_right);
	tcase_add_test(tcase, texts_are_cut_to_the_width_of_the_terminal);
	tcase_add_test(tcase, columns_that_say_the_same_in_all_rows_make_room_for_a_text);
	tcase_add_loop_test(tcase, names_keep_their_function_when_they_are_cut, 0,
			    (int)(sizeof(cuts) / sizeof(cuts[0])));
	tcase_add_test(tcase, numbers_that_have_no_room_are_below_behind_their_names);
	tcase_add_test(tcase, a_value_and_its_interval_are_one_cell);
	tcase_add_test(tcase, control_characters_do_not_reach_the_terminal);
	tcase_add_test(tcase, a_bar_keeps_its_scale_at_every_width);
	tcase_add_test(tcase, more_rows_than_are_read_ahead_all_appear);
	tcase_add_test(tcase, an_sql_error_is_told_apart_from_nothing_to_do);
	tcase_add_loop_test(tcase, what_is_no_utf8_is_replaced_byte_by_byte, 0,
			    sizeof(any_bytes) / sizeof(*any_bytes));
	suite_add_tcase(suite, tcase);

	return suite_run(suite);
}
