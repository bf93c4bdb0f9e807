#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runner/sampling/mapped-file.h"
#include "tests/support/suite.h"

#define PAGE	4096u
#define N_BYTES (3 * PAGE)

static char folder[] = "/tmp/memsight-mapped-XXXXXX";
static char path[PATH_MAX];
static uint8_t *map; /* pages 1 and 2 of the file, executable */

/* Each byte of a file is its offset modulo 239, plus first. */
static void write_file(const char *name, unsigned first)
{
	int fd = open(name, O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0755);

	ck_assert_int_ge(fd, 0);
	for (unsigned i = 0; i < N_BYTES; i++) {
		uint8_t byte = (uint8_t)(i % 239 + first);

		ck_assert_int_eq(write(fd, &byte, 1), 1);
	}
	close(fd);
}

static void begin(int prot)
{
	int fd;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/a file", folder);
	write_file(path, 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	map = mmap(NULL, 2 * PAGE, prot, MAP_PRIVATE, fd, PAGE);
	ck_assert_ptr_ne(map, MAP_FAILED);
	close(fd);
}

static void finish(void)
{
	unlink(path);
	rmdir(folder);
}

static size_t read_at(const uint8_t *address, uint8_t *bytes, size_t n_bytes)
{
	return mapped_file_read(getpid(), (uintptr_t)address, bytes, n_bytes);
}

START_TEST(code_is_read_from_the_file_that_was_mapped)
{
	uint8_t bytes[N_BYTES] = { 0 };

	begin(PROT_READ | PROT_EXEC);
	ck_assert_uint_eq(read_at(map + 5, bytes, 100), 100);
	ck_assert_mem_eq(bytes, map + 5, 100);
	finish();
}
END_TEST

START_TEST(no_more_is_read_than_was_mapped)
{
	uint8_t bytes[N_BYTES] = { 0 };

	begin(PROT_READ | PROT_EXEC);
	ck_assert_uint_eq(read_at(map + PAGE, bytes, N_BYTES), PAGE);
	ck_assert_mem_eq(bytes, map + PAGE, PAGE);
	finish();
}
END_TEST

START_TEST(pages_that_were_read_are_kept_until_they_are_forgotten)
{
	static struct mapped_pages pages;
	uint8_t bytes[N_BYTES] = { 0 };

	begin(PROT_READ | PROT_EXEC);
	/* Over the end of a page, and no further than the map. */
	ck_assert_uint_eq(mapped_pages_read(&pages, getpid(), (uintptr_t)map + PAGE - 3, bytes, 9),
			  9);
	ck_assert_mem_eq(bytes, map + PAGE - 3, 9);
	ck_assert_uint_eq(
		mapped_pages_read(&pages, getpid(), (uintptr_t)map + PAGE, bytes, N_BYTES), PAGE);
	unlink(path);
	ck_assert_uint_eq(mapped_pages_read(&pages, getpid(), (uintptr_t)map + 7, bytes, 1), 1);
	ck_assert_uint_eq(bytes[0], map[7]);
	mapped_pages_forget(&pages);
	ck_assert_uint_eq(mapped_pages_read(&pages, getpid(), (uintptr_t)map + 7, bytes, 1), 0);
	finish();
}
END_TEST

START_TEST(another_file_of_that_name_is_not_believed)
{
	char other[PATH_MAX + 8];
	uint8_t byte;

	begin(PROT_READ | PROT_EXEC);
	snprintf(other, sizeof(other), "%s.new", path);
	write_file(other, 1);
	ck_assert_int_eq(rename(other, path), 0);
	ck_assert_uint_eq(read_at(map, &byte, 1), 0);
	finish();
}
END_TEST

START_TEST(what_may_have_been_relocated_is_not_read)
{
	uint8_t byte;

	begin(PROT_READ);
	ck_assert_uint_eq(read_at(map, &byte, 1), 0);
	finish();
}
END_TEST

START_TEST(what_is_no_file_gives_nothing)
{
	uint8_t *anonymous =
		mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t byte;

	ck_assert_ptr_ne(anonymous, MAP_FAILED);
	ck_assert_uint_eq(read_at(anonymous, &byte, 1), 0);
	ck_assert_uint_eq(mapped_file_read(getpid(), 4096, &byte, 1), 0);
	ck_assert_uint_eq(mapped_file_read(INT_MAX, (uintptr_t)anonymous, &byte, 1), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("mapped-file");
	TCase *tests = tcase_create("mapped-file");

	tcase_add_test(tests, code_is_read_from_the_file_that_was_mapped);
	tcase_add_test(tests, no_more_is_read_than_was_mapped);
	tcase_add_test(tests, pages_that_were_read_are_kept_until_they_are_forgotten);
	tcase_add_test(tests, another_file_of_that_name_is_not_believed);
	tcase_add_test(tests, what_may_have_been_relocated_is_not_read);
	tcase_add_test(tests, what_is_no_file_gives_nothing);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
