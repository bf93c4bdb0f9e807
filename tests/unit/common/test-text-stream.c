#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/text-stream.h"
#include "tests/support/suite.h"

static const size_t lengths[] = { 0, 1, 126, 127, 128, 4095, 4096, 8191, 8192, 8193, 300000 };

START_TEST(a_text_of_any_length_comes_back_whole)
{
	size_t n = lengths[_i], n_bytes = 1;
	auto_free char *text = NULL;
	FILE *stream = text_stream_open(&text, &n_bytes);

	ck_assert_ptr_nonnull(stream);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(fputc('a' + (int)(i % 26), stream), 'a' + (int)(i % 26));
	ck_assert_int_eq(text_stream_close(stream, &text), 0);
	ck_assert_uint_eq(n_bytes, n);
	ck_assert_uint_eq(strlen(text), n);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(text[i], 'a' + (int)(i % 26));
}
END_TEST

START_TEST(pieces_of_all_ways_to_write_follow_each_other)
{
	size_t n_bytes;
	auto_free char *text = NULL;
	FILE *stream = text_stream_open(&text, &n_bytes);

	fputs("one ", stream);
	fprintf(stream, "%d ", 2);
	fflush(stream);
	fwrite("a\0b", 1, 3, stream);
	ck_assert_int_eq(text_stream_close(stream, &text), 0);
	ck_assert_uint_eq(n_bytes, 9);
	ck_assert_mem_eq(text, "one 2 a\0b", 10);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("text-stream");
	TCase *tcase = tcase_create("all");

	tcase_add_loop_test(tcase, a_text_of_any_length_comes_back_whole, 0,
			    sizeof(lengths) / sizeof(lengths[0]));
	tcase_add_test(tcase, pieces_of_all_ways_to_write_follow_each_other);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
