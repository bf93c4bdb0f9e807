/* Config files and mode lines: what they mean, and what is said of wrong ones. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "series/config-file.h"
#include "series/heimdallr-command.h"
#include "tests/support/suite.h"

/* Takes options a to z, without looking at their values; knows nothing else. */
static int check_option(void *user, const char *key, const char *value, char *message)
{
	(void)user;
	(void)value;
	if (key[1] == '\0' || strcmp(key, "freq") == 0 || strcmp(key, "counters") == 0 ||
	    strcmp(key, "min-size") == 0)
		return 0;
	snprintf(message, SERIES_MESSAGE_BYTES, "unknown option --%s", key);
	return -EINVAL;
}

static int read_text(const char *text, struct series **ret_series, char *message)
{
	char path[] = "/tmp/test-series-XXXXXX";
	int fd = mkstemp(path);
	struct series_file_reader reader = { check_option, NULL };

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq((int)write(fd, text, strlen(text)), (int)strlen(text));
	close(fd);
	int err = series_file_read(path, &reader, ret_series, message);
	unlink(path);
	return err;
}

START_TEST(a_file_is_read_as_it_says)
{
	char message[SERIES_MESSAGE_BYTES];
	auto_series struct series *series = NULL;
	int err =
		read_text("# comment\n[series]\nname = s\noutput = out dir\nrepetitions = 3\n"
			  "warm-ups = 2\nseed = 18446744073709551615\norder = sequential\n"
			  "timeout = 1.5s\ncool-down = 20ms\nenvironment = A=1 'B=x y'\n"
			  "environment = C=\n\n[workload one]\ncommand = ./a ; b 'c d'\n"
			  "directory = /tmp\nstdin = in.txt\nexpected-status = 3\ncheck = grep x\n"
			  "[workload two]\ncommand =\n    ./p\n    ./q -n 1\n"
			  "[mode m1]\ndry = yes\n[mode m_2]\nfrequency = 100\nx = y\n[mode m3]\n"
			  "collect = wall_clock, cycles,peak_rss r1cd\n",
			  &series, message);

	ck_assert_msg(err == 0, "%s", message);
	ck_assert_str_eq(series->name, "s");
	ck_assert_str_eq(series->output, "out dir");
	ck_assert_uint_eq(series->repetitions, 3);
	ck_assert_uint_eq(series->warm_ups, 2);
	ck_assert(series->has_seed && series->seed == UINT64_MAX);
	ck_assert_int_eq(series->order, SERIES_ORDER_SEQUENTIAL);
	ck_assert_int_eq(series->timeout_ns, 1500000000);
	ck_assert_int_eq(series->cool_down_ns, 20000000);
	ck_assert_uint_eq(series->environment.n, 3);
	ck_assert_str_eq(series->environment.texts[1], "B=x y");
	ck_assert_uint_eq(series->n_workloads, 2);
	ck_assert_str_eq(series->workloads[0].commands.texts[0], "./a ; b 'c d'");
	ck_assert_int_eq(series->workloads[0].expected_status, 3);
	ck_assert_str_eq(series->workloads[0].check, "grep x");
	ck_assert_uint_eq(series->workloads[1].commands.n, 2);
	ck_assert_str_eq(series->workloads[1].commands.texts[1], "./q -n 1");
	ck_assert_uint_eq(series->n_modes, 3);
	ck_assert(series->modes[0].is_dry && !series->modes[1].is_dry);
	ck_assert_str_eq(series->modes[1].settings[0].key, "freq");
	ck_assert_str_eq(series->modes[1].settings[1].value, "y");
	ck_assert_str_eq(series->modes[2].name, "m3");
	ck_assert_uint_eq(series->modes[2].n_settings, 1);
	ck_assert_str_eq(series->modes[2].settings[0].key, "counters");
	ck_assert_str_eq(series->modes[2].settings[0].value, "cycles,r1cd");
}
END_TEST

static const struct wrong_file {
	const char *text;
	const char *line; /* ":N: " */
	const char *what;
} wrong_files[] = {
	{ "[series]\nrepetition = 3\n", ":2: ", "no key 'repetition'; did you mean repetitions?" },
	{ "[series]\nname = a\n\nrepetitions = many\n", ":4: ", "'many' is no number" },
	{ "[series]\nrepetitions = 0\n", ":2: ", "0 runs" },
	{ "[series]\norder = random\n", ":2: ", "none of blocks, sequential" },
	{ "[series]\ntimeout = 5\n", ":2: ", "'5' is no time" },
	{ "[series]\nenvironment = PATH\n", ":2: ", "'PATH' is no NAME=VALUE" },
	{ "[workload a]\ncommand = 'x\n", ":2: ", "quote is not closed" },
	{ "[workload a]\n[workload b]\ncommand = x\n[workload a]\n",
	  ":4: ", "two sections [workload a]" },
	{ "[mode a b]\n", ":1: ", "letters, digits and _" },
	{ "[mode a]\n[mode a]\n", ":2: ", "two sections [mode a]" },
	{ "[workload]\n", ":1: ", "none of [series], [workload NAME], [mode NAME]" },
	{ "name = x\n", ":1: ", "before the first section" },
	{ "[mode a]\nsource-x = y\n", ":2: ", "unknown option --source-x" },
	{ "[mode a]\ndry = 1\n", ":2: ", "neither yes nor no" },
	{ "[mode a]\n  freq = 5\n", ":2: ", "first column" },
	{ "[workload a]\ncommand = x\n", ": ", "no [mode NAME] section" },
	{ "[mode a]\n", ": ", "no [workload NAME] section" },
	{ "[workload a]\nstdin = x\n[mode a]\n", ": ", "[workload a] has no command" },
	{ "[series]\njust words\n", ": ", "no KEY = VALUE" },
};

START_TEST(what_is_wrong_is_told_with_its_line)
{
	const struct wrong_file *wrong = &wrong_files[_i];
	char message[SERIES_MESSAGE_BYTES];
	struct series *series = NULL;

	ck_assert_int_eq(read_text(wrong->text, &series, message), -EINVAL);
	ck_assert_ptr_null(series);
	ck_assert_msg(strstr(message, wrong->line) && strstr(message, wrong->what), "%s", message);
}
END_TEST

START_TEST(a_missing_file_is_told)
{
	struct series_file_reader reader = { check_option, NULL };
	char message[SERIES_MESSAGE_BYTES];
	struct series *series = NULL;

	ck_assert_int_eq(series_file_read("/nowhere/s.ini", &reader, &series, message), -ENOENT);
	ck_assert_str_eq(message, "cannot read /nowhere/s.ini: No such file or directory");
}
END_TEST

/* The settings of a mode as "key=value ...". */
static void settings_text(const struct series_mode *mode, char *text, size_t n_bytes)
{
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < mode->n_settings; i++)
		n += (size_t)snprintf(text + n, n_bytes - n, "%s%s=%s", i ? " " : "",
				      mode->settings[i].key, mode->settings[i].value);
}

static const struct mode_line {
	const char *line;
	bool is_dry;
	const char *settings;
} mode_lines[] = {
	{ "1loc_DR 0 1 1 1 0", true, "membind=1 cpunodebind=1" },
	{ "1loc_00 0 1 1 0 0", false,
	  "membind=1 buffers=node:1 cpunodebind=1 source=none min-size=4096" },
	{ "2far_50 0 0 1 0 5000", false,
	  "membind=0 buffers=node:0 cpunodebind=1 source=auto freq=5000 min-size=4096" },
	{ "samples 0 - - 1 200", false, "source=auto freq=200 no-alloc=yes" },
	{ "3hms_02 1 1 1 0 200", false,
	  "membind=1 buffers=node:1 cpunodebind=1 source=auto freq=200 min-size=4096 heap-min=4096 "
	  "heap=pmem:/mnt/pmem,4G" },
	/* hms means nothing without the interposer */
	{ "3hms_DR 1 1 1 1 0", true, "membind=1 cpunodebind=1" },
};

START_TEST(heimdallrs_mode_lines_keep_their_meaning)
{
	const struct mode_line *expected = &mode_lines[_i];
	auto_series struct series *series = series_create();
	char message[SERIES_MESSAGE_BYTES], text[512];

	unsetenv("HEIMDALLR_PMEMDIR");
	unsetenv("HEIMDALLR_PMEMSIZE");
	unsetenv("TRAC_THRESHOLD");
	ck_assert_int_eq(series_compat_mode(series, expected->line, message), 0);
	ck_assert_int_eq(series->modes[0].is_dry, expected->is_dry);
	settings_text(&series->modes[0], text, sizeof(text));
	ck_assert_str_eq(text, expected->settings);
}
END_TEST

START_TEST(heimdallrs_variables_name_folder_size_and_threshold)
{
	auto_series struct series *series = series_create();
	char message[SERIES_MESSAGE_BYTES], text[512];

	setenv("HEIMDALLR_PMEMDIR", "/pm", 1);
	setenv("HEIMDALLR_PMEMSIZE", "0x100000", 1);
	setenv("TRAC_THRESHOLD", "100", 1);
	ck_assert_int_eq(series_compat_mode(series, "m 1 - - 0 0", message), 0);
	settings_text(&series->modes[0], text, sizeof(text));
	ck_assert_str_eq(text, "source=none min-size=100 heap-min=100 heap=pmem:/pm,1048576");
	unsetenv("HEIMDALLR_PMEMDIR");
	unsetenv("HEIMDALLR_PMEMSIZE");
	unsetenv("TRAC_THRESHOLD");
}
END_TEST

START_TEST(wrong_mode_lines_are_told)
{
	static const char *const lines[][2] = {
		{ "m 0 1 1 0", "wants `mode hms mem cpu dry freq'" },
		{ "m.x 0 1 1 0 0", "letters, digits and _" },
		{ "m a 1 1 0 0", "are numbers" },
		{ "m 0 1 1 0 1000000", "at most 100000 Hz" },
	};
	auto_series struct series *series = series_create();
	char message[SERIES_MESSAGE_BYTES];

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		ck_assert_int_eq(series_compat_mode(series, lines[i][0], message), -EINVAL);
		ck_assert_msg(strstr(message, lines[i][1]), "%s", message);
	}
	ck_assert_int_eq(series_compat_mode(series, "m 0 - - 0 0", message), 0);
	ck_assert_int_eq(series_compat_mode(series, "m 0 - - 0 0", message), -EINVAL);
	ck_assert_ptr_nonnull(strstr(message, "two modes 'm'"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("series-config");
	TCase *tests = tcase_create("config");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, a_file_is_read_as_it_says);
	tcase_add_loop_test(tests, what_is_wrong_is_told_with_its_line, 0,
			    sizeof(wrong_files) / sizeof(wrong_files[0]));
	tcase_add_test(tests, a_missing_file_is_told);
	tcase_add_loop_test(tests, heimdallrs_mode_lines_keep_their_meaning, 0,
			    sizeof(mode_lines) / sizeof(mode_lines[0]));
	tcase_add_test(tests, heimdallrs_variables_name_folder_size_and_threshold);
	tcase_add_test(tests, wrong_mode_lines_are_told);

	return suite_run(suite);
}
