/* What --watch names: the forms of targets, and symbols of files. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runner/watch/stack-nodes.h"
#include "runner/watch/symbol.h"
#include "runner/watch/target.h"
#include "tests/support/own-size.h"
#include "tests/support/suite.h"

#define GOOD(...)                                                                                  \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

static const struct {
	const char *text;
	const char *library;
	const char *name;
	uint64_t address;
	uint64_t plus;
	uint64_t n_bytes;
	bool is_write_only;
} good[] = {
	GOOD("counter", "", "counter", 0, 0, 0, false),
	GOOD("counter:w", "", "counter", 0, 0, 0, true),
	GOOD("counter,4", "", "counter", 0, 0, 4, false),
	GOOD("table+8,8:w", "", "table", 0, 8, 8, true),
	GOOD("libfoo.so:counter", "libfoo.so", "counter", 0, 0, 0, false),
	GOOD("libfoo.so.6:counter+16", "libfoo.so.6", "counter", 0, 16, 0, false),
	GOOD("ns::counter", "", "ns::counter", 0, 0, 0, false),
	GOOD("queue head", "", "queue head", 0, 0, 0, false),
	GOOD("0x7fff12345678", "", "", 0x7fff12345678, 0, 0, false),
	GOOD("0x601040,16:w", "", "", 0x601040, 0, 16, true),
	GOOD("a:w", "", "a", 0, 0, 0, true),
	GOOD("operator+", "", "operator+", 0, 0, 0, false),
};

START_TEST(a_target_says_what_and_how_much)
{
	struct watch_target target;
	char message[256] = "";

	ck_assert_msg(watch_target_parse(good[_i].text, &target, message, sizeof(message)) == 0,
		      "%s", message);
	ck_assert_str_eq(target.library, good[_i].library);
	ck_assert_str_eq(target.name, good[_i].name);
	ck_assert_uint_eq(target.address, good[_i].address);
	ck_assert_uint_eq(target.plus, good[_i].plus);
	ck_assert_uint_eq(target.n_bytes, good[_i].n_bytes);
	ck_assert_int_eq(target.is_write_only, good[_i].is_write_only);
	ck_assert_int_eq(target.has_address, good[_i].address != 0);
}
END_TEST

static const char *const bad[] = { "",
				   "x,0",
				   "x,33",
				   "x,-1",
				   "x,4294967297",
				   "x,many",
				   "0x",
				   "0xfffffffffffff000",
				   "0x0",
				   "0x12zz",
				   "x,99999999999999999999" };

START_TEST(a_target_that_cannot_be_is_refused_in_one_line)
{
	struct watch_target target;
	char message[256] = "";

	ck_assert_int_eq(watch_target_parse(bad[_i], &target, message, sizeof(message)), -EINVAL);
	ck_assert_uint_gt(strlen(message), 0);
	ck_assert_ptr_null(strchr(message, '\n'));
}
END_TEST

START_TEST(a_library_is_meant_by_its_name_or_the_begin_of_it)
{
	struct watch_target target;
	char message[256];

	watch_target_parse("libfoo.so:x", &target, message, sizeof(message));
	ck_assert(watch_target_takes(&target, "/usr/lib/libfoo.so"));
	ck_assert(watch_target_takes(&target, "/usr/lib/libfoo.so.6.1"));
	ck_assert(!watch_target_takes(&target, "/usr/lib/libfoo.so2"));
	ck_assert(!watch_target_takes(&target, "/usr/libfoo.so/libbar.so"));
	watch_target_parse("x", &target, message, sizeof(message));
	ck_assert(watch_target_takes(&target, "/usr/bin/anything"));
}
END_TEST

OWN_SIZE int watched_variable[3] = { 1, 2, 3 };
_Thread_local int watched_local = 4;
void watched_function(void);

void watched_function(void)
{
	watched_local += watched_variable[0];
}

START_TEST(symbols_of_a_file_are_found_by_name_and_kind)
{
	auto_watch_file struct watch_file *file = NULL;
	struct watch_symbol symbol;

	watched_function();
	ck_assert_int_eq(watch_file_open("/proc/self/exe", &file), 0);
	ck_assert(watch_file_find(file, "watched_variable", &symbol));
	ck_assert_int_eq(symbol.kind, WATCH_SYMBOL_VARIABLE);
	ck_assert_uint_eq(symbol.n_bytes, sizeof(watched_variable));
	ck_assert_uint_eq(symbol.n_same, 1);
	ck_assert(watch_file_find(file, "watched_function", &symbol));
	ck_assert_int_eq(symbol.kind, WATCH_SYMBOL_FUNCTION);
	ck_assert(watch_file_find(file, "watched_local", &symbol));
	ck_assert_int_eq(symbol.kind, WATCH_SYMBOL_THREAD_LOCAL);
	ck_assert(!watch_file_find(file, "watched_nothing", &symbol));
}
END_TEST

START_TEST(what_is_no_program_is_refused)
{
	struct watch_file *file;

	ck_assert_int_eq(watch_file_open("/proc/self/maps", &file), -ENOEXEC);
	ck_assert_int_eq(watch_file_open("/nowhere/to/be/found", &file), -ENOENT);
	ck_assert_ptr_null(watch_file_close(NULL));
}
END_TEST

START_TEST(nodes_keep_their_targets_apart)
{
	struct key_map nodes = { 0 };

	ck_assert_uint_eq(watch_nodes_find(&nodes, 1, 1), 0);
	for (uint32_t i = 1; i < 5000; i++)
		watch_nodes_add(&nodes, i % 7, i, i % 4);
	watch_nodes_add(&nodes, 3, 3, 0);
	for (uint32_t i = 1; i < 5000; i++)
		ck_assert_uint_eq(watch_nodes_find(&nodes, i % 7, i), i == 3 ? 9u : 1u << i % 4);
	ck_assert_uint_eq(watch_nodes_find(&nodes, 6, 7), 0);
	key_map_finish(&nodes);
	key_map_finish(&nodes);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("watch-target");
	TCase *tcase = tcase_create("watch-target");

	tcase_add_loop_test(tcase, a_target_says_what_and_how_much, 0,
			    sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(tcase, a_target_that_cannot_be_is_refused_in_one_line, 0,
			    sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(tcase, a_library_is_meant_by_its_name_or_the_begin_of_it);
	tcase_add_test(tcase, symbols_of_a_file_are_found_by_name_and_kind);
	tcase_add_test(tcase, what_is_no_program_is_refused);
	tcase_add_test(tcase, nodes_keep_their_targets_apart);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
