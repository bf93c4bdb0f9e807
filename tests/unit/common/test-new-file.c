#include "common/atomic-file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "tests/support/suite.h"

/* A file system that cannot do all: these stand before libc's. */
static bool has_noreplace, has_links;

int renameat2(int old_folder, const char *old, int new_folder, const char *new, unsigned flags)
{
	if (flags && !has_noreplace) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_renameat2, old_folder, old, new_folder, new, flags);
}

int link(const char *old, const char *new)
{
	if (!has_links) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_linkat, AT_FDCWD, old, AT_FDCWD, new, 0);
}

static const bool systems[][2] = {
	{ true, true }, { false, true }, { true, false }, { false, false }
};
static char folder[64], path[128];

static void set_up(void)
{
	const char *where = getenv("TMPDIR");

	snprintf(folder, sizeof(folder), "%.40s/new-file-XXXXXX", where ? where : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/figure.svg", folder);
}

static void tear_down(void)
{
	unlink(path);
	/* Fails when something was left beside it. */
	ck_assert_int_eq(rmdir(folder), 0);
}

static void choose_system(int i)
{
	has_noreplace = systems[i][0];
	has_links = systems[i][1];
}

static int write_text(const char *to, const char *text, bool replaces)
{
	const struct new_file file = { to, 0666, replaces };

	return new_file_write(&file, text, strlen(text));
}

static void check_text(const char *expected)
{
	auto_free char *text = NULL;

	ck_assert_int_eq(io_read_file(path, 1 << 20, &text, NULL), 0);
	ck_assert_str_eq(text, expected);
}

START_TEST(a_name_that_is_free_is_taken_on_every_file_system)
{
	choose_system(_i);
	ck_assert_int_eq(write_text(path, "one", false), 0);
	check_text("one");
}
END_TEST

START_TEST(a_name_that_is_taken_is_never_replaced_unasked)
{
	choose_system(_i);
	ck_assert_int_eq(write_text(path, "one", false), 0);
	ck_assert_int_eq(write_text(path, "two", false), -EEXIST);
	check_text("one");
	ck_assert_int_eq(write_text(path, "three", true), 0);
	check_text("three");
}
END_TEST

START_TEST(who_reads_the_old_file_reads_it_to_its_end)
{
	char text[8] = "";

	choose_system(_i);
	ck_assert_int_eq(write_text(path, "before", false), 0);
	auto_close int old = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(write_text(path, "after", true), 0);
	ck_assert_int_eq(io_read_full(old, text, sizeof(text) - 1), 6);
	ck_assert_str_eq(text, "before");
}
END_TEST

START_TEST(what_cannot_be_renamed_over_stays_and_leaves_nothing)
{
	choose_system(_i);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(write_text(path, "x", false), -EEXIST);
	ck_assert_int_eq(write_text(path, "x", true), -EISDIR);
	ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

START_TEST(a_link_stays_and_what_it_leads_to_is_replaced)
{
	char alias[140];
	struct stat status;

	choose_system(0);
	snprintf(alias, sizeof(alias), "%s/alias", folder);
	ck_assert_int_eq(write_text(path, "one", false), 0);
	ck_assert_int_eq(symlink("figure.svg", alias), 0);
	ck_assert_int_eq(write_text(alias, "two", false), -EEXIST);
	ck_assert_int_eq(write_text(alias, "two", true), 0);
	check_text("two");
	ck_assert_int_eq(lstat(alias, &status), 0);
	ck_assert(S_ISLNK(status.st_mode));
	unlink(alias);
}
END_TEST

START_TEST(a_device_is_written_to_and_stays_one)
{
	struct stat status;

	choose_system(0);
	ck_assert_int_eq(write_text("/dev/null", "x", true), 0);
	ck_assert_int_eq(stat("/dev/null", &status), 0);
	ck_assert(S_ISCHR(status.st_mode));
}
END_TEST

START_TEST(the_umask_takes_from_the_mode)
{
	struct stat status;
	mode_t old = umask(027);

	choose_system(0);
	ck_assert_int_eq(write_text(path, "x", false), 0);
	umask(old);
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_uint_eq(status.st_mode & 0777, 0640);
}
END_TEST

START_TEST(a_name_may_be_as_long_as_names_can_be)
{
	char name[256], place[400];

	choose_system(0);
	memset(name, 'n', sizeof(name) - 1);
	name[255] = '\0';
	snprintf(place, sizeof(place), "%s/%s", folder, name);
	ck_assert_int_eq(write_text(place, "x", false), 0);
	ck_assert_int_eq(unlink(place), 0);
}
END_TEST

int main(void)
{
	const int n_systems = sizeof(systems) / sizeof(systems[0]);
	Suite *suite = suite_create("new-file");
	TCase *tests = tcase_create("new-file");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_loop_test(tests, a_name_that_is_free_is_taken_on_every_file_system, 0, n_systems);
	tcase_add_loop_test(tests, a_name_that_is_taken_is_never_replaced_unasked, 0, n_systems);
	tcase_add_loop_test(tests, who_reads_the_old_file_reads_it_to_its_end, 0, n_systems);
	tcase_add_loop_test(tests, what_cannot_be_renamed_over_stays_and_leaves_nothing, 0,
			    n_systems);
	tcase_add_test(tests, a_link_stays_and_what_it_leads_to_is_replaced);
	tcase_add_test(tests, a_device_is_written_to_and_stays_one);
	tcase_add_test(tests, the_umask_takes_from_the_mode);
	tcase_add_test(tests, a_name_may_be_as_long_as_names_can_be);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
