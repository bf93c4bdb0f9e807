#include <check.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyze/process/modules.h"
#include "tests/unit/analyze/fixtures/make-records.h"
#include "tests/unit/analyze/fixtures/memory-db.h"
#include "tests/support/suite.h"

static struct objects *objects;
static struct tasks *tasks;
static struct modules *modules;

static void set_up(void)
{
	ck_assert_int_eq(objects_create(NULL, &objects), 0);
	ck_assert_int_eq(tasks_create(1, 1, &tasks), 0);
	ck_assert_int_eq(modules_create(tasks, objects, &modules), 0);
}

static void tear_down(void)
{
	modules = modules_destroy(modules);
	tasks = tasks_destroy(tasks);
	objects = objects_destroy(objects);
}

static void add_process(uint32_t number, uint32_t parent, enum ring_birth birth, int64_t time_ns)
{
	struct trace_process *record = make_process(number, parent, 1000 + number, birth);

	ck_assert_int_eq(tasks_add_process(tasks, record, time_ns), 0);
	free(record);
}

static void load(uint32_t process, const char *path, uint64_t start, int64_t time_ns)
{
	struct trace_module *record = make_module(process, path, "", start, start + 0x1000);

	ck_assert_int_eq(modules_load(modules, record, time_ns), 0);
	free(record);
}

static void unload(uint32_t process, const char *path, uint64_t start, int64_t time_ns)
{
	struct trace_module *record = make_module(process, path, "", start, start + 0x1000);

	record->head.type = TRACE_RECORD_MODULE_UNLOAD;
	ck_assert_int_eq(modules_unload(modules, record, time_ns), 0);
	free(record);
}

/* The path of the module at an address, "" for none. */
static const char *at(uint32_t process, uint64_t address, int64_t time_ns)
{
	const struct module *module = modules_find(modules, process, address, time_ns);

	return module ? module->object->path : "";
}

#define MS INT64_C(1000000)

START_TEST(the_module_of_the_time_is_found_not_the_last_one_at_the_address)
{
	add_process(1, 0, RING_BIRTH_EXEC, 0);
	load(1, "/bin/app", 0x90000, 0);
	load(1, "/lib/a.so", 0x10000, 100 * MS);
	unload(1, "/lib/a.so", 0x10000, 200 * MS);
	load(1, "/lib/b.so", 0x10000, 300 * MS);

	ck_assert_str_eq(at(1, 0x10010, 99 * MS), "");
	ck_assert_str_eq(at(1, 0x10010, 100 * MS), "/lib/a.so");
	ck_assert_str_eq(at(1, 0x10010, 199 * MS), "/lib/a.so");
	ck_assert_str_eq(at(1, 0x10010, 200 * MS), "");
	ck_assert_str_eq(at(1, 0x10010, 300 * MS), "/lib/b.so");
	ck_assert_str_eq(at(1, 0x10010, 150 * MS), "/lib/a.so");

	uint32_t loaded = modules_epoch(modules, 1, 150 * MS);
	ck_assert_uint_eq(modules_epoch(modules, 1, 199 * MS), loaded);
	ck_assert_uint_ne(modules_epoch(modules, 1, 200 * MS), loaded);
	ck_assert_uint_ne(modules_epoch(modules, 1, 99 * MS), loaded);
	ck_assert_uint_eq(modules_epoch(modules, 1, 100 * MS), loaded);
}
END_TEST

START_TEST(a_module_ends_before_its_end_address)
{
	add_process(1, 0, RING_BIRTH_EXEC, 0);
	load(1, "/lib/a.so", 0x10000, 0);
	load(1, "/lib/b.so", 0x12000, 0);
	ck_assert_str_eq(at(1, 0xffff, 1), "");
	ck_assert_str_eq(at(1, 0x10000, 1), "/lib/a.so");
	ck_assert_str_eq(at(1, 0x10fff, 1), "/lib/a.so");
	ck_assert_str_eq(at(1, 0x11000, 1), "");
	ck_assert_str_eq(at(1, 0x12000, 1), "/lib/b.so");
	ck_assert_str_eq(at(2, 0x12000, 1), "");
}
END_TEST

START_TEST(modules_of_the_start_are_there_before_they_are_announced)
{
	add_process(1, 0, RING_BIRTH_EXEC, 10 * MS);
	load(1, "/bin/app", 0x10000, 12 * MS);
	load(1, "/lib/late.so", 0x20000, 500 * MS);
	ck_assert_str_eq(at(1, 0x10000, 10 * MS), "/bin/app");
	ck_assert_str_eq(at(1, 0x20000, 499 * MS), "");
}
END_TEST

START_TEST(a_forked_child_has_the_modules_of_the_fork_and_goes_its_own_way)
{
	add_process(1, 0, RING_BIRTH_EXEC, 0);
	load(1, "/lib/gone.so", 0x10000, 0);
	load(1, "/lib/kept.so", 0x20000, 0);
	load(1, "/lib/closed-by-child.so", 0x30000, 0);
	unload(1, "/lib/gone.so", 0x10000, 50 * MS);
	add_process(2, 1, RING_BIRTH_FORK, 100 * MS);
	load(1, "/lib/later.so", 0x40000, 150 * MS);
	unload(2, "/lib/closed-by-child.so", 0x30000, 200 * MS);
	unload(1, "/lib/kept.so", 0x20000, 200 * MS);
	add_process(3, 2, RING_BIRTH_FORK, 300 * MS);

	ck_assert_str_eq(at(2, 0x10000, 250 * MS), "");
	ck_assert_str_eq(at(2, 0x20000, 250 * MS), "/lib/kept.so");
	ck_assert_str_eq(at(2, 0x30000, 150 * MS), "/lib/closed-by-child.so");
	ck_assert_str_eq(at(2, 0x30000, 250 * MS), "");
	ck_assert_str_eq(at(2, 0x40000, 250 * MS), "");
	ck_assert_str_eq(at(1, 0x30000, 250 * MS), "/lib/closed-by-child.so");
	ck_assert_str_eq(at(3, 0x20000, 350 * MS), "/lib/kept.so");
	ck_assert_str_eq(at(3, 0x30000, 350 * MS), "");
}
END_TEST

START_TEST(an_image_by_exec_starts_empty)
{
	add_process(1, 0, RING_BIRTH_EXEC, 0);
	load(1, "/lib/a.so", 0x10000, 0);
	add_process(2, 1, RING_BIRTH_EXEC, 100 * MS);
	ck_assert_str_eq(at(2, 0x10000, 150 * MS), "");
}
END_TEST

static int map(uint32_t process, const char *path, uint64_t start, uint64_t size, int64_t time_ns)
{
	const struct module_map map = {
		.process = process,
		.start = start,
		.size = size,
		.path = path,
		.path_bytes = strlen(path),
		.time_ns = time_ns,
	};

	return modules_map(modules, &map);
}

START_TEST(an_executable_map_makes_a_module_and_ends_the_file_under_it)
{
	add_process(1, 0, RING_BIRTH_EXEC, 0);
	ck_assert_int_eq(map(1, "/nowhere/a.so", 0x10000, 0x2000, 100 * MS), 0);
	ck_assert_int_eq(map(1, "/nowhere/b.so", 0x11000, 0x2000, 200 * MS), 0);
	ck_assert_str_eq(at(1, 0x11800, 150 * MS), "/nowhere/a.so");
	ck_assert_str_eq(at(1, 0x11800, 200 * MS), "/nowhere/b.so");
	ck_assert_str_eq(at(1, 0x10000, 250 * MS), "");
	ck_assert_uint_eq(modules_find(modules, 1, 0x11800, 200 * MS)->bias, 0x11000);
	ck_assert_int_eq(map(9, "/nowhere/a.so", 0x10000, 0x2000, 0), -EBADMSG);
}
END_TEST

START_TEST(anonymous_code_ends_only_a_module_that_it_covers)
{
	add_process(1, 0, RING_BIRTH_EXEC, 0);
	load(1, "/lib/a.so", 0x10000, 0);
	ck_assert_int_eq(map(1, "//anon", 0x10800, 0x400, 100 * MS), 0);
	ck_assert_str_eq(at(1, 0x10800, 150 * MS), "/lib/a.so");
	ck_assert_int_eq(map(1, "//anon", 0x10000, 0x4000, 200 * MS), 0);
	ck_assert_str_eq(at(1, 0x10800, 250 * MS), "");
}
END_TEST

START_TEST(a_map_before_the_announcement_moves_the_loading_back)
{
	add_process(1, 0, RING_BIRTH_EXEC, 0);
	load(1, "/bin/app", 0x90000, 0);
	load(1, "/lib/a.so", 0x10000, 500 * MS);
	ck_assert_str_eq(at(1, 0x10000, 450 * MS), "");
	ck_assert_int_eq(map(1, "/lib/a.so", 0x10000, 0x800, 400 * MS), 0);
	ck_assert_str_eq(at(1, 0x10000, 399 * MS), "");
	ck_assert_str_eq(at(1, 0x10000, 450 * MS), "/lib/a.so");
	ck_assert_ptr_eq(modules_find(modules, 1, 0x10000, 450 * MS),
			 modules_find(modules, 1, 0x10000, 550 * MS));
}
END_TEST

/* This test's own program: what the kernel told of it, and what the loader did. */
struct own {
	char path[4096];
	uint64_t bias;
	uint64_t text_start;
	uint64_t text_size;
	uint64_t text_offset;
};

static int take_own(struct dl_phdr_info *info, size_t n_bytes, void *user)
{
	struct own *own = user;

	(void)n_bytes;
	own->bias = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
			continue;
		own->text_start = (info->dlpi_addr + header->p_vaddr) & ~UINT64_C(4095);
		own->text_offset = header->p_offset & ~UINT64_C(4095);
		own->text_size = (header->p_memsz + 4095) & ~UINT64_C(4095);
	}
	return 1;
}

static struct own own_program(void)
{
	struct own own = { 0 };
	ssize_t n = readlink("/proc/self/exe", own.path, sizeof(own.path) - 1);

	ck_assert_int_gt(n, 0);
	dl_iterate_phdr(take_own, &own);
	return own;
}

START_TEST(a_map_of_a_real_file_gives_its_bias_and_bounds)
{
	struct own own = own_program();
	const struct module_map text = {
		.process = 1,
		.start = own.text_start,
		.size = own.text_size,
		.file_offset = own.text_offset,
		.path = own.path,
		.path_bytes = strlen(own.path),
	};
	static int variable = 1;

	add_process(1, 0, RING_BIRTH_EXEC, 0);
	ck_assert_int_eq(modules_map(modules, &text), 0);

	const struct module *module = modules_find(modules, 1, (uint64_t)(uintptr_t)own_program, 1);
	ck_assert_ptr_nonnull(module);
	ck_assert_uint_eq(module->bias, own.bias);
	/* Data lies outside the map, but inside the file's segments. */
	ck_assert_ptr_eq(modules_find(modules, 1, (uint64_t)(uintptr_t)&variable, 1), module);
}
END_TEST

#if defined(__x86_64__)
struct static_tls {
	uint64_t lowest;
};

static int announce(struct dl_phdr_info *info, size_t n_bytes, void *user)
{
	struct static_tls *tls = user;
	struct own own = own_program();
	const char *path = *info->dlpi_name ? info->dlpi_name : own.path;
	uint64_t end = 0;

	(void)n_bytes;
	if (strstr(path, "vdso"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD && header->p_vaddr + header->p_memsz > end)
			end = header->p_vaddr + header->p_memsz;
		if (header->p_type == PT_TLS && info->dlpi_tls_data &&
		    (uint64_t)(uintptr_t)info->dlpi_tls_data < tls->lowest)
			tls->lowest = (uint64_t)(uintptr_t)info->dlpi_tls_data;
	}
	struct trace_module *record =
		make_module(1, path, "", info->dlpi_addr, info->dlpi_addr + end);
	ck_assert_int_eq(modules_load(modules, record, 0), 0);
	free(record);
	return 0;
}

static _Thread_local char own_tls[100];

START_TEST(static_tls_is_as_large_as_glibc_made_it)
{
	uint64_t fs_base = (uint64_t)(uintptr_t)__builtin_thread_pointer();
	struct static_tls tls = { .lowest = UINT64_MAX };

	add_process(1, 0, RING_BIRTH_EXEC, 0);
	dl_iterate_phdr(announce, &tls);
	own_tls[0] = 1;

	uint64_t n_bytes = modules_static_tls_bytes(modules, 1);
	uint64_t used = fs_base - tls.lowest;
	ck_assert_uint_le((uint64_t)(uintptr_t)own_tls, fs_base);
	ck_assert_uint_ge(n_bytes, used);
	/* At most glibc's surplus and an alignment more than what its modules use. */
	ck_assert_uint_le(n_bytes, used + 1664 + 128);
	ck_assert_uint_eq(modules_static_tls_bytes(modules, 2), 0);
}
END_TEST
#endif

START_TEST(only_own_modules_get_rows)
{
	sqlite3 *db = memory_db_open();

	add_process(1, 0, RING_BIRTH_EXEC, 0);
	load(1, "/lib/a.so", 0x10000, 0);
	add_process(2, 1, RING_BIRTH_FORK, 100 * MS);
	ck_assert_str_eq(at(2, 0x10000, 150 * MS), "/lib/a.so");
	load(2, "/lib/b.so", 0x20000, 200 * MS);
	unload(2, "/lib/b.so", 0x20000, 300 * MS);
	ck_assert_int_eq(modules_write(modules, db, 7), 0);
	ck_assert_int_eq(memory_db_integer(db, "SELECT count(*) FROM module WHERE run_id = 7"), 2);
	ck_assert_int_eq(
		memory_db_integer(db, "SELECT unload_ns FROM module WHERE path = '/lib/b.so'"),
		300 * MS);
	ck_assert_int_eq(memory_db_integer(db, "SELECT count(*) FROM module WHERE process_id = 1"
					       " AND path = '/lib/a.so' AND unload_ns IS NULL"),
			 1);
	sqlite3_close(db);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("modules");
	TCase *tcase = tcase_create("intervals");

	suite_add_tcase(suite, tcase);
	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_test(tcase, the_module_of_the_time_is_found_not_the_last_one_at_the_address);
	tcase_add_test(tcase, a_module_ends_before_its_end_address);
	tcase_add_test(tcase, modules_of_the_start_are_there_before_they_are_announced);
	tcase_add_test(tcase, a_forked_child_has_the_modules_of_the_fork_and_goes_its_own_way);
	tcase_add_test(tcase, an_image_by_exec_starts_empty);
	tcase_add_test(tcase, an_executable_map_makes_a_module_and_ends_the_file_under_it);
	tcase_add_test(tcase, anonymous_code_ends_only_a_module_that_it_covers);
	tcase_add_test(tcase, a_map_before_the_announcement_moves_the_loading_back);
	tcase_add_test(tcase, a_map_of_a_real_file_gives_its_bias_and_bounds);
#if defined(__x86_64__)
	tcase_add_test(tcase, static_tls_is_as_large_as_glibc_made_it);
#endif
	tcase_add_test(tcase, only_own_modules_get_rows);
	return suite_run(suite);
}
