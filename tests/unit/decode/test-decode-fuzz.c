/* Random bytes and random instructions for the fuzz target. */
#include "tests/robust/fuzz/fuzz.h"

#include <check.h>

#include "tests/unit/decode/random-code.h"
#include "tests/support/fewer.h"
#include "tests/support/suite.h"

#include <stdlib.h>

#define N_INPUTS    50000
#define INPUT_BYTES 400
#define HEAD_BYTES  83 /* registers, flags and stack of an input */

START_TEST(random_bytes_are_decoded)
{
	struct random random = { 8128 };
	uint8_t input[INPUT_BYTES];

	for (unsigned i = 0; i < (unsigned)fewer(N_INPUTS); i++) {
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

	for (unsigned i = 0; i < (unsigned)fewer(N_INPUTS); i++) {
		size_t n_bytes = HEAD_BYTES;

		for (size_t j = 0; j < n_bytes; j++)
			input[j] = (uint8_t)(random_next(&random) >> 56);
		for (; n_bytes < INPUT_BYTES; n_bytes += 1 + random_below(&random, 8))
			random_instruction(&random, input + n_bytes);
		ck_assert_int_eq(LLVMFuzzerTestOneInput(input, n_bytes), 0);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("decode-fuzz");
	TCase *tcase = tcase_create("fuzz");

	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, random_bytes_are_decoded);
	tcase_add_test(tcase, random_instructions_are_decoded);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
