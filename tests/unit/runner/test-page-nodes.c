#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runner/sampling/page-nodes.h"
#include "tests/unit/common/trace-items.h"
#include "tests/support/suite.h"

#define PAGE 4096u

static char path[256];
static struct page_nodes nodes;
static uint8_t *bytes; /* every other page touched */

static void begin(size_t n_pages)
{
	trace_temporary_path(path, "page-nodes");
	nodes = (struct page_nodes){ .writer = trace_create_writer(path) };
	bytes = mmap(NULL, n_pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	ck_assert_ptr_ne(bytes, MAP_FAILED);
	madvise(bytes, n_pages * PAGE, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < n_pages; i += 2)
		bytes[i * PAGE] = 1;
}

static void add(uint32_t pid, size_t page)
{
	ck_assert_int_eq(
		page_nodes_add(&nodes, pid, 1000 + page, (uintptr_t)bytes + page * PAGE + 7), 0);
}

/*
 * All items that were written, in order; each must lie on the node that the kernel tells of.
 * Returns their number.
 */
static size_t read_back(struct trace_page_node *items, size_t room)
{
	const struct trace_record *record = NULL;
	const struct trace_commit commit = { .ticks = 1 };
	struct trace_reader *reader;
	struct trace_item item;
	size_t n_bytes, n = 0;

	ck_assert_int_eq(page_nodes_flush(&nodes), 0);
	ck_assert_int_eq(trace_writer_finish(nodes.writer, &commit), 0);
	trace_writer_close(nodes.writer);
	ck_assert_int_eq(trace_reader_open(path, &reader), 0);
	while (trace_reader_next(reader, &item) == 1) {
		while (item.type == TRACE_FRAME_RECORDS &&
		       (record = trace_record_next(&item, record))) {
			const char *text = trace_record_string(record, 0, &n_bytes);

			ck_assert_uint_eq(record->type, TRACE_RECORD_PAGE_NODES);
			ck_assert_uint_eq(((const struct trace_page_nodes *)record)->pid,
					  (uint32_t)getpid());
			ck_assert_uint_eq(n_bytes % sizeof(*items), 0);
			ck_assert_uint_le(n + n_bytes / sizeof(*items), room);
			memcpy(items + n, text, n_bytes);
			n += n_bytes / sizeof(*items);
		}
	}
	trace_reader_close(reader);
	unlink(path);
	return n;
}

START_TEST(pages_that_are_there_are_told_with_their_nodes)
{
	struct trace_page_node items[8];
	size_t n;

	begin(8);
	for (size_t page = 0; page < 8; page++)
		add((uint32_t)getpid(), page);
	n = read_back(items, 8);
	ck_assert_uint_eq(n, 4);
	ck_assert_uint_eq(nodes.n_told, 4);
	ck_assert_uint_eq(nodes.n_gone, 4);
	for (size_t i = 0; i < n; i++) {
		void *address = (void *)(uintptr_t)items[i].address;
		int node = -1;

		ck_assert_uint_eq(items[i].time_ns, 1000 + 2 * i);
		ck_assert_ptr_eq(address, bytes + 2 * i * PAGE + 7);
		ck_assert_int_eq(syscall(SYS_move_pages, 0, 1L, &address, NULL, &node, 0), 0);
		ck_assert_int_eq((int)items[i].node, node);
	}
}
END_TEST

START_TEST(more_than_one_call_takes_are_told_too)
{
	static struct trace_page_node items[3 * PAGE_NODES_MAX];

	begin(3 * PAGE_NODES_MAX);
	for (size_t page = 0; page < 3 * PAGE_NODES_MAX; page += 2)
		add((uint32_t)getpid(), page);
	ck_assert_uint_eq(read_back(items, 3 * PAGE_NODES_MAX), 3 * PAGE_NODES_MAX / 2);
}
END_TEST

START_TEST(of_a_process_that_has_ended_nothing_is_told)
{
	struct trace_page_node items[2];

	begin(2);
	add((uint32_t)getpid(), 0);
	add(INT_MAX, 0);
	ck_assert_uint_eq(read_back(items, 2), 1);
	ck_assert_uint_eq(nodes.n_gone, 1);
}
END_TEST

START_TEST(without_a_writer_nobody_is_asked)
{
	struct page_nodes off = { 0 };

	ck_assert_int_eq(page_nodes_add(&off, (uint32_t)getpid(), 1, (uintptr_t)&off), 0);
	ck_assert_int_eq(page_nodes_flush(&off), 0);
	ck_assert_uint_eq(off.n + off.n_told + off.n_gone, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("page-nodes");
	TCase *tests = tcase_create("page-nodes");
	void *address = &suite;
	int node = -1;

	if (syscall(SYS_move_pages, 0, 1L, &address, NULL, &node, 0) != 0) {
		puts("cannot be measured here: no move_pages(2), as in many containers");
		return 77;
	}
	tcase_add_test(tests, pages_that_are_there_are_told_with_their_nodes);
	tcase_add_test(tests, more_than_one_call_takes_are_told_too);
	tcase_add_test(tests, of_a_process_that_has_ended_nothing_is_told);
	tcase_add_test(tests, without_a_writer_nobody_is_asked);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
