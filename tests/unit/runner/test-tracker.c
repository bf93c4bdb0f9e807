/* Slots that forked children claim while the collector looks at them, and names of programs. */
#include <check.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "runner/processes/tracker.h"
#include "tests/support/suite.h"

#define TICKS_PER_MS 1000
#define GONE	     (1 << 23) /* pids are below 1 << 22 */

static struct pool pool;
static struct drain drain;
static struct trace_writer *writer;
static struct tracker tracker;
static struct tracker_slots slots;
static char path[64];

static void setup(void)
{
	const struct pool_config config = { .buffer_bytes = 16 * RING_CHUNK_BYTES,
					    .ticks_per_ms = TICKS_PER_MS };
	const struct trace_file_header header = { .ticks_per_second = TICKS_PER_MS * 1000 };
	struct drain_handler handler;

	snprintf(path, sizeof(path), "/tmp/test-tracker-XXXXXX");
	ck_assert_int_eq(pool_init(&pool, &config), 0);
	ck_assert_int_eq(trace_writer_open(mkstemp(path), &header, &writer), 0);
	tracker = (struct tracker){
		.pool = &pool,
		.drain = &drain,
		.writer = writer,
		.clock = RING_CLOCK_RAW,
		.ticks_per_second = 1000000000,
		.epoll_fd = -1,
	};
	handler = tracker_drain_handler(&tracker);
	ck_assert_int_eq(drain_init(&drain, &pool, writer, &handler, TICKS_PER_MS), 0);
}

static void teardown(void)
{
	images_finish(&tracker.images);
	drain_finish(&drain);
	trace_writer_close(writer);
	pool_finish(&pool);
	unlink(path);
}

/*
 * A slot is filled as a forked child does, of a process that is gone (no kernel has such a number).
 */
static void claim(uint32_t slot, pid_t pid, uint64_t fork_ticks)
{
	struct ring_process *process = &pool.processes[slot];

	atomic_store(&pool.control->processes_used, slot + 1);
	process->pid = (uint32_t)pid;
	process->parent_slot = UINT32_MAX;
	process->birth = RING_BIRTH_FORK;
	process->fork_ticks = fork_ticks;
	process->start_ticks = clock_ticks(tracker.clock);
	atomic_store(&process->state, RING_PROCESS_READY);
}

START_TEST(a_slot_that_a_forked_child_has_claimed_is_drained_as_of_its_fork)
{
	uint64_t forked_at = clock_ticks(tracker.clock);

	claim(3, GONE, forked_at);
	tracker_find_slots(&tracker, &slots);
	ck_assert_uint_eq(slots.n, 1);
	tracker_attach_slots(&tracker, &slots);
	ck_assert(drain.slots[3].is_attached);
	ck_assert_uint_eq(((struct image *)drain.slots[3].image)->start_ticks, forked_at);
	ck_assert_uint_eq(drain.slots[3].losses.n_late_forks, 0);
}
END_TEST

/*
 * Its maps lack the pool already when /proc is looked through; its records are a forked child's all
 * the same.
 */
START_TEST(a_child_that_was_found_as_another_program_before_its_slot_is_a_forked_one)
{
	struct image *image = tracker_open_image(&tracker, GONE, RING_BIRTH_EXEC, 7);

	claim(3, GONE, clock_ticks(tracker.clock));
	tracker_find_slots(&tracker, &slots);
	tracker_attach_slots(&tracker, &slots);
	ck_assert_ptr_eq(drain.slots[3].image, image);
	ck_assert_int_eq(image->birth, RING_BIRTH_FORK);
}
END_TEST

/* COMMIT has passed it: what the child shares with its parent cannot be exact, and is told. */
START_TEST(a_fork_that_is_told_too_late_is_counted)
{
	claim(3, GONE, clock_ticks(tracker.clock));
	drain.safe_ticks = clock_ticks(tracker.clock);
	tracker_find_slots(&tracker, &slots);
	tracker_attach_slots(&tracker, &slots);
	ck_assert_uint_eq(((struct image *)drain.slots[3].image)->start_ticks, drain.safe_ticks);
	ck_assert_uint_eq(drain.slots[3].losses.n_late_forks, 1);
}
END_TEST

/*
 * Between the two looks perf tells of the end of the child that had it; the next one that claims it
 * may not have been known to perf when its records were read, and would be told twice.
 */
START_TEST(a_slot_that_is_claimed_again_between_the_looks_waits_for_the_next)
{
	struct drain_losses losses;

	claim(3, GONE, 1);
	tracker_find_slots(&tracker, &slots);
	drain_attach(&drain, 3, &tracker);
	ck_assert_int_eq(drain_detach(&drain, 3, &losses), 0);
	claim(3, GONE + 1, clock_ticks(tracker.clock));
	tracker_attach_slots(&tracker, &slots);
	ck_assert(!drain.slots[3].is_attached);
	tracker_find_slots(&tracker, &slots);
	tracker_attach_slots(&tracker, &slots);
	ck_assert(drain.slots[3].is_attached);
}
END_TEST

static void *wait_for_end(void *pointer)
{
	int *pipe_fds = pointer;
	pid_t tid = gettid();
	char byte;

	ck_assert_int_eq(write(pipe_fds[1], &tid, sizeof(tid)), sizeof(tid));
	ck_assert_int_eq(read(pipe_fds[2], &byte, 1), 0);
	return NULL;
}

/* A program may write what it likes into its slot; our threads end when the recording has. */
START_TEST(a_slot_that_names_a_thread_of_the_recorder_is_not_waited_for)
{
	int fds[4];
	pthread_t thread;
	pid_t tid;

	ck_assert(pipe(fds) == 0 && pipe(fds + 2) == 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_end, fds), 0);
	ck_assert_int_eq(read(fds[0], &tid, sizeof(tid)), sizeof(tid));
	ck_assert(tracker_maps_pool(&tracker, tid));
	claim(3, tid, 1);
	tracker_find_slots(&tracker, &slots);
	tracker_attach_slots(&tracker, &slots);
	ck_assert(drain.slots[3].is_attached);
	ck_assert_int_ne(((struct image *)drain.slots[3].image)->pid, tid);
	close(fds[3]);
	pthread_join(thread, NULL);
}
END_TEST

/* ---- Names of programs that cannot be asked ---- */

/* A shell that is recorded. */
static struct image *shell(void)
{
	struct image *image = tracker_open_image(&tracker, GONE, RING_BIRTH_EXEC, 1000);

	image->is_traced = image->is_written = true;
	snprintf(image->exe, sizeof(image->exe), "/bin/sh");
	return image;
}

/* perf tells that the shell has a child, in its memory, which becomes another program. */
static struct image *begin_program(uint32_t pid, const char *name, uint64_t ticks)
{
	const struct pmu_record fork = { .type = PERF_RECORD_FORK,
					 .task = { .pid = pid, .parent_pid = GONE, .tid = pid } };
	const struct pmu_record comm = { .type = PERF_RECORD_COMM,
					 .comm = { .pid = pid, .is_exec = true, .name = name } };

	tracker_task(&tracker, &fork, ticks);
	tracker_task(&tracker, &comm, ticks + 100);
	return images_find(&tracker.images, (pid_t)pid);
}

/* What the chain of the shell says, when it is read. */
static void say(struct image *image, const char *program, uint64_t ticks)
{
	const struct drain_exec exec = { ticks, program, strlen(program), true };

	drain.handler.exec(drain.handler.user, image, &exec);
}

/*
 * Where another program runs on before the chain is read, its name is not that of the one before.
 */
START_TEST(of_threads_that_have_ended_the_last_are_known_and_memory_does_not_grow)
{
	const uint32_t n_lasting = 5, n_short = 100000;
	struct image image = { 0 };

	for (uint32_t id = 1; id <= n_lasting + n_short; id++) {
		const struct image_thread thread = {
			.id = id, .tid = id, .ns_tid = id, .fs_base = id
		};

		image_add_thread(&image, &thread);
		if (id > n_lasting)
			image_end_thread(&image, id);
		ck_assert_uint_le(image.n_threads, n_lasting + 2 * IMAGE_ENDED_THREADS);
	}
	image_end_thread(&image, n_lasting + n_short); /* again */
	image_end_thread(&image, n_lasting + n_short + 1); /* nobody */
	for (uint32_t id = 1; id <= n_lasting; id++)
		ck_assert_uint_eq(image_thread_id(&image, id), id);
	for (uint32_t i = 0; i < IMAGE_ENDED_THREADS; i++)
		ck_assert_uint_eq(image_fs_base(&image, n_lasting + n_short - i),
				  n_lasting + n_short - i);
	ck_assert_uint_eq(image_thread_id(&image, n_lasting + 1), 0);
	free(image.threads);
}
END_TEST

START_TEST(a_program_that_a_shell_starts_has_the_name_that_it_said_whenever_it_is_read)
{
	struct image *parent = shell();

	tracker.has_task_records = true;
	say(parent, "/no/such/folder/cat", 2010);
	say(parent, "/bin/cat", 2020);
	ck_assert_str_eq(begin_program(GONE + 1, "cat", 2000)->exe, "/bin/cat");
	/*
	 * These are known by perf before what the shell said is read; the first one told its name
	 * itself.
	 */
	struct image *known = begin_program(GONE + 2, "ls", 3000);
	snprintf(known->exe, sizeof(known->exe), "/other/ls");
	struct image *second = begin_program(GONE + 3, "ls", 4000);
	struct image *third = begin_program(GONE + 4, "true", 5000);
	say(parent, "/bin/ls", 3050);
	ck_assert_str_eq(known->exe, "/other/ls");
	ck_assert_str_eq(second->exe, "");
	say(parent, "/bin/ls", 4050);
	say(parent, "/bin/true", 5050);
	ck_assert_str_eq(second->exe, "/bin/ls");
	ck_assert_str_eq(third->exe, "/bin/true");
	/* The last word is not that of the next program, whatever that is called. */
	ck_assert_str_eq(begin_program(GONE + 5, "true", 6000)->exe, "");
}
END_TEST

START_TEST(a_program_of_which_nobody_said_anything_has_the_name_that_the_kernel_calls_it)
{
	shell();
	tracker.has_task_records = true;
	struct image *image = begin_program(GONE + 1, "child", 2000);
	tracker_announce(&tracker, image);
	ck_assert_str_eq(image->exe, "child");
}
END_TEST

static Suite *tracker_suite(void)
{
	Suite *suite = suite_create("tracker");
	TCase *tcase = tcase_create("slots");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_slot_that_a_forked_child_has_claimed_is_drained_as_of_its_fork);
	tcase_add_test(tcase,
		       a_child_that_was_found_as_another_program_before_its_slot_is_a_forked_one);
	tcase_add_test(tcase, a_fork_that_is_told_too_late_is_counted);
	tcase_add_test(tcase, a_slot_that_is_claimed_again_between_the_looks_waits_for_the_next);
	tcase_add_test(tcase, a_slot_that_names_a_thread_of_the_recorder_is_not_waited_for);
	tcase_add_test(tcase,
		       of_threads_that_have_ended_the_last_are_known_and_memory_does_not_grow);
	suite_add_tcase(suite, tcase);
	tcase = tcase_create("names");
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase,
		       a_program_that_a_shell_starts_has_the_name_that_it_said_whenever_it_is_read);
	tcase_add_test(
		tcase,
		a_program_of_which_nobody_said_anything_has_the_name_that_the_kernel_calls_it);
	suite_add_tcase(suite, tcase);
	return suite;
}

int main(void)
{
	return suite_run(tracker_suite());
}
