#include "common/elf-check.h"

#include <check.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "common/io.h"
#include "schemas/trace-format.h"
#include "tests/support/suite.h"

/* The file that is read: a copy of a shell, whole or damaged. */
static unsigned char *bytes;
static size_t n_file;
static unsigned n_reads;

static long read_copy(int fd, void *to, size_t n_bytes, uint64_t at)
{
	size_t n = at < n_file ? n_file - at : 0;

	(void)fd;
	n_reads++;
	if (n > n_bytes)
		n = n_bytes;
	memcpy(to, bytes + (n ? at : 0), n);
	return (long)n;
}

static void set_up(void)
{
	char *text = NULL;

	ck_assert_int_eq(io_read_file("/bin/sh", 64u << 20, &text, &n_file), 0);
	bytes = (unsigned char *)text;
}

static void tear_down(void)
{
	free(bytes);
}

START_TEST(a_program_is_known_by_its_file)
{
	ck_assert_int_eq(program_file_why_not(read_copy, 0), TRACE_TRACED);
	ck_assert(!program_file_defines(read_copy, 0, "malloc"));
	bytes[EI_CLASS] = ELFCLASS32;
	ck_assert_int_eq(program_file_why_not(read_copy, 0), TRACE_NOT_32BIT);
	ck_assert(!program_file_defines(read_copy, 0, "malloc"));
	n_file = 0;
	ck_assert_int_eq(program_file_why_not(read_copy, 0), TRACE_TRACED);
}
END_TEST

START_TEST(damage_is_neither_followed_out_of_the_file_nor_forever)
{
	unsigned seed = (unsigned)_i;

	for (int i = 0; i < 8; i++) {
		/* The heads, and what they point at behind them. */
		size_t at = (size_t)rand_r(&seed) % (i % 2 ? 0x400 : n_file);

		bytes[at] = (unsigned char)rand_r(&seed);
	}
	if (_i % 3 == 0)
		n_file = (size_t)rand_r(&seed) % n_file;
	n_reads = 0;
	ck_assert_int_lt(program_file_why_not(read_copy, 0), TRACE_NOT_COUNT);
	program_file_defines(read_copy, 0, "__asan_init");
	ck_assert_uint_lt(n_reads, 200000);
}
END_TEST

static const struct {
	const char *text;
	const char *interpreter; /* NULL: none */
} scripts[] = {
	{ "#!/bin/sh\n", "/bin/sh" },
	{ "#! \t/usr/bin/env python3\n", "/usr/bin/env" },
	{ "#!/bin/sh", "/bin/sh" },
	{ "#!\n", NULL },
	{ "#!", NULL },
	{ "", NULL },
	{ "# /bin/sh\n", NULL },
	{ "#!/a/path/that/is/longer/than/the/room\n", NULL },
};

START_TEST(a_script_names_its_interpreter)
{
	char path[32] = "untouched";
	bool has_one;

	n_file = strlen(scripts[_i].text);
	memcpy(bytes, scripts[_i].text, n_file);
	has_one = program_file_interpreter(read_copy, 0, path, sizeof(path));
	ck_assert_int_eq(has_one, scripts[_i].interpreter != NULL);
	ck_assert_str_eq(path, has_one ? scripts[_i].interpreter : "untouched");
}
END_TEST

static const struct {
	const char *list;
	bool has_one;
} lists[] = {
	{ NULL, false },
	{ "", false },
	{ "/lib/libasan.so.8", true },
	{ "a.so:/usr/lib/libtsan.so.2", true },
	{ "libfoo.so libhwasan.so.0", true },
	{ "/x/libclang_rt.asan-x86_64.so", true },
	{ "/libasan.so.8/libother.so", false },
	{ "/x/mylibasan.so", false },
	{ "liblsan.so.0:libubsan.so.1", false },
};

START_TEST(a_list_of_libraries_holds_a_sanitizer_or_not)
{
	ck_assert_int_eq(program_list_has_sanitizer(lists[_i].list), lists[_i].has_one);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("program-file");
	TCase *tests = tcase_create("all");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, a_program_is_known_by_its_file);
	tcase_add_loop_test(tests, damage_is_neither_followed_out_of_the_file_nor_forever, 0, 300);
	tcase_add_loop_test(tests, a_script_names_its_interpreter, 0,
			    (int)(sizeof(scripts) / sizeof(scripts[0])));
	tcase_add_loop_test(tests, a_list_of_libraries_holds_a_sanitizer_or_not, 0,
			    (int)(sizeof(lists) / sizeof(lists[0])));
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
