#include "analyze/symbols/debian-package.h"
#include "tests/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/memsight-package-XXXXXX";
static char list[128];

static void setup(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(list, sizeof(list), "%s/libx1:amd64.list", folder);
	FILE *file = fopen(list, "w");
	fputs("/.\n/home/x/x-tool\n/lib/x86_64/libx.so.1.2\n/usr/lib/x86_64/liby.so\n"
	      "/usr/bin/x-tool",
	      file);
	fclose(file);
}

static void teardown(void)
{
	unlink(list);
	rmdir(folder);
}

static const struct {
	const char *path;
	int result;
} files[] = {
	{ "/lib/x86_64/libx.so.1.2", 0 }, { "/usr/lib/x86_64/libx.so.1.2", 0 }, /* merged /usr */
	{ "/lib/x86_64/liby.so", 0 }, /* the same, listed by its other name */
	{ "/usr/bin/x-tool", 0 }, /* the last line, without a newline */
	{ "/usr/bin/x-too", -ENOENT },	  { "/lib/x86_64/libx.so.1", -ENOENT },
	{ "bin/x-tool", -ENOENT },	  { "/home/x/x-tool", -ENOENT }, /* not looked for */
};

START_TEST(a_file_belongs_to_the_package_that_lists_exactly_it)
{
	char name[64] = "";

	ck_assert_int_eq(package_of_file(folder, files[_i].path, name, sizeof(name)),
			 files[_i].result);
	ck_assert_str_eq(name, files[_i].result ? "" : "libx1");
}
END_TEST

START_TEST(a_host_without_dpkg_has_no_packages)
{
	char name[64] = "";

	ck_assert_int_eq(package_of_file("/proc/none", "/bin/sh", name, sizeof(name)), -ENOENT);
}
END_TEST

START_TEST(debug_packages_have_their_names)
{
	char name[64];

	package_debug_name("sqlite3", name, sizeof(name));
	ck_assert_str_eq(name, "sqlite3-dbgsym");
	package_debug_name("libc6", name, sizeof(name));
	ck_assert_str_eq(name, "libc6-dbg");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("package");
	TCase *tcase = tcase_create("package");

	tcase_add_unchecked_fixture(tcase, setup, teardown);
	tcase_add_loop_test(tcase, a_file_belongs_to_the_package_that_lists_exactly_it, 0,
			    sizeof(files) / sizeof(*files));
	tcase_add_test(tcase, a_host_without_dpkg_has_no_packages);
	tcase_add_test(tcase, debug_packages_have_their_names);
	suite_add_tcase(suite, tcase);

	return suite_run(suite);
}
