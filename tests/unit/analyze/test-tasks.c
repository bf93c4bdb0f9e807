/* Lives of threads as perf and the threads' own records tell them together. */
#include <check.h>
#include <stdlib.h>

#include "analyze/process/processes.h"
#include "tests/unit/analyze/fixtures/make-records.h"
#include "tests/support/suite.h"

#define MS  INT64_C(1000000)
#define PID 100u
#define TID 107u

static struct tasks *tasks;

static void setup(void)
{
	struct trace_process *process = make_process(1, 0, PID, RING_BIRTH_EXEC);

	ck_assert_int_eq(tasks_create(1, 1, &tasks), 0);
	ck_assert_int_eq(tasks_add_process(tasks, process, 0), 0);
	free(process);
}

static void teardown(void)
{
	tasks = tasks_destroy(tasks);
}

static void tell(uint32_t number, int64_t start_ns)
{
	struct trace_thread *thread = make_thread(number, 1, TID);

	ck_assert_int_eq(tasks_add_thread(tasks, thread, start_ns), 0);
	free(thread);
}

static void live(int64_t allocated_ns, int64_t end_ns)
{
	ck_assert_int_eq(tasks_saw_thread(tasks, PID, TID, PID, allocated_ns), 0);
	ck_assert_int_eq(tasks_saw_thread_end(tasks, TID, end_ns), 0);
}

/* The thread that a sample at this time means. */
static const struct task_thread *at(int64_t time_ns)
{
	return tasks_thread_at(tasks, PID, TID, time_ns);
}

static void check_life(const struct task_thread *thread, int64_t start_ns, int64_t end_ns)
{
	ck_assert_int_eq(thread->start_ns, start_ns);
	ck_assert_int_eq(thread->end_ns, end_ns);
}

/*
 * A program that scribbles over its pool can have them written: pid 0, twice; then whoever comes.
 */
START_TEST(an_image_that_is_told_twice_without_a_pid_is_one_image)
{
	static const uint32_t numbers[] = { 7, 7, 8 };

	for (size_t i = 0; i < 3; i++) {
		struct trace_process record = { .process_id = numbers[i] };

		ck_assert_int_eq(tasks_add_process(tasks, &record, 10 - (int64_t)i), 0);
	}
	ck_assert_ptr_nonnull(tasks_process(tasks, 8));
}
END_TEST

START_TEST(a_thread_that_speaks_late_lives_from_its_birth_on)
{
	tell(1, 50 * MS);
	live(10 * MS, 90 * MS);
	ck_assert_ptr_eq(at(60 * MS), tasks_thread(tasks, 1));
	check_life(tasks_thread(tasks, 1), 10 * MS, 90 * MS);
}
END_TEST

START_TEST(a_thread_that_says_nothing_has_a_life_too)
{
	live(10 * MS, 20 * MS);
	check_life(at(15 * MS), 10 * MS, 20 * MS);
	ck_assert_uint_ge(at(15 * MS)->number, TASKS_UNSEEN);
}
END_TEST

/* The record of the second is known before perf's word of the first comes. */
START_TEST(a_number_that_is_given_out_again_is_another_thread)
{
	tell(1, 50 * MS);
	live(10 * MS, 20 * MS);
	live(40 * MS, 90 * MS);
	check_life(tasks_thread(tasks, 1), 40 * MS, 90 * MS);
	check_life(at(15 * MS), 10 * MS, 20 * MS);
	ck_assert_ptr_ne(at(15 * MS), tasks_thread(tasks, 1));
}
END_TEST

/* Records come late: the silent one is there, and must not become the one that speaks. */
START_TEST(a_thread_that_has_ended_does_not_speak_later)
{
	live(10 * MS, 20 * MS);
	tell(1, 50 * MS);
	ck_assert_ptr_ne(at(15 * MS), tasks_thread(tasks, 1));
	check_life(at(15 * MS), 10 * MS, 20 * MS);
	ck_assert_ptr_eq(at(55 * MS), tasks_thread(tasks, 1));
}
END_TEST

START_TEST(a_record_that_comes_after_the_birth_is_the_same_thread)
{
	ck_assert_int_eq(tasks_saw_thread(tasks, PID, TID, PID, 10 * MS), 0);
	tell(1, 50 * MS);
	ck_assert_int_eq(tasks_saw_thread_end(tasks, TID, 90 * MS), 0);
	check_life(tasks_thread(tasks, 1), 10 * MS, 90 * MS);
	ck_assert_ptr_eq(at(15 * MS), tasks_thread(tasks, 1));
}
END_TEST

static const struct task_process *forked(uint32_t number, int64_t start_ns, int64_t end_ns)
{
	struct trace_process *process = make_process(number, 1, TID, RING_BIRTH_FORK);

	ck_assert_int_eq(tasks_add_process(tasks, process, start_ns), 0);
	ck_assert_int_eq(tasks_end_process(tasks, number, end_ns, 0), 0);
	free(process);
	return tasks_process(tasks, number);
}

/* Its parent waited for a CPU between its own stamp and the kernel's. */
START_TEST(a_fork_that_perf_tells_of_late_is_the_one_that_the_program_told_of)
{
	const struct task_process *child = forked(2, 10 * MS, 30 * MS);

	ck_assert_int_eq(tasks_saw_fork(tasks, TID, PID, 14 * MS), 0);
	ck_assert_ptr_eq(tasks_process_at(tasks, TID, 14 * MS), child);
	ck_assert_int_eq(child->begin_ns, 14 * MS);
	ck_assert_int_eq(child->start_ns, 10 * MS);
}
END_TEST

START_TEST(a_fork_behind_the_end_of_one_with_its_number_is_another)
{
	const struct task_process *child = forked(2, 10 * MS, 30 * MS);

	ck_assert_int_eq(tasks_saw_fork(tasks, TID, PID, 10 * MS), 0);
	ck_assert_int_eq(tasks_saw_fork(tasks, TID, PID, 40 * MS), 0);
	ck_assert_ptr_eq(tasks_process_at(tasks, TID, 20 * MS), child);
	ck_assert_uint_ge(tasks_process_at(tasks, TID, 45 * MS)->number, TASKS_UNSEEN);
}
END_TEST

static Suite *tasks_suite(void)
{
	Suite *suite = suite_create("tasks");
	TCase *lives = tcase_create("lives");

	tcase_add_checked_fixture(lives, setup, teardown);
	tcase_add_test(lives, an_image_that_is_told_twice_without_a_pid_is_one_image);
	tcase_add_test(lives, a_thread_that_speaks_late_lives_from_its_birth_on);
	tcase_add_test(lives, a_thread_that_says_nothing_has_a_life_too);
	tcase_add_test(lives, a_number_that_is_given_out_again_is_another_thread);
	tcase_add_test(lives, a_thread_that_has_ended_does_not_speak_later);
	tcase_add_test(lives, a_record_that_comes_after_the_birth_is_the_same_thread);
	tcase_add_test(lives, a_fork_that_perf_tells_of_late_is_the_one_that_the_program_told_of);
	tcase_add_test(lives, a_fork_behind_the_end_of_one_with_its_number_is_another);
	suite_add_tcase(suite, lives);
	return suite;
}

int main(void)
{
	return suite_run(tasks_suite());
}
