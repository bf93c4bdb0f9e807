/*
 * Whose time that samples leave unresolved is taken to be, in cases small enough to be computed by
 * hand.
 */
#include "store/totals/unresolved.h"

#include <check.h>
#include <stdio.h>
#include <unistd.h>

#include "store/database.h"
#include "store/totals/totals.h"
#include "store/touch.h"
#include "tests/support/suite.h"

#define WEIGHT	  1000
#define ACCESS	  5 /* frame of the instruction whose operand is not always known */
#define NEIGHBOUR 6 /* of another one in the same samples */
#define RUN	  1
#define EXACT	  1e-6
#define HAND	  1e-4 /* what was computed by hand has so many digits */

enum { A = 11, B = 12, BESIDE = 21 }; /* variables */

static struct {
	char path[64];
	struct db *db;
	struct tally tally;
	int64_t n_samples;
} world;

static void set_up(void)
{
	snprintf(world.path, sizeof(world.path), "/tmp/memsight-imputation-%d.db", (int)getpid());
	ck_assert_int_eq(db_begin(world.path, DB_REPLACE, &world.db), 0);
	ck_assert_int_eq(tally_init(&world.tally, 0), 0);
	world.tally.has_no_lines = true;
	world.tally.threads.first_row = 1;
	world.n_samples = 0;
}

static void tear_down(void)
{
	tally_finish(&world.tally);
	world.db = db_close(world.db);
	unlink(world.path);
}

static void touch(int64_t id, int64_t frame, double share)
{
	const struct touch row = {
		.sample = world.n_samples,
		.time_ns = world.n_samples * WEIGHT,
		.weight = WEIGHT,
		.thread_row = world.n_samples, /* one of its own: no neighbours */
		.size = 8,
		.is_write = 0,
		.is_resolved = id != 0,
		.frame = frame,
		.measures = MEASURES_TIME,
		.role = TRACE_ROLE_WINDOW,
		.share = share,
		.owner = { .kind = id ? OWNER_global : OWNER_unknown, .id = id },
	};

	ck_assert_int_eq(tally_any_touch(&world.tally, &row), 0);
}

/*
 * n samples that access id (0: not resolved), and beside it something else with half of their time
 * (0: nothing).
 */
static void sample(unsigned n, int64_t id, int64_t beside)
{
	for (unsigned i = 0; i < n; i++) {
		world.n_samples++;
		const struct sample_event taken = {
			.measures = MEASURES_TIME,
			.time_ns = world.n_samples * WEIGHT,
			.weight = WEIGHT,
			.thread_row = world.n_samples,
		};
		tally_sample(&world.tally, &taken);
		if (beside)
			touch(beside, NEIGHBOUR, 0.5);
		touch(id, ACCESS, beside ? 0.5 : 1);
	}
}

/* What samples told of the instruction: n times the owner's, in so much time. */
static void tell(int64_t beside, int64_t id, int64_t n, double time, int64_t n_unresolved)
{
	ck_assert_int_eq(db_run(world.db,
				"INSERT INTO instruction_owner(run_id, frame_id, beside_kind,"
				" beside_id, n_unresolved, owner_kind, owner_id, n, time_ns)"
				" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
				"nnnnnnnnr", (int64_t)RUN, (int64_t)ACCESS,
				(int64_t)(beside ? OWNER_global : 0), beside, n_unresolved,
				(int64_t)OWNER_global, id, n, time),
			 0);
}

static void impute(void)
{
	ck_assert_int_eq(tally_impute(&world.tally, world.db, RUN), 0);
	world.tally.design.young_sq = 0; /* as if no two threads had one period */
}

static const struct owner_shares *shares_of(int64_t id)
{
	struct object_total *item = object_totals_at(&world.tally.objects, OWNER_global, id);

	ck_assert_ptr_nonnull(item);
	return &item->shares;
}

static void check_imputed(int64_t id, double time, double least, double most)
{
	const struct imputed *imputed = &shares_of(id)->imputed[SHARE_TIME];

	ck_assert_double_eq_tol(imputed->time, time, EXACT);
	ck_assert_double_eq_tol(imputed->least, least, EXACT);
	ck_assert_double_eq_tol(imputed->most, most, EXACT);
}

static struct share_answer answer_of(int64_t id, double anybody, double unsampled)
{
	const struct share_doubt doubt = { anybody,
					   &world.tally.kinds[OWNER_unknown].of[SHARE_TIME],
					   unsampled };

	return share_answer_of(&world.tally.design, shares_of(id), SHARE_TIME, &doubt);
}

/* share < 0: no number, but a range. */
static void check_answer(int64_t id, double share, double low, double high)
{
	const struct share_answer answer = answer_of(id, world.tally.anybody[SHARE_TIME], 0);

	ck_assert_double_eq_tol(answer.share, share, HAND);
	ck_assert_double_eq_tol(answer.low, low, HAND);
	ck_assert_double_eq_tol(answer.high, high, HAND);
}

/* 60 of 100 tell, all one owner: others have 3 / 60 of the 40 at most (the rule of three). */
START_TEST(what_one_owner_alone_is_seen_at_is_its)
{
	sample(60, A, 0);
	sample(40, 0, 0);
	tell(0, A, 60, 60 * WEIGHT, 40);
	impute();
	check_imputed(A, 40 * WEIGHT, 38 * WEIGHT, 0);
	ck_assert_double_eq_tol(world.tally.anybody[SHARE_TIME], 2 * WEIGHT, EXACT);
	/* All is its; 102 of 104: half is 1.96 sqrt(0.98077 x 0.01923 / 104) = 0.0264. */
	check_answer(A, 1, 0.98 - 0.0264, 1);
	/* Who was never seen has 2 % at most, and 2 of 104 by chance. */
	check_answer(B, 0, 0, 0.02 + 0.0264);
}
END_TEST

/* 20 of 100 tell: odds of 4 to be not resolved, times 3 / 20. */
START_TEST(where_most_is_unresolved_one_owner_is_no_number)
{
	sample(20, A, 0);
	sample(80, 0, 0);
	tell(0, A, 20, 20 * WEIGHT, 80);
	impute();
	check_imputed(A, 80 * WEIGHT, 0.4 * 80 * WEIGHT, 0);
	ck_assert_double_eq_tol(world.tally.anybody[SHARE_TIME], 0.6 * 80 * WEIGHT, EXACT);
	check_answer(A, -1, 0.2 + 0.32 - 0.0264, 1);
}
END_TEST

/*
 * 30 and 10 of 40 that tell: what they tell in proportions is no measure, so each may have all of
 * the 60.
 */
START_TEST(each_of_several_owners_may_have_any_part)
{
	sample(30, A, 0);
	sample(10, B, 0);
	sample(60, 0, 0);
	tell(0, A, 30, 30 * WEIGHT, 60);
	tell(0, B, 10, 10 * WEIGHT, 60);
	impute();
	check_imputed(A, 45 * WEIGHT, 0, 15 * WEIGHT);
	check_imputed(B, 15 * WEIGHT, 0, 45 * WEIGHT);
	/* Somebody else: 3 / 40 x 60 / 40. */
	ck_assert_double_eq_tol(world.tally.anybody[SHARE_TIME], 0.1125 * 60 * WEIGHT, EXACT);
	/*
	 * Of 60 samples three quarters each: the mean square is (30 + 60 x 0.5625) / 100, with two
	 * of 1 and two of 0 65.75 / 104, less (77 / 104)^2: 0.08404. Half: 1.96 sqrt(0.08404 / 104)
	 * = 0.0557. B's is the same. If B had all that it may have, 0.7675 of the time in whole
	 * samples, it would be 1.96 sqrt(0.757 x 0.243 / 104) = 0.0824.
	 */
	check_answer(A, -1, 0.3 - 0.0557, 1);
	check_answer(B, -1, 0.1 - 0.0557, 0.1 + 0.6 + 0.0675 + 0.0824);
}
END_TEST

/* The same instruction serves two arrays; what else its samples access tells which. */
START_TEST(what_is_accessed_beside_tells_uses_of_an_instruction_apart)
{
	sample(60, A, BESIDE);
	sample(60, B, 0);
	sample(30, 0, BESIDE);
	tell(0, A, 60, 30 * WEIGHT, 30);
	tell(0, B, 60, 60 * WEIGHT, 30);
	tell(BESIDE, A, 60, 30 * WEIGHT, 30);
	impute();
	/* Half of 30 samples' time; others' at most 3 / 60 of it. */
	check_imputed(A, 15 * WEIGHT, 0.95 * 15 * WEIGHT, 0);
	check_imputed(B, 0, 0, 0);
	ck_assert_double_eq_tol(world.tally.anybody[SHARE_TIME], 0.05 * 15 * WEIGHT, EXACT);
}
END_TEST

START_TEST(what_nothing_tells_of_may_be_anybodys)
{
	sample(70, A, 0);
	sample(30, 0, 0);
	impute();
	check_imputed(A, 0, 0, 0);
	ck_assert_double_eq_tol(world.tally.anybody[SHARE_TIME], 30 * WEIGHT, EXACT);
	/* 72 of 104: half is 1.96 sqrt(0.69231 x 0.30769 / 104) = 0.0887. */
	check_answer(A, -1, 0.7 - 0.0887, 1);
}
END_TEST

/* A fault names an owner, and says nothing of how often. */
START_TEST(an_owner_that_only_a_page_fault_names_may_have_all_or_nothing)
{
	touch(A, ACCESS, 0);
	sample(50, B, 0);
	sample(50, 0, 0);
	tell(0, A, 0, 0, 50);
	impute();
	check_imputed(A, 50 * WEIGHT, 0, 0);
	ck_assert_double_eq_tol(world.tally.anybody[SHARE_TIME], 50 * WEIGHT, EXACT);
	/* 52 of 104: half is 1.96 x 0.5 / sqrt(104) = 0.0961. */
	check_answer(A, -1, 0, 1);
}
END_TEST

/* A tenth of the time has no sample: it may be anybody's, and all else is nine tenths. */
START_TEST(time_without_samples_widens_every_answer)
{
	sample(50, A, 0);
	sample(50, B, 0);
	impute();
	const struct share_answer answer = answer_of(A, 0, 0.1);
	ck_assert_double_eq_tol(answer.low, (0.5 - 0.0961) * 0.9, HAND);
	ck_assert_double_eq_tol(answer.high, (0.5 + 0.0961) * 0.9 + 0.1, HAND);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("imputation");
	TCase *tcase = tcase_create("imputation");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, what_one_owner_alone_is_seen_at_is_its);
	tcase_add_test(tcase, where_most_is_unresolved_one_owner_is_no_number);
	tcase_add_test(tcase, each_of_several_owners_may_have_any_part);
	tcase_add_test(tcase, what_is_accessed_beside_tells_uses_of_an_instruction_apart);
	tcase_add_test(tcase, what_nothing_tells_of_may_be_anybodys);
	tcase_add_test(tcase, an_owner_that_only_a_page_fault_names_may_have_all_or_nothing);
	tcase_add_test(tcase, time_without_samples_widens_every_answer);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
