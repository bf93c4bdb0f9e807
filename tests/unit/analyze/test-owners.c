/* One address of each kind of owner, in a hand-made process; memory answers from tables. */
#include <check.h>
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/live/owners.h"
#include "analyze/samples/instruction-owners.h"
#include "analyze/symbols/allocator-code.h"
#include "tests/unit/analyze/fixtures/make-records.h"
#include "tests/unit/analyze/fixtures/memory-db.h"
#include "symbols-target.h"
#include "tests/support/own-size.h"
#include "tests/support/suite.h"

#define HEAP	      UINT64_C(0x5000000)
#define MAPPING	      UINT64_C(0x6000000)
#define NESTED	      UINT64_C(0x6100000)
#define BEFORE	      UINT64_C(0x6200000)
#define ANONYMOUS     UINT64_C(0x6300000)
#define FILE_DATA     UINT64_C(0x6500000)
#define POOL	      UINT64_C(0x6600000)
#define VVAR	      UINT64_C(0x6700000)
#define TOOL	      UINT64_C(0x7000000)
#define MAIN_STACK    UINT64_C(0x7ff0000)
#define MAIN_TLS      UINT64_C(0x6400800)
#define SECOND	      UINT64_C(0x7100000)
#define SECOND_END    (SECOND + 0x100000) /* room for the thread-local storage of sanitizers */
#define UNCLAIMED     UINT64_C(0x7300000)
#define UNCLAIMED_END (UNCLAIMED + 0x100000)
#define SECOND_FS     (SECOND_END - 0x900)
#define KERNEL	      UINT64_C(0xffffffff81000000)
#define NOW	      INT64_C(1000000000)

/* What the fake heap and maps say. */
static struct owner_block block = { .id = 11, .start = HEAP, .size = 100, .site = 5 };
static struct owner_block freed = { .id = 12, .start = HEAP + 0x1000, .size = 64, .site = 6 };
static bool has_freed;

static bool find_block(void *user, uint32_t process, uint64_t address, struct owner_block *ret)
{
	(void)user;
	if (process != 1 || address - block.start >= block.size)
		return false;
	*ret = block;
	return true;
}

static bool was_block(void *user, uint32_t process, uint64_t address)
{
	(void)user;
	return process == 1 && address - freed.start < freed.size;
}

static bool last_freed(void *user, uint32_t thread, struct owner_block *ret)
{
	(void)user;
	if (thread != 1 || !has_freed)
		return false;
	*ret = freed;
	return true;
}

static bool find_mapping(void *user, uint32_t process, uint64_t address, struct owner_mapping *ret)
{
	(void)user;
	if (process != 1)
		return false;
	if (address - MAPPING < 0x1000)
		*ret = (struct owner_mapping){ .id = 21 };
	else if (address - NESTED < 0x1000)
		*ret = (struct owner_mapping){ .id = 22, .is_nested = true };
	else if (address - BEFORE < 0x1000)
		*ret = (struct owner_mapping){ .id = 23, .is_initial = true };
	else if (address - VVAR < 0x1000)
		*ret = (struct owner_mapping){ .id = 24, .is_initial = true, .path = "[vvar]" };
	else
		return false;
	return true;
}

static bool find_mapped(void *user, uint32_t process, uint64_t address, struct owner_range *ret)
{
	struct owner_mapping mapping;

	if (process == 1 && address >= UNCLAIMED && address < UNCLAIMED_END)
		*ret = (struct owner_range){ UNCLAIMED, UNCLAIMED_END, 25, true };
	else if (find_mapping(user, process, address, &mapping))
		*ret = (struct owner_range){ address & -0x1000, (address & -0x1000) + 0x1000,
					     mapping.id, false };
	else
		return false;
	return true;
}

static uint64_t named_start, named_end; /* what the program called by a name; 0, 0: nothing */
static enum owner_kind unrecorded; /* why blocks have no events; 0: all have */

static bool find_named(void *user, uint32_t process, uint64_t address, int64_t *ret_id)
{
	(void)user;
	if (process != 1 || address < named_start || address >= named_end)
		return false;
	*ret_id = 51;
	return true;
}

static bool has_unrecorded(void *user, uint32_t process, enum owner_kind *ret_kind)
{
	(void)user;
	if (process != 1 || !unrecorded)
		return false;
	*ret_kind = unrecorded;
	return true;
}

static const struct owner_memory memory = {
	NULL,	      find_block,  was_block,  last_freed,
	find_mapping, find_mapped, find_named, has_unrecorded,
};

static sqlite3 *db;
static struct objects *objects;
static struct tasks *tasks;
static struct modules *modules;
static struct globals *globals;
static struct owners *owners;
static char self_path[4096];
static uint64_t self_bias;
static OWN_SIZE int a_variable = 3;
static char a_buffer[1000];

static void load(const char *path, uint64_t bias, uint64_t end)
{
	struct trace_module *record = make_module(1, path, "", bias, bias + end);

	ck_assert_int_eq(modules_load(modules, record, 0), 0);
	free(record);
}

static int load_real(struct dl_phdr_info *info, size_t n_bytes, void *user)
{
	uint64_t end = 0;

	(void)n_bytes;
	(void)user;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD && header->p_vaddr + header->p_memsz > end)
			end = header->p_vaddr + header->p_memsz;
	}
	if (*info->dlpi_name == '\0')
		self_bias = info->dlpi_addr;
	load(*info->dlpi_name ? info->dlpi_name : self_path, info->dlpi_addr, end);
	return 0;
}

static void add_thread_at(uint32_t number, uint64_t stack_start, uint64_t stack_end,
			  uint64_t fs_base, int64_t start_ns)
{
	struct trace_thread *record = make_thread(number, 1, 100 + number);

	record->stack_start = stack_start;
	record->stack_end = stack_end;
	record->fs_base = fs_base;
	ck_assert_int_eq(tasks_add_thread(tasks, record, start_ns), 0);
	free(record);
}

static void add_thread(uint32_t number, uint64_t stack_start, uint64_t stack_end, uint64_t fs_base)
{
	add_thread_at(number, stack_start, stack_end, fs_base, 0);
}

static void add_process(uint32_t number, uint32_t parent, enum ring_birth birth, int64_t time_ns)
{
	struct trace_process *record = make_process(number, parent, 100 + number, birth);

	ck_assert_int_eq(tasks_add_process(tasks, record, time_ns), 0);
	free(record);
}

static void set_up(void)
{
	ssize_t n = readlink("/proc/self/exe", self_path, sizeof(self_path) - 1);

	ck_assert_int_gt(n, 0);
	db = memory_db_open();
	ck_assert_int_eq(objects_create(NULL, &objects), 0);
	ck_assert_int_eq(tasks_create(1, 31, &tasks), 0);
	ck_assert_int_eq(modules_create(tasks, objects, &modules), 0);
	ck_assert_int_eq(globals_create(db, objects, &globals), 0);
	ck_assert_int_eq(owners_create(tasks, modules, globals, &memory, &owners), 0);
	add_process(1, 0, RING_BIRTH_EXEC, 0);
	add_thread(1, MAIN_STACK, MAIN_STACK + 0x10000, MAIN_TLS);
	add_thread(2, SECOND, SECOND_END, SECOND_FS);
	dl_iterate_phdr(load_real, NULL);
	load("/x/libtracealloc.so", TOOL, 0x1000);
	ck_assert_int_eq(owners_add_region(owners, 1, OWNER_REGION_ANONYMOUS, ANONYMOUS, 0x1000),
			 0);
	ck_assert_int_eq(owners_add_region(owners, 1, OWNER_REGION_FILE, FILE_DATA, 0x1000), 0);
	ck_assert_int_eq(owners_add_region(owners, 1, OWNER_REGION_TOOL, POOL, 0x1000), 0);
	has_freed = false;
}

static void tear_down(void)
{
	owners = owners_destroy(owners);
	globals = globals_destroy(globals);
	modules = modules_destroy(modules);
	tasks = tasks_destroy(tasks);
	objects = objects_destroy(objects);
	sqlite3_close(db);
}

static struct owner find(uint64_t address, uint64_t ip, bool *ret_is_open)
{
	const struct owner_question question = {
		.process = 1, .thread = 1, .address = address, .ip = ip, .time_ns = NOW
	};

	return owners_find(owners, &question, ret_is_open);
}

/* libc's own, even where a sanitizer stands before it. */
static uint64_t in_libc(const char *name)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

	ck_assert_ptr_nonnull(libc);
	return (uint64_t)(uintptr_t)dlsym(libc, name);
}

static void check(uint64_t address, uint64_t ip, enum owner_kind kind, int64_t id)
{
	bool is_open;
	struct owner owner = find(address, ip, &is_open);

	ck_assert_msg(owner.kind == kind, "%#lx: owner %d instead of %d", (long)address, owner.kind,
		      kind);
	ck_assert_int_eq(owner.id, id);
	ck_assert_int_eq(owner.phase, OWNER_IN_USE);
}

START_TEST(each_address_has_the_owner_of_its_place)
{
	check(HEAP, 0, OWNER_heap, 11);
	check(HEAP + 99, 0, OWNER_heap, 11);
	check(MAPPING + 8, 0, OWNER_mapping, 21);
	check(NESTED, 0, OWNER_mapping, 22);
	check(MAIN_STACK, 0, OWNER_stack, 31);
	check(MAIN_STACK + 0xffff, 0, OWNER_stack, 31);
	check(MAIN_TLS - 8, 0, OWNER_tls, 31);
	check(MAIN_TLS, 0, OWNER_tls, 31);
	check((uint64_t)(uintptr_t)set_up, 0, OWNER_code, 0);
	check(KERNEL, 0, OWNER_kernel, 0);
	check(freed.start + 8, 0, OWNER_freed, 0);
	check(BEFORE, 0, OWNER_before_trace, 0);
	check(ANONYMOUS + 5, 0, OWNER_before_trace, 0);
	check(FILE_DATA + 5, 0, OWNER_mapping, 0);
	check(VVAR + 0x80, 0, OWNER_kernel, 0);
	check(POOL + 5, 0, OWNER_tool, 0);
	check(TOOL + 5, 0, OWNER_tool, 0);
	check(UINT64_C(0x1234567), 0, OWNER_unknown, 0);
	check(0, 0, OWNER_unknown, 0);
	check(UINT64_C(0x8000000000000000), 0, OWNER_unknown, 0);
}
END_TEST

START_TEST(a_block_ends_behind_its_last_byte)
{
	check(HEAP + 100, 0, OWNER_unknown, 0);
	check(freed.start + 64, 0, OWNER_unknown, 0);
	check(HEAP - 1, 0, OWNER_unknown, 0);
}
END_TEST

START_TEST(a_name_comes_before_all_else_and_keeps_the_site_of_its_block)
{
	static const uint64_t places[] = { HEAP + 20, MAPPING + 20, MAIN_STACK + 20, MAIN_TLS + 20,
					   BEFORE + 20 };
	bool is_open;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		named_start = places[i];
		named_end = places[i] + 10;
		check(places[i], 0, OWNER_named, 51);
		check(places[i] + 9, 0, OWNER_named, 51);
		ck_assert_uint_eq(find(places[i], 0, &is_open).site, i == 0 ? 5 : 0);
		ck_assert(!is_open);
		ck_assert_int_ne(find(places[i] + 10, 0, &is_open).kind, OWNER_named);
		ck_assert_int_ne(find(places[i] - 1, 0, &is_open).kind, OWNER_named);
	}
	named_start = named_end = 0;
}
END_TEST

START_TEST(heap_memory_in_no_block_is_not_called_freed_where_births_go_unseen)
{
	static const enum owner_kind kinds[] = { OWNER_below_threshold, OWNER_paused };

	unrecorded = kinds[_i];
	check(freed.start + 8, 0, kinds[_i], 0);
	check(ANONYMOUS + 5, 0, kinds[_i], 0);
	check(HEAP, 0, OWNER_heap, 11);
	check(MAPPING + 8, 0, OWNER_mapping, 21);
	check(BEFORE, 0, OWNER_before_trace, 0);
	check(FILE_DATA + 5, 0, OWNER_mapping, 0);
	check(MAIN_STACK, 0, OWNER_stack, 31);
	check(VVAR + 0x80, 0, OWNER_kernel, 0);
	check(UINT64_C(0x1234567), 0, OWNER_unknown, 0);
	unrecorded = 0;
}
END_TEST

START_TEST(variables_have_rows_and_their_names)
{
	bool is_open;
	uint64_t address = (uint64_t)(uintptr_t)&a_variable;
	struct owner owner = find(address, 0, &is_open);

	a_variable++;
	ck_assert_int_eq(owner.kind, OWNER_global);
	ck_assert_int_gt(owner.id, 0);
	ck_assert_int_eq(find((uint64_t)(uintptr_t)a_buffer + 999, 0, &is_open).kind, OWNER_global);
	ck_assert_int_ne(find((uint64_t)(uintptr_t)a_buffer, 0, &is_open).id, owner.id);
	ck_assert_int_eq(find((uint64_t)(uintptr_t)target_literal(), 0, &is_open).kind,
			 OWNER_global);
	ck_assert_int_eq(find(address, 0, &is_open).id, owner.id);
	ck_assert_int_eq(globals_write(globals, db), 0);

	char sql[200];
	snprintf(sql, sizeof(sql), "SELECT name FROM symbol WHERE id = %ld", (long)owner.id);
	ck_assert_str_eq(memory_db_text(db, sql), "a_variable");
	snprintf(sql, sizeof(sql), "SELECT size FROM symbol WHERE id = %ld", (long)owner.id);
	ck_assert_int_eq(memory_db_integer(db, sql), sizeof(a_variable));
	ck_assert_int_eq(memory_db_integer(db, "SELECT count(*) FROM symbol"), 3);
	ck_assert_int_eq(
		memory_db_integer(db, "SELECT count(*) FROM symbol WHERE name = '[.rodata]'"), 1);
}
END_TEST

/* As the .bss of a stripped gzip: `stdout` first, behind it what no symbol covers. */
__asm__(".section .halfnamed, \"aw\"\n"
	".globl half_named\n"
	".type half_named, @object\n"
	".size half_named, 8\n"
	"half_named: .zero 4096\n"
	".previous");
extern char half_named[4096];

START_TEST(a_variable_at_the_begin_of_its_section_does_not_give_it_its_name)
{
	bool is_open;
	int64_t named = find((uint64_t)(uintptr_t)half_named + 7, 0, &is_open).id;
	int64_t rest = find((uint64_t)(uintptr_t)half_named + 8, 0, &is_open).id;

	ck_assert_int_ne(named, rest);
	ck_assert_int_eq(find((uint64_t)(uintptr_t)half_named + 4095, 0, &is_open).id, rest);
	ck_assert_int_eq(globals_write(globals, db), 0);
	/* Rows of an earlier import are found again. */
	owners = owners_destroy(owners);
	globals = globals_destroy(globals);
	ck_assert_int_eq(globals_create(db, objects, &globals), 0);
	ck_assert_int_eq(owners_create(tasks, modules, globals, &memory, &owners), 0);
	ck_assert_int_eq(find((uint64_t)(uintptr_t)half_named, 0, &is_open).id, named);
	ck_assert_int_eq(find((uint64_t)(uintptr_t)half_named + 8, 0, &is_open).id, rest);

	char sql[200];
	snprintf(sql, sizeof(sql), "SELECT name FROM symbol WHERE id = %ld", (long)named);
	ck_assert_str_eq(memory_db_text(db, sql), "half_named");
	snprintf(sql, sizeof(sql), "SELECT name FROM symbol WHERE id = %ld", (long)rest);
	ck_assert_str_eq(memory_db_text(db, sql), "[.halfnamed]");
}
END_TEST

START_TEST(tls_of_a_second_thread_is_cut_out_of_its_stack)
{
	uint64_t tls_bytes = modules_static_tls_bytes(modules, 1);

	ck_assert_uint_gt(tls_bytes, 0);
	check(SECOND, 0, OWNER_stack, 32);
	check(SECOND_FS - tls_bytes - 1, 0, OWNER_stack, 32);
	check(SECOND_FS - tls_bytes, 0, OWNER_tls, 32);
	check(SECOND_FS, 0, OWNER_tls, 32);
	check(SECOND_END - 1, 0, OWNER_tls, 32);
	check(SECOND_END, 0, OWNER_unknown, 0);
}
END_TEST

START_TEST(a_thread_without_bounds_has_the_stack_that_its_stack_pointer_is_in)
{
	uint64_t tls_bytes = modules_static_tls_bytes(modules, 1);
	uint64_t thread_pointer = (UNCLAIMED_END - 2304) & ~UINT64_C(63);

	add_thread(3, 0, 0, 0);
	check(UNCLAIMED, 0, OWNER_mapping, 25);
	owners_saw_stack(owners, 3, MAPPING); /* the program's own: a coroutine's */
	check(MAPPING, 0, OWNER_mapping, 21);
	owners_saw_stack(owners, 2, UNCLAIMED + 8); /* has bounds */
	check(UNCLAIMED, 0, OWNER_mapping, 25);
	owners_saw_stack(owners, 3, UNCLAIMED + 8);
	check(UNCLAIMED, 0, OWNER_stack, 33);
	check(thread_pointer - tls_bytes - 1, 0, OWNER_stack, 33);
	check(thread_pointer - tls_bytes, 0, OWNER_tls, 33);
	check(UNCLAIMED_END - 1, 0, OWNER_tls, 33);
	check(UNCLAIMED_END, 0, OWNER_unknown, 0);
	add_thread(3, 0, 0, 0); /* a record without bounds says no more */
	check(UNCLAIMED, 0, OWNER_stack, 33);
	add_thread(3, UNCLAIMED + 0x1000, UNCLAIMED + 0x2000, 0);
	check(UNCLAIMED, 0, OWNER_mapping, 25);
	check(UNCLAIMED + 0x1000, 0, OWNER_stack, 33);
}
END_TEST

START_TEST(the_stack_of_an_ended_thread_is_no_stack)
{
	ck_assert_int_eq(tasks_end_thread(tasks, 2, NOW - 1), 0);
	check(SECOND, 0, OWNER_unknown, 0);
	ck_assert_int_eq(tasks_end_thread(tasks, 2, NOW), 0);
	check(SECOND, 0, OWNER_stack, 32);
}
END_TEST

START_TEST(memory_that_a_later_thread_has_as_stack_is_still_another_s)
{
	bool is_open;

	add_thread_at(3, NESTED - 0x1000, NESTED + 0x100000, 0, NOW + 1);
	ck_assert_int_ne(find(NESTED, 0, &is_open).kind, OWNER_stack);
	check(NESTED + 0x1000, 0, OWNER_stack, 33); /* in no known mapping */
	add_thread_at(3, NESTED - 0x1000, NESTED + 0x100000, 0, NOW);
	check(NESTED, 0, OWNER_stack, 33);
	add_thread_at(4, UNCLAIMED_END - 0x1000000, UNCLAIMED_END - 64, 0, NOW + 1);
	check(UNCLAIMED, 0, OWNER_mapping, 25); /* a small mapping where the stack will end */
}
END_TEST

START_TEST(a_stack_that_its_parent_prepares_is_the_thread_s)
{
	add_thread_at(3, UNCLAIMED, UNCLAIMED_END - 64, 0, NOW + 1);
	check(UNCLAIMED, 0, OWNER_stack, 33);
	check(UNCLAIMED_END - 65, 0, OWNER_stack, 33);
}
END_TEST

START_TEST(a_stack_without_a_known_start_holds_nothing)
{
	add_thread(3, 0, UINT64_C(0x7ffffffff000), 0);
	check(UINT64_C(0x1234567), 0, OWNER_unknown, 0);
	check(SECOND, 0, OWNER_stack, 32);
}
END_TEST

START_TEST(an_untraced_image_has_its_maps_and_its_first_stack)
{
	struct owner_question question = { .process = 2, .time_ns = NOW };
	struct trace_process *record = make_process(2, 0, 555, RING_BIRTH_EXEC);
	uint64_t top = UINT64_C(0x7ffffffff000);
	bool is_open;

	record->why_not = TRACE_NOT_STATIC;
	ck_assert_int_eq(tasks_add_process(tasks, record, 0), 0);
	free(record);
	tasks_process(tasks, 2)->stack_top = top;
	ck_assert_int_eq(owners_add_region(owners, 2, OWNER_REGION_ANONYMOUS, ANONYMOUS, 0x1000),
			 0);
	question.address = ANONYMOUS;
	ck_assert_int_eq(owners_find(owners, &question, &is_open).kind, OWNER_mapping);
	question.address = top - 16;
	ck_assert_int_eq(owners_find(owners, &question, &is_open).kind, OWNER_stack);
	ck_assert_int_eq(owners_find(owners, &question, &is_open).id, 0);
	struct task_thread *main_thread = tasks_thread_at(tasks, 555, 555, NOW);
	ck_assert_int_eq(owners_find(owners, &question, &is_open).id, main_thread->row);
	question.address = top;
	ck_assert_int_eq(owners_find(owners, &question, &is_open).kind, OWNER_unknown);
}
END_TEST

START_TEST(what_our_library_touches_is_the_tool_s)
{
	check(HEAP, TOOL + 0x10, OWNER_tool, 0);
	check(MAIN_STACK + 8, TOOL + 0x10, OWNER_tool, 0);
	check(UINT64_C(0x1234567), TOOL + 0x10, OWNER_tool, 0);
	check(KERNEL, TOOL + 0x10, OWNER_kernel, 0);
	ck_assert(owners_is_tool(owners, 1, TOOL, NOW));
	ck_assert(!owners_is_tool(owners, 1, (uint64_t)(uintptr_t)set_up, NOW));
}
END_TEST

START_TEST(a_live_block_comes_before_everything_else)
{
	uint64_t places[] = {
		MAPPING, NESTED, BEFORE, MAIN_STACK, MAIN_TLS, ANONYMOUS, freed.start
	};
	struct owner_block saved = block;

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		block.start = places[i];
		check(places[i], 0, OWNER_heap, 11);
	}
	block = saved;
}
END_TEST

START_TEST(the_allocator_just_after_a_free_is_still_at_that_block)
{
	uint64_t in_free = in_libc("free") + 4;
	bool is_open;

	has_freed = true;
	struct owner owner = find(freed.start + 8, in_free, &is_open);
	ck_assert_int_eq(owner.kind, OWNER_heap);
	ck_assert_int_eq(owner.phase, OWNER_FREEING);
	ck_assert_int_eq(owner.id, 12);
	ck_assert_uint_eq(owner.site, 6);

	/* Its header lies before it. */
	ck_assert_int_eq(find(freed.start - 8, in_free, &is_open).phase, OWNER_FREEING);
	/* The program's own use after free is not the allocator's. */
	owner = find(freed.start + 8, (uint64_t)(uintptr_t)set_up, &is_open);
	ck_assert_int_eq(owner.kind, OWNER_freed);
	ck_assert_int_eq(owner.phase, OWNER_IN_USE);
	/* Nor is what came after another event. */
	has_freed = false;
	ck_assert_int_eq(find(freed.start + 8, in_free, &is_open).kind, OWNER_freed);
}
END_TEST

/* free() reads the words of the chunk behind the next one, which may be of a block that lives. */
START_TEST(the_allocator_s_words_beside_a_block_that_lives_are_its_own)
{
	uint64_t in_free = in_libc("free") + 4;
	struct owner owner;
	bool is_open;

	owner = find(block.start - 8, in_free, &is_open);
	ck_assert_int_eq(owner.kind, OWNER_heap);
	ck_assert_int_eq(owner.phase, OWNER_FREEING);
	ck_assert_int_eq(owner.id, 11);
	owner = find(block.start + block.size + 8, in_free, &is_open);
	ck_assert_int_eq(owner.id, 11);
	ck_assert_int_ne(find(block.start - 24, in_free, &is_open).kind, OWNER_heap);
	ck_assert_int_ne(find(block.start - 8, (uint64_t)(uintptr_t)set_up, &is_open).kind,
			 OWNER_heap);
}
END_TEST

START_TEST(only_what_is_nobody_s_is_open_to_the_next_event)
{
	uint64_t open[] = { freed.start, BEFORE, ANONYMOUS, NESTED, 0x1234567 };
	uint64_t decided[] = { HEAP,
			       MAPPING,
			       MAIN_STACK,
			       MAIN_TLS,
			       TOOL,
			       KERNEL,
			       (uint64_t)(uintptr_t)&a_variable,
			       (uint64_t)(uintptr_t)set_up };
	bool is_open;

	for (size_t i = 0; i < sizeof(open) / sizeof(*open); i++) {
		find(open[i], 0, &is_open);
		ck_assert_msg(is_open, "%zu", i);
	}
	for (size_t i = 0; i < sizeof(decided) / sizeof(*decided); i++) {
		find(decided[i], 0, &is_open);
		ck_assert_msg(!is_open, "%zu", i);
	}
}
END_TEST

START_TEST(the_next_event_s_block_owns_what_was_touched_while_it_was_made)
{
	const struct owner_block born = {
		.id = 40, .start = ANONYMOUS + 0x100, .size = 256, .site = 9
	};
	struct owner_question question = { .process = 1,
					   .thread = 1,
					   .address = born.start,
					   .ip = in_libc("memset"),
					   .time_ns = NOW };
	struct owner owner = { 0 };

	ck_assert(owners_allocating(owners, &question, &born, &owner));
	ck_assert_int_eq(owner.kind, OWNER_heap);
	ck_assert_int_eq(owner.phase, OWNER_ALLOCATING);
	ck_assert_int_eq(owner.id, 40);
	ck_assert_uint_eq(owner.site, 9);
	question.address = born.start + 255;
	ck_assert(owners_allocating(owners, &question, &born, &owner));

	/* The program itself has no business there before: it uses what it gave back. */
	question.ip = (uint64_t)(uintptr_t)set_up;
	ck_assert(!owners_allocating(owners, &question, &born, &owner));
	question.ip = 0; /* not known */
	ck_assert(owners_allocating(owners, &question, &born, &owner));

	/* Headers beside it count for the allocator, and for nobody else. */
	question.ip = (uint64_t)(uintptr_t)set_up;
	question.address = born.start - 8;
	ck_assert(!owners_allocating(owners, &question, &born, &owner));
	question.ip = in_libc("malloc") + 4;
	ck_assert(owners_allocating(owners, &question, &born, &owner));
	question.address = born.start - 17;
	ck_assert(!owners_allocating(owners, &question, &born, &owner));
	question.address = born.start + 256 + 32;
	ck_assert(!owners_allocating(owners, &question, &born, &owner));
}
END_TEST

START_TEST(realloc_s_copy_reads_the_old_block)
{
	struct owner_question question = { .process = 1,
					   .thread = 1,
					   .address = freed.start + 5,
					   .ip = in_libc("memcpy"),
					   .time_ns = NOW };
	struct owner owner = { 0 };

	ck_assert(owners_moving(owners, &question, &freed, &owner));
	ck_assert_int_eq(owner.id, 12);
	ck_assert_int_eq(owner.phase, OWNER_FREEING);
	question.address = freed.start + 64;
	ck_assert(!owners_moving(owners, &question, &freed, &owner));
	question.address = freed.start;
	question.ip = (uint64_t)(uintptr_t)set_up;
	ck_assert(!owners_moving(owners, &question, &freed, &owner));
}
END_TEST

/*
 * Functions around malloc in libc are the allocator; those that have nothing to do with it are not.
 */
START_TEST(the_allocator_is_known_inside_libc)
{
	static const char *const inside[] = { "malloc",	 "free",	   "calloc",
					      "realloc", "posix_memalign", "malloc_usable_size" };
	static const char *const outside[] = { "printf", "memcpy", "qsort", "read", "strlen" };

	for (size_t i = 0; i < sizeof(inside) / sizeof(*inside); i++)
		ck_assert_msg(owners_is_allocator(owners, 1, in_libc(inside[i]), NOW), "%s",
			      inside[i]);
	for (size_t i = 0; i < sizeof(outside) / sizeof(*outside); i++)
		ck_assert_msg(!owners_is_allocator(owners, 1, in_libc(outside[i]), NOW), "%s",
			      outside[i]);
	ck_assert(!owners_is_allocator(owners, 1, (uint64_t)(uintptr_t)set_up, NOW));

	/* glibc 2.36 keeps sysmalloc_mmap before this old symbol, in the same source file. */
	uint64_t old =
		(uint64_t)(uintptr_t)dlvsym(RTLD_DEFAULT, "__default_morecore", "GLIBC_2.2.5");
	if (old)
		ck_assert(owners_is_allocator(owners, 1, old - 0x100, NOW));
}
END_TEST

/* A sample tells an image and its thread before their records come: the thread goes along. */
START_TEST(a_thread_follows_its_image_to_the_number_of_its_record)
{
	struct trace_process *process = make_process(9, 1, 888, RING_BIRTH_EXEC);
	struct trace_thread *record = make_thread(90, 9, 888);

	ck_assert_int_eq(tasks_saw_exec(tasks, 888, NOW, "early"), 0);
	ck_assert_uint_ge(tasks_thread_at(tasks, 888, 888, NOW + 10)->process, TASKS_UNSEEN);
	ck_assert_int_eq(tasks_add_process(tasks, process, NOW + 20), 0);
	ck_assert_int_eq(tasks_add_thread(tasks, record, NOW + 20), 0);
	ck_assert_uint_eq(tasks_thread_at(tasks, 888, 888, NOW + 30)->number, 90);
	ck_assert_uint_eq(tasks_thread(tasks, 90)->process, 9);
	free(process);
	free(record);
}
END_TEST

/* perf may tell of all its maps before its record comes, as of programs that are not traced. */
START_TEST(maps_follow_their_image_to_the_number_of_its_record)
{
	struct trace_process *record = make_process(9, 1, 888, RING_BIRTH_EXEC);
	struct owner_question question = { .time_ns = NOW + 30, .address = ANONYMOUS };
	bool is_open;

	record->why_not = TRACE_NOT_STATIC;
	ck_assert_int_eq(tasks_saw_exec(tasks, 888, NOW, "early"), 0);
	question.process = tasks_process_at(tasks, 888, NOW + 10)->number;
	ck_assert_int_eq(owners_add_region(owners, question.process, OWNER_REGION_ANONYMOUS,
					   ANONYMOUS, 0x1000),
			 0);
	ck_assert_int_eq(tasks_add_process(tasks, record, NOW + 20), 0);
	question.process = 9;
	ck_assert_int_eq(owners_find(owners, &question, &is_open).kind, OWNER_mapping);
	free(record);
}
END_TEST

/* Its record says when it was forked; on a busy machine its exec comes milliseconds later. */
START_TEST(the_command_is_one_image_however_late_its_exec_was)
{
	struct trace_process *process = make_process(9, 0, 888, RING_BIRTH_EXEC);

	ck_assert_int_eq(tasks_saw_exec(tasks, 888, NOW + 5000000, "late"), 0);
	ck_assert_int_eq(tasks_add_process(tasks, process, NOW), 0);
	ck_assert_uint_eq(tasks_process_at(tasks, 888, NOW + 6000000)->number, 9);
	ck_assert_ptr_null(tasks_process(tasks, 9)->older);
	free(process);
}
END_TEST

START_TEST(a_fork_without_events_has_the_memory_of_its_parent)
{
	struct owner_question question = { .thread = 0, .address = HEAP, .time_ns = NOW };
	bool is_open;

	ck_assert_int_eq(tasks_saw_fork(tasks, 777, 101, NOW - 5), 0);
	struct task_process *child = tasks_process_at(tasks, 777, NOW);
	ck_assert_ptr_nonnull(child);
	question.process = child->number;
	ck_assert_int_eq(owners_find(owners, &question, &is_open).id, 11);
	question.address = (uint64_t)(uintptr_t)&a_variable;
	ck_assert_int_eq(owners_find(owners, &question, &is_open).kind, OWNER_global);
	question.address = MAIN_STACK + 8;
	ck_assert_int_eq(owners_find(owners, &question, &is_open).kind, OWNER_stack);
	question.address = ANONYMOUS;
	ck_assert_int_eq(owners_find(owners, &question, &is_open).kind, OWNER_before_trace);

	/* After its exec nothing of that is left. */
	ck_assert_int_eq(tasks_saw_exec(tasks, 777, NOW + 100000, "other"), 0);
	question.time_ns = NOW + 200000;
	question.process = tasks_process_at(tasks, 777, question.time_ns)->number;
	for (int i = 0; i < 2; i++) {
		question.address = i ? HEAP : ANONYMOUS;
		ck_assert_int_eq(owners_find(owners, &question, &is_open).kind, OWNER_unknown);
	}
}
END_TEST

START_TEST(what_other_turns_access_tells_where_nothing_else_does)
{
	const struct owner a = { .kind = OWNER_heap, .site = 1 },
			   b = { .kind = OWNER_heap, .site = 2 };
	struct instruction_owners seen = { 0 };

	for (unsigned i = 0; i < 8; i++) {
		ck_assert(!instruction_owners_is_only(&seen, 7, &a));
		ck_assert_int_eq(instruction_owners_next(&seen, 7, &a), 0);
	}
	ck_assert(instruction_owners_is_only(&seen, 7, &a));
	ck_assert(!instruction_owners_is_only(&seen, 7, &b));
	/* A sample that tells comes first. */
	instruction_owners_take(&seen,
				&(struct instruction_access){
					.frame = 7, .owner = b, .share = 1, .is_resolved = 1 });
	ck_assert_int_eq(instruction_owners_end(&seen, 1), 0);
	ck_assert(instruction_owners_is_only(&seen, 7, &b));
	for (unsigned i = 0; i < 9; i++)
		ck_assert_int_eq(instruction_owners_next(&seen, 8, i == 4 ? &b : &a), 0);
	ck_assert(!instruction_owners_is_only(&seen, 8, &a));
	instruction_owners_finish(&seen);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("owners");
	TCase *tcase = tcase_create("owners");

	suite_add_tcase(suite, tcase);
	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, each_address_has_the_owner_of_its_place);
	tcase_add_test(tcase, what_other_turns_access_tells_where_nothing_else_does);
	tcase_add_test(tcase, a_block_ends_behind_its_last_byte);
	tcase_add_test(tcase, a_name_comes_before_all_else_and_keeps_the_site_of_its_block);
	tcase_add_loop_test(
		tcase, heap_memory_in_no_block_is_not_called_freed_where_births_go_unseen, 0, 2);
	tcase_add_test(tcase, variables_have_rows_and_their_names);
	tcase_add_test(tcase, a_variable_at_the_begin_of_its_section_does_not_give_it_its_name);
	tcase_add_test(tcase, tls_of_a_second_thread_is_cut_out_of_its_stack);
	tcase_add_test(tcase, a_thread_without_bounds_has_the_stack_that_its_stack_pointer_is_in);
	tcase_add_test(tcase, the_stack_of_an_ended_thread_is_no_stack);
	tcase_add_test(tcase, memory_that_a_later_thread_has_as_stack_is_still_another_s);
	tcase_add_test(tcase, a_stack_that_its_parent_prepares_is_the_thread_s);
	tcase_add_test(tcase, a_stack_without_a_known_start_holds_nothing);
	tcase_add_test(tcase, an_untraced_image_has_its_maps_and_its_first_stack);
	tcase_add_test(tcase, what_our_library_touches_is_the_tool_s);
	tcase_add_test(tcase, a_live_block_comes_before_everything_else);
	tcase_add_test(tcase, the_allocator_just_after_a_free_is_still_at_that_block);
	tcase_add_test(tcase, the_allocator_s_words_beside_a_block_that_lives_are_its_own);
	tcase_add_test(tcase, only_what_is_nobody_s_is_open_to_the_next_event);
	tcase_add_test(tcase, the_next_event_s_block_owns_what_was_touched_while_it_was_made);
	tcase_add_test(tcase, realloc_s_copy_reads_the_old_block);
	tcase_add_test(tcase, the_allocator_is_known_inside_libc);
	tcase_add_test(tcase, a_thread_follows_its_image_to_the_number_of_its_record);
	tcase_add_test(tcase, maps_follow_their_image_to_the_number_of_its_record);
	tcase_add_test(tcase, the_command_is_one_image_however_late_its_exec_was);
	tcase_add_test(tcase, a_fork_without_events_has_the_memory_of_its_parent);
	return suite_run(suite);
}
