#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/io.h"
#include "runner/host/host-facts.h"
#include "tests/unit/pmu/watched.h"
#include "tests/support/suite.h"

#define MAX_FACTS 128

struct given {
	char *keys[MAX_FACTS];
	char *values[MAX_FACTS];
	int n;
	int stop_after;
};

static int keep(void *context, const char *key, const char *value)
{
	struct given *given = context;

	ck_assert_int_lt(given->n, MAX_FACTS);
	given->keys[given->n] = strdup(key);
	given->values[given->n] = strdup(value);
	given->n++;
	return given->n == given->stop_after ? -ECANCELED : 0;
}

static const char *value_of(const struct given *given, const char *key)
{
	for (int i = 0; i < given->n; i++)
		if (strcmp(given->keys[i], key) == 0)
			return given->values[i];
	return NULL;
}

static void finish(struct given *given)
{
	for (int i = 0; i < given->n; i++) {
		free(given->keys[i]);
		free(given->values[i]);
	}
}

static void take(struct given *given)
{
	ck_assert_int_eq(run_facts(keep, given), 0);
}

START_TEST(keys_are_unique_and_values_are_one_line)
{
	struct given given = { 0 };

	watched_become(_i);
	take(&given);
	ck_assert_int_gt(given.n, 15);
	for (int i = 0; i < given.n; i++) {
		ck_assert_str_ne(given.values[i], "");
		ck_assert_ptr_null(strchr(given.values[i], '\n'));
		for (int j = 0; j < i; j++)
			ck_assert_str_ne(given.keys[i], given.keys[j]);
	}
	finish(&given);
}
END_TEST

START_TEST(facts_agree_with_what_the_system_says_elsewhere)
{
	struct given given = { 0 };
	struct utsname name;
	char number[32];

	watched_become(_i);
	take(&given);
	ck_assert_int_eq(uname(&name), 0);
	ck_assert_ptr_nonnull(strstr(value_of(&given, "kernel"), name.release));
	ck_assert_str_eq(value_of(&given, "machine"), name.machine);
	snprintf(number, sizeof(number), "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	ck_assert_str_eq(value_of(&given, "cpus_online"), number);
	snprintf(number, sizeof(number), "%lld",
		 (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
	ck_assert_str_eq(value_of(&given, "mem_total_bytes"), number);
	snprintf(number, sizeof(number), "%u", (unsigned)geteuid());
	ck_assert_str_eq(value_of(&given, "uid"), number);
	ck_assert_str_eq(value_of(&given, "memsight_version"), MEMSIGHT_VERSION);
	finish(&given);
}
END_TEST

static const char *const files[][2] = {
	{ "perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid" },
	{ "randomize_va_space", "/proc/sys/kernel/randomize_va_space" },
	{ "perf_event_mlock_kb", "/proc/sys/kernel/perf_event_mlock_kb" },
};

START_TEST(a_file_that_is_there_is_a_fact_and_one_that_is_not_is_none)
{
	struct given given = { 0 };
	char *text = NULL;

	take(&given);
	if (io_read_file(files[_i][1], 4096, &text, NULL) < 0) {
		ck_assert_ptr_null(value_of(&given, files[_i][0]));
		finish(&given);
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	ck_assert_str_eq(value_of(&given, files[_i][0]), text);
	free(text);
	finish(&given);
}
END_TEST

START_TEST(only_listed_variables_of_the_environment_are_told)
{
	struct given given = { 0 };

	setenv("PYTHONMALLOC", "malloc", 1);
	setenv("MEMSIGHT_TEST_PASSWORD", "very secret", 1);
	unsetenv("OMP_NUM_THREADS");
	take(&given);
	ck_assert_str_eq(value_of(&given, "env.PYTHONMALLOC"), "malloc");
	ck_assert_ptr_null(value_of(&given, "env.OMP_NUM_THREADS"));
	for (int i = 0; i < given.n; i++)
		ck_assert_ptr_null(strstr(given.values[i], "very secret"));
	finish(&given);
}
END_TEST

START_TEST(a_sink_can_stop)
{
	struct given given = { .stop_after = 3 };

	ck_assert_int_eq(run_facts(keep, &given), -ECANCELED);
	ck_assert_int_eq(given.n, 3);
	finish(&given);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("host-facts");
	TCase *tcase = tcase_create("facts");

	tcase_add_loop_test(tcase, keys_are_unique_and_values_are_one_line, 0, 2);
	tcase_add_loop_test(tcase, facts_agree_with_what_the_system_says_elsewhere, 0, 2);
	tcase_add_loop_test(tcase, a_file_that_is_there_is_a_fact_and_one_that_is_not_is_none, 0,
			    (int)(sizeof(files) / sizeof(*files)));
	tcase_add_test(tcase, only_listed_variables_of_the_environment_are_told);
	tcase_add_test(tcase, a_sink_can_stop);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
