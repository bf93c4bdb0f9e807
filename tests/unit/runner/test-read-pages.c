/* Pages of a live process as the recorder reads them; the process is this one. */
#include "runner/sampling/data-pages.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/suite.h"

#define N_PAGES 64u
#define GROUP	16u /* pages that are read with a new one */
#define IMAGE	7u

static uint8_t *memory;
static struct data_pages *pages;
static struct fixed_pages *fixed;
static bool is_forbidden;

static struct data_owner owner(void)
{
	return (struct data_owner){ IMAGE, getpid(), &is_forbidden };
}

static uint64_t address_of(unsigned page)
{
	return (uintptr_t)memory + (uint64_t)page * DATA_PAGE_BYTES;
}

static void setup(void)
{
	uint8_t *map = mmap(NULL, 2 * N_PAGES * DATA_PAGE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t group = (uintptr_t)GROUP * DATA_PAGE_BYTES;

	ck_assert_ptr_ne(map, MAP_FAILED);
	madvise(map, 2 * N_PAGES * DATA_PAGE_BYTES, MADV_NOHUGEPAGE);
	memory = (uint8_t *)(((uintptr_t)map + group - 1) & ~(group - 1));
	pages = data_pages_create();
	fixed = calloc(1, sizeof(*fixed));
	ck_assert(pages && fixed);
	is_forbidden = false;
}

static void teardown(void)
{
	data_pages_destroy(pages);
	fixed_pages_finish(fixed);
	free(fixed);
}

static bool is_resident(unsigned page)
{
	struct process_pages present = { 0 };
	bool is_there = process_has_page(&present, getpid(), address_of(page));

	process_pages_finish(&present);
	return is_there;
}

static const struct data_page *find(unsigned page)
{
	const struct data_owner of = owner();

	return data_pages_find(pages, &of, address_of(page));
}

static unsigned read_fixed(unsigned page)
{
	const struct data_owner of = owner();
	uint8_t byte = 0;

	return fixed_pages_read(fixed, &of, address_of(page) + 5, &byte, 1) ? byte : 1000;
}

START_TEST(a_page_that_was_not_touched_is_left_to_the_program)
{
	memory[5] = 42;
	ck_assert(is_resident(0) && !is_resident(1));
	ck_assert_uint_eq(read_fixed(0), 42);
	ck_assert_uint_eq(read_fixed(1), 1000);
	ck_assert_ptr_nonnull(find(0));
	ck_assert_ptr_null(find(1));
	ck_assert(!is_resident(1));
	memory[DATA_PAGE_BYTES + 5] = 43;
	ck_assert_uint_eq(read_fixed(1), 43);
	ck_assert_ptr_nonnull(find(1));
}
END_TEST

START_TEST(pages_around_a_new_one_are_read_ahead_if_they_are_there)
{
	const struct data_page *page;

	for (unsigned i = 0; i < N_PAGES; i += 2)
		memory[i * DATA_PAGE_BYTES] = 1;
	ck_assert_ptr_nonnull(find(4));
	ck_assert(!is_resident(3) && !is_resident(5));
	data_pages_next_round(pages);
	memory[6 * DATA_PAGE_BYTES + 64] = 2;
	page = find(6); /* never asked for, but there is a reading before this one */
	ck_assert(page && page->before_ns != 0 && page->is_due);
	ck_assert_uint_eq(page->bytes[64], 0);
	ck_assert_ptr_null(data_pages_settled(pages, IMAGE, address_of(6)));
	data_pages_settle(pages);
	ck_assert_ptr_eq(data_pages_settled(pages, IMAGE, address_of(6) + 64), page);
	ck_assert(page->before_ns != 0 && !page->is_due);
	ck_assert_uint_eq(page->bytes[64], 2);
	ck_assert(data_page_has_changed(page, address_of(6) + 64));
	ck_assert(!data_page_has_changed(page, address_of(6)));
	page = find(GROUP + 4);
	ck_assert(page && page->before_ns == 0);
}
END_TEST

START_TEST(what_is_due_is_read_together_and_what_is_gone_is_lost)
{
	for (unsigned i = 0; i < N_PAGES; i++)
		memory[i * DATA_PAGE_BYTES] = (uint8_t)i;
	for (unsigned i = 0; i < N_PAGES; i++)
		ck_assert_ptr_nonnull(find(i));
	data_pages_next_round(pages);
	for (unsigned i = 0; i < N_PAGES; i++)
		ck_assert(find(i)->is_due && find(i)->bytes[0] == i);
	memory[7 * DATA_PAGE_BYTES] = 99;
	ck_assert_int_eq(munmap(memory + 40 * DATA_PAGE_BYTES, DATA_PAGE_BYTES), 0);
	data_pages_forget(pages, IMAGE, address_of(41), address_of(42));
	data_pages_settle(pages);
	for (unsigned i = 0; i < N_PAGES; i++) {
		const struct data_page *page = data_pages_settled(pages, IMAGE, address_of(i));

		ck_assert_int_eq(page != NULL, i != 40 && i != 41);
		if (page)
			ck_assert_int_eq(data_page_has_changed(page, page->address), i == 7);
	}
	ck_assert_ptr_null(find(40));
	ck_assert_uint_eq(find(41)->before_ns, 0);
	/* What nobody settles is not taken for a reading of the next round. */
	data_pages_next_round(pages);
	ck_assert(find(8)->is_due);
	data_pages_next_round(pages);
	ck_assert_ptr_null(data_pages_settled(pages, IMAGE, address_of(8)));
	ck_assert(find(8)->is_due && find(8)->before_ns);
}
END_TEST

START_TEST(what_was_mapped_over_is_forgotten)
{
	memory[5] = 1;
	memory[DATA_PAGE_BYTES + 5] = 1;
	ck_assert_uint_eq(read_fixed(0), 1);
	ck_assert_uint_eq(read_fixed(1), 1);
	ck_assert_ptr_nonnull(find(0));
	data_pages_next_round(pages);
	memory[5] = memory[DATA_PAGE_BYTES + 5] = 2;
	ck_assert_uint_eq(read_fixed(0), 1); /* it does not change while it is mapped */
	fixed_pages_forget(fixed, IMAGE, address_of(0), address_of(0) + 1);
	ck_assert_uint_eq(read_fixed(0), 2);
	ck_assert_uint_eq(read_fixed(1), 1);
	fixed_pages_forget(fixed, IMAGE + 1, 0, UINT64_MAX);
	ck_assert_uint_eq(read_fixed(1), 1);
	data_pages_forget(pages, IMAGE, address_of(0), address_of(1));
	const struct data_page *page = find(0);
	ck_assert(page && page->before_ns == 0);
}
END_TEST

START_TEST(what_is_mapped_between_code_leaves_it_alone)
{
	const uint64_t program = 0x400000, library = 0x7f0000000000, arena = 0x7e0000000000;
	const uint64_t size = 1u << 20;
	struct code_spans *spans = calloc(1, sizeof(*spans));

	ck_assert_ptr_nonnull(spans);
	ck_assert(!code_spans_forget(spans, IMAGE, 0, UINT64_MAX));
	code_spans_add(spans, IMAGE, program, program + 16);
	code_spans_add(spans, IMAGE, library + 4096, library + 8192);
	code_spans_add(spans, IMAGE, library, library + 16);
	ck_assert(!code_spans_forget(spans, IMAGE, arena, arena + size));
	ck_assert(!code_spans_forget(spans, IMAGE, program - size, program));
	ck_assert(!code_spans_forget(spans, IMAGE, program + 16, program + size));
	ck_assert(code_spans_forget(spans, IMAGE, program + 15, program + 16));
	ck_assert(code_spans_forget(spans, IMAGE, library + 8191, library + 8192));
	ck_assert(!code_spans_forget(spans, IMAGE + 1, 0, UINT64_MAX));
	ck_assert(code_spans_forget(spans, IMAGE, 0, UINT64_MAX));
	ck_assert(!code_spans_forget(spans, IMAGE, 0, UINT64_MAX));
	/* Without room for all, any may be meant. */
	for (unsigned i = 0; i <= CODE_SPANS; i++)
		code_spans_add(spans, IMAGE, i * size, i * size + 1);
	ck_assert(code_spans_forget(spans, IMAGE, arena, arena + size));
	free(spans);
}
END_TEST

START_TEST(pages_are_forgotten_by_what_lies_over_them)
{
	const uint64_t far = UINT64_C(1) << 40;

	for (unsigned i = 0; i < N_PAGES; i++)
		memory[i * DATA_PAGE_BYTES] = 1;
	for (unsigned i = 0; i < N_PAGES; i++)
		ck_assert_ptr_nonnull(find(i));
	data_pages_next_round(pages);
	data_pages_forget(pages, IMAGE + 1, 0, UINT64_MAX);
	data_pages_forget(pages, IMAGE, address_of(N_PAGES), address_of(N_PAGES) + far);
	data_pages_forget(pages, IMAGE, address_of(3) + 1, address_of(5) + 1);
	for (unsigned i = 0; i < N_PAGES; i++)
		ck_assert_int_eq(find(i)->before_ns == 0, i >= 3 && i <= 5);
	data_pages_next_round(pages);
	data_pages_forget(pages, IMAGE, address_of(0) / 2, address_of(0) + far);
	ck_assert(find(0)->before_ns == 0 && find(N_PAGES - 1)->before_ns == 0);
}
END_TEST

/* As one that has ended, or is another's. */
START_TEST(a_process_that_is_gone_has_no_pages)
{
	struct process_pages present = { 0 };
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	memory[0] = 1;
	ck_assert(!process_has_page(&present, child, address_of(0)));
	ck_assert(process_has_page(&present, getpid(), address_of(0)));
	process_pages_finish(&present);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("read-pages");
	TCase *tcase = tcase_create("pages");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_page_that_was_not_touched_is_left_to_the_program);
	tcase_add_test(tcase, pages_around_a_new_one_are_read_ahead_if_they_are_there);
	tcase_add_test(tcase, what_is_due_is_read_together_and_what_is_gone_is_lost);
	tcase_add_test(tcase, what_was_mapped_over_is_forgotten);
	tcase_add_test(tcase, what_is_mapped_between_code_leaves_it_alone);
	tcase_add_test(tcase, pages_are_forgotten_by_what_lies_over_them);
	tcase_add_test(tcase, a_process_that_is_gone_has_no_pages);
	suite_add_tcase(suite, tcase);

	return suite_run(suite);
}
