#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/processes/image-proc.h"
#include "runner/processes/page-touches.h"
#include "schemas/trace-format.h"
#include "tests/support/suite.h"
#include "tests/unit/pmu/watched.h"
#include "trace/varint.h"

#define N_PAGES	    4096u
#define N_INTERVALS 25u

/* What the child does with its pages, one after the other, as long as it is told so. */
struct orders {
	_Atomic unsigned n_hot; /* so many pages, 3 apart, again and again */
	_Atomic unsigned n_rounds;
};

static struct watched child;
static struct orders *orders;
static volatile uint8_t *memory; /* the child's, between closed pages: a mapping by itself */
static size_t page_bytes;

static void work(void *pointer)
{
	struct orders *own = pointer;

	for (unsigned i = 0; i < N_PAGES; i++)
		memory[i * page_bytes] = 1;
	for (;;) {
		unsigned n = atomic_load(&own->n_hot);

		for (unsigned i = 0; i < n; i++)
			(void)memory[3 * i * page_bytes];
		atomic_fetch_add(&own->n_rounds, 1);
		if (n == 0)
			usleep(1000);
	}
}

static void start(void)
{
	uint8_t *closed;

	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	closed = mmap(NULL, (N_PAGES + 2) * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	ck_assert_ptr_ne(closed, MAP_FAILED);
	memory = closed + page_bytes;
	ck_assert_int_eq(
		mprotect(closed + page_bytes, N_PAGES * page_bytes, PROT_READ | PROT_WRITE), 0);
	madvise(closed + page_bytes, N_PAGES * page_bytes, MADV_NOHUGEPAGE);
	orders = (struct orders *)shared_bytes(sizeof(*orders));
	watched_start(&child, work, orders);
	watched_go(&child);
	while (atomic_load(&orders->n_rounds) == 0)
		usleep(1000);
}

static void stop(void)
{
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
}

/* From here on it does what was last ordered, and has done all of it. */
static void wait_rounds(unsigned n)
{
	unsigned before = atomic_load(&orders->n_rounds);

	while (atomic_load(&orders->n_rounds) - before < n)
		usleep(200);
}

/* Pages of the child's mapping: all, resident ones, touched ones. */
struct counts {
	uint64_t n;
	uint64_t resident;
	uint64_t touched;
	unsigned bits;
};

static struct counts counts_of(const struct page_touches *touches)
{
	uint64_t wanted = (uintptr_t)memory / page_bytes, end = 0, fields[4] = { 0 };
	const uint8_t *at = touches->runs.bytes;

	while (at < touches->runs.bytes + touches->runs.n_bytes) {
		for (unsigned i = 0; i < 4; i++) {
			at = trace_varint_get_slow(at, &fields[i]);
			ck_assert_ptr_nonnull(at);
		}
		uint64_t first = end + fields[0], n = fields[1] >> TRACE_TOUCH_BITS;

		if (first <= wanted && wanted < first + n)
			return (struct counts){ n, fields[2], fields[3],
						fields[1] & ((1u << TRACE_TOUCH_BITS) - 1) };
		end = first + n;
	}
	return (struct counts){ 0 };
}

static struct counts read_counts(void)
{
	struct page_touches touches = { 0 };
	struct counts counts;

	ck_assert_int_eq(page_touches_read(child.pid, false, &touches), 0);
	counts = counts_of(&touches);
	ck_assert_uint_ge(touches.touched_bytes, counts.touched * page_bytes);
	ck_assert_uint_ge(touches.resident_bytes, touches.touched_bytes);
	page_touches_finish(&touches);
	return counts;
}

/*
 * Pages that processors keep the translations of are the hottest: without a flush some of them are
 * not marked again.
 */
static const unsigned hot[] = { 1, 8, 64, 512, 1365 };

START_TEST(hot_pages_are_touched_in_every_interval_and_no_others)
{
	atomic_store(&orders->n_hot, hot[_i]);
	wait_rounds(2);
	for (unsigned i = 0; i < N_INTERVALS; i++) {
		struct counts counts;

		ck_assert_int_eq(page_touches_clear(child.pid), 0);
		wait_rounds(2); /* a whole one lies between */
		counts = read_counts();
		ck_assert_uint_eq(counts.n, N_PAGES);
		ck_assert_uint_eq(counts.resident, N_PAGES);
		ck_assert_uint_eq(counts.touched, hot[_i]);
		ck_assert_uint_eq(counts.bits, 0);
	}
}
END_TEST

/* Behind the run of each mapping: how many nodes, and the pages on each. */
START_TEST(the_nodes_of_resident_pages_are_told)
{
	uint64_t wanted = (uintptr_t)memory / page_bytes, end = 0, fields[5] = { 0 }, pair[2];
	struct page_touches touches = { 0 };
	uint64_t n_pages = 0;

	ck_assert_int_eq(page_touches_read(child.pid, true, &touches), 0);
	for (const uint8_t *at = touches.runs.bytes;
	     at < touches.runs.bytes + touches.runs.n_bytes;) {
		for (unsigned i = 0; i < 5; i++)
			ck_assert_ptr_nonnull(at = trace_varint_get_slow(at, &fields[i]));
		for (uint64_t i = 0; i < fields[4]; i++) {
			ck_assert_ptr_nonnull(at = trace_varint_get_slow(at, &pair[0]));
			ck_assert_ptr_nonnull(at = trace_varint_get_slow(at, &pair[1]));
			n_pages += end + fields[0] == wanted ? pair[1] : 0;
		}
		end += fields[0] + (fields[1] >> TRACE_TOUCH_BITS);
	}
	page_touches_finish(&touches);
	/* Where the kernel knows no nodes, none is told. */
	ck_assert_uint_eq(n_pages, access("/proc/self/numa_maps", R_OK) == 0 ? N_PAGES : 0);
}
END_TEST

START_TEST(a_program_that_rests_touches_nothing)
{
	wait_rounds(2);
	ck_assert_uint_eq(read_counts().touched, N_PAGES);
	ck_assert_int_eq(page_touches_clear(child.pid), 0);
	wait_rounds(2);
	ck_assert_uint_eq(read_counts().touched, 0);
}
END_TEST

START_TEST(a_process_that_has_gone_is_not_there)
{
	struct page_touches touches = { 0 };
	pid_t pid = fork();
	siginfo_t info;

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		_exit(0);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(page_touches_read(pid, false, &touches), -ESRCH); /* a zombie */
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq(page_touches_read(pid, false, &touches), -ESRCH);
	ck_assert_int_eq(page_touches_clear(pid), -ESRCH);
	page_touches_finish(&touches);
}
END_TEST

/* Marks that are read then are another program's. */
START_TEST(a_process_that_becomes_another_program_has_lost_its_memory)
{
	pid_t pid = fork();
	int table, status;

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		raise(SIGSTOP);
		execl("/bin/sh", "sh", "-c", "kill -STOP $$", (char *)NULL);
		_exit(1);
	}
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	table = image_open_file(pid, "pagemap", O_RDONLY);
	ck_assert_int_ge(table, 0);
	ck_assert(!image_memory_has_gone(table));
	kill(pid, SIGCONT);
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	ck_assert(WIFSTOPPED(status));
	ck_assert(image_memory_has_gone(table));
	close(table);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ck_assert_int_eq(image_open_file(pid, "pagemap", O_RDONLY), -ESRCH);
}
END_TEST

static void hold_own_marks(void *pointer)
{
	_Atomic unsigned *is_ready = pointer;

	if (open("/proc/self/pagemap", O_RDONLY) < 0)
		_exit(1);
	atomic_store(is_ready, 1);
	pause();
}

/* A garbage collector may free what it believes to be unwritten. */
START_TEST(a_program_that_goes_by_marks_itself_keeps_them)
{
	_Atomic unsigned *is_ready = (_Atomic unsigned *)shared_bytes(sizeof(*is_ready));
	struct watched holder;

	watched_start(&holder, hold_own_marks, (void *)is_ready);
	watched_go(&holder);
	while (!atomic_load(is_ready))
		usleep(1000);
	ck_assert_int_eq(page_touches_clear(holder.pid), -EBUSY);
	kill(holder.pid, SIGKILL);
	waitpid(holder.pid, NULL, 0);
}
END_TEST

START_TEST(processes_of_others_are_refused)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct page_touches touches = { 0 };

		if (geteuid() == 0 && setuid(NOBODY) < 0)
			_exit(2);
		int read = page_touches_read(1, false, &touches), cleared = page_touches_clear(1);

		_exit((read == -EACCES || read == -EPERM || read == -ESRCH) &&
				      (cleared == -EACCES || cleared == -EPERM || cleared == -ESRCH)
			      ? 0
			      : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(what_a_mark_costs_is_measured)
{
	/* Some 200 ns in a virtual machine, less without one; 0: load hid it. */
	ck_assert_uint_le(page_touches_mark_ns(), 10000);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("page-touches");
	TCase *tests = tcase_create("all");

	tcase_add_checked_fixture(tests, start, stop);
	tcase_add_loop_test(tests, hot_pages_are_touched_in_every_interval_and_no_others, 0,
			    sizeof(hot) / sizeof(hot[0]));
	tcase_add_test(tests, the_nodes_of_resident_pages_are_told);
	tcase_add_test(tests, a_program_that_rests_touches_nothing);
	tcase_add_test(tests, a_process_that_has_gone_is_not_there);
	tcase_add_test(tests, a_process_that_becomes_another_program_has_lost_its_memory);
	tcase_add_test(tests, a_program_that_goes_by_marks_itself_keeps_them);
	tcase_add_test(tests, processes_of_others_are_refused);
	tcase_add_test(tests, what_a_mark_costs_is_measured);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
