/* What the program withheld, against a model that asks at every moment. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/live/recording-gaps.h"
#include "common/collect-words.h"
#include "store/database.h"
#include "tests/unit/analyze/fixtures/check-db.h"
#include "tests/unit/analyze/fixtures/make-records.h"
#include "tests/support/suite.h"

#define N_THREADS 3 /* of the one image */
#define N_STEPS	  2000
#define STEP_NS	  10
#define END_NS	  (INT64_C(10) * N_STEPS)

static struct db *db;
static char db_path[64];
static struct tasks *tasks;
static struct withheld *withheld;
static uint64_t seed;

/* The model: what is so now. */
static int pauses;
static int thread_pauses[N_THREADS + 1];
static uint32_t pushed[N_STEPS];
static int n_pushed;
/* And how long it was so. */
static int64_t paused_ns, thread_paused_ns, n_pauses, n_thread_pauses, class_ns[256];

static uint64_t random_below(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static void set_up(void)
{
	snprintf(db_path, sizeof(db_path), "/tmp/test-withheld-%d.db", getpid());
	ck_assert_int_eq(db_begin(db_path, DB_REPLACE, &db), 0);
	ck_assert_int_eq(tasks_create(1, 1, &tasks), 0);
	for (uint32_t i = 1; i <= 2; i++) {
		struct trace_process *process = make_process(i, i - 1, 100 + i, RING_BIRTH_FORK);
		ck_assert_int_eq(tasks_add_process(tasks, process, 0), 0);
		free(process);
	}
	for (uint32_t i = 1; i <= N_THREADS; i++) {
		struct trace_thread *thread = make_thread(i, 1, 100 + i);
		ck_assert_int_eq(tasks_add_thread(tasks, thread, 0), 0);
		free(thread);
	}
	ck_assert_int_eq(withheld_open(db, 7, tasks, &withheld), 0);
	pauses = n_pushed = 0;
	paused_ns = thread_paused_ns = n_pauses = n_thread_pauses = 0;
	memset(thread_pauses, 0, sizeof(thread_pauses));
	memset(class_ns, 0, sizeof(class_ns));
}

static void tear_down(void)
{
	withheld = withheld_close(withheld);
	tasks = tasks_destroy(tasks);
	db = db_close(db);
	unlink(db_path);
}

static uint32_t mask_now(void)
{
	int top = n_pushed < 7 ? n_pushed : 7;

	if (pauses > 0)
		return 0;
	return top > 0 ? pushed[top - 1] : COLLECT_ALL;
}

static void step(int64_t now)
{
	uint32_t thread = 1 + (uint32_t)random_below(N_THREADS);
	uint32_t classes = (uint32_t)random_below(256);

	switch (random_below(6)) {
	case 0:
		ck_assert_int_eq(withheld_pause(withheld, thread, false, now), 0);
		n_pauses += pauses++ == 0;
		break;
	case 1:
		ck_assert_int_eq(withheld_resume(withheld, thread, false, now), 0);
		pauses -= pauses > 0;
		break;
	case 2:
		ck_assert_int_eq(withheld_pause(withheld, thread, true, now), 0);
		n_thread_pauses += thread_pauses[thread]++ == 0;
		break;
	case 3:
		ck_assert_int_eq(withheld_resume(withheld, thread, true, now), 0);
		thread_pauses[thread] -= thread_pauses[thread] > 0;
		break;
	case 4:
		ck_assert_int_eq(withheld_push(withheld, thread, classes, now), 0);
		pushed[n_pushed++] = classes;
		break;
	default:
		ck_assert_int_eq(withheld_pop(withheld, thread, now), 0);
		n_pushed -= n_pushed > 0;
	}
}

/* Ask about every class in every thread, and count the time up to the next step. */
static void look(void)
{
	for (uint32_t thread = 1; thread <= N_THREADS; thread++) {
		for (uint32_t class = 1; class < COLLECT_ALL; class <<= 1)
			ck_assert_int_eq(withheld_collects(withheld, 1, thread, class),
					 (mask_now() & class) && !thread_pauses[thread]);
		thread_paused_ns += thread_pauses[thread] > 0 ? STEP_NS : 0;
	}
	paused_ns += pauses > 0 ? STEP_NS : 0;
	class_ns[mask_now()] += STEP_NS;
}

static int64_t length_of(uint32_t mask)
{
	char words[64] = "", sql[200];
	size_t n = 0;

#define EVENTS(id, word, bit, meaning)                                                             \
	if (mask >> (bit)&1)                                                                       \
		n += (size_t)snprintf(words + n, sizeof(words) - n, "%s" #word, n ? "," : "");
#define SAMPLES EVENTS
#include "schemas/events.def"
#undef EVENTS
#undef SAMPLES
	snprintf(sql, sizeof(sql),
		 "SELECT coalesce(sum(end_ns - start_ns), 0) FROM withheld WHERE thread_id IS NULL"
		 " AND classes = '%s'",
		 words);
	return check_integer(db_handle(db), sql);
}

START_TEST(intervals_are_those_of_a_model_that_asks_at_every_moment)
{
	seed = 0x2545f4914f6cdd1du + (uint64_t)_i;
	for (int i = 0; i < N_STEPS; i++) {
		step((int64_t)i * STEP_NS);
		look();
	}
	ck_assert_int_eq(withheld_finish(withheld, END_NS), 0);

	const struct withheld_totals *totals = withheld_totals(withheld);
	ck_assert_int_eq(totals->paused_ns, paused_ns);
	ck_assert_int_eq(totals->thread_paused_ns, thread_paused_ns);
	ck_assert_uint_eq(totals->n_pauses, (uint64_t)n_pauses);
	ck_assert_uint_eq(totals->n_thread_pauses, (uint64_t)n_thread_pauses);
	for (uint32_t mask = 0; mask < COLLECT_ALL; mask++)
		ck_assert_int_eq(length_of(mask), class_ns[mask]);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT sum(end_ns - start_ns) FROM withheld"
						      " WHERE thread_id IS NOT NULL"),
			 thread_paused_ns);
}
END_TEST

START_TEST(a_forked_image_goes_on_as_its_parent_and_ends_for_itself)
{
	ck_assert_int_eq(withheld_pause(withheld, 1, false, 100), 0);
	ck_assert_int_eq(withheld_fork(withheld, 2, 1, 300), 0);
	ck_assert_int_eq(withheld_resume(withheld, 1, false, 400), 0);
	ck_assert(withheld_collects(withheld, 1, 1, COLLECT_SAMPLES));
	ck_assert(!withheld_collects(withheld, 2, 0, COLLECT_SAMPLES));
	ck_assert_int_eq(withheld_end(withheld, 2, 700), 0);
	ck_assert_int_eq(withheld_finish(withheld, END_NS), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT end_ns - start_ns FROM withheld WHERE"
						      " process_id = 2"),
			 400);
	ck_assert_int_eq(withheld_totals(withheld)->paused_ns, 300 + 400);
}
END_TEST

START_TEST(a_pause_whose_end_was_lost_ends_at_the_second_birth_of_a_thread)
{
	ck_assert_int_eq(withheld_allocated(withheld, 1, 50), 0);
	ck_assert_int_eq(withheld_pause(withheld, 1, false, 100), 0);
	/* Calls that were under way: once in each thread. */
	ck_assert_int_eq(withheld_allocated(withheld, 1, 110), 0);
	ck_assert_int_eq(withheld_allocated(withheld, 2, 120), 0);
	ck_assert(!withheld_collects(withheld, 1, 3, COLLECT_SAMPLES));
	ck_assert_int_eq(withheld_allocated(withheld, 2, 500), 0);
	ck_assert(withheld_collects(withheld, 1, 3, COLLECT_SAMPLES));
	ck_assert_int_eq(withheld_resume(withheld, 1, false, 510), 0);
	ck_assert_uint_eq(withheld_totals(withheld)->n_lost_ends, 1);
	ck_assert_int_eq(withheld_totals(withheld)->paused_ns, 400);

	/* Each pause anew; and what collects no blocks. */
	ck_assert_int_eq(withheld_push(withheld, 1, COLLECT_FAULTS, 600), 0);
	ck_assert_int_eq(withheld_allocated(withheld, 2, 610), 0);
	ck_assert_uint_eq(withheld_totals(withheld)->n_lost_ends, 1);
	ck_assert_int_eq(withheld_push(withheld, 1, COLLECT_HEAP, 620), 0);
	for (int i = 0; i < 9; i++)
		ck_assert_int_eq(withheld_allocated(withheld, 2, 630 + i), 0);
	ck_assert_uint_eq(withheld_totals(withheld)->n_lost_ends, 1);
	ck_assert(!withheld_collects(withheld, 1, 1, COLLECT_SAMPLES));
}
END_TEST

START_TEST(intervals_beyond_the_bound_are_in_the_totals)
{
	for (int64_t i = 0; i < WITHHELD_MAX_ROWS + 10; i++) {
		ck_assert_int_eq(withheld_pause(withheld, 1, false, 10 * i), 0);
		ck_assert_int_eq(withheld_resume(withheld, 1, false, 10 * i + 4), 0);
	}
	ck_assert_int_eq(withheld_finish(withheld, INT64_C(100) * WITHHELD_MAX_ROWS), 0);
	ck_assert_int_eq(check_integer(db_handle(db), "SELECT count(*) FROM withheld"),
			 WITHHELD_MAX_ROWS);
	ck_assert_uint_eq(withheld_totals(withheld)->n_rows, 10);
	ck_assert_int_eq(withheld_totals(withheld)->paused_ns, 4 * (WITHHELD_MAX_ROWS + 10));
}
END_TEST

static Suite *withheld_suite(void)
{
	Suite *suite = suite_create("withheld");
	TCase *tests = tcase_create("all");

	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_loop_test(tests, intervals_are_those_of_a_model_that_asks_at_every_moment, 0, 5);
	tcase_add_test(tests, a_forked_image_goes_on_as_its_parent_and_ends_for_itself);
	tcase_add_test(tests, a_pause_whose_end_was_lost_ends_at_the_second_birth_of_a_thread);
	tcase_add_test(tests, intervals_beyond_the_bound_are_in_the_totals);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	return suite_run(withheld_suite());
}
