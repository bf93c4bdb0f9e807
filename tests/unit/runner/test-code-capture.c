#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/processes/image-proc.h"
#include "runner/sampling/code-capture.h"
#include "runner/sampling/code-maps.h"
#include "runner/sampling/data-pages.h"
#include "tests/unit/pmu/watched.h"
#include "tests/support/suite.h"

#define PAGE	 RUN_CODE_PAGE_BYTES
#define MAX_KEPT 4096

/* What the callback was given. */
struct frames {
	struct {
		struct trace_code head;
		uint32_t process_id;
		uint8_t *bytes;
	} kept[MAX_KEPT];
	size_t n;
	size_t n_seen; /* pages that were found as they had been */
	uint64_t last_seen;
	int result;
};

static int keep(void *context, uint32_t process_id, const struct trace_code *code,
		const void *bytes)
{
	struct frames *frames = context;

	if (frames->result < 0)
		return frames->result;
	ck_assert_uint_lt(frames->n, MAX_KEPT);
	frames->kept[frames->n].head = *code;
	frames->kept[frames->n].process_id = process_id;
	frames->kept[frames->n].bytes = malloc(code->n_bytes);
	memcpy(frames->kept[frames->n].bytes, bytes, code->n_bytes);
	frames->n++;
	return 0;
}

static const struct run_code_options no_snapshot = { .snapshot_after = 1u << 30 };

static struct frames frames;
static struct run_code *code;
static struct watched child;
static uint8_t *text; /* TEXT_PAGES of executable memory, then one that cannot be read */

#define TEXT_PAGES 3

static int keep_seen(void *context, const struct trace_code_seen *record, const uint64_t *pages)
{
	struct frames *to = context;

	ck_assert_uint_le(record->begin_raw_ns, record->end_raw_ns);
	for (size_t i = 0; i < record->pages_bytes / sizeof(*pages); i++)
		to->last_seen = pages[i];
	to->n_seen += record->pages_bytes / sizeof(*pages);
	return 0;
}

static const struct code_changing_sink sink = { keep, keep_seen, &frames };

static void create(const struct run_code_options *options)
{
	ck_assert_int_eq(run_code_create(options, &sink, &code), 0);
}

static void do_nothing(void *unused)
{
	(void)unused;
}

static int new_file(char *path)
{
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (TEXT_PAGES + 1) * PAGE), 0);
	return fd;
}

/* A child that waits, with pages of known bytes at a known place, as parent and as child. */
static void start_child_with(int fd, int flags)
{
	text = mmap(NULL, (TEXT_PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
	ck_assert_ptr_ne(text, MAP_FAILED);
	for (size_t i = 0; i < TEXT_PAGES * PAGE; i++)
		text[i] = (uint8_t)(i % 251);
	ck_assert_int_eq(mprotect(text, TEXT_PAGES * PAGE, PROT_READ | PROT_EXEC), 0);
	ck_assert_int_eq(mprotect(text + TEXT_PAGES * PAGE, PAGE, PROT_NONE), 0);
	watched_start(&child, do_nothing, NULL);
}

static char text_path[] = "/tmp/memsight-text-XXXXXX";

/* Of a file, as a program's text is. */
static void start_child(void)
{
	int fd = new_file(text_path);

	start_child_with(fd, MAP_PRIVATE);
	close(fd);
}

static void end_child(void)
{
	watched_go(&child);
	watched_wait(&child, NULL);
	unlink(text_path);
}

static void finish(void)
{
	code = run_code_destroy(code);
	end_child();
}

static uint64_t at(size_t page, size_t offset)
{
	return (uintptr_t)text + page * PAGE + offset;
}

static void sample(uint32_t process_id, uint64_t ip)
{
	ck_assert_int_eq(run_code_sample(code, process_id, child.pid, ip, 77), 0);
}

static void check_page(size_t frame, size_t page, uint32_t n_bytes)
{
	ck_assert_uint_lt(frame, frames.n);
	ck_assert_uint_eq(frames.kept[frame].head.address, at(page, 0));
	ck_assert_uint_eq(frames.kept[frame].head.ticks, 77);
	ck_assert_uint_eq(frames.kept[frame].head.n_bytes, n_bytes);
	ck_assert_uint_eq(frames.kept[frame].head.kind, TRACE_CODE_FIXED);
	ck_assert_mem_eq(frames.kept[frame].bytes, text + page * PAGE, n_bytes);
}

START_TEST(a_sample_stores_its_page_and_the_next_once)
{
	watched_become(_i);
	start_child();
	create(&no_snapshot);
	sample(1, at(0, 100));
	ck_assert_uint_eq(frames.n, 2);
	check_page(0, 0, PAGE + RUN_CODE_BEYOND_BYTES);
	check_page(1, 1, PAGE + RUN_CODE_BEYOND_BYTES);
	sample(1, at(0, 0));
	sample(1, at(0, PAGE - 1));
	ck_assert_uint_eq(frames.n, 2);
	sample(1, at(1, 0));
	ck_assert_uint_eq(frames.n, 3);
	check_page(2, 2, PAGE); /* nothing readable beyond the last page */
	ck_assert_uint_eq(run_code_counts(code).n_pages, 3);
	ck_assert_uint_eq(run_code_counts(code).n_bytes, 3 * PAGE + 2 * RUN_CODE_BEYOND_BYTES);
	finish();
}
END_TEST

START_TEST(the_page_behind_the_last_is_no_loss)
{
	start_child();
	create(&no_snapshot);
	for (int i = 0; i < 5; i++)
		sample(1, at(TEXT_PAGES - 1, 8));
	ck_assert_uint_eq(frames.n, 1);
	ck_assert_uint_eq(run_code_counts(code).n_unreadable, 0);
	finish();
}
END_TEST

START_TEST(each_image_has_pages_of_its_own)
{
	start_child();
	create(&no_snapshot);
	sample(1, at(2, 0));
	sample(1000, at(2, 0));
	ck_assert_uint_eq(frames.n, 2);
	ck_assert_uint_eq(frames.kept[0].process_id, 1);
	ck_assert_uint_eq(frames.kept[1].process_id, 1000);
	run_code_forget_image(code, 1);
	run_code_forget_image(code, 5000);
	sample(1000, at(2, 0));
	ck_assert_uint_eq(frames.n, 2);
	sample(1, at(2, 0));
	ck_assert_uint_eq(frames.n, 3);
	finish();
}
END_TEST

START_TEST(a_range_with_new_content_is_read_anew)
{
	start_child();
	create(&no_snapshot);
	sample(1, at(0, 0)); /* pages 0 and 1 */
	run_code_forget_range(code, 1, at(1, 100), 1, true);
	run_code_forget_range(code, 2, at(0, 0), PAGE, true);
	sample(1, at(0, 0));
	ck_assert_uint_eq(frames.n, 3);
	check_page(2, 1, PAGE + RUN_CODE_BEYOND_BYTES);
	run_code_forget_range(code, 1, 0, UINT64_MAX, true);
	sample(1, at(0, 0));
	ck_assert_uint_eq(frames.n, 5);
	finish();
}
END_TEST

START_TEST(what_cannot_be_read_is_counted)
{
	start_child();
	create(&no_snapshot);
	sample(1, 0x1000); /* never mapped */
	sample(1, UINT64_C(0xffffffff81000000));
	sample(1, UINT64_MAX);
	ck_assert_int_eq(run_code_round(code, 78), 0);
	ck_assert_uint_eq(run_code_counts(code).n_unreadable, 3);
	ck_assert_uint_eq(frames.n, 0);
	end_child();
	sample(1, at(0, 0));
	ck_assert_uint_eq(run_code_counts(code).n_unreadable, 4);
	ck_assert_int_eq(run_code_page(code, 1, child.pid, at(0, 0), 77), 0);
	ck_assert_uint_eq(run_code_counts(code).n_unreadable, 5);
	code = run_code_destroy(code);
}
END_TEST

START_TEST(a_page_is_stored_on_demand)
{
	start_child();
	create(NULL);
	ck_assert_int_eq(run_code_page(code, 1, child.pid, at(1, 5), 77), 1);
	ck_assert_int_eq(run_code_page(code, 1, child.pid, at(1, 9), 77), 1);
	ck_assert_uint_eq(frames.n, 1);
	check_page(0, 1, PAGE + RUN_CODE_BEYOND_BYTES);
	finish();
}
END_TEST

START_TEST(a_callback_that_fails_is_handed_on_and_asked_again)
{
	start_child();
	create(&no_snapshot);
	frames.result = -ENOSPC;
	ck_assert_int_eq(run_code_sample(code, 1, child.pid, at(2, 0), 77), -ENOSPC);
	ck_assert_uint_eq(run_code_counts(code).n_pages, 0);
	frames.result = 0;
	sample(1, at(2, 0));
	ck_assert_uint_eq(frames.n, 1);
	finish();
}
END_TEST

START_TEST(the_number_of_pages_and_bytes_is_bounded_and_counted)
{
	const struct run_code_options two_pages = { .max_pages = 2 };
	const struct run_code_options one_page = { .max_total_bytes = PAGE };

	start_child();
	create(&two_pages);
	sample(1, at(0, 0));
	sample(1, at(2, 0));
	sample(2, at(0, 0));
	ck_assert_uint_eq(frames.n, 2);
	ck_assert_uint_eq(run_code_counts(code).n_over_limit, 2);
	ck_assert_uint_eq(run_code_counts(code).n_unreadable, 0);
	code = run_code_destroy(code);

	create(&one_page);
	sample(1, at(0, 0));
	sample(1, at(2, 0));
	ck_assert_uint_eq(frames.n, 3);
	ck_assert_uint_eq(run_code_counts(code).n_over_limit, 1);
	finish();
}
END_TEST

/* process_vm_readv fails as under a container's filter; the rest goes on. */
static void forbid_process_vm_readv(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

START_TEST(where_process_vm_readv_is_forbidden_the_file_serves)
{
	watched_become(_i);
	start_child();
	create(&no_snapshot);
	forbid_process_vm_readv();
	sample(1, at(0, 0));
	ck_assert_uint_eq(frames.n, 2);
	check_page(0, 0, PAGE + RUN_CODE_BEYOND_BYTES);
	finish();
}
END_TEST

/* A private read-only map of a new file of so many pages, each byte its offset modulo 241. */
static uint8_t *map_file(size_t n_pages)
{
	char path[] = "/tmp/memsight-code-XXXXXX";
	int fd = mkstemp(path);
	uint8_t *bytes = malloc(n_pages * PAGE);
	uint8_t *map;

	ck_assert_int_ge(fd, 0);
	unlink(path);
	for (size_t i = 0; i < n_pages * PAGE; i++)
		bytes[i] = (uint8_t)(i % 241);
	ck_assert_int_eq(write(fd, bytes, n_pages * PAGE), (ssize_t)(n_pages * PAGE));
	free(bytes);
	map = mmap(NULL, n_pages * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	close(fd);
	return map;
}

/* Bytes of data frames inside a map; each must hold what the map holds. */
static uint64_t stored_of(const uint8_t *map, size_t n_bytes)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < frames.n; i++) {
		const struct trace_code *head = &frames.kept[i].head;
		uint64_t offset = head->address - (uintptr_t)map;

		if (head->kind != TRACE_CODE_DATA || head->address < (uintptr_t)map ||
		    offset >= n_bytes)
			continue;
		ck_assert_uint_le(offset + head->n_bytes, n_bytes);
		ck_assert_mem_eq(frames.kept[i].bytes, map + offset, head->n_bytes);
		sum += head->n_bytes;
	}
	return sum;
}

START_TEST(read_only_data_is_copied_once_after_some_samples)
{
	const struct run_code_options options = { .snapshot_after = 3,
						  .max_map_bytes = 100 * PAGE };
	const size_t fitting_pages = 100, large_pages = 101;
	uint8_t *fitting, *large;
	size_t n_frames;

	watched_become(_i);
	fitting = map_file(fitting_pages);
	large = map_file(large_pages);
	start_child();
	create(&options);
	sample(1, at(0, 0));
	sample(1, at(0, 0));
	ck_assert_uint_eq(run_code_counts(code).n_snapshots, 0);
	sample(1, at(0, 0));
	ck_assert_uint_eq(run_code_counts(code).n_snapshots, 1);
	ck_assert_uint_eq(stored_of(fitting, fitting_pages * PAGE), fitting_pages * PAGE);
	ck_assert_uint_eq(stored_of(large, large_pages * PAGE), 0);
	ck_assert_uint_ge(run_code_counts(code).n_snapshot_left_out, 1);
	n_frames = frames.n;
	for (int i = 0; i < 10; i++)
		sample(1, at(0, 0));
	ck_assert_uint_eq(frames.n, n_frames);
	finish();
}
END_TEST

START_TEST(a_snapshot_keeps_to_its_bytes)
{
	const struct run_code_options options = { .snapshot_after = 1,
						  .max_snapshot_bytes = 64 * PAGE };
	uint64_t data_bytes = 0;

	map_file(64);
	map_file(64);
	start_child();
	create(&options);
	sample(1, at(2, 0));
	for (size_t i = 0; i < frames.n; i++)
		data_bytes += frames.kept[i].head.kind == TRACE_CODE_DATA
				      ? frames.kept[i].head.n_bytes
				      : 0;
	ck_assert_uint_le(data_bytes, 64 * PAGE);
	ck_assert_uint_gt(data_bytes, 0);
	ck_assert_uint_ge(run_code_counts(code).n_snapshot_left_out, 1);
	finish();
}
END_TEST

static void round_at(uint64_t ip)
{
	sample(1, ip);
	ck_assert_int_eq(run_code_round(code, 78), 0);
}

START_TEST(code_that_may_change_is_read_in_each_round_and_its_new_lines_told)
{
	const struct trace_code *head;
	size_t n;

	watched_become(_i);
	start_child_with(-1, MAP_SHARED | MAP_ANONYMOUS); /* so that we can write to it */
	ck_assert_int_eq(mprotect(text, TEXT_PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
	create(&no_snapshot);
	round_at(at(0, 100));
	n = frames.n;
	ck_assert_uint_eq(n, 1); /* the page, and none of those around: no sample was there */
	ck_assert_uint_eq(frames.kept[0].head.kind, TRACE_CODE_CHANGING);
	ck_assert_uint_eq(frames.kept[0].head.n_bytes, PAGE);
	round_at(at(0, 200));
	ck_assert_uint_eq(frames.n, n);
	ck_assert_uint_eq(frames.n_seen, 1);
	ck_assert_uint_eq(frames.last_seen, at(0, 0));

	text[64 + 3] ^= 1; /* two lines in a row, and another one */
	text[128] ^= 1;
	text[PAGE - 1] ^= 1;
	round_at(at(0, 200));
	ck_assert_uint_eq(frames.n, n + 2);
	head = &frames.kept[n].head;
	ck_assert_uint_eq(head->address, at(0, 64));
	ck_assert_uint_eq(head->n_bytes, 128);
	ck_assert_uint_lt(frames.kept[0].head.end_raw_ns, head->begin_raw_ns);
	ck_assert_mem_eq(frames.kept[n].bytes, text + 64, 128);
	ck_assert_uint_eq(frames.kept[n + 1].head.address, at(0, PAGE - 64));
	ck_assert_uint_eq(frames.n_seen, 1);
	ck_assert_uint_eq(run_code_counts(code).n_changes, 1);
	finish();
}
END_TEST

START_TEST(a_page_near_a_sample_is_told_with_what_it_was_before_its_own)
{
	pid_t pid;

	watched_become(_i);
	start_child_with(-1, MAP_SHARED | MAP_ANONYMOUS);
	ck_assert_int_eq(mprotect(text, TEXT_PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
	create(&no_snapshot);
	pid = child.pid;
	child.pid = getpid(); /* the child has not touched these pages: they are not read for it */
	round_at(at(0, 100));
	text[PAGE + 70] ^= 1;
	round_at(at(1, 70));
	ck_assert_uint_eq(frames.n, 3);
	ck_assert_uint_eq(frames.kept[1].head.address, at(1, 0));
	ck_assert_uint_eq(frames.kept[1].head.begin_raw_ns, frames.kept[0].head.begin_raw_ns);
	ck_assert_uint_ne(frames.kept[1].bytes[70], text[PAGE + 70]);
	ck_assert_uint_eq(frames.kept[2].head.address, at(1, 64));
	ck_assert_uint_eq(frames.kept[2].bytes[6], text[PAGE + 70]);
	child.pid = pid;
	finish();
}
END_TEST

/* Compilers write code beside code: to pages that were not there when the first sample came. */
START_TEST(a_page_that_comes_beside_code_is_read_again_until_a_sample_hits_it)
{
	pid_t pid;

	watched_become(_i);
	start_child();
	create(&no_snapshot);
	text = untouched_pages(TEXT_PAGES);
	text[70] = 1;
	pid = child.pid;
	child.pid = getpid();
	round_at(at(0, 70));
	ck_assert_uint_eq(frames.n, 1);
	text[PAGE + 70] = 1;
	round_at(at(0, 70));
	text[PAGE + 70] = 2;
	round_at(at(0, 70));
	ck_assert_uint_eq(frames.n, 1);
	round_at(at(1, 70));
	ck_assert_uint_eq(frames.n, 2);
	ck_assert_uint_eq(frames.kept[1].head.address, at(1, 0));
	ck_assert_uint_eq(frames.kept[1].bytes[70], 2);
	ck_assert_uint_lt(frames.kept[0].head.end_raw_ns, frames.kept[1].head.begin_raw_ns);
	ck_assert_uint_eq(frames.last_seen, at(1, 0)); /* as before: its sample is known */
	child.pid = pid;
	finish();
}
END_TEST

static void rounds(int n)
{
	for (int i = 0; i < n; i++)
		round_at(at(0, 0));
}

/* How many of so many bytes are certain. */
static size_t certain(uint64_t address, size_t n_bytes)
{
	uint8_t bytes[200];
	size_t n = run_code_live(code, 1, address, bytes, n_bytes);

	ck_assert_mem_eq(bytes, text + (address - at(0, 0)), n);
	return n;
}

START_TEST(only_lines_that_stay_are_certain_at_once)
{
	start_child_with(-1, MAP_SHARED | MAP_ANONYMOUS);
	ck_assert_int_eq(mprotect(text, TEXT_PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
	ck_assert_int_eq(run_code_create(&no_snapshot, NULL, &code), 0);
	rounds(99);
	ck_assert_uint_eq(certain(at(0, 0), 200), 0);
	rounds(1);
	ck_assert_uint_eq(certain(at(0, 0), 200), 200);
	text[100] ^= 1;
	text[200] ^= 1;
	rounds(1);
	ck_assert_uint_eq(certain(at(0, 0), 200), 64);
	rounds(99);
	ck_assert_uint_eq(certain(at(0, 0), 200), 200);
	text[100] ^= 1; /* back: it may go to and fro unseen */
	text[200] ^= 2; /* and this one beside it */
	rounds(200);
	ck_assert_uint_eq(certain(at(0, 0), 200), 64);
	ck_assert_uint_eq(certain(at(0, 128), 64), 64);
	ck_assert_uint_eq(certain(at(0, 192), 64), 0);
	finish();
}
END_TEST

START_TEST(versions_of_code_are_bounded_and_counted)
{
	const struct run_code_options few = { .max_changing_bytes = PAGE + 128 };

	start_child_with(-1, MAP_SHARED | MAP_ANONYMOUS);
	ck_assert_int_eq(mprotect(text, TEXT_PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
	create(&few);
	for (int i = 0; i < 10; i++) {
		text[70]++;
		round_at(at(0, 0));
	}
	ck_assert_uint_eq(frames.n, 3);
	ck_assert_uint_gt(run_code_counts(code).n_over_limit, 0);
	finish();
}
END_TEST

/* The first page of code of a file's map. */
static void take_code_of_copy(void *user, const struct image_map *map)
{
	if ((map->prot & PROT_EXEC) && strncmp(map->path, "/dev/shm/", 9) == 0)
		*(uint64_t *)user = map->start;
}

/* Programs map files there that they write code to, but nobody can write to one that runs. */
START_TEST(an_executable_in_shared_memory_is_fixed_and_other_files_there_are_not)
{
	char path[] = "/dev/shm/memsight-test-XXXXXX", command[128];
	struct code_maps maps = { 0 }, own = { 0 };
	uint64_t at = 0;
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd); /* who has it open for writing keeps it from being run */
	snprintf(command, sizeof(command), "cp /bin/sleep %s && chmod 700 %s", path, path);
	ck_assert_int_eq(system(command), 0);
	pid_t pid = fork();
	if (pid == 0)
		_exit(execl(path, path, "60", (char *)NULL));
	for (int i = 0; i < 2000 && at == 0; i++, usleep(1000))
		image_each_map(pid, take_code_of_copy, &at);
	if (at == 0 && waitpid(pid, NULL, WNOHANG) == pid) {
		puts("no program can be run from /dev/shm here");
		unlink(path);
		return;
	}
	ck_assert_uint_ne(at, 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	void *mapped = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	ck_assert_ptr_ne(mapped, MAP_FAILED);
	close(fd);
	ck_assert(code_maps_is_fixed(&maps, pid, at));
	ck_assert(!code_maps_is_fixed(&own, getpid(), (uint64_t)(uintptr_t)mapped));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	code_maps_finish(&maps);
	code_maps_finish(&own);
	munmap(mapped, PAGE);
	unlink(path);
}
END_TEST

START_TEST(words_are_stored_once_until_they_change_or_the_trace_has_lost_some)
{
	static uint64_t words[PAGE / sizeof(uint64_t)] __attribute__((aligned(PAGE)));
	uint64_t address = (uint64_t)(uintptr_t)words, now_ns = 1000;
	bool is_forbidden = false;
	const struct data_owner owner = { 1, getpid(), &is_forbidden };
	struct data_pages *pages = data_pages_create();
	struct data_page *page = NULL;

	words[0] = 1; /* a page that is not there is not read */
	for (int round = 0; round < 2; round++) {
		ck_assert_ptr_nonnull(data_pages_find(pages, &owner, address));
		data_pages_settle(pages);
		page = data_pages_settled(pages, 1, address);
		ck_assert_ptr_nonnull(page);
		ck_assert(!data_page_store(page, address, 2, now_ns));
		ck_assert(data_page_store(page, address, 2, now_ns));
		words[1]++;
		data_pages_next_round(pages);
	}
	ck_assert(!data_page_store(page, address, 3, now_ns));
	data_pages_store_anew(pages);
	ck_assert(!data_page_store(page, address, 3, now_ns));
	ck_assert(data_page_store(page, address + 8, 2, now_ns + DATA_STORED_NS));
	ck_assert(!data_page_store(page, address, 3, now_ns + DATA_STORED_NS + 1));
	data_pages_destroy(pages);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("code-capture");
	TCase *tcase = tcase_create("code");

	tcase_add_loop_test(tcase, a_sample_stores_its_page_and_the_next_once, 0, 2);
	tcase_add_test(tcase, the_page_behind_the_last_is_no_loss);
	tcase_add_test(tcase,
		       an_executable_in_shared_memory_is_fixed_and_other_files_there_are_not);
	tcase_add_test(tcase, each_image_has_pages_of_its_own);
	tcase_add_test(tcase, a_range_with_new_content_is_read_anew);
	tcase_add_test(tcase, what_cannot_be_read_is_counted);
	tcase_add_test(tcase, a_page_is_stored_on_demand);
	tcase_add_test(tcase, a_callback_that_fails_is_handed_on_and_asked_again);
	tcase_add_test(tcase, the_number_of_pages_and_bytes_is_bounded_and_counted);
	tcase_add_loop_test(tcase, where_process_vm_readv_is_forbidden_the_file_serves, 0, 2);
	tcase_add_loop_test(tcase, read_only_data_is_copied_once_after_some_samples, 0, 2);
	tcase_add_test(tcase, a_snapshot_keeps_to_its_bytes);
	tcase_add_loop_test(
		tcase, code_that_may_change_is_read_in_each_round_and_its_new_lines_told, 0, 2);
	tcase_add_loop_test(
		tcase, a_page_that_comes_beside_code_is_read_again_until_a_sample_hits_it, 0, 2);
	tcase_add_loop_test(tcase, a_page_near_a_sample_is_told_with_what_it_was_before_its_own, 0,
			    2);
	tcase_add_test(tcase, only_lines_that_stay_are_certain_at_once);
	tcase_add_test(tcase, versions_of_code_are_bounded_and_counted);
	tcase_add_test(tcase, words_are_stored_once_until_they_change_or_the_trace_has_lost_some);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
