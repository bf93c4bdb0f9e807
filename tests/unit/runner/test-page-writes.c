#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/processes/page-writes.h"
#include "schemas/trace-format.h"
#include "tests/support/suite.h"
#include "tests/unit/pmu/watched.h"
#include "trace/varint.h"

#define N_PAGES	       4096u
#define HUGE_BYTES     (2u << 20)
#define USER_MODE_ONLY 1

enum job {
	REST,
	WRITE,
	READ,
	COPY, /* the kernel writes, by read(2) */
	FORK, /* copies on write: the child writes the others, the parent its own */
	GIVE_BACK,
	REPLACE, /* by new memory at the same place, all of it written */
};

/* What the child does with its pages, and how many, 3 apart. */
struct orders {
	_Atomic int job;
	_Atomic unsigned n;
	_Atomic unsigned n_done;
};

static struct watched child;
static struct orders *orders;
static volatile uint8_t *memory; /* the child's, between closed pages */
static size_t page_bytes;
static int sockets[2];
static struct page_writes writes;

static void do_fork(unsigned n)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (unsigned i = 0; i < N_PAGES; i++)
			memory[i * page_bytes] = 3;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	for (unsigned i = 0; i < n; i++)
		memory[3 * i * page_bytes] = 4;
}

static void do_job(int job, unsigned n)
{
	int zero = job == COPY ? open("/dev/zero", O_RDONLY) : -1;

	for (unsigned i = 0; i < n && job <= COPY; i++) {
		volatile uint8_t *page = memory + (size_t)3 * i * page_bytes;

		if (job == WRITE)
			*page = (uint8_t)i;
		else if (job == READ)
			(void)*page;
		else if (read(zero, (uint8_t *)page + 7, 9) != 9)
			_exit(1);
	}
	if (zero >= 0)
		close(zero);
	if (job == FORK)
		do_fork(n);
	else if (job == GIVE_BACK)
		madvise((uint8_t *)memory, n * page_bytes, MADV_DONTNEED);
	else if (job == REPLACE)
		memset(mmap((uint8_t *)memory, N_PAGES * page_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		       5, N_PAGES * page_bytes);
}

static void lend(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY);
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct iovec part = { .iov_base = "x", .iov_len = 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	if (fd < 0 || sendmsg(sockets[1], &message, 0) < 0)
		_exit(1);
	close(fd);
}

static int borrow(void)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control = { 0 };
	char byte;
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	int fd;

	ck_assert_int_eq(recvmsg(sockets[0], &message, 0), 1);
	ck_assert_uint_ge(message.msg_controllen, CMSG_LEN(sizeof(int)));
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

static void work(void *pointer)
{
	struct orders *own = pointer;

	for (unsigned i = 0; i < N_PAGES; i++)
		memory[i * page_bytes] = 1;
	lend();
	for (;;) {
		int job = atomic_load(&own->job);

		if (job != REST) {
			do_job(job, atomic_load(&own->n));
			atomic_store(&own->job, REST);
			atomic_fetch_add(&own->n_done, 1);
		}
		usleep(500);
	}
}

static void order(enum job job, unsigned n)
{
	unsigned n_done = atomic_load(&orders->n_done);

	atomic_store(&orders->n, n);
	atomic_store(&orders->job, job);
	while (atomic_load(&orders->n_done) == n_done)
		usleep(200);
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
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
	orders = (struct orders *)shared_bytes(sizeof(*orders));
	watched_start(&child, work, orders);
	watched_go(&child);
	writes = PAGE_WRITES_NONE;
	ck_assert_int_eq(page_writes_begin(&writes, borrow()), 0);
}

static void stop(void)
{
	page_writes_finish(&writes);
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
}

/* Pages of the child's mapping by what their run says; those without one are none of these. */
struct counts {
	uint64_t clean, written, huge, new;
	uint64_t not_third; /* written, and not a third one */
};

static void count(struct counts *counts, uint64_t first, uint64_t n, unsigned bits)
{
	uint64_t place = (uintptr_t)memory / page_bytes;

	for (uint64_t page = first; page < first + n; page++) {
		if (page < place || page >= place + N_PAGES)
			continue;
		*(bits == 0		    ? &counts->clean
		  : bits & TRACE_WRITE_HUGE ? &counts->huge
		  : bits & TRACE_WRITE_NEW  ? &counts->new
					    : &counts->written) += 1;
		counts->not_third += bits == TRACE_WRITE_WRITTEN && (page - place) % 3 != 0;
	}
}

static struct counts look(uint64_t most_new_pages)
{
	struct page_touches touches = { 0 };
	struct page_writes_look found = { 0 };
	struct counts counts = { 0 };
	uint64_t end = 0, gap = 0, run = 0;

	ck_assert_int_eq(page_touches_read(child.pid, false, &touches), 0);
	ck_assert_int_eq(page_writes_look(&writes, child.pid, &touches, most_new_pages, &found), 0);
	for (const uint8_t *at = found.runs.bytes; at < found.runs.bytes + found.runs.n_bytes;) {
		at = trace_varint_get_slow(at, &gap);
		at = trace_varint_get_slow(at, &run);
		ck_assert_uint_gt(run >> TRACE_WRITE_BITS, 0);
		count(&counts, end + gap, run >> TRACE_WRITE_BITS,
		      run & ((1u << TRACE_WRITE_BITS) - 1));
		end += gap + (run >> TRACE_WRITE_BITS);
	}
	page_writes_look_finish(&found);
	page_touches_finish(&touches);
	return counts;
}

static void expect(struct counts found, uint64_t n_written)
{
	ck_assert_uint_eq(found.written, n_written);
	ck_assert_uint_eq(found.clean, N_PAGES - n_written);
	ck_assert_uint_eq(found.not_third, 0);
}

static const struct {
	enum job job;
	unsigned n;
	unsigned n_written;
} jobs[] = {
	{ REST, 0, 0 },	       { WRITE, 1, 1 },	     { WRITE, 100, 100 },
	{ WRITE, 1365, 1365 }, { READ, 1365, 0 },    { COPY, 64, 64 },
	{ FORK, 10, 10 },      { FORK, 1365, 1365 }, { GIVE_BACK, 50, 0 },
};

START_TEST(the_pages_that_were_written_are_found_and_no_others)
{
	ck_assert_uint_eq(look(UINT64_MAX).new, N_PAGES);
	expect(look(UINT64_MAX), 0);
	for (unsigned i = 0; i < 5; i++) {
		if (jobs[_i].job != REST)
			order(jobs[_i].job, jobs[_i].n);
		expect(look(UINT64_MAX), jobs[_i].n_written);
	}
}
END_TEST

/* Nothing is said of it that could be false: it may have been written before it was there. */
START_TEST(memory_that_takes_the_place_of_other_is_new)
{
	look(UINT64_MAX);
	order(REPLACE, 0);
	ck_assert_uint_eq(look(UINT64_MAX).new, N_PAGES);
	order(WRITE, 9);
	expect(look(UINT64_MAX), 9);
}
END_TEST

START_TEST(no_more_pages_are_watched_than_is_allowed)
{
	struct counts found = look(1000);

	ck_assert_uint_le(found.new, 1000);
	look(3);
	look(UINT64_MAX);
	order(WRITE, 700);
	expect(look(0), 700);
}
END_TEST

/* A write to a protected one would part it. */
START_TEST(huge_pages_stay_huge)
{
	uint8_t *room = mmap(NULL, 4 * HUGE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *huge = (uint8_t *)(((uintptr_t)room + HUGE_BYTES - 1) & -(uintptr_t)HUGE_BYTES);
	struct page_writes own = PAGE_WRITES_NONE;
	uint64_t n_huge = 0;

	page_writes_finish(&writes); /* what is borrowed here is no userfaultfd of our own */
	ck_assert_int_eq(
		page_writes_begin(&own, (int)syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY)),
		0);
	madvise(huge, 2 * HUGE_BYTES, MADV_HUGEPAGE);
	for (unsigned i = 0; i < 4; i++) {
		struct page_touches touches = { 0 };
		struct page_writes_look found = { 0 };
		bool has_huge = false;

		memset(huge, 1, 2 * HUGE_BYTES);
		ck_assert_int_eq(page_touches_read(getpid(), false, &touches), 0);
		for (size_t area = 0; area < touches.n_areas; area++)
			has_huge |= touches.areas[area].start <= (uintptr_t)huge &&
				    touches.areas[area].end > (uintptr_t)huge &&
				    touches.areas[area].has_huge;
		n_huge += has_huge;
		ck_assert_int_eq(page_writes_look(&own, getpid(), &touches, UINT64_MAX, &found), 0);
		page_writes_look_finish(&found);
		page_touches_finish(&touches);
	}
	page_writes_finish(&own);
	munmap(room, 4 * HUGE_BYTES);
	ck_assert(n_huge == 0 || n_huge == 4); /* 0: none to be had */
}
END_TEST

START_TEST(what_is_no_userfaultfd_is_refused)
{
	struct page_writes none = PAGE_WRITES_NONE;

	ck_assert_int_eq(page_writes_begin(&none, open("/dev/null", O_RDWR)), -EINVAL);
	ck_assert_int_eq(none.fd, -1);
}
END_TEST

START_TEST(memory_that_is_gone_is_not_there)
{
	struct page_touches touches = { 0 };
	struct page_writes_look found = { 0 };

	ck_assert_int_eq(page_touches_read(child.pid, false, &touches), 0);
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
	ck_assert_int_eq(page_writes_look(&writes, child.pid, &touches, UINT64_MAX, &found),
			 -ESRCH);
	page_writes_look_finish(&found);
	page_touches_finish(&touches);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("page-writes");
	TCase *tests = tcase_create("all");
	uint64_t ns;

	if (page_writes_probe(&ns) < 0) {
		puts("userfaultfd of this kernel has no WP_ASYNC, or is refused");
		return 77;
	}
	tcase_add_checked_fixture(tests, start, stop);
	tcase_add_loop_test(tests, the_pages_that_were_written_are_found_and_no_others, 0,
			    sizeof(jobs) / sizeof(jobs[0]));
	tcase_add_test(tests, memory_that_takes_the_place_of_other_is_new);
	tcase_add_test(tests, no_more_pages_are_watched_than_is_allowed);
	tcase_add_test(tests, huge_pages_stay_huge);
	tcase_add_test(tests, what_is_no_userfaultfd_is_refused);
	tcase_add_test(tests, memory_that_is_gone_is_not_there);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
