/* The fuzz target as a test: its corpus (the files named as arguments), then random input. */
#include "tests/decode/fuzz-decode.h"

#include <check.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "tests/decode/random-code.h"

#include <stdlib.h>

#define N_INPUTS    50000
#define INPUT_BYTES 400
#define HEAD_BYTES  83 /* registers, flags and stack of an input */

static char **corpus;
static int n_corpus;

START_TEST(the_corpus_is_decoded)
{
	auto_free char *bytes = NULL;
	size_t n_bytes;

	ck_assert_int_eq(io_read_file(corpus[_i], 65536, &bytes, &n_bytes), 0);
	ck_assert_uint_gt(n_bytes, HEAD_BYTES);
	ck_assert_int_eq(LLVMFuzzerTestOneInput((const uint8_t *)bytes, n_bytes), 0);
}
END_TEST

START_TEST(random_bytes_are_decoded)
{
	struct random random = { 8128 };
	uint8_t input[INPUT_BYTES];

	for (unsigned i = 0; i < N_INPUTS; i++) {
		size_t n_bytes = random_below(&random, INPUT_BYTES);

		for (size_t j = 0; j < n_bytes; j++)
			input[j] = (uint8_t)(random_next(&random) >> 56);
		ck_assert_int_eq(LLVMFuzzerTestOneInput(input, n_bytes), 0);
	}
}
END_TEST

START_TEST(random_instructions_are_decoded)
{
	struct random random = { 496 };
	uint8_t input[INPUT_BYTES + RANDOM_CODE_BYTES];

	for (unsigned i = 0; i < N_INPUTS; i++) {
		size_t n_bytes = HEAD_BYTES;

		for (size_t j = 0; j < n_bytes; j++)
			input[j] = (uint8_t)(random_next(&random) >> 56);
		for (; n_bytes < INPUT_BYTES; n_bytes += 1 + random_below(&random, 8))
			random_instruction(&random, input + n_bytes);
		ck_assert_int_eq(LLVMFuzzerTestOneInput(input, n_bytes), 0);
	}
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("decode-fuzz");
	TCase *tcase = tcase_create("fuzz");
	SRunner *runner = srunner_create(suite);
	int n_failed;

	corpus = argv + 1;
	n_corpus = argc - 1;
	tcase_set_timeout(tcase, 300);
	tcase_add_loop_test(tcase, the_corpus_is_decoded, 0, n_corpus);
	tcase_add_test(tcase, random_bytes_are_decoded);
	tcase_add_test(tcase, random_instructions_are_decoded);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_ENV);
	n_failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
