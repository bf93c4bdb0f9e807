#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/processes/page-state.h"
#include "tests/support/suite.h"
#include "tests/unit/pmu/watched.h"
#include "trace/varint.h"

#define N_PAGES 96u

/* What a child has done to its pages: each kind in a mapping of its own. */
enum kind {
	THIRDS, /* every third page is written */
	RETURNED, /* all were written, the second half was given back */
	READ, /* all were only read */
	FROM_FILE, /* private, of a file: the first half read, of that the first quarter written */
	LOCKED,
	CLOSED, /* all were written, then nobody may access them */
	FREED, /* all were written, then the kernel may take them (MADV_FREE) */
	IN_MEMFD, /* shared memory without a name in the file system, all written */
	N_KINDS
};

struct victim {
	uint8_t *memory[N_KINDS];
	volatile int is_ready;
};

static struct watched child;
static uint8_t *child_shares; /* all written by the parent, the first half by the child as well */
static struct victim *victim;
static size_t page_bytes;

static uint8_t *map(int fd)
{
	uint8_t *memory = mmap(NULL, N_PAGES * page_bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	if (memory == MAP_FAILED)
		_exit(98);
	madvise(memory, N_PAGES * page_bytes, MADV_NOHUGEPAGE);
	return memory;
}

static void touch(uint8_t *memory, unsigned n, unsigned step)
{
	for (unsigned i = 0; i < n; i += step)
		memory[i * page_bytes] = 1;
}

static int make_file(void)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)(N_PAGES * page_bytes)) < 0)
		_exit(97);
	for (unsigned i = 0; i < N_PAGES; i++)
		if (pwrite(fd, "x", 1, (off_t)(i * page_bytes)) != 1)
			_exit(97);
	return fd;
}

static uint8_t *map_memfd(void)
{
	size_t n_bytes = N_PAGES * page_bytes;
	int fd = memfd_create("test-page-state", MFD_CLOEXEC);
	void *memory = fd < 0 || ftruncate(fd, (off_t)n_bytes) < 0
			       ? MAP_FAILED
			       : mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		_exit(95);
	return memory;
}

static void make_pages(void *pointer)
{
	struct victim *own = pointer;
	for (unsigned i = 0; i < N_KINDS; i++)
		own->memory[i] = map(i == FROM_FILE ? make_file() : -1);
	madvise(own->memory[FROM_FILE], N_PAGES * page_bytes, MADV_RANDOM);
	touch(own->memory[THIRDS], N_PAGES, 3);
	touch(own->memory[RETURNED], N_PAGES, 1);
	madvise(own->memory[RETURNED] + N_PAGES / 2 * page_bytes, N_PAGES / 2 * page_bytes,
		MADV_DONTNEED);
	for (unsigned i = 0; i < N_PAGES; i++)
		(void)*(volatile uint8_t *)&own->memory[READ][i * page_bytes];
	for (unsigned i = 0; i < N_PAGES / 2; i++)
		(void)*(volatile uint8_t *)&own->memory[FROM_FILE][i * page_bytes];
	touch(own->memory[FROM_FILE], N_PAGES / 8, 1);
	/* By its number: AddressSanitizer's mlock() does nothing. */
	if (syscall(SYS_mlock, own->memory[LOCKED], N_PAGES * page_bytes) < 0)
		touch(own->memory[LOCKED], N_PAGES, 1);
	touch(own->memory[CLOSED], N_PAGES, 1);
	mprotect(own->memory[CLOSED], N_PAGES * page_bytes, PROT_NONE);
	touch(own->memory[FREED], N_PAGES, 1);
	madvise(own->memory[FREED], N_PAGES * page_bytes, MADV_FREE);
	own->memory[IN_MEMFD] = map_memfd();
	touch(own->memory[IN_MEMFD], N_PAGES, 1);
	touch(child_shares, N_PAGES / 2, 1);
	own->is_ready = 1;
	pause();
}

static void start(void)
{
	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	victim = (struct victim *)shared_bytes(sizeof(*victim));
	child_shares = map(-1);
	touch(child_shares, N_PAGES, 1);
	watched_start(&child, make_pages, victim);
	watched_go(&child);
	while (!victim->is_ready)
		usleep(1000);
}

static void stop(void)
{
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
}

/* The bits of a page of the child, as its state tells; 0: neither present nor swapped. */
static unsigned bits_of(const struct page_state *state, const uint8_t *address)
{
	uint64_t wanted = (uintptr_t)address / page_bytes, end = 0, gap = 0, run = 0;
	const uint8_t *at = state->runs.bytes;

	while (at < state->runs.bytes + state->runs.n_bytes) {
		at = trace_varint_get_slow(at, &gap);
		ck_assert_ptr_nonnull(at);
		at = trace_varint_get_slow(at, &run);
		ck_assert_ptr_nonnull(at);
		if (wanted >= end + gap && wanted < end + gap + (run >> TRACE_PAGE_BITS))
			return run & ((1u << TRACE_PAGE_BITS) - 1);
		end += gap + (run >> TRACE_PAGE_BITS);
	}
	return 0;
}

static unsigned count(const struct page_state *state, enum kind kind, unsigned mask, unsigned bits)
{
	unsigned n = 0;

	for (unsigned i = 0; i < N_PAGES; i++)
		n += (bits_of(state, victim->memory[kind] + i * page_bytes) & mask) == bits;
	return n;
}

/* By the ioctl (0), where there is one, and by the table (1). */
START_TEST(every_page_is_what_the_process_made_of_it)
{
	struct page_state state = { .record.way = (uint8_t)_i };
	unsigned is_there = TRACE_PAGE_PRESENT | TRACE_PAGE_SWAPPED;

	ck_assert_int_eq(page_state_read(child.pid, 0, &state), 0);
	ck_assert_uint_eq(count(&state, THIRDS, ~TRACE_PAGE_SHARED, TRACE_PAGE_PRESENT),
			  N_PAGES / 3);
	ck_assert_uint_eq(count(&state, THIRDS, ~0u, 0), N_PAGES - N_PAGES / 3);
	for (unsigned i = 0; i < N_PAGES; i++)
		ck_assert_int_eq(bits_of(&state, victim->memory[THIRDS] + i * page_bytes) != 0,
				 i % 3 == 0);
	ck_assert_uint_eq(count(&state, RETURNED, ~0u, 0), N_PAGES / 2);
	ck_assert_uint_eq(count(&state, LOCKED, is_there, TRACE_PAGE_PRESENT), N_PAGES);
	ck_assert_uint_eq(count(&state, CLOSED, is_there, TRACE_PAGE_PRESENT), N_PAGES);
	page_state_finish(&state);
}
END_TEST

START_TEST(pages_of_zeros_and_of_files_are_told_apart)
{
	struct page_state state = { 0 };
	unsigned is_of_file = TRACE_PAGE_PRESENT | TRACE_PAGE_FILE;

	ck_assert_int_eq(page_state_read(child.pid, 0, &state), 0);
	if (state.record.way == TRACE_PAGES_SCAN)
		ck_assert_uint_eq(count(&state, READ, ~0u, TRACE_PAGE_PRESENT | TRACE_PAGE_ZERO),
				  N_PAGES);
	/* Pages around one that is read may come with it. */
	ck_assert_uint_eq(count(&state, FROM_FILE, is_of_file, TRACE_PAGE_PRESENT), N_PAGES / 8);
	ck_assert_uint_ge(count(&state, FROM_FILE, is_of_file, is_of_file),
			  N_PAGES / 2 - N_PAGES / 8);
	ck_assert_uint_eq(count(&state, IN_MEMFD, is_of_file, is_of_file), N_PAGES);
	page_state_finish(&state);
}
END_TEST

/* The child has what its parent had, and the parent has not written to since. */
START_TEST(what_a_fork_shares_is_told)
{
	struct page_state state = { .record.way = (uint8_t)_i };
	uint8_t *before = child_shares;

	ck_assert_int_eq(page_state_read(child.pid, PAGE_STATE_RELATED, &state), 0);
	ck_assert_uint_eq(state.record.has_shared, 1);
	for (unsigned i = 0; i < N_PAGES; i++)
		ck_assert_int_eq(!(bits_of(&state, before + i * page_bytes) & TRACE_PAGE_SHARED),
				 i < N_PAGES / 2);
	ck_assert_uint_eq(count(&state, THIRDS, TRACE_PAGE_SHARED, TRACE_PAGE_SHARED), 0);
	page_state_finish(&state);
}
END_TEST

/* Of all runs, but for the page of zeros. */
static uint64_t n_resident(const struct page_state *state)
{
	uint64_t n = 0, gap = 0, run = 0;

	for (const uint8_t *at = state->runs.bytes; at < state->runs.bytes + state->runs.n_bytes;) {
		at = trace_varint_get_slow(at, &gap);
		at = trace_varint_get_slow(at, &run);
		if (run & TRACE_PAGE_PRESENT && !(run & TRACE_PAGE_ZERO))
			n += run >> TRACE_PAGE_BITS;
	}
	return n;
}

/* Asked for what is not just there, the kernel says the same as of each page. */
START_TEST(what_the_kernel_need_not_name_is_found_as_well)
{
	struct page_state some = { 0 }, each = { 0 };

	ck_assert_int_eq(page_state_read(child.pid, 0, &some), 0);
	ck_assert_int_eq(page_state_read(child.pid, PAGE_STATE_EACH, &each), 0);
	ck_assert_uint_eq(some.runs.n_bytes, each.runs.n_bytes);
	ck_assert_mem_eq(some.runs.bytes, each.runs.bytes, each.runs.n_bytes);
	ck_assert_uint_eq(some.resident_bytes, n_resident(&each) * page_bytes);
	page_state_finish(&some);
	page_state_finish(&each);
}
END_TEST

START_TEST(a_look_fits_what_the_kernel_counts_before_it_or_behind_it)
{
	const uint64_t mib = 1 << 20;
	struct page_state state = { .resident_bytes = 110 * mib };
	struct trace_pages *record = &state.record;

	record->rss_bytes = 100 * mib;
	record->rss_after_bytes = 120 * mib;
	ck_assert(page_state_fits(&state));
	state.resident_bytes = 122 * mib; /* it has come and gone */
	ck_assert(!page_state_fits(&state));
	record->uncounted_bytes = 2 * mib; /* which VmRSS does not have */
	ck_assert(page_state_fits(&state));
	state.resident_bytes = 100 * mib;
	ck_assert(!page_state_fits(&state));
}
END_TEST

/* What the kernel counts, within the pages that it batches. */
START_TEST(what_is_found_is_what_the_kernel_counts)
{
	struct page_state state = { 0 };

	ck_assert_int_eq(page_state_read(child.pid, 0, &state), 0);
	if (state.record.way == TRACE_PAGES_SCAN)
		ck_assert_int_le(llabs((long long)n_resident(&state) -
				       (long long)(state.record.rss_bytes / page_bytes)),
				 256);
	ck_assert_uint_eq(state.record.page_bytes, page_bytes);
	ck_assert_uint_ge(state.record.most_bytes, state.record.rss_bytes / 2);
	ck_assert_ptr_nonnull(strstr(state.maps, "[stack]"));
	page_state_finish(&state);
}
END_TEST

/* Each resident run has its node, and what is not resident has none. */
START_TEST(the_node_of_each_resident_page_is_told)
{
	struct page_state state = { 0 };
	uint64_t gap = 0, run = 0, node = 0, n = 0;
	int wanted = -1;
	void *page = (void *)victim->memory[LOCKED];

	if (syscall(SYS_move_pages, child.pid, 1L, &page, NULL, &wanted, 0) < 0 || wanted < 0)
		return; /* this kernel knows no nodes */
	ck_assert_int_eq(page_state_read(child.pid, PAGE_STATE_NODES, &state), 0);
	ck_assert_uint_eq(state.record.has_nodes, 1);
	for (const uint8_t *at = state.runs.bytes; at < state.runs.bytes + state.runs.n_bytes;) {
		at = trace_varint_get_slow(at, &gap);
		at = trace_varint_get_slow(at, &run);
		at = trace_varint_get_slow(at, &node);
		ck_assert_ptr_nonnull(at);
		if (!(run & TRACE_PAGE_PRESENT) || run & TRACE_PAGE_ZERO)
			ck_assert_uint_eq(node, 0);
		else if (node == (uint64_t)wanted + 1)
			n += run >> TRACE_PAGE_BITS;
	}
	ck_assert_uint_ge(n, N_PAGES);
	page_state_finish(&state);
}
END_TEST

static void fill_and_unmap(void *nothing)
{
	size_t n_bytes = (size_t)64 << 20;

	(void)nothing;
	for (;;) {
		uint8_t *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			_exit(96);
		madvise(memory, n_bytes, MADV_NOHUGEPAGE);
		memset(memory, 1, n_bytes);
		munmap(memory, n_bytes);
	}
}

/* VmRSS has them for as long as munmap() takes. */
START_TEST(pages_that_are_being_unmapped_are_told)
{
	struct watched unmapping;
	uint64_t leaving = 0;

	watched_start(&unmapping, fill_and_unmap, NULL);
	watched_go(&unmapping);
	while (leaving == 0) {
		struct page_state state = { 0 };

		ck_assert_int_eq(page_state_read(unmapping.pid, 0, &state), 0);
		leaving = state.record.leaving_bytes;
		ck_assert_uint_le(state.resident_bytes + leaving,
				  state.record.rss_bytes + ((uint64_t)64 << 20));
		page_state_finish(&state);
	}
	ck_assert_uint_le(leaving, 64 << 20);
	kill(unmapping.pid, SIGKILL);
	waitpid(unmapping.pid, NULL, 0);
}
END_TEST

/* Shared by two, a page is half of each one's; what nobody shares is all its own. */
START_TEST(what_is_shared_counts_in_parts)
{
	struct page_state state = { 0 };

	ck_assert_int_eq(page_state_read(child.pid, PAGE_STATE_PSS, &state), 0);
	if (access("/proc/self/smaps_rollup", R_OK) == 0) {
		ck_assert_uint_ge(state.record.pss_bytes, 3 * N_PAGES * page_bytes);
		ck_assert_uint_le(state.record.pss_bytes,
				  state.record.rss_bytes - N_PAGES / 4 * page_bytes);
	}
	page_state_finish(&state);
}
END_TEST

START_TEST(a_process_that_has_gone_has_no_pages)
{
	struct page_state state = { 0 };
	pid_t pid = fork();
	siginfo_t info;

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(0);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(page_state_read(pid, 0, &state), -ESRCH); /* a zombie */
	page_state_finish(&state);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq(page_state_read(pid, 0, &state), -ESRCH);
	page_state_finish(&state);
}
END_TEST

/* All that it has is found, or it is said to have gone: never a part, nor another one's. */
START_TEST(a_program_that_becomes_another_meanwhile_has_gone)
{
	char path[] = "/tmp/test-page-state.XXXXXX";
	int fd = mkstemp(path);
	unsigned n_looks = 0;
	pid_t pid;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_gt(dprintf(fd, "exec /bin/sh %s\n", path), 0);
	close(fd);
	pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", path, NULL);
		_exit(99);
	}
	for (unsigned i = 0; i < 4000; i++) {
		struct page_state state = { 0 };
		uint64_t least;

		if (page_state_read(pid, 0, &state) == 0 && strstr(state.maps, "/bin/")) {
			least = state.record.rss_bytes < state.record.rss_after_bytes
					? state.record.rss_bytes
					: state.record.rss_after_bytes;
			/* It starts, and is half mapped: what is counted in batches differs. */
			ck_assert_uint_ge(n_resident(&state) * page_bytes + (256 << 10), least);
			n_looks++;
		}
		page_state_finish(&state);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(path);
	ck_assert_uint_gt(n_looks, 0);
}
END_TEST

START_TEST(pages_of_others_are_refused)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct page_state state = { 0 };

		if (geteuid() == 0 && setuid(65534) < 0)
			_exit(2);
		int r = page_state_read(1, 0, &state);
		_exit(r == -EACCES || r == -EPERM || r == -ESRCH ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("page-state");
	TCase *tests = tcase_create("all");

	tcase_add_checked_fixture(tests, start, stop);
	tcase_add_loop_test(tests, every_page_is_what_the_process_made_of_it, 0, 2);
	tcase_add_test(tests, pages_of_zeros_and_of_files_are_told_apart);
	tcase_add_loop_test(tests, what_a_fork_shares_is_told, 0, 2);
	tcase_add_test(tests, what_the_kernel_need_not_name_is_found_as_well);
	tcase_add_test(tests, a_look_fits_what_the_kernel_counts_before_it_or_behind_it);
	tcase_add_test(tests, what_is_found_is_what_the_kernel_counts);
	tcase_add_test(tests, the_node_of_each_resident_page_is_told);
	tcase_add_test(tests, pages_that_are_being_unmapped_are_told);
	tcase_add_test(tests, what_is_shared_counts_in_parts);
	tcase_add_test(tests, a_process_that_has_gone_has_no_pages);
	tcase_add_test(tests, a_program_that_becomes_another_meanwhile_has_gone);
	tcase_add_test(tests, pages_of_others_are_refused);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
