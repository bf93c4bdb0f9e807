/* Against this very executable: its addresses are known, and its file is /proc/self/exe. */
#include <check.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyze/symbols/ahead.h"
#include "analyze/symbols/objects.h"
#include "analyze/symbols/symbols.h"
#include "common/unwind-table.h"
#include "symbols-target.h"
#include "tests/support/suite.h"

uint64_t target_cpp(void);
uint64_t target_cpp_total(void);

static struct objects *objects;
static struct object *self;
static uint64_t bias;
static char self_path[4096];

static int take_first_bias(struct dl_phdr_info *info, size_t n_bytes, void *user)
{
	(void)n_bytes;
	*(uint64_t *)user = info->dlpi_addr;
	return 1;
}

static void open_self(void)
{
	ssize_t n = readlink("/proc/self/exe", self_path, sizeof(self_path) - 1);

	ck_assert_int_gt(n, 0);
	self_path[n] = '\0';
	dl_iterate_phdr(take_first_bias, &bias);
	ck_assert_int_eq(objects_create(NULL, &objects), 0);
	self = objects_get(objects, NULL, 0, self_path, strlen(self_path));
	ck_assert_ptr_nonnull(self);
}

static void close_self(void)
{
	objects = objects_destroy(objects);
}

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

START_TEST(a_return_address_less_one_has_the_line_of_its_call)
{
	struct place place = target_plain();
	struct symbol_line lines[SYMBOLS_MAX_DEPTH];

	ck_assert_uint_eq(symbols_lines(self, place.pc - 1 - bias, lines, SYMBOLS_MAX_DEPTH), 1);
	ck_assert_str_eq(lines[0].function, "target_plain");
	ck_assert_str_eq(base_name(lines[0].file), "symbols-target.c");
	ck_assert_int_eq(lines[0].line, place.line);
	ck_assert_int_eq(symbols_debug(self), OBJECT_LINES);
}
END_TEST

START_TEST(an_inlined_function_comes_first_and_its_caller_has_the_line_of_the_call)
{
	int call_line;
	struct place place = target_inlined(&call_line);
	struct symbol_line lines[SYMBOLS_MAX_DEPTH];

	ck_assert_uint_eq(symbols_lines(self, place.pc - 1 - bias, lines, SYMBOLS_MAX_DEPTH), 2);
	ck_assert_str_eq(lines[0].function, "inlined_body");
	ck_assert_int_eq(lines[0].line, place.line);
	ck_assert_str_eq(lines[1].function, "target_inlined");
	ck_assert_str_eq(base_name(lines[1].file), "symbols-target.c");
	ck_assert_int_eq(lines[1].line, call_line);
	ck_assert_str_eq(symbols_function(self, place.pc - 1 - bias), "target_inlined");
}
END_TEST

START_TEST(fewer_places_than_there_are_keeps_the_innermost)
{
	int call_line;
	struct place place = target_inlined(&call_line);
	struct symbol_line line = { 0 };

	ck_assert_uint_eq(symbols_lines(self, place.pc - 1 - bias, &line, 1), 1);
	ck_assert_str_eq(line.function, "inlined_body");
	ck_assert_uint_eq(symbols_lines(self, place.pc - 1 - bias, NULL, 0), 0);
}
END_TEST

START_TEST(a_call_that_ends_its_function_belongs_to_it)
{
	uint64_t pc = target_noreturn() - bias;
	struct symbol_line lines[SYMBOLS_MAX_DEPTH];

	ck_assert_uint_ge(symbols_lines(self, pc - 1, lines, SYMBOLS_MAX_DEPTH), 1);
	ck_assert_str_eq(lines[0].function, "calls_at_its_end");
	ck_assert_str_eq(symbols_function(self, pc - 1), "calls_at_its_end");

#if !defined(__powerpc64__) /* where a traceback table ends each function */
	const char *behind = symbols_function(self, pc);
	ck_assert(!behind || strcmp(behind, "calls_at_its_end") != 0);
#endif
}
END_TEST

START_TEST(a_cpp_name_is_demangled)
{
	uint64_t pc = target_cpp();
	struct symbol_line lines[SYMBOLS_MAX_DEPTH];

	if (!pc)
		return; /* built without a C++ compiler */
	ck_assert_uint_ge(symbols_lines(self, pc - 1 - bias, lines, SYMBOLS_MAX_DEPTH), 1);
	ck_assert_str_eq(lines[0].function, "bench::Store<double>::caller(int)");
	ck_assert_str_eq(symbols_function(self, pc - 1 - bias),
			 "bench::Store<double>::caller(int)");

	struct symbol_variable variable;
	ck_assert(symbols_variable(self, target_cpp_total() - bias, &variable));
	ck_assert_str_eq(variable.name, "bench::Store<double>::total");
	ck_assert_uint_eq(variable.size, sizeof(double));
}
END_TEST

START_TEST(a_name_of_rust_has_neither_escapes_nor_hash)
{
	static const struct {
		const char *mangled, *name;
	} cases[] = {
		{ "_ZN1r11build_index17hfd750b196f4c187dE", "r::build_index" },
		{ "_ZN5alloc3vec16Vec$LT$T$C$A$GT$4push17hb57163f144b0b848E",
		  "alloc::vec::Vec<T,A>::push" },
		{ "_ZN71_$LT$core..hash..sip..Hasher$LT$S$GT$$u20$as$u20$core..hash..Hasher$GT$5"
		  "write17h168234f45e102d50E",
		  "<core::hash::sip::Hasher<S> as core::hash::Hasher>::write" },
		{ "_ZN1r4main28_$u7b$$u7b$closure$u7d$$u7d$17h5d0b462b0a1849e9E",
		  "r::main::{{closure}}" },
		{ "_ZN1a5h_not4h123E", "a::h_not::h123" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *name = symbols_demangle(cases[i].mangled);
		ck_assert_msg(name && strcmp(name, cases[i].name) == 0, "%s: %s", cases[i].mangled,
			      name);
		free(name);
	}
}
END_TEST

START_TEST(what_is_no_mangled_name_stays)
{
	ck_assert_ptr_null(symbols_demangle("main"));
	ck_assert_ptr_null(symbols_demangle("_start"));
	ck_assert_ptr_null(symbols_demangle("_Zwrong"));
	ck_assert_ptr_null(symbols_demangle(""));
}
END_TEST

START_TEST(variables_are_bounded_by_their_size)
{
	uint64_t table = (uint64_t)(uintptr_t)target_table - bias;
	struct symbol_variable variable;

	ck_assert(symbols_variable(self, table + sizeof(target_table) - 1, &variable));
	ck_assert_str_eq(variable.name, "target_table");
	ck_assert_uint_eq(variable.address, table);
	ck_assert_uint_eq(variable.size, sizeof(target_table));

	/* Right behind it lies something else, or nothing but its section. */
	ck_assert(symbols_variable(self, table + sizeof(target_table), &variable));
	ck_assert_str_ne(variable.name, "target_table");
}
END_TEST

START_TEST(static_and_initialised_variables_have_names)
{
	struct symbol_variable variable;

	ck_assert(symbols_variable(self, target_static_address() + 39 - bias, &variable));
	ck_assert_str_eq(variable.name, "static_buffer");
	ck_assert_uint_eq(variable.size, 40);
	ck_assert(symbols_variable(self, (uint64_t)(uintptr_t)&target_counter - bias, &variable));
	ck_assert_str_eq(variable.name, "target_counter");
}
END_TEST

START_TEST(instructions_and_addresses_outside_are_no_variables)
{
	struct symbol_variable variable;

	ck_assert(!symbols_variable(self, (uint64_t)(uintptr_t)open_self - bias, &variable));
	ck_assert(!symbols_variable(self, UINT64_C(1) << 60, &variable));
	ck_assert_ptr_null(symbols_function(self, UINT64_C(1) << 60));
}
END_TEST

START_TEST(an_address_without_a_variable_has_its_section)
{
	struct symbol_variable variable;
	static const char text[] = "a string constant has no symbol of its own";

	/* The literal lies in .rodata and is nobody's variable. */
	const char *literal = target_literal();
	ck_assert(symbols_variable(self, (uint64_t)(uintptr_t)literal - bias, &variable));
	ck_assert_str_eq(variable.name, "[.rodata]");
	ck_assert_uint_ge(variable.size, sizeof("nobody's"));
	ck_assert(text[0] == 'a');
}
END_TEST

START_TEST(a_file_with_another_build_id_is_not_believed)
{
	static const uint8_t wrong[20] = { 1, 2, 3 };
	struct object *other =
		objects_get(objects, wrong, sizeof(wrong), self_path, strlen(self_path));

	ck_assert_ptr_ne(other, self);
	ck_assert_str_eq(other->name, "0102030000000000000000000000000000000000");
	ck_assert(!object_open(other));
	ck_assert_ptr_null(symbols_function(other, target_plain().pc - bias));
	ck_assert_int_eq(symbols_debug(other), OBJECT_NONE);
}
END_TEST

START_TEST(one_build_id_is_one_object_under_any_path)
{
	static const uint8_t id[4] = { 0xde, 0xad, 0xbe, 0xef };
	struct object *first = objects_get(objects, id, 4, "/a", 2);

	ck_assert_str_eq(first->name, "deadbeef");
	ck_assert_ptr_eq(objects_get(objects, id, 4, "/b", 2), first);
	ck_assert_ptr_eq(objects_get_named(objects, "deadbeef", "/c"), first);
	ck_assert_str_eq(first->build_id, "deadbeef");
	ck_assert_ptr_ne(objects_get(objects, NULL, 0, "/b", 2), first);
	ck_assert_ptr_null(objects_get(objects, NULL, 0, "/b", 2)->build_id);
}
END_TEST

START_TEST(a_relative_path_is_looked_for_in_the_folder_of_the_run)
{
	char folder[4096];
	unsigned char id[64];
	const unsigned char *bits = NULL;
	GElf_Addr address;

	ck_assert(object_open(self));
	int n = dwfl_module_build_id(self->module, &bits, &address);
	ck_assert_int_gt(n, 0);
	memcpy(id, bits, (size_t)n);
	snprintf(folder, sizeof(folder), "%s", self_path);
	*strrchr(folder, '/') = '\0';
	const char *name = strrchr(self_path, '/') + 1;

	/* Without a build-id it could be any file of that name. */
	struct object *any = objects_get(objects, NULL, 0, name, strlen(name));
	struct object *same = objects_get(objects, id, (size_t)n, name, strlen(name));
	ck_assert(!object_open(same));
	object_forget(same);
	ck_assert_int_eq(objects_set_directory(objects, folder), 0);
	ck_assert(object_open(same));
	ck_assert(!object_open(any));

	/* And an absolute path that comes later is taken over. */
	ck_assert_ptr_eq(objects_get(objects, id, (size_t)n, self_path, strlen(self_path)), same);
	ck_assert_str_eq(same->path, self_path);
}
END_TEST

START_TEST(a_pipe_or_a_text_is_no_elf_file_and_hangs_nobody)
{
	char folder[] = "/tmp/test-symbols-XXXXXX";
	char path[64];

	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/pipe", folder);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert(!object_open(objects_get(objects, NULL, 0, path, strlen(path))));
	unlink(path);

	snprintf(path, sizeof(path), "%s/text", folder);
	FILE *file = fopen(path, "w");
	fputs("\177ELF is how it starts, and no more", file);
	fclose(file);
	ck_assert(!object_open(objects_get(objects, NULL, 0, path, strlen(path))));
	unlink(path);
	rmdir(folder);
}
END_TEST

START_TEST(the_bytes_of_a_function_are_read_out_of_its_file)
{
	uint8_t bytes[16];
	uint64_t address = (uint64_t)(uintptr_t)target_plain;

	ck_assert_uint_eq(object_read(self, address - bias, bytes, sizeof(bytes)), sizeof(bytes));
	ck_assert_mem_eq(bytes, (const void *)(uintptr_t)address, sizeof(bytes));
	ck_assert(object_is_constant(self, address - bias));
	ck_assert(!object_is_constant(self, (uint64_t)(uintptr_t)&target_counter - bias));
	ck_assert_uint_eq(object_read(self, UINT64_C(1) << 60, bytes, 1), 0);
}
END_TEST

START_TEST(the_table_for_unwinding_has_the_begins_of_functions)
{
	uint64_t begin = (uint64_t)(uintptr_t)target_plain - bias;

	ck_assert_uint_eq(object_function_begin(self, begin), begin);
	ck_assert_uint_eq(object_function_begin(self, begin + 1), begin);
	ck_assert_uint_lt(object_function_begin(self, begin - 1), begin);
	ck_assert_uint_eq(object_function_begin(self, 0), 0);
}
END_TEST

struct table {
	uint8_t head[4];
	int32_t frame;
	uint32_t n;
	int32_t entries[2][2];
};

static size_t read_table(void *table, uint64_t address, void *bytes, size_t n_bytes)
{
	if (address >= sizeof(struct table))
		return 0;
	n_bytes =
		n_bytes < sizeof(struct table) - address ? n_bytes : sizeof(struct table) - address;
	memcpy(bytes, (const uint8_t *)table + address, n_bytes);
	return n_bytes;
}

START_TEST(a_damaged_table_for_unwinding_tells_nothing)
{
	const struct table whole = { { 1, 0x1b, 3, 0x3b }, 0, 2, { { 100, 0 }, { 200, 0 } } };
	struct table damaged = whole;

	ck_assert_uint_eq(unwind_table_begin(0, 99, read_table, &damaged), 0);
	ck_assert_uint_eq(unwind_table_begin(0, 199, read_table, &damaged), 100);
	ck_assert_uint_eq(unwind_table_begin(0, 200, read_table, &damaged), 200);
	for (unsigned i = 0; i < 4; i++) {
		damaged = whole;
		damaged.head[i] ^= 0xff;
		ck_assert_uint_eq(unwind_table_begin(0, 200, read_table, &damaged), 0);
	}
	damaged = whole;
	damaged.n = UINT32_MAX; /* its middle lies outside */
	ck_assert_uint_eq(unwind_table_begin(0, 200, read_table, &damaged), 0);
	ck_assert_uint_eq(unwind_table_begin(sizeof(damaged), 200, read_table, &damaged), 0);
}
END_TEST

START_TEST(a_forgotten_object_answers_again)
{
	uint64_t pc = target_plain().pc - 1 - bias;

	ck_assert_str_eq(symbols_function(self, pc), "target_plain");
	object_forget(self);
	ck_assert_str_eq(symbols_function(self, pc), "target_plain");
}
END_TEST

/* A stripped copy of ourselves in a folder that links to its debug file. */
static bool make_stripped(const char *folder)
{
	char command[9000];

	snprintf(command, sizeof(command),
		 "cd %s && objcopy --only-keep-debug %s app.debug && "
		 "objcopy --strip-all --add-gnu-debuglink=app.debug %s app",
		 folder, self_path, self_path);
	return system(command) == 0;
}

START_TEST(what_is_read_ahead_has_the_names_that_it_has_when_it_is_asked)
{
	struct object *missing = objects_get_named(objects, "/nowhere", "/nowhere");
	struct place place = target_plain();
	struct symbol_line lines[SYMBOLS_MAX_DEPTH];

	for (int round = 0; round < 2; round++) {
		struct symbols_ahead *ahead = symbols_ahead_open(objects);
		ck_assert_ptr_nonnull(ahead);
		symbols_ahead_expect(ahead, missing, 1);
		symbols_ahead_expect(ahead, self, place.pc - 1 - bias);
		if (round > 0) /* else it is stopped at once, wherever it is */
			usleep(20000);
		struct object *twin = symbols_ahead_take(ahead, self);
		ck_assert_ptr_eq(symbols_ahead_take(ahead, self), twin);
		ck_assert_ptr_eq(symbols_ahead_take(ahead, missing), missing);
		ck_assert_uint_eq(
			symbols_lines(twin, place.pc - 1 - bias, lines, SYMBOLS_MAX_DEPTH), 1);
		ck_assert_str_eq(lines[0].function, "target_plain");
		ck_assert_int_eq(lines[0].line, place.line);
		ck_assert_int_eq(symbols_debug(twin), OBJECT_LINES);
		symbols_ahead_expect(ahead, self, 1); /* too late */
		object_forget(twin);
		ck_assert_ptr_eq(symbols_ahead_take(ahead, self), self);
		symbols_ahead_close(ahead);
	}
	ck_assert_ptr_eq(symbols_ahead_take(NULL, self), self);
	symbols_ahead_expect(NULL, self, 1);
}
END_TEST

START_TEST(nothing_is_read_ahead_where_servers_may_be_asked)
{
	setenv("DEBUGINFOD_URLS", "http://[::1]:1/", 1);
	ck_assert_ptr_null(symbols_ahead_open(objects));
	unsetenv("DEBUGINFOD_URLS");
}
END_TEST

START_TEST(a_stripped_file_finds_its_debug_file_by_debuglink)
{
	char folder[] = "/tmp/test-symbols-XXXXXX";
	char path[128];
	struct place place = target_plain();
	struct symbol_line lines[SYMBOLS_MAX_DEPTH];

	ck_assert_ptr_nonnull(mkdtemp(folder));
	bool is_made = make_stripped(folder);
	if (is_made) {
		snprintf(path, sizeof(path), "%s/app", folder);
		struct object *app = objects_get(objects, NULL, 0, path, strlen(path));

		ck_assert_uint_eq(symbols_lines(app, place.pc - 1 - bias, lines, 1), 1);
		ck_assert_str_eq(lines[0].function, "target_plain");
		ck_assert_int_eq(lines[0].line, place.line);
		ck_assert_int_eq(symbols_debug(app), OBJECT_LINES);

		snprintf(path, sizeof(path), "%s/app.debug", folder);
		unlink(path);
		object_forget(app);
		app->debug = OBJECT_UNSEEN;
		ck_assert_uint_eq(symbols_lines(app, place.pc - 1 - bias, lines, 1), 0);
		ck_assert_int_ne(symbols_debug(app), OBJECT_LINES);
		snprintf(path, sizeof(path), "%s/app", folder);
		unlink(path);
	}
	rmdir(folder);
	ck_assert_msg(is_made, "objcopy (binutils) is missing");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("symbols");
	TCase *tcase = tcase_create("self");

	suite_add_tcase(suite, tcase);
	tcase_add_checked_fixture(tcase, open_self, close_self);
	tcase_add_test(tcase, a_return_address_less_one_has_the_line_of_its_call);
	tcase_add_test(tcase,
		       an_inlined_function_comes_first_and_its_caller_has_the_line_of_the_call);
	tcase_add_test(tcase, fewer_places_than_there_are_keeps_the_innermost);
	tcase_add_test(tcase, a_call_that_ends_its_function_belongs_to_it);
	tcase_add_test(tcase, a_cpp_name_is_demangled);
	tcase_add_test(tcase, a_name_of_rust_has_neither_escapes_nor_hash);
	tcase_add_test(tcase, what_is_no_mangled_name_stays);
	tcase_add_test(tcase, variables_are_bounded_by_their_size);
	tcase_add_test(tcase, static_and_initialised_variables_have_names);
	tcase_add_test(tcase, instructions_and_addresses_outside_are_no_variables);
	tcase_add_test(tcase, an_address_without_a_variable_has_its_section);
	tcase_add_test(tcase, a_file_with_another_build_id_is_not_believed);
	tcase_add_test(tcase, one_build_id_is_one_object_under_any_path);
	tcase_add_test(tcase, a_relative_path_is_looked_for_in_the_folder_of_the_run);
	tcase_add_test(tcase, a_pipe_or_a_text_is_no_elf_file_and_hangs_nobody);
	tcase_add_test(tcase, the_bytes_of_a_function_are_read_out_of_its_file);
	tcase_add_test(tcase, the_table_for_unwinding_has_the_begins_of_functions);
	tcase_add_test(tcase, a_damaged_table_for_unwinding_tells_nothing);
	tcase_add_test(tcase, a_forgotten_object_answers_again);
	tcase_add_test(tcase, what_is_read_ahead_has_the_names_that_it_has_when_it_is_asked);
	tcase_add_test(tcase, nothing_is_read_ahead_where_servers_may_be_asked);
	tcase_add_test(tcase, a_stripped_file_finds_its_debug_file_by_debuglink);
	return suite_run(suite);
}
