/* Archives from strangers: nothing outside of the folder, no crash, whatever is in them. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/archive/tar.h"
#include "common/io.h"
#include "tests/support/suite.h"

static char folder[] = "/tmp/test-tar-XXXXXX";
static char tar_path[64];
static char out[64];

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void make_folder(void)
{
	strcpy(folder, "/tmp/test-tar-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(tar_path, sizeof(tar_path), "%s/a.tar.zst", folder);
	snprintf(out, sizeof(out), "%s/out", folder);
	ck_assert_int_eq(mkdir(out, 0700), 0);
}

static void remove_folder(void)
{
	nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void empty_out(void)
{
	nftw(out, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	ck_assert_int_eq(mkdir(out, 0700), 0);
}

static void add(struct tar_writer *tar, const char *name, const char *text, size_t n_bytes)
{
	ck_assert_int_eq(tar_begin(tar, name, n_bytes), 0);
	ck_assert_int_eq(tar_write(tar, text, n_bytes), 0);
}

static void check_file(const char *name, const char *text, size_t n_bytes)
{
	char path[8192];
	char *found = NULL;
	size_t n = 0;

	snprintf(path, sizeof(path), "%s/%s", out, name);
	ck_assert_int_eq(io_read_file(path, 1 << 20, &found, &n), 0);
	ck_assert_uint_eq(n, n_bytes);
	ck_assert_mem_eq(found, text, n_bytes);
	free(found);
}

/* Files of odd sizes, one with zeros, a name that no head holds, a link. */
static char long_name[400];
static char zeros[20000];

static void write_archive(void)
{
	struct tar_writer *tar;

	for (size_t i = 0; i < sizeof(long_name) - 1; i++)
		long_name[i] = i % 100 == 99 ? '/' : (char)('a' + i % 26);
	zeros[9999] = 'x';
	ck_assert_int_eq(tar_create(tar_path, &tar), 0);
	add(tar, ".build-id/ab/cdef", "short", 5);
	add(tar, "empty", "", 0);
	add(tar, "zeros", zeros, sizeof(zeros));
	add(tar, long_name, "far", 3);
	ck_assert_int_eq(tar_link(tar, "usr/bin/linked", ".build-id/ab/cdef"), 0);
	ck_assert_int_eq(tar_finish(tar), 0);
	tar_close(tar);
}

START_TEST(what_was_packed_is_unpacked)
{
	write_archive();
	ck_assert_int_eq(tar_unpack(tar_path, out), 0);
	check_file(".build-id/ab/cdef", "short", 5);
	check_file("empty", "", 0);
	check_file("zeros", zeros, sizeof(zeros));
	check_file(long_name, "far", 3);
	check_file("usr/bin/linked", "short", 5);
}
END_TEST

static const char *const evil_names[] = {
	"/tmp/test-tar-evil", "../evil", "a/../../evil", "..", "a/..", ""
};

START_TEST(no_name_leads_out_of_the_folder)
{
	struct tar_writer *tar;

	ck_assert_int_eq(tar_create(tar_path, &tar), 0);
	add(tar, evil_names[_i], "evil", 4);
	ck_assert_int_eq(tar_finish(tar), 0);
	tar_close(tar);
	ck_assert_int_eq(tar_unpack(tar_path, out), -EBADMSG);

	ck_assert_int_eq(tar_create(tar_path, &tar), 0);
	ck_assert_int_eq(tar_link(tar, "inside", evil_names[_i]), 0);
	ck_assert_int_eq(tar_finish(tar), 0);
	tar_close(tar);
	ck_assert_int_lt(tar_unpack(tar_path, out), 0);
	ck_assert_int_ne(access("/tmp/test-tar-evil", F_OK), 0);
}
END_TEST

static void write_bytes(const char *bytes, size_t n_bytes)
{
	int fd = open(tar_path, O_WRONLY | O_TRUNC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(io_write_all(fd, bytes, n_bytes), 0);
	close(fd);
}

START_TEST(a_file_cut_anywhere_is_bad_and_says_so)
{
	char *bytes = NULL;
	size_t n = 0;

	write_archive();
	ck_assert_int_eq(io_read_file(tar_path, 1 << 20, &bytes, &n), 0);
	for (size_t i = 0; i < n; i++) {
		write_bytes(bytes, i);
		/* The end of the frame tells nothing more than the tar's own end. */
		int r = tar_unpack(tar_path, out);
		ck_assert_msg(r == -EBADMSG || (r == 0 && i + 16 > n), "%d with %zu of %zu", r, i,
			      n);
		empty_out();
	}
	free(bytes);
}
END_TEST

START_TEST(flipped_bits_do_no_harm)
{
	char *bytes = NULL;
	size_t n = 0;

	write_archive();
	ck_assert_int_eq(io_read_file(tar_path, 1 << 20, &bytes, &n), 0);
	for (size_t i = 0; i < 8 * n; i += 3) {
		bytes[i / 8] ^= (char)(1 << i % 8);
		write_bytes(bytes, n);
		tar_unpack(tar_path, out);
		bytes[i / 8] ^= (char)(1 << i % 8);
		empty_out();
	}
	free(bytes);
}
END_TEST

START_TEST(sizes_above_eight_gibibytes_are_told)
{
	static const uint64_t sizes[] = { 0, 1, (UINT64_C(1) << 33) - 1, UINT64_C(1) << 33,
					  UINT64_C(1) << 40 };
	struct tar_head head;
	uint64_t found;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const struct tar_entry entry = { .name = "a",
						 .type = TAR_FILE,
						 .n_bytes = sizes[i] };

		tar_head_fill(&head, &entry);
		ck_assert(tar_head_is_valid(&head));
		ck_assert(tar_head_size(&head, &found));
		ck_assert_uint_eq(found, sizes[i]);
		head.name[0] ^= 1;
		ck_assert(!tar_head_is_valid(&head));
	}
}
END_TEST

START_TEST(more_bytes_than_were_told_are_refused)
{
	struct tar_writer *tar;

	ck_assert_int_eq(tar_create(tar_path, &tar), 0);
	ck_assert_int_eq(tar_begin(tar, "a", 3), 0);
	ck_assert_int_eq(tar_write(tar, "four", 4), -EINVAL);
	ck_assert_int_eq(tar_finish(tar), -EINVAL);
	tar_close(tar);
	ck_assert_int_eq(tar_unpack("/nowhere", out), -ENOENT);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tar");
	TCase *tcase = tcase_create("tar");

	suite_add_tcase(suite, tcase);
	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, make_folder, remove_folder);
	tcase_add_test(tcase, what_was_packed_is_unpacked);
	tcase_add_loop_test(tcase, no_name_leads_out_of_the_folder, 0,
			    sizeof(evil_names) / sizeof(evil_names[0]));
	tcase_add_test(tcase, a_file_cut_anywhere_is_bad_and_says_so);
	tcase_add_test(tcase, flipped_bits_do_no_harm);
	tcase_add_test(tcase, sizes_above_eight_gibibytes_are_told);
	tcase_add_test(tcase, more_bytes_than_were_told_are_refused);
	return suite_run(suite);
}
