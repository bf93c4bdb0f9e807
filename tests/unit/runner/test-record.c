/* The whole program: `memsight record` on victims whose numbers are known. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "schemas/ring.h"
#include "tests/unit/runner/recorded.h"
#include "tests/support/suite.h"

/* Where they get an agent (runner/agent/inject.h). */
#if defined(__x86_64__)
#define RUNS_STATIC true
#else
#define RUNS_STATIC false
#endif

static struct recorded run;

static void setup(void)
{
	/* Another recording, this one of the test itself, must not be found by the programs. */
	unsetenv("MEMSIGHT_RECORDING");
	unsetenv("LD_PRELOAD");
}

static void teardown(void)
{
	recorded_finish(&run);
}

static void rest(void)
{
	const struct timespec moment = { .tv_nsec = 10000000 };

	nanosleep(&moment, NULL);
}

START_TEST(a_hundred_allocations_arrive_as_a_hundred)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run(&run, WORDS("record", "--", recorded_victim("mallocs")));
	ck_assert_msg(run.status == 0, "%s", run.err);
	recorded_read(&run);
	ck_assert(run.is_whole);
	ck_assert_str_eq(run.program, "mallocs");
	ck_assert_int_eq(run.exit_status, 0);
	ck_assert_int_eq(run.n_processes, 1);
	ck_assert_uint_eq(run.processes[0].why_not, TRACE_TRACED);
	ck_assert_uint_eq(run.processes[0].n_allocs_of_64, 100);
	ck_assert_uint_ge(run.processes[0].n_frees, 100);
	ck_assert_int_eq(run.processes[0].status, 0);
	ck_assert_uint_eq(run.n_misordered, 0);
	ck_assert_uint_ge(run.n_clocks, 2);
	ck_assert_uint_gt(run.n_maps, 0);
	ck_assert_uint_gt(run.n_facts[0], 5);
	ck_assert_uint_gt(run.n_facts[1], 5);
}
END_TEST

START_TEST(a_million_allocations_arrive_through_a_small_pool)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run(&run, WORDS("record", "--source", "none", "--buffer-size", "8M", "--",
				 recorded_victim("mallocs"), "1000000"));
	ck_assert_msg(run.status == 0, "%s", run.err);
	recorded_read(&run);
	ck_assert(run.is_whole);
	ck_assert_msg(run.n_events > 0, "%s", run.err);
	ck_assert_uint_ge(run.n_events + recorded_loss(&run, "pool full"), 2000000);
	ck_assert_uint_le(run.n_events + recorded_loss(&run, "pool full"), 2000100);
	ck_assert_uint_eq(run.n_misordered, 0);
}
END_TEST

START_TEST(three_threads_of_the_recorder_lose_and_misorder_nothing)
{
	uint64_t n = 0;

	recorded_init(&run, recorded_user(_i));
	recorded_run_shell(&run,
			   "$MEMSIGHT record --source none --buffer-size 8M --recorder-threads 3"
			   " -- sh -c 'for i in 1 2 3; do $VICTIMS/mallocs 300000 & done; wait'");
	ck_assert_msg(run.status == 0, "%s", run.err);
	recorded_read(&run);
	ck_assert(run.is_whole);
	for (int i = 0; i < run.n_processes; i++)
		n += run.processes[i].n_allocs_of_64 + run.processes[i].n_frees;
	n += recorded_loss(&run, "pool full");
	ck_assert_msg(n >= 1800000 && n < 1801000, "%lu of 1,800,000", (unsigned long)n);
	ck_assert_uint_eq(run.n_misordered, 0);
}
END_TEST

START_TEST(each_fork_is_a_process_with_its_own_events)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run(&run, WORDS("record", "--", recorded_victim("forks"), "4"));
	ck_assert_msg(run.status == 0, "%s", run.err);
	recorded_read(&run);
	ck_assert_int_eq(run.n_processes, 4);
	for (int i = 0; i < 4; i++) {
		const struct recorded_process *process = &run.processes[i];

		ck_assert_uint_eq(process->n_allocs_of_64, 10u * (unsigned)(i + 1));
		ck_assert_uint_eq(process->birth, i ? RING_BIRTH_FORK : RING_BIRTH_EXEC);
		ck_assert_uint_eq(process->parent_id, i ? run.processes[i - 1].id : 0);
		/* Of who is not our child an older kernel may not tell. */
		ck_assert(process->status == i << 8 || (i && process->status == -1));
	}
}
END_TEST

START_TEST(forks_in_another_pid_namespace_are_told_apart)
{
	unsigned n_allocs = 0;

	recorded_init(&run, 0);
	recorded_run_shell(&run, "$MEMSIGHT record -- unshare -pf --mount-proc $VICTIMS/forks 3");
	ck_assert_msg(run.status == 0, "%s", run.err);
	recorded_read(&run);
	for (int i = 0; i < run.n_processes; i++) {
		n_allocs += (unsigned)run.processes[i].n_allocs_of_64;
		ck_assert_uint_eq(run.processes[i].why_not, TRACE_TRACED);
	}
	ck_assert_uint_eq(n_allocs, 10 + 20 + 30);
}
END_TEST

START_TEST(another_users_program_is_recorded_when_the_command_started_it)
{
	recorded_init(&run, 0);
	recorded_run_shell(&run, "$MEMSIGHT record -- setpriv --reuid 65534 --regid 65534 "
				 "--clear-groups $VICTIMS/mallocs");
	ck_assert_msg(run.status == 0, "%s", run.err);
	recorded_read(&run);
	ck_assert_uint_eq(recorded_process(&run, "/mallocs")->n_allocs_of_64, 100);
}
END_TEST

START_TEST(a_program_behind_env_i_is_followed)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run(&run, WORDS("record", "--", "/usr/bin/env", "-i", recorded_victim("mallocs")));
	ck_assert_msg(run.status == 0, "%s", run.err);
	recorded_read(&run);
	struct recorded_process *process = recorded_process(&run, "/mallocs");
	ck_assert_ptr_nonnull(process);
	ck_assert_uint_eq(process->why_not, TRACE_TRACED);
	ck_assert_uint_eq(process->n_allocs_of_64, 100);
	ck_assert_uint_eq(process->exec_seq, 1);
	ck_assert_int_eq(run.processes[0].status, -2);
	ck_assert_uint_eq(process->parent_id, run.processes[0].id);
}
END_TEST

START_TEST(each_program_of_a_pipeline_is_recorded)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run_shell(&run,
			   "$MEMSIGHT record -- sh -c '$VICTIMS/mallocs 50 | $VICTIMS/mallocs "
			   "70 | cat; exit 3'");
	ck_assert_int_eq(WEXITSTATUS(run.status), 3);
	recorded_read(&run);

	unsigned found = 0;
	for (int i = 0; i < run.n_processes; i++) {
		found |= run.processes[i].n_allocs_of_64 == 50 ? 1u : 0;
		found |= run.processes[i].n_allocs_of_64 == 70 ? 2u : 0;
	}
	ck_assert_uint_eq(found, 3);
}
END_TEST

START_TEST(without_follow_only_the_command_is_recorded)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run_shell(&run,
			   "$MEMSIGHT record --no-follow -- sh -c '$VICTIMS/mallocs; exit 0'");
	ck_assert_msg(run.status == 0, "%s", run.err);
	recorded_read(&run);
	ck_assert_uint_eq(run.processes[0].why_not, TRACE_TRACED);
	for (int i = 0; i < run.n_processes; i++)
		ck_assert_uint_eq(run.processes[i].n_allocs_of_64 == 100, 0);
}
END_TEST

static const struct {
	const char *how;
	int status; /* of memsight */
	int wait_status; /* of the program */
} endings[] = {
	{ "0", 0, 0 },
	{ "3", 3, 3 << 8 },
	{ "_exit", 5, 5 << 8 },
	{ "kill", 128 + SIGKILL, SIGKILL },
	{ "abort", 128 + SIGABRT, SIGABRT },
};

START_TEST(all_that_was_recorded_before_the_end_is_kept)
{
	int n_users = recorded_n_users();

	recorded_init(&run, recorded_user(_i % n_users));
	recorded_run(&run, WORDS("record", "--", recorded_victim("mallocs"), "5000",
				 endings[_i / n_users].how));
	ck_assert_int_eq(WEXITSTATUS(run.status), endings[_i / n_users].status);
	recorded_read(&run);
	ck_assert(run.is_whole);
	ck_assert_uint_eq(run.processes[0].n_allocs_of_64, 5000);
	ck_assert_int_eq(run.exit_status & 0x7f7f, endings[_i / n_users].wait_status & 0x7f7f);
	ck_assert_int_eq(run.exit_status & 0xff00, endings[_i / n_users].wait_status & 0xff00);
}
END_TEST

START_TEST(a_command_that_cannot_be_run_leaves_nothing)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run(&run, WORDS("record", "--", "no-such-command"));
	ck_assert_int_eq(WEXITSTATUS(run.status), 127);
	ck_assert_ptr_nonnull(strstr(run.err, "no-such-command"));
	ck_assert_int_eq(run.n_traces, 0);

	recorded_put(&run, "plain", "not a program\n");
	recorded_run(&run, WORDS("record", "--", "./plain"));
	ck_assert_int_eq(WEXITSTATUS(run.status), 126);
	ck_assert_int_eq(run.n_traces, 0);
}
END_TEST

START_TEST(a_script_without_its_interpreter_gives_127_and_leaves_nothing)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run_shell(&run, "echo '#!/no/such/interpreter' >script; chmod +x script; "
				 "$MEMSIGHT record -- ./script");
	ck_assert_int_eq(WEXITSTATUS(run.status), 127);
	ck_assert_int_eq(run.n_traces, 0);
}
END_TEST

START_TEST(a_static_program_is_recorded_or_says_why_not)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run(&run, WORDS("record", "--", recorded_victim("mallocs-static"), "100", "4"));
	ck_assert_int_eq(WEXITSTATUS(run.status), 4);
	recorded_read(&run);
	ck_assert_int_eq(run.n_processes, 1);
	if (RUNS_STATIC) {
		ck_assert_uint_eq(run.processes[0].why_not, TRACE_TRACED);
		ck_assert_uint_eq(run.processes[0].n_allocs_of_64, 100);
	} else {
		ck_assert_ptr_nonnull(strstr(run.err, "1 not traced: mallocs-static (static)"));
		ck_assert_uint_eq(run.processes[0].why_not, TRACE_NOT_STATIC);
	}
}
END_TEST

START_TEST(a_setuid_program_runs_and_is_named)
{
	char path[128];

	if (geteuid() != 0)
		return; /* nobody else can make one */
	recorded_init(&run, RECORDED_NOBODY);
	recorded_run_shell(&run, "cp $VICTIMS/mallocs mine");
	snprintf(path, sizeof(path), "%s/mine", run.folder);
	ck_assert_int_eq(chown(path, 0, 0), 0);
	ck_assert_int_eq(chmod(path, 04755), 0);
	recorded_run(&run, WORDS("record", "--", "./mine", "100", "4"));
	ck_assert_int_eq(WEXITSTATUS(run.status), 4);
	ck_assert_ptr_nonnull(strstr(run.err, "mine (setuid)"));
	recorded_read(&run);
	ck_assert_uint_eq(recorded_process(&run, "/mine")->why_not, TRACE_NOT_SETUID);
}
END_TEST

START_TEST(a_setuid_program_that_a_shell_starts_is_named)
{
	char path[128];

	if (geteuid() != 0)
		return; /* nobody else can make one */
	recorded_init(&run, RECORDED_NOBODY);
	recorded_run_shell(&run, "cp /bin/sleep mine");
	snprintf(path, sizeof(path), "%s/mine", run.folder);
	ck_assert_int_eq(chown(path, 0, 0), 0);
	ck_assert_int_eq(chmod(path, 04755), 0);
	recorded_run_shell(&run, "$MEMSIGHT record -- sh -c \"$PWD/mine 0.3; exit 3\"");
	ck_assert_int_eq(WEXITSTATUS(run.status), 3);
	ck_assert_ptr_nonnull(strstr(run.err, "mine (setuid)"));
	recorded_read(&run);
	ck_assert_uint_eq(recorded_process(&run, "/mine")->why_not, TRACE_NOT_SETUID);
}
END_TEST

START_TEST(output_and_input_pass_through)
{
	recorded_init(&run, recorded_user(_i));
	recorded_put(&run, "in", "one\ntwo\nthree\n");
	recorded_run_shell(&run, "$MEMSIGHT record -- sort -r; echo status $? >&2");
	ck_assert_str_eq(run.out, "two\nthree\none\n");
	ck_assert_ptr_nonnull(strstr(run.err, "status 0"));
}
END_TEST

START_TEST(closed_standard_files_stay_closed_and_get_nothing_of_ours)
{
	char untraced[4096];

	recorded_init(&run, recorded_user(_i));
	recorded_run_shell(&run, "$VICTIMS/files <&- >&- 2>&-");
	snprintf(untraced, sizeof(untraced), "%s", recorded_get(&run, "state"));
	recorded_run_shell(&run, "$MEMSIGHT record -o a.mst -- $VICTIMS/files <&- >&- 2>&-");
	ck_assert_str_eq(recorded_get(&run, "state"), untraced);
	recorded_read(&run);
	ck_assert(run.is_whole);
}
END_TEST

START_TEST(files_signals_limits_and_group_are_as_without_us)
{
	char untraced[4096];

	recorded_init(&run, recorded_user(_i));
	recorded_run_shell(&run, "trap '' INT USR1; ulimit -n 200; $VICTIMS/files 7</dev/null");
	snprintf(untraced, sizeof(untraced), "%s", recorded_get(&run, "state"));
	ck_assert_ptr_nonnull(strstr(untraced, "file 7"));
	recorded_run_shell(&run, "trap '' INT USR1; ulimit -n 200; "
				 "$MEMSIGHT record -- $VICTIMS/files 7</dev/null");
	/* The process group is the test's own in both; limits too. */
	ck_assert_str_eq(recorded_get(&run, "state"), untraced);
}
END_TEST

START_TEST(names_follow_the_pattern_and_nothing_is_overwritten)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run_shell(&run,
			   "SLURM_PROCID=7 $MEMSIGHT record --dir new/folder -o x-%e-%r%%.mst "
			   "-- true && ls new/folder");
	ck_assert_str_eq(run.out, "x-true-7%.mst\n");

	recorded_put(&run, "kept.mst", "mine");
	recorded_run_shell(&run, "$MEMSIGHT record -o kept.mst -- touch ran");
	ck_assert_int_eq(WEXITSTATUS(run.status), 1);
	ck_assert_str_eq(recorded_get(&run, "kept.mst"), "mine");
	ck_assert_ptr_nonnull(strstr(run.err, "--force"));
	ck_assert_int_eq(run.n_traces, 1);
	recorded_run_shell(&run, "test ! -e ran");
	ck_assert_int_eq(run.status, 0);

	recorded_run_shell(&run, "rm -f kept.mst; touch kept.mst; "
				 "$MEMSIGHT record --force -o kept.mst -- true");
	ck_assert_int_eq(run.status, 0);
	recorded_read(&run);
	ck_assert(run.is_whole);
}
END_TEST

static const char *const bad_outputs[] = { "a%q.mst", "no/such/folder/a.mst", "/dev/null", "." };

START_TEST(a_bad_output_is_one_line_and_the_command_is_not_run)
{
	char script[256];

	recorded_init(&run, recorded_user(0));
	snprintf(script, sizeof(script), "$MEMSIGHT record --force -o %s -- touch ran",
		 bad_outputs[_i]);
	recorded_run_shell(&run, script);
	ck_assert_int_ne(WEXITSTATUS(run.status), 0);
	ck_assert_ptr_eq(strchr(run.err, '\n'), run.err + strlen(run.err) - 1);
	ck_assert_int_eq(run.n_traces, 0);
	recorded_run_shell(&run, "test ! -e ran && test -c /dev/null");
	ck_assert_int_eq(run.status, 0);
}
END_TEST

/* Wait until the partial trace holds that many events and a sample of memory (at most 20 s). */
static void wait_for_events(uint64_t n_events)
{
	for (int i = 0; i < 2000; i++) {
		struct recorded look = run;

		recorded_look(&look);
		if (look.n_traces == 1)
			recorded_read(&look);
		if (look.n_events >= n_events && look.n_memory_samples > 0) {
			run = look;
			return;
		}
		rest();
	}
	ck_abort_msg("the events never came: %s", run.err);
}

START_TEST(a_killed_recorder_leaves_a_readable_trace_and_an_unharmed_program)
{
	recorded_init(&run, recorded_user(_i));
	pid_t memsight = recorded_start(
		&run, WORDS("record", "--", recorded_victim("mallocs"), "1000", "wait"));
	pid_t program = recorded_wait_for_start(&run);

	wait_for_events(2000);
	ck_assert_int_eq(kill(memsight, SIGKILL), 0);
	ck_assert_int_eq(waitpid(memsight, NULL, 0), memsight);
	rest();
	ck_assert_int_eq(kill(program, 0), 0);
	ck_assert_int_eq(kill(program, SIGKILL), 0);
	ck_assert(run.can_be_read);
	ck_assert(!run.is_whole);
	ck_assert_uint_eq(run.processes[0].n_allocs_of_64, 1000);
	ck_assert_uint_gt(run.n_memory_samples, 0);
	ck_assert_uint_gt(run.max_rss_bytes, 100000);

	/* The next recording to that name says where it is, and leaves it alone. */
	ck_assert_ptr_nonnull(strstr(run.trace, ".mst.partial"));
	recorded_run_shell(&run, "$MEMSIGHT record -- $VICTIMS/mallocs; rm *.mst");
	ck_assert_ptr_nonnull(strstr(run.err, strrchr(run.trace, '/') + 1));
	recorded_run_shell(&run, "mv *.partial b.mst.partial; $MEMSIGHT record -o b.mst -- true");
	ck_assert_ptr_nonnull(strstr(run.err, "b.mst.partial"));
	ck_assert_int_eq(run.n_traces, 2);
}
END_TEST

static void wait_for_file(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", run.folder, name);
	for (int i = 0; i < 2000 && access(path, F_OK) < 0; i++)
		rest();
	ck_assert_int_eq(access(path, F_OK), 0);
}

START_TEST(a_stopped_recorder_stops_no_program_and_drops_are_counted)
{
	const uint64_t n = 3000000;
	char state = 0, path[64], text[512];

	recorded_init(&run, recorded_user(_i));
	pid_t memsight =
		recorded_start(&run, WORDS("record", "--source", "none", "--buffer-size", "1M",
					   "--", recorded_victim("mallocs"), "3000000", "0", "go"));
	pid_t program = recorded_wait_for_start(&run);

	wait_for_file("ready");
	ck_assert_int_eq(kill(memsight, SIGSTOP), 0);
	recorded_put(&run, "go", "");
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)program);
	for (int i = 0; i < 6000 && state != 'Z'; i++) {
		FILE *file = fopen(path, "r");

		if (file && fgets(text, sizeof(text), file))
			sscanf(strrchr(text, ')') + 2, "%c", &state);
		if (file)
			fclose(file);
		rest();
	}
	ck_assert_int_eq(state, 'Z');
	ck_assert_int_eq(kill(memsight, SIGCONT), 0);
	recorded_wait(&run, memsight);
	recorded_read(&run);

	uint64_t n_dropped = recorded_loss(&run, "pool full");
	ck_assert_uint_gt(n_dropped, 0);
	ck_assert_uint_ge(run.n_events + n_dropped, 2 * n);
	ck_assert_uint_le(run.n_events + n_dropped, 2 * n + 100); /* what libc does around main */
}
END_TEST

START_TEST(a_second_interrupt_lets_go_of_the_program)
{
	recorded_init(&run, recorded_user(_i));
	pid_t memsight = recorded_start(
		&run, WORDS("record", "--", recorded_victim("mallocs"), "1000", "wait"));
	pid_t program = recorded_wait_for_start(&run);

	rest();
	ck_assert_int_eq(kill(memsight, SIGINT), 0);
	for (int i = 0; i < 20; i++)
		rest();
	ck_assert_int_eq(waitpid(memsight, NULL, WNOHANG), 0); /* the first one it survives */
	ck_assert_int_eq(kill(memsight, SIGINT), 0);
	recorded_wait(&run, memsight);
	ck_assert_int_eq(WEXITSTATUS(run.status), 128 + SIGINT);
	ck_assert_int_eq(kill(program, 0), 0);
	ck_assert_int_eq(kill(program, SIGKILL), 0);
	recorded_read(&run);
	ck_assert(run.is_whole);
	ck_assert_uint_eq(run.processes[0].n_allocs_of_64, 1000);
	ck_assert_int_eq(run.processes[0].status, -1);
}
END_TEST

static const int forwarded[] = {
	SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,   SIGUSR2, SIGALRM,	  SIGIO,
	SIGPWR,	 SIGXCPU, SIGPROF, SIGVTALRM, SIGPIPE, SIGSTKFLT, SIGABRT
};

START_TEST(signals_sent_to_the_recorder_reach_the_program)
{
	recorded_init(&run, recorded_user(0));
	pid_t memsight = recorded_start(
		&run, WORDS("record", "--", recorded_victim("mallocs"), "1000", "wait"));

	recorded_wait_for_start(&run);
	rest();
	ck_assert_int_eq(kill(memsight, forwarded[_i]), 0);
	recorded_wait(&run, memsight);
	ck_assert_int_eq(WEXITSTATUS(run.status), 128 + forwarded[_i]);
	recorded_read(&run);
	ck_assert(run.is_whole);
}
END_TEST

static const int stops[] = { SIGSTOP, SIGTSTP, SIGTTIN };

/*
 * Who waits for the recorder sees it stop as the program has stopped itself; either one may be let
 * go on.
 */
START_TEST(the_recorder_stops_and_goes_on_with_the_program)
{
	int status, stop = stops[_i / 2];
	char script[64];

	snprintf(script, sizeof(script), "kill -%d $$; exit 5", stop);
	recorded_init(&run, recorded_user(0));
	pid_t memsight = recorded_start(&run, WORDS("record", "--", "/bin/sh", "-c", script));
	pid_t program = recorded_wait_for_start(&run);

	ck_assert_int_eq(waitpid(memsight, &status, WUNTRACED), memsight);
	ck_assert(WIFSTOPPED(status));
	ck_assert_int_eq(WSTOPSIG(status), stop);
	ck_assert_int_eq(kill(_i % 2 ? memsight : program, SIGCONT), 0);
	recorded_wait(&run, memsight);
	ck_assert(WIFEXITED(run.status));
	ck_assert_int_eq(WEXITSTATUS(run.status), 5);
	recorded_read(&run);
	ck_assert(run.is_whole);
}
END_TEST

START_TEST(recording_waits_for_all_or_for_the_command)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run_shell(&run, "$MEMSIGHT record -o a.mst -- "
				 "sh -c '(sleep 1; $VICTIMS/mallocs; touch late) & exit 0'; ls");
	ck_assert_ptr_nonnull(strstr(run.out, "late"));
	recorded_read(&run);
	ck_assert_ptr_nonnull(recorded_process(&run, "/mallocs"));

	recorded_run_shell(&run, "rm -f late a.mst; $MEMSIGHT record -o a.mst --wait child -- "
				 "sh -c '(sleep 2; touch late) >/dev/null 2>&1 & exit 0'; ls");
	ck_assert_ptr_null(strstr(run.out, "late"));
}
END_TEST

START_TEST(a_trace_stops_at_its_largest_size_and_says_so)
{
	struct stat status;

	recorded_init(&run, recorded_user(_i));
	recorded_run(&run, WORDS("record", "--source", "none", "--max-size", "64K", "--",
				 recorded_victim("mallocs"), "3000000", "6"));
	ck_assert_int_eq(WEXITSTATUS(run.status), 6);
	ck_assert_ptr_nonnull(strstr(run.err, "--max-size"));
	recorded_read(&run);
	ck_assert(run.is_whole);
	ck_assert_uint_gt(recorded_loss(&run, "--max-size is reached"), 0);
	ck_assert_int_eq(stat(run.trace, &status), 0);
	ck_assert_int_le(status.st_size, 64 << 10);
}
END_TEST

START_TEST(a_file_size_limit_ends_the_trace_and_not_the_program)
{
	recorded_init(&run, RECORDED_NOBODY);
	recorded_run_shell(&run, "ulimit -f 64; $MEMSIGHT record -- $VICTIMS/mallocs 3000000 6");
	ck_assert_int_eq(WEXITSTATUS(run.status), 6);
	recorded_read(&run);
	ck_assert(run.can_be_read);
}
END_TEST

START_TEST(without_allocations_nothing_is_preloaded)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run_shell(&run, "$MEMSIGHT record --no-alloc -- sh -c "
				 "'echo \"$LD_PRELOAD$MEMSIGHT_RECORDING\"'");
	ck_assert_str_eq(run.out, "\n");
	recorded_read(&run);
	ck_assert_uint_eq(run.processes[0].why_not, TRACE_NOT_FOLLOWED);
	ck_assert_uint_eq(run.n_events, 0);
}
END_TEST

START_TEST(a_users_own_preload_stays)
{
	recorded_init(&run, recorded_user(_i));
	/* AddressSanitizer, if it is there, would refuse to start behind another library. */
	recorded_run_shell(&run, "export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0; "
				 "LD_PRELOAD=libm.so.6 $MEMSIGHT record -- "
				 "sh -c 'echo $LD_PRELOAD; grep -c libm.so /proc/$$/maps'");
	ck_assert_ptr_nonnull(strstr(run.out, "libtracealloc.so:libm.so.6\n"));
	ck_assert_ptr_null(strstr(run.out, "\n0\n"));
}
END_TEST

START_TEST(a_hostile_program_harms_only_its_own_recording)
{
	char seed[16];

	recorded_init(&run, recorded_user(_i % recorded_n_users()));
	snprintf(seed, sizeof(seed), "%d", _i);
	recorded_run(&run, WORDS("record", "--buffer-size", "2M", "--", recorded_victim("hostile"),
				 seed, "300"));
	ck_assert_msg(WIFEXITED(run.status) && WEXITSTATUS(run.status) == 7, "%d: %s", run.status,
		      run.err);
	ck_assert_int_eq(run.n_traces, 1);
}
END_TEST

START_TEST(refused_perf_still_records_allocations_and_says_what_helps)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run_shell(&run, "$VICTIMS/no-perf $MEMSIGHT record -- $VICTIMS/mallocs");
	ck_assert_msg(run.status == 0, "%s", run.err);
	ck_assert_ptr_nonnull(strstr(run.err, "no clock samples: "));
	ck_assert_ptr_nonnull(strstr(run.err, "seccomp"));
	recorded_read(&run);
	ck_assert_uint_eq(run.processes[0].n_allocs_of_64, 100);
	ck_assert_uint_eq(run.n_perf_bytes, 0);
}
END_TEST

START_TEST(untraced_programs_are_named_without_perf_too)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run_shell(&run, "$VICTIMS/no-perf $MEMSIGHT record -- sh -c "
				 "'$VICTIMS/bare-static; $VICTIMS/mallocs 30; exit 2'");
	ck_assert_int_eq(WEXITSTATUS(run.status), 2);
	recorded_read(&run);
	ck_assert_ptr_nonnull(recorded_process(&run, "/bare-static"));
	ck_assert_uint_eq(recorded_process(&run, "/bare-static")->why_not, TRACE_NOT_STATIC);
	ck_assert_uint_eq(recorded_process(&run, "/mallocs")->n_allocs_of_64, 30);
}
END_TEST

START_TEST(recording_waits_for_all_without_perf_too)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run_shell(&run, "$VICTIMS/no-perf $MEMSIGHT record -o a.mst -- "
				 "sh -c '(sleep 1; $VICTIMS/mallocs; touch late) & exit 0'; ls");
	ck_assert_ptr_nonnull(strstr(run.out, "late"));
	recorded_read(&run);
	ck_assert_ptr_nonnull(recorded_process(&run, "/mallocs"));
}
END_TEST

START_TEST(private_samples_hold_addresses_and_nothing_else)
{
	recorded_init(&run, recorded_user(_i));
	recorded_run(&run,
		     WORDS("record", "--private", "--", recorded_victim("mallocs"), "3000000"));
	ck_assert_msg(run.status == 0, "%s", run.err);
	recorded_read(&run);
	ck_assert_uint_gt(run.n_accesses, 0);
	ck_assert_uint_eq(run.n_secret_bytes, 0);
	ck_assert_uint_eq(run.n_code_bytes, 0);

	/* And that is a difference. */
	recorded_run_shell(&run, "rm *.mst; $MEMSIGHT record -- $VICTIMS/mallocs 3000000");
	recorded_read(&run);
	ck_assert_uint_gt(run.n_secret_bytes, 0);
	ck_assert_uint_gt(run.n_code_bytes, 0);
}
END_TEST

START_TEST(a_nearly_full_disk_stops_the_trace_and_not_the_program)
{
	recorded_init(&run, 0);
	/* A disk of 4 MiB, in a mount namespace of its own. */
	recorded_run_shell(
		&run, "mkdir disk && unshare -m sh -c 'mount -t tmpfs -o size=4m none disk && "
		      "head -c 3500k /dev/zero >disk/fill && "
		      "$MEMSIGHT record -o disk/a.mst --source none -- "
		      "$VICTIMS/mallocs 30000000 6; status=$?; cp disk/a.mst .; exit $status'");
	ck_assert_msg(WEXITSTATUS(run.status) == 6, "%d %s", run.status, run.err);
	ck_assert_ptr_nonnull(strstr(run.err, "disk"));
	recorded_read(&run);
	ck_assert(run.can_be_read);
	ck_assert_uint_gt(run.n_events, 0);
}
END_TEST

static void add_tests(TCase *tcase, int n_users)
{
	tcase_add_loop_test(tcase, a_hundred_allocations_arrive_as_a_hundred, 0, n_users);
	tcase_add_loop_test(tcase, a_million_allocations_arrive_through_a_small_pool, 0, n_users);
	tcase_add_loop_test(tcase, three_threads_of_the_recorder_lose_and_misorder_nothing, 0,
			    n_users);
	tcase_add_loop_test(tcase, each_fork_is_a_process_with_its_own_events, 0, n_users);
	tcase_add_loop_test(tcase, a_program_behind_env_i_is_followed, 0, n_users);
	tcase_add_loop_test(tcase, each_program_of_a_pipeline_is_recorded, 0, n_users);
	tcase_add_loop_test(tcase, without_follow_only_the_command_is_recorded, 0, n_users);
	tcase_add_loop_test(tcase, all_that_was_recorded_before_the_end_is_kept, 0, 5 * n_users);
	tcase_add_loop_test(tcase, a_command_that_cannot_be_run_leaves_nothing, 0, n_users);
	tcase_add_loop_test(tcase, a_script_without_its_interpreter_gives_127_and_leaves_nothing, 0,
			    n_users);
	tcase_add_loop_test(tcase, a_static_program_is_recorded_or_says_why_not, 0, n_users);
	if (n_users == 1)
		return; /* the rest needs root, and a user who is not */
	tcase_add_test(tcase, a_setuid_program_runs_and_is_named);
	tcase_add_test(tcase, a_setuid_program_that_a_shell_starts_is_named);
	tcase_add_test(tcase, forks_in_another_pid_namespace_are_told_apart);
	tcase_add_test(tcase, another_users_program_is_recorded_when_the_command_started_it);
}

static void add_more_tests(TCase *tcase, int n_users)
{
	tcase_add_loop_test(tcase, output_and_input_pass_through, 0, n_users);
	tcase_add_loop_test(tcase, closed_standard_files_stay_closed_and_get_nothing_of_ours, 0,
			    n_users);
	tcase_add_loop_test(tcase, files_signals_limits_and_group_are_as_without_us, 0, n_users);
	tcase_add_loop_test(tcase, names_follow_the_pattern_and_nothing_is_overwritten, 0, n_users);
	tcase_add_loop_test(tcase, a_bad_output_is_one_line_and_the_command_is_not_run, 0, 4);
	tcase_add_loop_test(tcase,
			    a_killed_recorder_leaves_a_readable_trace_and_an_unharmed_program, 0,
			    n_users);
	tcase_add_loop_test(tcase, a_stopped_recorder_stops_no_program_and_drops_are_counted, 0,
			    n_users);
	tcase_add_loop_test(tcase, a_second_interrupt_lets_go_of_the_program, 0, n_users);
	tcase_add_loop_test(tcase, signals_sent_to_the_recorder_reach_the_program, 0,
			    sizeof(forwarded) / sizeof(forwarded[0]));
	tcase_add_loop_test(tcase, the_recorder_stops_and_goes_on_with_the_program, 0,
			    2 * sizeof(stops) / sizeof(stops[0]));
	tcase_add_loop_test(tcase, recording_waits_for_all_or_for_the_command, 0, n_users);
	tcase_add_loop_test(tcase, a_trace_stops_at_its_largest_size_and_says_so, 0, n_users);
	if (n_users > 1) /* root may raise the limit again */
		tcase_add_test(tcase, a_file_size_limit_ends_the_trace_and_not_the_program);
	if (n_users > 1) /* mounts */
		tcase_add_test(tcase, a_nearly_full_disk_stops_the_trace_and_not_the_program);
	tcase_add_loop_test(tcase, without_allocations_nothing_is_preloaded, 0, n_users);
	tcase_add_loop_test(tcase, a_users_own_preload_stays, 0, n_users);
	tcase_add_loop_test(tcase, a_hostile_program_harms_only_its_own_recording, 0, 8);
	tcase_add_loop_test(tcase, refused_perf_still_records_allocations_and_says_what_helps, 0,
			    n_users);
	tcase_add_loop_test(tcase, untraced_programs_are_named_without_perf_too, 0, n_users);
	tcase_add_loop_test(tcase, recording_waits_for_all_without_perf_too, 0, n_users);
	tcase_add_loop_test(tcase, private_samples_hold_addresses_and_nothing_else, 0, n_users);
}

int main(void)
{
	Suite *suite = suite_create("record");
	TCase *tcase = tcase_create("whole");

	tcase_set_timeout(tcase, 90);
	tcase_add_checked_fixture(tcase, setup, teardown);
	add_tests(tcase, recorded_n_users());
	add_more_tests(tcase, recorded_n_users());
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
