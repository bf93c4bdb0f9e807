#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io.h"
#include "tests/unit/common/trace-items.h"
#include "tests/unit/common/trace-random.h"
#include "tests/support/suite.h"

#define LIMIT_BYTES	   (256u << 10)
#define EVENTS_PER_SEGMENT 2000u /* of random bits: some 20 KiB */

static char path[256];

/* What a file that could not grow must hold: all that the writer said it has committed. */
struct promise {
	uint64_t n_events;
	uint64_t n_dropped;
	uint64_t n_segments;
	uint64_t last_ticks;
	int first_error;
};

static int add_segment(struct trace_writer *writer, struct trace_random *random,
		       struct promise *promise)
{
	struct trace_node node = { (uint32_t)++promise->last_ticks, 0, 1 };
	struct trace_commit commit = { promise->last_ticks, 1 };
	uint64_t n_dropped = 0;

	ck_assert_int_eq(trace_writer_node(writer, 1, &node), 0);
	for (unsigned i = 0; i < EVENTS_PER_SEGMENT; i++) {
		struct trace_event event = trace_random_event(random);
		if (trace_writer_event(writer, 1, &event) < 0)
			ck_abort_msg("event %u", i);
	}
	int r = trace_writer_commit(writer, &commit, &n_dropped);
	ck_assert_uint_eq(n_dropped, r < 0 ? EVENTS_PER_SEGMENT : 0);
	if (r < 0) {
		promise->n_dropped += n_dropped;
		promise->first_error = promise->first_error ? promise->first_error : r;
		return r;
	}
	promise->n_events += EVENTS_PER_SEGMENT;
	promise->n_segments++;
	return 0;
}

static struct promise fill(struct trace_writer *writer)
{
	struct trace_random random = { 5 };
	struct promise promise = { 0 };

	for (unsigned i = 0; i < 40; i++)
		(void)add_segment(writer, &random, &promise);
	ck_assert_uint_eq(trace_writer_totals(writer)->n_dropped_events, promise.n_dropped);
	ck_assert_uint_eq(trace_writer_totals(writer)->n_segments, promise.n_segments);
	return promise;
}

/* The file ends with the last whole segment, and nothing in it is damaged. */
static void check_promise(const struct promise *promise, uint64_t n_file_bytes)
{
	struct trace_items items = trace_read_items(path);
	uint64_t n_events = 0, n_commits = 0;
	struct stat status;

	ck_assert_int_eq(items.result, 0);
	ck_assert_uint_eq(items.damage.n_damaged_frames, 0);
	ck_assert_uint_eq(items.damage.n_skipped_bytes, 0);
	ck_assert_uint_eq(items.damage.n_uncommitted_items, 0);
	for (size_t i = 0; i < items.n; i++) {
		n_events += items.kept[i].type == TRACE_FRAME_EVENTS ? items.kept[i].n : 0;
		n_commits += items.kept[i].type == TRACE_FRAME_COMMIT;
	}
	ck_assert_uint_eq(n_events, promise->n_events);
	ck_assert_uint_eq(n_commits, promise->n_segments);
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_uint_eq((uint64_t)status.st_size, n_file_bytes);
	trace_items_finish(&items);
}

static void limit_file_size(rlim_t bytes)
{
	struct rlimit limit;

	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void set_up(void)
{
	trace_temporary_path(path, "full.mst");
	signal(SIGXFSZ, SIG_IGN);
}

static void tear_down(void)
{
	limit_file_size(RLIM_INFINITY);
	unlink(path);
}

START_TEST(a_file_at_its_size_limit_keeps_its_whole_segments)
{
	struct trace_writer *writer = trace_create_writer(path);

	limit_file_size(LIMIT_BYTES);
	struct promise promise = fill(writer);
	ck_assert_int_eq(promise.first_error, -EFBIG);
	ck_assert_uint_gt(promise.n_segments, 3);
	ck_assert_uint_gt(promise.n_dropped, 0);
	ck_assert_uint_le(trace_writer_file_bytes(writer), LIMIT_BYTES);
	check_promise(&promise, trace_writer_file_bytes(writer));
	trace_writer_close(writer);
}
END_TEST

/* The nodes of dropped segments must come with the next one: later events name them. */
START_TEST(definitions_outlive_a_commit_that_failed)
{
	struct trace_writer *writer = trace_create_writer(path);
	struct trace_commit commit = { 1000, 1000 };
	uint64_t n_nodes = 0;

	limit_file_size(LIMIT_BYTES);
	struct promise promise = fill(writer);
	ck_assert_uint_gt(promise.n_dropped, 0);
	limit_file_size(RLIM_INFINITY);
	ck_assert_int_eq(trace_writer_finish(writer, &commit), 0);
	trace_writer_close(writer);

	struct trace_items items = trace_read_items(path);
	ck_assert(items.damage.ended);
	for (size_t i = 0; i < items.n; i++)
		n_nodes += items.kept[i].type == TRACE_FRAME_NODES ? items.kept[i].n : 0;
	ck_assert_uint_eq(n_nodes, 40);
	trace_items_finish(&items);
}
END_TEST

/* 40 threads with 100 random events each: 40 frames of some KiB in one segment. */
static void add_threads(struct trace_writer *writer, struct trace_random *random)
{
	for (uint32_t thread = 1; thread <= 40; thread++) {
		for (unsigned i = 0; i < 100; i++) {
			struct trace_event event = trace_random_event(random);

			if (trace_writer_event(writer, thread, &event) < 0)
				ck_abort_msg("event %u", i);
		}
	}
}

static uint64_t count_events(const struct trace_items *items)
{
	uint64_t n_events = 0;

	for (size_t i = 0; i < items->n; i++)
		n_events += items->kept[i].type == TRACE_FRAME_EVENTS ? items->kept[i].n : 0;
	return n_events;
}

/* The limit is the writer's own, or the process's; the room is that of about half of a segment. */
START_TEST(a_segment_that_does_not_fit_is_written_as_far_as_it_does)
{
	struct trace_writer *writer = trace_create_writer(path);
	struct trace_random random = { 7 };
	struct trace_commit commits[] = { { 1, 1 }, { 2, 2 }, { 3, 3 } };
	uint64_t n_dropped = 99, limit;

	add_threads(writer, &random);
	ck_assert_int_eq(trace_writer_commit(writer, &commits[0], NULL), 0);
	limit = trace_writer_file_bytes(writer) * 3 / 2;
	if (_i == 0)
		limit_file_size(limit);
	else
		trace_writer_limit(writer, limit, 1024);
	add_threads(writer, &random);
	ck_assert_int_eq(trace_writer_commit(writer, &commits[1], &n_dropped), -EFBIG);
	ck_assert_uint_gt(n_dropped, 1000);
	ck_assert_uint_lt(n_dropped, 3000);
	ck_assert_uint_le(trace_writer_file_bytes(writer), limit);
	if (_i == 1) /* what was kept free is enough for the end */
		ck_assert_int_eq(trace_writer_finish(writer, &commits[2]), 0);
	ck_assert_uint_le(trace_writer_file_bytes(writer), limit);
	ck_assert_uint_eq(trace_writer_totals(writer)->n_dropped_events, n_dropped);
	trace_writer_close(writer);

	struct trace_items items = trace_read_items(path);
	ck_assert_uint_eq(count_events(&items), 8000 - n_dropped);
	ck_assert_uint_eq(items.damage.n_damaged_frames + items.damage.n_skipped_bytes, 0);
	ck_assert_int_eq(items.damage.ended, _i == 1);
	trace_items_finish(&items);
}
END_TEST

START_TEST(an_end_that_does_not_fit_leaves_a_trace_without_end)
{
	struct trace_writer *writer = trace_create_writer(path);
	struct trace_random random = { 9 };
	struct promise promise = { 0 };
	struct trace_commit last = { 2, 2 };

	ck_assert_int_eq(add_segment(writer, &random, &promise), 0);
	uint64_t n_file_bytes = trace_writer_file_bytes(writer);
	limit_file_size(n_file_bytes + 60); /* room for the commit, not for index and footer */
	ck_assert_int_eq(trace_writer_finish(writer, &last), -EFBIG);
	limit_file_size(RLIM_INFINITY);
	trace_writer_close(writer);
	struct trace_items items = trace_read_items(path);
	ck_assert_uint_eq(items.damage.committed_ticks, 2);
	ck_assert(!items.damage.ended);
	ck_assert_uint_eq(items.damage.n_damaged_frames + items.damage.n_skipped_bytes, 0);
	trace_items_finish(&items);
}
END_TEST

START_TEST(a_disk_without_room_for_the_header_is_an_error)
{
	const struct trace_file_header header = { .machine = 62 };
	struct trace_writer *writer = NULL;
	int fd = trace_create(path);

	limit_file_size(10);
	ck_assert_int_eq(trace_writer_open(fd, &header, &writer), -EFBIG);
	ck_assert_ptr_null(writer);
	ck_assert_int_eq(close(fd), -1); /* it was taken over and closed */
}
END_TEST

static bool put_text(const char *file, const char *text)
{
	auto_close int fd = open(file, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && io_write_all(fd, text, strlen(text)) == 0;
}

/* Become root of a user namespace that knows only ourselves. */
static bool become_root(void)
{
	char uid_map[64], gid_map[64];

	snprintf(uid_map, sizeof(uid_map), "0 %u 1", getuid());
	snprintf(gid_map, sizeof(gid_map), "0 %u 1", getgid());
	return unshare(CLONE_NEWUSER) == 0 && put_text("/proc/self/setgroups", "deny") &&
	       put_text("/proc/self/uid_map", uid_map) && put_text("/proc/self/gid_map", gid_map);
}

/* A disk of 256 KiB of our own, in namespaces of our own. */
static bool mount_small_disk(const char *folder)
{
	if (getuid() != 0 && !become_root())
		return false;
	return unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("tmpfs", folder, "tmpfs", 0, "size=256k") == 0;
}

START_TEST(a_full_disk_keeps_its_whole_segments)
{
	char folder[256];

	trace_temporary_path(folder, "disk");
	ck_assert_int_eq(mkdir(folder, 0700), 0);
	ck_assert(mount_small_disk(folder));
	snprintf(path, sizeof(path), "%.240s/full.mst", folder);
	struct trace_writer *writer = trace_create_writer(path);
	struct promise promise = fill(writer);
	ck_assert_int_eq(promise.first_error, -ENOSPC);
	ck_assert_uint_gt(promise.n_segments, 3);
	check_promise(&promise, trace_writer_file_bytes(writer));
	trace_writer_close(writer);
	umount2(folder, MNT_DETACH);
	rmdir(folder);
}
END_TEST

/* Can such a disk be had here? Tried in a child, which takes its namespaces with it. */
static bool probe_disk(void)
{
	pid_t pid = fork();
	int status = 1;

	if (pid == 0)
		_exit(mount_small_disk("/tmp") ? 0 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* test-trace-full limit | disk */
int main(int argc, char **argv)
{
	bool is_disk = argc > 1 && strcmp(argv[1], "disk") == 0;

	if (is_disk && !probe_disk()) {
		puts("skipped: neither root nor user namespaces, so no small disk can be mounted");
		return 77;
	}

	Suite *suite = suite_create("trace-full");
	TCase *tests = tcase_create("full");
	tcase_add_checked_fixture(tests, set_up, tear_down);
	if (is_disk) {
		tcase_add_test(tests, a_full_disk_keeps_its_whole_segments);
	} else {
		tcase_add_test(tests, a_file_at_its_size_limit_keeps_its_whole_segments);
		tcase_add_test(tests, definitions_outlive_a_commit_that_failed);
		tcase_add_loop_test(tests, a_segment_that_does_not_fit_is_written_as_far_as_it_does,
				    0, 2);
		tcase_add_test(tests, an_end_that_does_not_fit_leaves_a_trace_without_end);
		tcase_add_test(tests, a_disk_without_room_for_the_header_is_an_error);
	}
	suite_add_tcase(suite, tests);

	return suite_run(suite);
}
