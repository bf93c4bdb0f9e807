#include "report/callgraph/profile.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/samples/samples.h"
#include "report/known-leaks.h"
#include "store/totals/keyed.h"
#include "tests/unit/analyze/fixtures/memory-db.h"
#include "tests/support/suite.h"

/*
 * main calls f and g(int); f calls g(int) and itself. Stacks, outermost first:
 * 1 main, 2 main f, 3 main f g, 4 main f f, 5 main f f g, 6 main g, 7 without frames.
 */
static const char rows_sql[] =
	"INSERT INTO source(id, run_id, number, name, measures, unit, exclude_kernel, error, "
	"n_samples)"
	" VALUES (1,1,1,'clock','time','ns',1,0,100);"
	"INSERT INTO frame(id, object, path, offset, function) VALUES "
	"(1,'aa','/bin/app',16,'main'), (2,'aa','/bin/app',32,'f'),"
	" (3,'aa','/bin/app',64,'g(int)'), (4,'aa','/bin/app',33,'f');"
	"INSERT INTO stack(id, parent_id, frame_id, stop, depth) VALUES (1,NULL,1,NULL,1), "
	"(2,1,2,NULL,2), (3,2,3,NULL,3), (4,2,4,NULL,3),"
	" (5,4,3,NULL,4), (6,1,3,NULL,2), (7,NULL,NULL,'no rule',1);"
	"INSERT INTO site(run_id, stack_id, n_blocks, n_frees, bytes, live_blocks, live_bytes,"
	" peak_bytes, peak_ns, first_ns, last_ns, n_temporary, byte_seconds, n_samples, "
	"n_samples_sq,"
	" time_ns, n_faults) VALUES"
	" (1,2,1,0,1,1,1,1,1,0,1,0,1,1,1,10,0), (1,3,1,0,10,0,0,1,1,0,1,0,1,0,0,0,0),"
	" (1,5,1,0,100,1,100,1,1,0,1,0,1,2,2,20,0), (1,6,1,0,1000,0,0,1,1,0,1,0,1,0,0,0,0),"
	" (1,7,1,0,10000,0,0,1,1,0,1,0,1,0,0,0,0), (1,0,1,0,100000,0,0,1,1,0,1,0,1,0,0,0,0)";

static sqlite3 *db;
static struct profile *profile;

static void set_up(void)
{
	db = memory_db_open();
	ck_assert_msg(sqlite3_exec(db, rows_sql, NULL, NULL, NULL) == SQLITE_OK, "%s",
		      sqlite3_errmsg(db));
	profile = NULL;
}

static void tear_down(void)
{
	profile_close(profile);
	sqlite3_close(db);
}

static void make_profile(enum profile_metric metric, const char *const *excluded)
{
	const struct profile_request request = { 1, metric, { .excluded = excluded } };

	ck_assert_int_eq(profile_open(db, &request, &profile), 0);
	ck_assert_int_eq(profile_tables(profile, db), 0);
}

#define ck_assert_sql(sql, expected) ck_assert_int_eq(memory_db_integer(db, sql), expected)

#define TOTAL(name) "SELECT total FROM profile_function WHERE function = '" name "'"
#define SELF(name)  "SELECT self FROM profile_function WHERE function = '" name "'"
#define CALL(column, a, b)                                                                         \
	"SELECT " column " FROM profile_call JOIN profile_function AS x ON x.id = caller"          \
	" JOIN profile_function AS y ON y.id = callee WHERE x.function = '" a                      \
	"' AND y.function = '" b "'"

START_TEST(a_recursive_function_counts_once_per_stack)
{
	make_profile(PROFILE_BYTES, NULL);
	ck_assert_sql(TOTAL("f"), 1 + 10 + 100);
	ck_assert_sql(SELF("f"), 1);
	ck_assert_sql(TOTAL("g(int)"), 10 + 100 + 1000);
	ck_assert_sql(TOTAL("main"), 1111);
}
END_TEST

START_TEST(a_call_that_closes_a_cycle_is_marked_and_carries_nothing)
{
	make_profile(PROFILE_BYTES, NULL);
	ck_assert_sql(CALL("value", "f", "f"), 0);
	ck_assert_sql(CALL("is_cycle", "f", "f"), 1);
	ck_assert_sql(CALL("value", "f", "g(int)"), 110);
	ck_assert_sql(CALL("is_cycle", "f", "g(int)"), 0);
}
END_TEST

START_TEST(callers_add_up_to_each_function_and_selfs_to_the_whole)
{
	make_profile((enum profile_metric)_i, NULL);
	ck_assert_sql("SELECT count(*) FROM profile_function AS f WHERE id <> 0 AND total <>"
		      " (SELECT sum(value) FROM profile_call WHERE callee = f.id)",
		      0);
	ck_assert_sql("SELECT sum(self) = (SELECT total FROM profile_function WHERE id = 0)"
		      " FROM profile_function",
		      1);
}
END_TEST

START_TEST(what_has_no_functions_is_in_the_whole)
{
	make_profile(PROFILE_BYTES, NULL);
	ck_assert_sql(SELF("(all)"), 110000);
	ck_assert_sql(TOTAL("(all)"), 111111);
}
END_TEST

START_TEST(an_excluded_function_is_charged_to_its_callers)
{
	static const char *const excluded[] = { "nobody", "g", NULL };

	make_profile(PROFILE_BYTES, excluded);
	ck_assert_sql("SELECT count(*) FROM profile_function WHERE function LIKE 'g%'", 0);
	ck_assert_sql(SELF("f"), 111);
	ck_assert_sql(SELF("main"), 1000);
	ck_assert_sql(TOTAL("(all)"), 111111);
}
END_TEST

static const struct {
	const char *function, *name;
	int is;
} named[] = {
	{ "f(int)", "f", 1 },	   { "f(int)", "f(int)", 1 }, { "f(int)", "f(long)", 0 },
	{ "f<int>(int)", "f", 0 }, { "ff", "f", 0 },	      { "f", "f", 1 },
};

START_TEST(a_name_means_all_its_overloads)
{
	ck_assert_int_eq(paths_is_named(named[_i].function, named[_i].name), named[_i].is);
}
END_TEST

/* As compiler-rt's TemplateMatch() answers. */
static const struct {
	const char *pattern, *text;
	bool is;
} matches[] = {
	{ "foo", "xfoox", true },    { "^foo", "xfoo", false },	 { "^foo", "foox", true },
	{ "foo$", "xfoo", true },    { "foo$", "foox", false },	 { "^foo$", "foo", true },
	{ "f*o", "f123o4", true },   { "^f*o$", "f123o", true }, { "f*$", "f123", true },
	{ "*", "x", true },	     { "*", "", false },	 { "a*b*c", "xaybzc", true },
	{ "a*b*c", "xaybz", false }, { "^*foo", "a foo", true }, { "foo*", "foo", true },
	{ "x$", "", false },
};

START_TEST(a_pattern_matches_as_in_leak_sanitizer)
{
	ck_assert_msg(suppressions_match(matches[_i].pattern, matches[_i].text) == matches[_i].is,
		      "%s in %s", matches[_i].pattern, matches[_i].text);
}
END_TEST

START_TEST(a_file_of_suppressions_leaves_sites_out)
{
	static const char text[] = "# known\r\n\n  leak:^g(*  \nleak:nothing";
	struct suppressions *suppressions = NULL;
	unsigned line = 0;

	ck_assert_int_eq(suppressions_parse(text, strlen(text), &suppressions, &line), 0);
	ck_assert_int_eq(suppressions_table(suppressions, db, 1), 0);
	ck_assert_str_eq(
		memory_db_text(db, "SELECT group_concat(stack_id || rule) FROM suppressed"),
		"5^g(*");
	suppressions_free(suppressions);
}
END_TEST

static const struct {
	const char *text;
	unsigned line;
} wrong[] = { { "leak:", 1 }, { "\nrace:x", 2 }, { "#\n\nfoo\n", 3 }, { "leak:a\nleak", 2 } };

START_TEST(a_wrong_line_of_suppressions_is_named)
{
	struct suppressions *suppressions = NULL;
	unsigned line = 0;

	ck_assert_int_eq(
		suppressions_parse(wrong[_i].text, strlen(wrong[_i].text), &suppressions, &line),
		-EINVAL);
	ck_assert_uint_eq(line, wrong[_i].line);
	ck_assert_ptr_null(suppressions);
}
END_TEST

/* Bytes that mean something to the parser, and some that do not; the sanitizers look on. */
START_TEST(any_bytes_are_suppressions_or_are_refused)
{
	static const char alphabet[] = "leak:leak:leak:*^$# \n\r\t\0ab";
	uint64_t random = 88172645463325252u + (unsigned)_i;
	char text[64];

	for (int round = 0; round < 1000; round++) {
		struct suppressions *suppressions = NULL;
		unsigned line = 0;
		size_t n = (size_t)(random % sizeof(text));
		for (size_t i = 0; i < n; i++) {
			random = random * UINT64_C(6364136223846793005) + 1;
			text[i] = alphabet[(random >> 33) % sizeof(alphabet)];
		}
		int r = suppressions_parse(text, n, &suppressions, &line);
		ck_assert_msg(r == 0 || (r == -EINVAL && line > 0), "%d, line %u", r, line);
		suppressions_free(suppressions);
		text[n ? n - 1 : 0] = '\0';
		suppressions_match(text, "leak:a\nb");
	}
}
END_TEST

START_TEST(a_number_lies_in_the_bucket_of_its_highest_bit)
{
	ck_assert_int_eq(histogram_bucket(0), HISTOGRAM_ZERO);
	for (int bit = 0; bit < 64; bit++) {
		ck_assert_int_eq(histogram_bucket(UINT64_C(1) << bit), bit);
		ck_assert_int_eq(histogram_bucket((UINT64_C(2) << bit) - 1), bit);
	}
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

int main(void)
{
	Suite *suite = suite_create("profile");
	TCase *tcase = tcase_create("profile");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, a_recursive_function_counts_once_per_stack);
	tcase_add_test(tcase, a_call_that_closes_a_cycle_is_marked_and_carries_nothing);
	tcase_add_loop_test(tcase, callers_add_up_to_each_function_and_selfs_to_the_whole, 0,
			    PROFILE_METRIC_COUNT);
	tcase_add_test(tcase, what_has_no_functions_is_in_the_whole);
	tcase_add_test(tcase, an_excluded_function_is_charged_to_its_callers);
	tcase_add_loop_test(tcase, a_name_means_all_its_overloads, 0, COUNT(named));
	tcase_add_loop_test(tcase, a_pattern_matches_as_in_leak_sanitizer, 0, COUNT(matches));
	tcase_add_test(tcase, a_file_of_suppressions_leaves_sites_out);
	tcase_add_loop_test(tcase, a_wrong_line_of_suppressions_is_named, 0, COUNT(wrong));
	tcase_add_loop_test(tcase, any_bytes_are_suppressions_or_are_refused, 0, 5);
	tcase_add_test(tcase, a_number_lies_in_the_bucket_of_its_highest_bit);
	suite_add_tcase(suite, tcase);

	return suite_run(suite);
}
