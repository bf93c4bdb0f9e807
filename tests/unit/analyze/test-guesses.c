#include "analyze/live/guesses/guess-model.h"

#include <string.h>

#include "tests/support/suite.h"

#define N_KNOWN	 8000u
#define N_ASKED	 1000u
#define N_BLOCKS (N_KNOWN + N_ASKED)
#define N_PLACES 20u

static struct guess_block blocks[N_BLOCKS];
static struct guess_kind kinds[GUESS_N_KINDS];

/* The true place is kept as `number`. */
static struct guess_block block_of(uint32_t place, uint64_t look, int64_t born_ns, bool is_known)
{
	struct guess_block block = {
		.look = look,
		.born_ns = born_ns,
		.place = is_known ? place : 0,
		.is_known = is_known,
		.number = place,
	};

	return block;
}

static size_t count(bool is_right)
{
	size_t n = 0;

	for (size_t i = 0; i < N_BLOCKS; i++)
		n += !blocks[i].is_known && blocks[i].place &&
		     (blocks[i].place == blocks[i].number) == is_right;
	return n;
}

START_TEST(blocks_that_look_like_those_of_one_place_are_given_to_it)
{
	for (uint32_t i = 0; i < N_BLOCKS; i++)
		blocks[i] = block_of(1 + i % N_PLACES, 10 + i % N_PLACES, i, i < N_KNOWN);
	ck_assert_int_eq(guess_places(blocks, N_BLOCKS, kinds), 0);
	ck_assert_uint_eq(count(true), N_ASKED);
	ck_assert_uint_eq(count(false), 0);
	ck_assert_uint_eq(kinds[0].n_tested, N_KNOWN / 2);
	ck_assert_uint_eq(kinds[0].n_right, N_KNOWN / 2);
	ck_assert_uint_eq(kinds[0].n_places, N_PLACES);
	ck_assert_uint_eq(kinds[0].n_taken, 0);
	ck_assert_uint_eq(kinds[0].n_new, 0);
	/* 4,000 of 4,000 by the rule of succession, and no look is new. */
	ck_assert_double_eq_tol(kinds[0].probability, 4001.0 / 4002, 1e-9);
	ck_assert_double_eq(kinds[1].probability, 0);
}
END_TEST

START_TEST(where_places_look_alike_nothing_is_guessed)
{
	for (uint32_t i = 0; i < N_BLOCKS; i++)
		blocks[i] = block_of(1 + i % 2, 10, i, i < N_KNOWN);
	ck_assert_int_eq(guess_places(blocks, N_BLOCKS, kinds), 0);
	ck_assert_uint_eq(count(true) + count(false), 0);
	ck_assert_double_eq(kinds[0].probability, 0);
}
END_TEST

START_TEST(what_the_younger_half_does_not_know_makes_all_of_its_kind_less_probable)
{
	/* Half of the older ones are of a place that the younger ones never see. */
	for (uint32_t i = 0; i < N_BLOCKS; i++)
		blocks[i] = block_of(i < N_KNOWN / 2 && i % 2 ? 99 : 1 + i % N_PLACES,
				     10 + i % N_PLACES, i, i < N_KNOWN);
	ck_assert_int_eq(guess_places(blocks, N_BLOCKS, kinds), 0);
	ck_assert_uint_eq(kinds[0].n_right, N_KNOWN / 4);
	ck_assert_double_lt(kinds[0].probability, 0.51);
}
END_TEST

/* So many of ten blocks are of places from 100 on, which make nothing since. */
static double true_share_with_unknown_places(unsigned n_unknown_in_10)
{
	for (uint32_t i = 0; i < N_BLOCKS; i++) {
		bool is_unknown = i >= N_KNOWN && i % 10 < n_unknown_in_10;
		uint32_t place = (is_unknown ? 100 : 1) + i / 10 % N_PLACES;

		blocks[i] = block_of(place, 1000 + place, i, i < N_KNOWN);
	}
	ck_assert_int_eq(guess_places(blocks, N_BLOCKS, kinds), 0);
	ck_assert_uint_gt(count(true) + count(false), 0);
	return (double)count(true) / (double)(count(true) + count(false));
}

START_TEST(a_stated_probability_is_not_above_the_truth_where_places_make_nothing_any_more)
{
	for (unsigned n_unknown = 0; n_unknown < 10; n_unknown += 3) {
		double share = true_share_with_unknown_places(n_unknown);

		ck_assert_double_eq(share, 1);
		ck_assert_double_le(kinds[0].probability, share);
	}
}
END_TEST

START_TEST(places_whose_blocks_are_taken_for_those_of_others_make_strangers_dangerous)
{
	/* 39 of 40 blocks of a look are of one place, the other one of another: each hides it. */
	for (uint32_t i = 0; i < N_BLOCKS; i++) {
		bool is_known = i < N_KNOWN, is_unknown = !is_known && i % 2;
		uint32_t pair = i / 40 % 10, place = is_unknown ? 100
						     : i % 40	? 1 + pair
								: 11 + pair;

		blocks[i] = block_of(place, is_unknown && i % 4 == 1 ? 1000 : pair, i, is_known);
	}
	ck_assert_int_eq(guess_places(blocks, N_BLOCKS, kinds), 0);
	ck_assert_uint_eq(kinds[0].n_taken, N_KNOWN);
	ck_assert_uint_gt(count(false), N_ASKED / 5);
	ck_assert_double_eq(kinds[0].probability, 0);
}
END_TEST

START_TEST(few_blocks_and_few_places_say_little)
{
	memset(blocks, 0, sizeof(blocks));
	for (uint32_t i = 0; i < 20 + N_ASKED; i++)
		blocks[i] = block_of(1, 10, i, i < 20);
	ck_assert_int_eq(guess_places(blocks, 20 + N_ASKED, kinds), 0);
	ck_assert_double_eq(kinds[0].probability, 0); /* 10 guesses tested */
	/* One place, and as many new looks as met ones: c = 1 / 3, so half of the guesses. */
	for (uint32_t i = 0; i < N_BLOCKS; i++)
		blocks[i] = block_of(1, i >= N_KNOWN && i % 2 ? 11 : 10, i, i < N_KNOWN);
	ck_assert_int_eq(guess_places(blocks, N_BLOCKS, kinds), 0);
	ck_assert_uint_eq(kinds[0].n_new, N_ASKED / 2);
	ck_assert_double_eq_tol(kinds[0].probability, 0.5, 0.001);
	ck_assert_int_eq(guess_places(blocks, 0, kinds), 0);
	ck_assert_uint_eq(kinds[0].n_asked, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("guesses");
	TCase *tcase = tcase_create("guesses");

	tcase_add_test(tcase, blocks_that_look_like_those_of_one_place_are_given_to_it);
	tcase_add_test(tcase, where_places_look_alike_nothing_is_guessed);
	tcase_add_test(tcase,
		       what_the_younger_half_does_not_know_makes_all_of_its_kind_less_probable);
	tcase_add_test(
		tcase,
		a_stated_probability_is_not_above_the_truth_where_places_make_nothing_any_more);
	tcase_add_test(tcase,
		       places_whose_blocks_are_taken_for_those_of_others_make_strangers_dangerous);
	tcase_add_test(tcase, few_blocks_and_few_places_say_little);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
