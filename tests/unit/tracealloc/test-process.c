/* Programs that fork and start others. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mini-check.h"
#include "tests/support/suite.h"

#define ALL UINT32_MAX

static const uid_t users[] = { 0, 65534 };
static struct mini_run run;

static void trace_with(struct mini_options options, const char *name)
{
	const char *const argv[] = { VICTIM_PROCESS, name, NULL };

	options.n_chunks = 512;
	mini_run_well(&options, argv, &run);
}

static void trace(const char *name)
{
	trace_with((struct mini_options){ .flags = RING_FLAG_FOLLOW }, name);
}

static void trace_as(int user, const char *name)
{
	trace_with((struct mini_options){ .flags = RING_FLAG_FOLLOW,
					  .uid = getuid() == 0 ? users[user] : 0 },
		   name);
}

START_TEST(a_forked_child_is_an_image_of_its_own)
{
	const struct mini_event *freed = NULL;

	trace_as(_i, "fork-child");
	ck_assert_uint_eq(run.n_processes, 2);
	ck_assert_uint_eq(run.processes[0].birth, RING_BIRTH_EXEC);
	ck_assert_uint_eq(run.processes[0].parent_slot, UINT32_MAX);
	ck_assert_uint_eq(run.processes[1].birth, RING_BIRTH_FORK);
	ck_assert_uint_eq(run.processes[1].parent_slot, 0);
	ck_assert_uint_eq(run.processes[1].pid, mini_value(&run, "child"));
	ck_assert_uint_eq(mini_count(&run, 0, TRACE_OP_ALLOC, 0), 2);
	ck_assert_uint_eq(mini_count(&run, 0, TRACE_OP_FREE, 0), 1);
	ck_assert_uint_eq(mini_count(&run, 1, TRACE_OP_ALLOC, 0), 1);
	ck_assert_uint_eq(mini_count(&run, 1, TRACE_OP_FREE, 0), 2);
	ck_assert_uint_eq(mini_find(&run, TRACE_OP_ALLOC, 2002, 0)->slot, 1);
	for (size_t i = 0; i < run.n_events && !freed; i++)
		if (run.events[i].slot == 1 && run.events[i].op == TRACE_OP_FREE)
			freed = &run.events[i];
	ck_assert_uint_eq(freed->address, mini_value(&run, "block"));
}
END_TEST

START_TEST(a_forked_child_tells_its_thread_and_modules_again)
{
	trace_as(_i, "fork-child");
	ck_assert_uint_eq(mini_count(&run, 1, TRACE_OP_THREAD_START, 0), 1);
	ck_assert_uint_eq(mini_count(&run, 1, TRACE_OP_MODULE, 0),
			  mini_count(&run, 0, TRACE_OP_MODULE, 0));
	for (size_t i = 0; i < run.n_events; i++)
		if (run.events[i].slot == 1 && run.events[i].op == TRACE_OP_THREAD_START) {
			ck_assert_uint_eq(run.events[i].start->tid, mini_value(&run, "child"));
			ck_assert_uint_eq(run.events[i].start->is_main, 1);
			ck_assert_uint_eq(run.events[i].start->stack_end,
					  run.events[0].start->stack_end);
		}
}
END_TEST

START_TEST(children_of_children_know_their_parents)
{
	trace_as(_i, "fork-chain");
	ck_assert_uint_eq(run.n_processes, 4);
	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_uint_eq(mini_find(&run, TRACE_OP_ALLOC, 2100 + i, 0)->slot, i);
		ck_assert_uint_eq(mini_count(&run, i, TRACE_OP_ALLOC, 0), 1);
		ck_assert_uint_eq(run.processes[i].parent_slot, i ? i - 1 : UINT32_MAX);
	}
}
END_TEST

START_TEST(a_child_of_a_program_with_many_stacks_pays_for_none_of_them)
{
	trace("fork-late");
	ck_assert_uint_ge(mini_count(&run, 0, TRACE_OP_ALLOC, 0), 4096);
	/* Its parent's table of stacks alone has 64 pages and more. */
	ck_assert_uint_gt(mini_value(&run, "faults"), 0);
	ck_assert_uint_lt(mini_value(&run, "faults"), 60);
}
END_TEST

START_TEST(forks_beside_busy_threads_lose_nothing)
{
	trace("fork-storm");
	ck_assert_uint_eq(run.n_processes, 201);
	for (uint32_t i = 1; i < 201; i++) {
		ck_assert_uint_eq(mini_count(&run, i, TRACE_OP_ALLOC, 0), 1);
		ck_assert_uint_eq(mini_count(&run, i, TRACE_OP_FREE, 0), 1);
		ck_assert_uint_eq(run.processes[i].parent_slot, 0);
	}
}
END_TEST

static const struct {
	const char *name;
	const char *path;
	bool is_spawn;
} starters[] = {
	{ "execve", VICTIM_PROCESS, false },
	{ "execv", VICTIM_PROCESS, false },
	{ "execvp", VICTIM_PROCESS, false },
	{ "execvpe", VICTIM_PROCESS, false },
	{ "execl", VICTIM_PROCESS, false },
	{ "execlp", VICTIM_PROCESS, false },
	{ "execle", VICTIM_PROCESS, false },
	{ "fexecve", "", false },
	{ "execveat", VICTIM_PROCESS, false },
	{ "posix_spawn", VICTIM_PROCESS, true },
	{ "posix_spawnp", VICTIM_PROCESS, true },
	{ "vfork", VICTIM_PROCESS, true },
	{ "large-environment", VICTIM_PROCESS, false },
};
#define N_STARTERS (sizeof(starters) / sizeof(*starters))

static const struct mini_event *find_exec(void)
{
	const struct mini_event *found = NULL;

	for (size_t i = 0; i < run.n_events; i++)
		if (run.events[i].op == TRACE_OP_EXEC) {
			ck_assert_ptr_null(found);
			found = &run.events[i];
		}
	ck_assert_ptr_nonnull(found);
	return found;
}

START_TEST(a_program_started_with_a_clean_environment_is_followed)
{
	bool is_nobody = getuid() == 0 && _i >= (int)N_STARTERS;
	int i = _i % (int)N_STARTERS;
	const struct mini_event *exec;

	trace_as(is_nobody, starters[i].name);
	ck_assert_uint_eq(run.n_processes, 2);
	exec = find_exec();
	ck_assert_uint_eq(exec->slot, 0);
	ck_assert_str_eq(exec->path, starters[i].path);
	ck_assert_uint_eq(exec->is_spawn, starters[i].is_spawn);
	ck_assert_uint_eq(run.processes[1].birth, RING_BIRTH_EXEC);
	ck_assert_uint_eq(run.processes[0].pid == run.processes[1].pid, !starters[i].is_spawn);
	ck_assert_uint_eq(mini_find(&run, TRACE_OP_ALLOC, 2222, 0)->slot, 1);
	ck_assert_uint_eq(mini_value(&run, "recording"), 1);
	ck_assert_uint_eq(mini_value(&run, LIBTRACEALLOC), 1);
}
END_TEST

START_TEST(a_block_of_a_vfork_child_is_its_parents)
{
	trace("vfork");
	ck_assert_uint_eq(mini_find(&run, TRACE_OP_ALLOC, 2005, 0)->slot, 0);
	ck_assert_uint_eq(mini_count(&run, 0, TRACE_OP_ALLOC, 0), 1);
	ck_assert_uint_eq(mini_count(&run, 0, TRACE_OP_FREE, 0), 1);
}
END_TEST

START_TEST(the_users_own_preload_stays)
{
	trace("preload");
	ck_assert_uint_eq(mini_value(&run, LIBTRACEALLOC ":" SHIM), 1);
	ck_assert_uint_eq(mini_value(&run, "other"), 1);
	ck_assert_uint_eq(run.n_processes, 2);
}
END_TEST

START_TEST(the_environment_of_another_recording_is_left_alone)
{
	trace("other-recording");
	ck_assert_uint_eq(run.n_processes, 1);
	ck_assert_uint_eq(mini_value(&run, "recording"), 1);
	ck_assert_uint_eq(mini_value(&run, LIBTRACEALLOC), 1);
}
END_TEST

START_TEST(an_environment_that_is_right_is_not_touched)
{
	trace("environment");
	ck_assert_uint_eq(mini_value(&run, LIBTRACEALLOC), 1);
	ck_assert_uint_eq(mini_value(&run, "other"), 1);
	ck_assert_uint_eq(run.n_processes, 2);
}
END_TEST

START_TEST(without_follow_a_started_program_sees_nothing_of_us)
{
	trace_with((struct mini_options){ 0 }, "environment");
	ck_assert_uint_eq(run.n_processes, 1);
	ck_assert_uint_eq(mini_value(&run, "no-preload"), 1);
	ck_assert_uint_eq(mini_value(&run, "recording"), 0);
	ck_assert_uint_eq(mini_value(&run, "other"), 1);
	trace_with((struct mini_options){ .preload = SHIM }, "environment");
	ck_assert_uint_eq(run.n_processes, 1);
	ck_assert_uint_eq(mini_value(&run, SHIM), 1);
}
END_TEST

START_TEST(a_program_that_cannot_be_started_changes_nothing)
{
	trace_as(_i, "failing");
	ck_assert_uint_eq(mini_value(&run, "right"), 4);
	ck_assert_uint_eq(run.n_processes, 1);
	ck_assert_uint_eq(mini_count(&run, 0, TRACE_OP_EXEC, 0), 3);
	ck_assert_ptr_nonnull(mini_find(&run, TRACE_OP_ALLOC, 2006, 0));
}
END_TEST

START_TEST(the_abstract_name_is_found_when_the_file_is_not)
{
	trace_with((struct mini_options){ .is_abstract = true }, "child");
	ck_assert_uint_eq(run.n_processes, 1);
	ck_assert_ptr_nonnull(mini_find(&run, TRACE_OP_ALLOC, 2222, 0));
}
END_TEST

START_TEST(a_program_that_is_refused_runs_untraced)
{
	trace_with((struct mini_options){ .verdict = RECORDING_WRONG_VERSION }, "child");
	ck_assert_uint_eq(run.n_events, 0);
	ck_assert_uint_eq(mini_value(&run, "recording"), 1);
}
END_TEST

/* So that it need not wait until the collector has asked. */
START_TEST(a_program_says_with_its_hello_what_proc_says_of_it)
{
	const char *const argv[] = { VICTIM_PROCESS, "child", "", "two words", NULL };

	if (getenv("MEMSIGHT_EMULATOR"))
		return; /* /proc is the emulator's */
	mini_run_well(&(struct mini_options){ .uid = getuid() == 0 ? users[_i] : 0 }, argv, &run);
	ck_assert_uint_eq(run.n_told, 1);
}
END_TEST

START_TEST(a_collector_that_never_answers_is_given_up)
{
	trace_with((struct mini_options){ .is_mute = true }, "child");
	ck_assert_uint_eq(run.n_events, 0);
	ck_assert_uint_eq(mini_value(&run, "recording"), 1);
}
END_TEST

/* Longer than one waits for a collector that cannot be asked whether it lives. */
START_TEST(a_collector_that_is_slow_and_alive_is_waited_for)
{
	trace_with((struct mini_options){ .answer_after_ms = 3 * RECORDING_ATTACH_MS }, "child");
	ck_assert_ptr_nonnull(mini_find(&run, TRACE_OP_ALLOC, 2222, 0));
}
END_TEST

START_TEST(a_tight_limit_of_address_space_is_left_to_the_program)
{
	/* The pool of 512 chunks has 32 MiB and a control area. */
	trace_with((struct mini_options){ .address_space = 1u << 30 }, "child");
	ck_assert_ptr_nonnull(mini_find(&run, TRACE_OP_ALLOC, 2222, 0));
	trace_with((struct mini_options){ .address_space = 256u << 20 }, "child");
	ck_assert_uint_eq(run.n_events, 0);
	ck_assert_uint_eq(mini_value(&run, "recording"), 1);
}
END_TEST

static Suite *process_suite(void)
{
	Suite *suite = suite_create("process");
	TCase *tests = tcase_create("all");
	int n = getuid() == 0 ? 2 : 1;

	tcase_add_loop_test(tests, a_forked_child_is_an_image_of_its_own, 0, n);
	tcase_add_loop_test(tests, a_forked_child_tells_its_thread_and_modules_again, 0, n);
	tcase_add_loop_test(tests, children_of_children_know_their_parents, 0, n);
	tcase_add_test(tests, a_child_of_a_program_with_many_stacks_pays_for_none_of_them);
	tcase_add_test(tests, forks_beside_busy_threads_lose_nothing);
	tcase_add_loop_test(tests, a_program_started_with_a_clean_environment_is_followed, 0,
			    n * (int)N_STARTERS);
	tcase_add_test(tests, a_block_of_a_vfork_child_is_its_parents);
	tcase_add_test(tests, the_users_own_preload_stays);
	tcase_add_test(tests, the_environment_of_another_recording_is_left_alone);
	tcase_add_test(tests, an_environment_that_is_right_is_not_touched);
	tcase_add_test(tests, without_follow_a_started_program_sees_nothing_of_us);
	tcase_add_loop_test(tests, a_program_that_cannot_be_started_changes_nothing, 0, n);
	tcase_add_test(tests, the_abstract_name_is_found_when_the_file_is_not);
	tcase_add_test(tests, a_program_that_is_refused_runs_untraced);
	tcase_add_loop_test(tests, a_program_says_with_its_hello_what_proc_says_of_it, 0, n);
	tcase_add_test(tests, a_collector_that_never_answers_is_given_up);
	tcase_add_test(tests, a_collector_that_is_slow_and_alive_is_waited_for);
	tcase_add_test(tests, a_tight_limit_of_address_space_is_left_to_the_program);
	suite_add_tcase(suite, tests);
	return suite;
}

int main(void)
{
	return suite_run(process_suite());
}
