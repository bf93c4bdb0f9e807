/* Moving the first instructions of functions: what was moved is run, and does what it did. */
#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runner/attach/entries.h"
#include "tests/support/suite.h"

#define PAGE_BYTES 4096u
#define COUNT(a)   ((int)(sizeof(a) / sizeof((a)[0])))

typedef long (*code_fn)(long argument);

struct code {
	const char *name;
	uint8_t bytes[64];
	int n_moved; /* bytes of the original, or a negative errno */
};

static const struct code movable[] = {
	{ "plain", { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x47, 0x07, 0x5d, 0xc3 }, 8 },
	/* test %rdi,%rdi; je +5 (mov $3,%eax; ret); lea 1(%rdi),%rax; ret */
	{ "short jump if",
	  { 0x48, 0x85, 0xff, 0x74, 0x05, 0x48, 0x8d, 0x47, 0x01, 0xc3, 0xb8, 3, 0, 0, 0, 0xc3 },
	  5 },
	/* test %rdi,%rdi; jne +5 by 32 bits */
	{ "long jump if",
	  { 0x48, 0x85, 0xff, 0x0f, 0x85, 5, 0, 0, 0, 0x48,
	    0x8d, 0x47, 0x01, 0xc3, 0xb8, 9, 0, 0, 0, 0xc3 },
	  9 },
	/* xor %eax,%eax; mov 8(%rip),%rax; add %rdi,%rax; ret */
	{ "relative to itself",
	  { 0x31, 0xc0, 0x48, 0x8b, 0x05, 7, 0, 0, 0, 0x48, 0x01, 0xf8,
	    0xc3, 0x90, 0x90, 0x90, 77,	  0, 0, 0, 0, 0,    0,	  0 },
	  9 },
	/* endbr64; lea 5(%rdi),%rax; ret */
	{ "endbr64", { 0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8d, 0x47, 0x05, 0xc3 }, 8 },
	/* jmp +3 by 32 bits; lea 4(%rdi),%rax; ret */
	{ "jump", { 0xe9, 3, 0, 0, 0, 0x90, 0x90, 0x90, 0x48, 0x8d, 0x47, 0x04, 0xc3 }, 5 },
};

static const struct code immovable[] = {
	{ "too short", { 0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90 }, -EINVAL },
	{ "a call", { 0xe8, 0, 0, 0, 0, 0xc3 }, -EINVAL },
	{ "loop", { 0xe2, 0x02, 0x48, 0x89, 0xe5, 0xc3 }, -EINVAL },
	{ "jrcxz", { 0xe3, 0x02, 0x48, 0x89, 0xe5, 0xc3 }, -EINVAL },
	{ "a short jump that ends it", { 0xeb, 0x10, 0x90, 0x90, 0x90 }, -E2BIG },
	{ "no instruction", { 0x06, 0x06, 0x06, 0x06, 0x06 }, -E2BIG },
};

/* Two pages that may be run, and where their code is written. */
static uint8_t *map_code(void)
{
	uint8_t *pages = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(pages, MAP_FAILED);
	memset(pages, 0xcc, 2 * PAGE_BYTES);
	return pages;
}

static code_fn function_at(const uint8_t *at)
{
	code_fn function;

	memcpy(&function, &at, sizeof(function));
	return function;
}

static int move(const struct code *code, uint8_t *pages, size_t *ret_n)
{
	const struct entries_code at = { code->bytes, sizeof(code->bytes), (uintptr_t)pages,
					 (uintptr_t)(pages + PAGE_BYTES) };

	memcpy(pages, code->bytes, sizeof(code->bytes));
	return entries_move(&at, pages + PAGE_BYTES, 64, ret_n);
}

START_TEST(moved_instructions_do_what_they_did)
{
	const struct code *code = &movable[_i];
	uint8_t *pages = map_code(), *moved = pages + PAGE_BYTES;
	size_t n_moved = 0;
	int n = move(code, pages, &n_moved);
	int32_t back = (int32_t)(n - (int)(PAGE_BYTES + n_moved + 5));

	ck_assert_msg(n == code->n_moved, "%s: %d bytes", code->name, n);
	moved[n_moved] = 0xe9;
	memcpy(moved + n_moved + 1, &back, sizeof(back));
	ck_assert_int_eq(mprotect(pages, 2 * PAGE_BYTES, PROT_READ | PROT_EXEC), 0);
	for (long argument = -1; argument < 3; argument++)
		ck_assert_msg(function_at(moved)(argument) == function_at(pages)(argument),
			      "%s(%ld)", code->name, argument);
	munmap(pages, 2 * PAGE_BYTES);
}
END_TEST

START_TEST(what_cannot_be_moved_is_refused)
{
	const struct code *code = &immovable[_i];
	uint8_t *pages = map_code();
	size_t n_moved;
	int n = move(code, pages, &n_moved);

	ck_assert_msg(n == code->n_moved, "%s: %d", code->name, n);
	munmap(pages, 2 * PAGE_BYTES);
}
END_TEST

START_TEST(what_would_be_out_of_reach_is_refused)
{
	const struct code *code = &movable[3];
	uint8_t moved[64];
	size_t n_moved;
	const struct entries_code at = { code->bytes, sizeof(code->bytes), UINT64_C(0x7f0000000000),
					 UINT64_C(0x550000000000) };

	ck_assert_int_eq(entries_move(&at, moved, sizeof(moved), &n_moved), -ERANGE);
}
END_TEST

/* ---- The C library's own ---- */

static int n_hooked;

static void *hook(size_t n_bytes)
{
	n_hooked++;
	return (void *)n_bytes;
}

static void name_entry(struct entries *entries, const char *name, uintptr_t function)
{
	struct attach_entry *item = &entries->items[entries->n++];

	*item = (struct attach_entry){ .function = function, .hook = (uintptr_t)hook };
	memcpy(item->name, name, strlen(name));
}

/* Plan those of this process; own: which calls are the allocator's. The page is there then. */
static void plan(struct entries *entries, struct module_range own)
{
	struct remote_modules modules;

	memset(entries, 0, sizeof(*entries));
	name_entry(entries, "malloc", (uintptr_t)malloc);
	name_entry(entries, "calloc", (uintptr_t)calloc);
	name_entry(entries, "realloc", (uintptr_t)realloc);
	name_entry(entries, "free", (uintptr_t)free);
	ck_assert_int_eq(remote_modules_read(getpid(), &modules), 0);
	/* Sanitizers have an allocator of their own. */
	if (!remote_modules_at(&modules, (uintptr_t)malloc) ||
	    !strstr(remote_modules_at(&modules, (uintptr_t)malloc)->path, "libc"))
		entries->n = 0;
	else
		entries_plan(entries, &modules, own);
	remote_modules_finish(&modules);
	if (entries->n == 0)
		return;
	ck_assert_uint_eq(entries->n_pages, 1);
	uint8_t *page =
		mmap((void *)entries->pages[0].address, ENTRIES_PAGE_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	ck_assert_ptr_eq(page, (void *)entries->pages[0].address);
	memcpy(page, entries->pages[0].bytes, ENTRIES_PAGE_BYTES);
	ck_assert_int_eq(mprotect(page, ENTRIES_PAGE_BYTES, PROT_READ | PROT_EXEC), 0);
}

/* Where the jump at its entry leads. */
static uint64_t target_of(const struct attach_entry *item)
{
	int32_t distance;

	ck_assert_uint_eq(item->jump[0], 0xe9);
	memcpy(&distance, item->jump + 1, sizeof(distance));
	return item->function + 5 + (uint64_t)(int64_t)distance;
}

static void *call(uint64_t function, size_t n_bytes)
{
	void *(*pointer)(size_t) = NULL;

	memcpy(&pointer, &function, sizeof(pointer));
	return pointer(n_bytes);
}

START_TEST(malloc_can_be_called_by_its_moved_begin_and_its_entry_leads_to_the_hook)
{
	struct entries entries;
	char *block;

	plan(&entries, (struct module_range){ 1, 2 });
	if (entries.n == 0)
		return;
	for (uint32_t i = 0; i < entries.n; i++) {
		const struct attach_entry *item = &entries.items[i];

		ck_assert_uint_ne(item->moved, 0);
		ck_assert_int_eq(memcmp(item->before, (void *)item->function, 8), 0);
		ck_assert_int_eq(memcmp(item->before + 5, item->jump + 5, 3), 0);
	}
	block = call(entries.items[0].moved, 100);
	ck_assert_ptr_nonnull(block);
	memset(block, 1, 100);
	free(block);
	n_hooked = 0;
	ck_assert_ptr_eq(call(target_of(&entries.items[0]), 100), (void *)100);
	ck_assert_int_eq(n_hooked, 1);
	munmap((void *)entries.pages[0].address, ENTRIES_PAGE_BYTES);
}
END_TEST

START_TEST(the_allocator_s_own_calls_go_straight_on)
{
	struct entries entries;
	void *block;

	/* As if all code were the allocator's, the caller too. */
	plan(&entries, (struct module_range){ 1, UINTPTR_MAX / 2 });
	if (entries.n == 0)
		return;
	n_hooked = 0;
	block = call(target_of(&entries.items[0]), 100);
	ck_assert_int_eq(n_hooked, 0);
	ck_assert_ptr_nonnull(block);
	free(block);
	munmap((void *)entries.pages[0].address, ENTRIES_PAGE_BYTES);
}
END_TEST

static const char *const needed[] = { "malloc", "calloc", "realloc", "free" };

START_TEST(without_one_of_the_four_none_is_redirected)
{
	struct entries entries = { .n = 0 };
	struct remote_modules modules;

	for (int i = 0; i < COUNT(needed); i++)
		name_entry(&entries, needed[i],
			   (uintptr_t)(i == _i ? (void *)strlen : (void *)malloc));
	ck_assert_int_eq(remote_modules_read(getpid(), &modules), 0);
	entries_plan(&entries, &modules, (struct module_range){ 1, 2 });
	remote_modules_finish(&modules);
	ck_assert_uint_eq(entries.n, 0);
	ck_assert_uint_eq(entries.n_pages, 0);
	ck_assert_uint_gt(strlen(entries.why), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("attach-entries");
	TCase *tcase = tcase_create("attach-entries");

	tcase_add_loop_test(tcase, moved_instructions_do_what_they_did, 0, COUNT(movable));
	tcase_add_loop_test(tcase, what_cannot_be_moved_is_refused, 0, COUNT(immovable));
	tcase_add_test(tcase, what_would_be_out_of_reach_is_refused);
	tcase_add_test(tcase,
		       malloc_can_be_called_by_its_moved_begin_and_its_entry_leads_to_the_hook);
	tcase_add_test(tcase, the_allocator_s_own_calls_go_straight_on);
	tcase_add_loop_test(tcase, without_one_of_the_four_none_is_redirected, 0, COUNT(needed));
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
