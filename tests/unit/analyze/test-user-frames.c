#include "analyze/process/user-frames.h"

#include <check.h>
#include <string.h>

#include "report/text/site-name.h"
#include "store/library-frames.h"
#include "tests/support/suite.h"

START_TEST(a_plain_name_has_neither_arguments_nor_parameters)
{
	static const struct {
		const char *name, *plain;
	} cases[] = {
		{ "main", "main" },
		{ "void Pool<std::pair<int, long> >::make(int) const", "Pool<>::make" },
		{ "std::vector<int, std::allocator<int> >::push_back(int&&)",
		  "std::vector<>::push_back" },
		{ "std::map<int, int>::operator[](int&&)", "std::map<>::operator[]" },
		{ "operator new[](unsigned long)", "operator new[]" },
		{ "operator new(unsigned long, std::align_val_t)", "operator new" },
		{ "std::operator+<char>(char const*, int)", "std::operator+<>" },
		{ "std::ostream& std::operator<< <int>(std::ostream&)", "std::operator<<<>" },
		{ "main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator()" },
		{ "f(int)::Local::g()", "f::Local::g" },
		{ "(anonymous namespace)::make_node()", "(anonymous namespace)::make_node" },
		{ "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend",
		  "<alloc::vec::Vec<> as core::iter::Extend<>>::extend" },
		{ "make[abi:cxx11](int)", "make" },
		{ "work(int) [clone .isra.0]", "work" },
		{ "(in libc.so.6)", "(in libc.so.6)" },
		{ "broken<int", "broken<>" },
		{ "", "" },
	};
	char plain[FRAME_NAME_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		frame_plain_name(cases[i].name, "<>", plain);
		ck_assert_str_eq(plain, cases[i].plain);
	}
}
END_TEST

START_TEST(only_a_librarys_allocator_says_nothing)
{
	static const char *const silent[] = {
		"operator new[]",	"allocator::allocate",	     "allocator_traits::allocate",
		"__alloc_traits::_S_x", "__new_allocator::allocate", "allocate_shared"
	};
	static const char *const telling[] = { "allocate_rows", "allocators_of",     "make_shared",
					       "xmalloc",	"vector::push_back", "" };

	for (size_t i = 0; i < sizeof(silent) / sizeof(*silent); i++)
		ck_assert_msg(frame_is_silent(silent[i]), "%s", silent[i]);
	for (size_t i = 0; i < sizeof(telling) / sizeof(*telling); i++)
		ck_assert_msg(!frame_is_silent(telling[i]), "%s", telling[i]);
}
END_TEST

START_TEST(a_librarys_name_is_the_one_that_programs_call)
{
	static const struct {
		const char *name, *shown;
	} cases[] = {
		{ "__pthread_create_2_1", "pthread_create" },
		{ "std::__cxx11::basic_string<char>::_M_create(unsigned long&)",
		  "string::_M_create" },
		{ "_IO_puts", "puts" },
		{ "step_2", "step_2" },
		{ "_2_1", "_2_1" },
		{ "21", "21" },
	};
	char shown[FRAME_NAME_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		site_plain_name(cases[i].name, true, shown);
		ck_assert_str_eq(shown, cases[i].shown);
	}
}
END_TEST

START_TEST(a_longer_name_is_cut)
{
	char name[2 * FRAME_NAME_BYTES], plain[FRAME_NAME_BYTES];

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	frame_plain_name(name, "<>", plain);
	ck_assert_uint_eq(strlen(plain), FRAME_NAME_BYTES - 1);
}
END_TEST

START_TEST(the_table_says_whose_a_call_is)
{
	static const struct {
		const char *function, *source, *file;
		enum frame_owner owner;
	} cases[] = {
		{ "main", "/src/app.c", "/bin/app", FRAME_PROGRAM },
		{ NULL, NULL, "/bin/app", FRAME_PROGRAM },
		{ "qsort", NULL, "/lib/libc.so.6", FRAME_LIBRARY },
		{ NULL, NULL, "/lib/x86_64-linux-gnu/libc.so.6", FRAME_LIBRARY },
		{ "std::vector<int>::push_back(int)", "/usr/include/c++/12/bits/stl_vector.h",
		  "/bin/app", FRAME_LIBRARY },
		{ "void std::_Construct<int>(int*)", NULL, "/bin/app", FRAME_LIBRARY },
		{ "operator new(unsigned long)", NULL, "/bin/app", FRAME_LIBRARY },
		{ "alloc::raw_vec::RawVec<T,A>::grow_one", NULL, "/bin/app", FRAME_LIBRARY },
		{ "main::fill", "/rustc/90b3/library/core/src/iter.rs", "/bin/app", FRAME_LIBRARY },
		{ "std_of_mine", "/src/app.c", "/bin/app", FRAME_PROGRAM },
		{ "core::start(int)", "/src/core.cc", "/bin/app", FRAME_PROGRAM },
		{ "xmalloc", "/src/x.c", "/bin/app", FRAME_ALLOCATES },
		{ "PyMem_RawMalloc", "Objects/obmalloc.c", "/lib/libpython3.11.so.1.0",
		  FRAME_LIBRARY },
		{ "PyMem_RawMalloc", "mine.c", "/bin/app", FRAME_ALLOCATES },
		{ "_start", NULL, "/bin/app", FRAME_LIBRARY },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_msg(frame_owner(cases[i].function, cases[i].source, cases[i].file) ==
				      cases[i].owner,
			      "%s in %s", cases[i].function, cases[i].file);
}
END_TEST

START_TEST(the_innermost_function_of_the_program_names_a_frame)
{
	const struct symbol_line lines[] = { { "std::vector<int>::push_back(int)", NULL, 7 },
					     { "xmalloc", "/src/x.c", 8 },
					     { "fill", "/src/a.c", 9 },
					     { "main", "/src/a.c", 10 } };

	ck_assert_uint_eq(user_frame_of(lines, 4, NULL, "/bin/app").n_depth, 3);
	ck_assert_uint_eq(user_frame_of(lines, 2, NULL, "/bin/app").n_depth, 2);
	ck_assert_uint_eq(user_frame_of(lines, 2, NULL, "/bin/app").may_hand_on, 1);
	ck_assert_uint_eq(user_frame_of(lines, 1, NULL, "/bin/app").n_depth, 0);
	ck_assert_uint_eq(user_frame_of(NULL, 0, NULL, "/bin/app").n_depth, 1);
	ck_assert_uint_eq(user_frame_of(NULL, 0, NULL, "").n_depth, 0);
}
END_TEST

/* Frames: 1 main, 2 and 3 places in work, 4 xmalloc, 5 make_alloc, which also calls work. */
static struct user_frame frames[7];
static struct user_stack stacks[16];
static struct user_frames all;

static void add_stack(uint32_t row, uint32_t parent, uint32_t frame)
{
	stacks[row] = (struct user_stack){ .parent = parent, .frame = frame };
	all.n_stacks = row + 1;
}

static void setup(void)
{
	memset(frames, 0, sizeof(frames));
	memset(stacks, 0, sizeof(stacks));
	all = (struct user_frames){ frames, 7, stacks, 0 };
	for (unsigned i = 1; i <= 6; i++)
		frames[i] = (struct user_frame){ .function = 100 + i, .n_depth = 1 };
	frames[4].may_hand_on = 1;
	frames[5].may_hand_on = 1;
	add_stack(1, 0, 1);
	add_stack(2, 1, 2);
	add_stack(3, 1, 3);
	add_stack(4, 2, 4);
	add_stack(5, 3, 4);
	add_stack(6, 1, 5);
	add_stack(7, 6, 2);
	add_stack(8, 6, 4);
}

START_TEST(what_only_hands_on_is_left_to_its_callers)
{
	ck_assert_int_eq(user_frames_decide(&all), 0);
	ck_assert_uint_eq(frames[4].n_depth, 0);
	ck_assert_uint_eq(stacks[4].user, 2);
	ck_assert_uint_eq(stacks[5].user, 3);
	ck_assert_uint_eq(frames[5].n_depth, 1); /* it does more */
	ck_assert_uint_eq(stacks[8].user, 6);
}
END_TEST

START_TEST(a_chain_of_functions_that_hand_on_is_left_out_as_a_whole)
{
	add_stack(7, 6, 4);
	add_stack(9, 2, 5);
	add_stack(10, 9, 4);
	ck_assert_int_eq(user_frames_decide(&all), 0);
	ck_assert_uint_eq(frames[5].n_depth, 0);
	ck_assert_uint_eq(stacks[10].user, 2);
	ck_assert_uint_eq(stacks[7].user, 1);
}
END_TEST

START_TEST(what_one_place_calls_is_meant_itself)
{
	add_stack(7, 6, 4);
	ck_assert_int_eq(user_frames_decide(&all), 0);
	ck_assert_uint_eq(frames[5].n_depth, 1);
	ck_assert_uint_eq(stacks[7].user, 6);
}
END_TEST

START_TEST(an_allocator_by_name_and_type_hands_on_for_one_place)
{
	const struct symbol_line lines[] = {
		{ "xmalloc", "/src/x.c", 8, .gives_memory = true },
		{ "grab", "/src/x.c", 9, .gives_memory = true },
		{ "xmalloc", "/src/x.c", 8 },
	};

	ck_assert_uint_eq(user_frame_of(&lines[0], 1, NULL, "/bin/app").may_hand_on, 2);
	ck_assert_uint_eq(user_frame_of(&lines[1], 1, NULL, "/bin/app").may_hand_on, 1);
	ck_assert_uint_eq(user_frame_of(&lines[2], 1, NULL, "/bin/app").may_hand_on, 1);
	all.n_stacks = 5; /* one place in work calls xmalloc */
	frames[4].may_hand_on = 2;
	ck_assert_int_eq(user_frames_decide(&all), 0);
	ck_assert_uint_eq(frames[4].n_depth, 0);
	ck_assert_uint_eq(stacks[4].user, 2);
}
END_TEST

START_TEST(a_function_with_many_places_is_meant_itself)
{
	frames[2].function = frames[3].function = frames[4].function;
	ck_assert_int_eq(user_frames_decide(&all), 0);
	ck_assert_uint_eq(frames[4].n_depth, 1 - 1); /* its own place alone is one that may */
	frames[4].n_depth = 1;
	frames[2].may_hand_on = frames[3].may_hand_on = 1;
	ck_assert_int_eq(user_frames_decide(&all), 0);
	ck_assert_uint_eq(frames[4].n_depth, 1);
}
END_TEST

START_TEST(code_without_a_name_hands_on_where_three_places_call_it)
{
	frames[4] = (struct user_frame){ .n_depth = 1, .may_hand_on = 1 };
	ck_assert_int_eq(user_frames_decide(&all), 0);
	ck_assert_uint_eq(frames[4].n_depth, 0); /* 2, 3 and 5 call it */
	frames[4].n_depth = 1;
	add_stack(8, 3, 4);
	ck_assert_int_eq(user_frames_decide(&all), 0);
	ck_assert_uint_eq(frames[4].n_depth, 1);
}
END_TEST

START_TEST(what_was_decided_stays)
{
	frames[4].is_fixed = 1;
	stacks[4] = (struct user_stack){ .parent = 2, .frame = 4, .user = 1, .is_fixed = 1 };
	ck_assert_int_eq(user_frames_decide(&all), 0);
	ck_assert_uint_eq(stacks[4].user, 1);
	ck_assert_uint_eq(stacks[5].user, 5);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("user frames");
	TCase *tcase = tcase_create("user frames");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, a_plain_name_has_neither_arguments_nor_parameters);
	tcase_add_test(tcase, only_a_librarys_allocator_says_nothing);
	tcase_add_test(tcase, a_librarys_name_is_the_one_that_programs_call);
	tcase_add_test(tcase, a_longer_name_is_cut);
	tcase_add_test(tcase, the_table_says_whose_a_call_is);
	tcase_add_test(tcase, the_innermost_function_of_the_program_names_a_frame);
	tcase_add_test(tcase, what_only_hands_on_is_left_to_its_callers);
	tcase_add_test(tcase, a_chain_of_functions_that_hand_on_is_left_out_as_a_whole);
	tcase_add_test(tcase, what_one_place_calls_is_meant_itself);
	tcase_add_test(tcase, an_allocator_by_name_and_type_hands_on_for_one_place);
	tcase_add_test(tcase, a_function_with_many_places_is_meant_itself);
	tcase_add_test(tcase, code_without_a_name_hands_on_where_three_places_call_it);
	tcase_add_test(tcase, what_was_decided_stays);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
