/* Which instruction was waited for, and how time is divided when some ways are not wanted. */
#include "decode/decode.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/decode/flat.h"
#include "tests/support/suite.h"

#ifdef __x86_64__

#define HEAP  UINT64_C(0x555500001000)
#define STACK UINT64_C(0x7ffd00001000)

/* As in test-decode-behind.c: code before `name`_ip gives the sweeps room to fall into step. */
#define PROGRAM(name, before, behind)                                                              \
	__asm__(".pushsection .rodata\n.intel_syntax noprefix\n.balign 16\n" #name "_start:\n"     \
		".rept 12\nmov eax, [rip+0x1000]\nlea rcx, [rax+8]\n.endr\n" before "\n" #name     \
		"_ip:\n" behind "\n" #name "_end:\n.att_syntax prefix\n.popsection");              \
	extern const uint8_t name##_start[], name##_ip[], name##_end[]

/* The load that a chase waits for is the last instruction of its loop. */
PROGRAM(chase, "ret\nret",
	"1: inc qword ptr [rdi]\ndec rdx\njz 2f\nmov rax, [rax]\njmp 1b\n2: syscall");
PROGRAM(chase_end, "ret\n1: mov rax, [rax]", "add qword ptr [rdi], 1\ndec rdx\njnz 1b\nsyscall");
PROGRAM(summed, "ret\n1: inc rdi\nmov rax, [rsi+rdi*8]", "dec rdx\njnz 1b\nsyscall");
PROGRAM(before, "ret\nmov rcx, [rdi+8]\nadd rdi, 16", "mov eax, ecx\nsyscall");
PROGRAM(loaded, "ret\nadd rdi, 8\nmov rcx, [rdi+8]", "mov eax, ecx\nsyscall");
PROGRAM(early, "ret\nlea rcx, [rax+rax]\nadd rdi, 16", "mov eax, [rdi]\nshl rcx, 3\nsyscall");
PROGRAM(stored_late, "ret\nlea rcx, [rax+rax]\nshr rsi, 41", "mov [rdi], eax\nsyscall");
PROGRAM(shifted, "ret\nlea rcx, [rax+rax]\nshr rsi, 41",
	"mov rsi, [rdi+rsi*8]\nand esi, 1\nsyscall");
PROGRAM(summing, "ret\nmov rcx, [rdi+8]\nadd rax, rcx", "mov eax, ecx\nsyscall");
PROGRAM(replaced, "ret\nmov rdi, [rdi+8]", "mov eax, ecx\nsyscall");
PROGRAM(fused, "ret\ncmp qword ptr [rdi+8], 5\nje 9f", "mov eax, ecx\nsyscall\n9: ud2");
PROGRAM(not_fused, "ret\nmov rcx, [rdi+8]\nje 9f", "mov eax, ecx\nsyscall\n9: ud2");
#define HEAD                                                                                       \
	"1: mov eax, [rsi]\ntest eax, eax\nje 2f\nmov rcx, [rdx]\n2: cmp [rdi], rcx\njne 1b\nud2"
PROGRAM(counted_head, "ret\nmov rcx, [rdi+8]", HEAD);
PROGRAM(cleared_head, "ret\nxor ecx, ecx", HEAD);
PROGRAM(join, "je 1f\nmov rcx, [rdi+8]\n1:", "mov eax, ecx\nsyscall");
PROGRAM(jumped, "1: ret\nret", "mov eax, ecx\nsyscall\nmov [rsi], eax\njmp jumped_ip");
PROGRAM(returned, "ret\ncall 9f", "mov eax, ecx\nsyscall\n9: ret");
PROGRAM(called, "ret\nnop\n.balign 16, 0x90", "mov eax, ecx\nsyscall\ncall called_ip");
/* Padding behind code that may go on: the begin is a function's, whose calls are not seen. */
PROGRAM(padded, "ret\ncmp rdx, rcx\njb 9f\n.balign 16, 0x90", "mov eax, ecx\nsyscall\n9: ud2");
/* The call returns, though what is behind it is aligned: a branch leads there, too. */
PROGRAM(aligned_join, "ret\nje 1f\ncall 9f\n1:", "mov eax, ecx\nsyscall\n9: ret");
PROGRAM(gathered,
	"ret\n1: vmovdqu ymm1, [rsi]\nvpcmpeqd ymm2, ymm2, ymm2\n"
	"vpgatherdd ymm0, [rdi+ymm1*4], ymm2",
	"dec rdx\njnz 1b\nsyscall");
PROGRAM(string, "ret\nmov eax, [rsi]", "rep movsb\nsyscall");

static struct flat flat;
static struct decoder *decoder;
static struct decode_sample sample;
static struct decode_window window;
static uint64_t stack[4];

static void setup(void)
{
	struct decode_memory memory = flat_memory(&flat);

	flat = (struct flat){ 0 };
	sample = (struct decode_sample){ .stack = stack, .stack_bytes = sizeof(stack) };
	sample.regs[DECODE_SP] = STACK;
	sample.regs[DECODE_FLAGS] = 0x202;
	sample.regs[DECODE_DI] = HEAP;
	sample.regs[DECODE_AX] = HEAP + 0x400;
	sample.regs[DECODE_DX] = 100;
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 64, &decoder), 0);
}

static void teardown(void)
{
	decoder = decode_destroy(decoder);
}

static void run(const uint8_t *start, const uint8_t *ip, const uint8_t *end)
{
	flat.code = start;
	flat.code_bytes = (size_t)(end - start);
	sample.ip = FLAT_CODE_START + (uint64_t)(ip - start);
	ck_assert_int_eq(decode_window(decoder, &sample, DECODE_MAX_INSTRUCTIONS, &window), 0);
}
#define RUN(name) run(name##_start, name##_ip, name##_end)

static void check_access(uint64_t address)
{
	ck_assert_int_eq(window.stall, DECODE_STALL_ACCESS);
	ck_assert_uint_eq(window.n_stalled, 1);
	ck_assert_int_eq(window.stalled[0].state, DECODE_RESOLVED);
	ck_assert_uint_eq(window.stalled[0].address, address);
	ck_assert(window.stalled[0].share == 1);
	ck_assert(window.stall_ip != 0);
}

START_TEST(a_loop_waits_for_what_runs_before_ip_next_time)
{
	RUN(chase_end);
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_int_eq(window.stall, DECODE_STALL_ACCESS); /* not the counter that is at ip */
	ck_assert_uint_eq(window.stall_ip, sample.ip - 3);
}
END_TEST

/* What it read next time is known, but that is another node: it was not waited for. */
START_TEST(in_a_chase_the_node_before_is_not_known)
{
	RUN(chase_end);
	ck_assert_uint_eq(window.n_stalled, 1);
	ck_assert_int_eq(window.stalled[0].state, DECODE_NEXT_TURN);
	ck_assert_uint_eq(window.stalled[0].address, HEAP + 0x400);
	ck_assert_uint_eq(window.stalled[0].ip, sample.ip - 3);
}
END_TEST

/* Its base alone would name a neighbour. */
START_TEST(of_a_gather_a_lane_of_the_next_turn_is_told)
{
	static const uint32_t indices[8] = { 100, 200, 300, 400, 500, 600, 700, 800 };

	flat.data_start = HEAP + 0x10000;
	flat.data = indices;
	flat.data_bytes = sizeof(indices);
	sample.regs[DECODE_SI] = flat.data_start;
	RUN(gathered);
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_uint_eq(window.n_accesses, 9);
	ck_assert_uint_eq(window.n_stalled, 1);
	ck_assert_int_eq(window.stalled[0].state, DECODE_NEXT_TURN);
	ck_assert_uint_eq(window.stalled[0].address, HEAP + 800 * 4);
	flat.data_bytes = 0;
	RUN(gathered);
	ck_assert_uint_eq(window.n_stalled, 1);
	ck_assert_int_eq(window.stalled[0].state, DECODE_BASE_ONLY);
}
END_TEST

/* As Intel's processors are sampled: hardly ever right behind the load. */
START_TEST(what_needs_a_load_takes_no_longer_than_it)
{
	sample.regs[DECODE_DI] = HEAP;
	RUN(summing);
	ck_assert_int_eq(window.stall, DECODE_STALL_CODE);
	ck_assert_uint_eq(window.stall_ip, sample.ip - 3);
	for (unsigned i = 0; i < 3; i++)
		RUN(summing);
	check_access(HEAP + 8);
	ck_assert_uint_eq(window.stall_ip, sample.ip - 7);
	/* Where the load is seen to take its time, the addition has its own. */
	for (unsigned i = 0; i < 8; i++)
		run(summing_start, summing_start + (summing_ip - summing_start - 3), summing_end);
	RUN(summing);
	ck_assert_int_eq(window.stall, DECODE_STALL_CODE);
}
END_TEST

static void run_at(unsigned n, int bytes)
{
	ptrdiff_t at = early_ip - early_start + bytes;

	for (unsigned i = 0; i < n; i++)
		run(early_start, early_start + at, early_end);
}

/* As a load is sampled while it waits: behind what takes a cycle. */
START_TEST(a_load_is_waited_for_at_its_own_address_too)
{
	run_at(1, 0);
	ck_assert_int_eq(window.stall, DECODE_STALL_CODE); /* one sample says nothing */
	run_at(2, 2);
	run_at(8, 0);
	check_access(HEAP);
	ck_assert_uint_eq(window.stall_ip, sample.ip);
	/* Samples before the addition: the code has waited for something before the load. */
	run_at(4, -4);
	run_at(1, 0);
	ck_assert_int_eq(window.stall, DECODE_STALL_CODE);
	/* With most behind it they may be of either. */
	run_at(40, 2);
	run_at(1, 0);
	ck_assert_int_eq(window.stall, DECODE_STALL_UNKNOWN);
}
END_TEST

/* Room in the store buffer is what it waits for: whose store took it is for others to say. */
START_TEST(a_store_is_waited_for_at_its_own_address)
{
	sample.regs[DECODE_DI] = HEAP;
	RUN(stored_late);
	ck_assert_int_eq(window.stall, DECODE_STALL_CODE); /* one sample says nothing */
	for (unsigned i = 0; i < 8; i++)
		RUN(stored_late);
	check_access(HEAP);
	ck_assert_uint_eq(window.stall_ip, sample.ip);
	ck_assert(window.stalled[0].is_write);
	for (unsigned i = 0; i < 3; i++) /* at the shift */
		run(stored_late_start, stored_late_start + (stored_late_ip - stored_late_start - 4),
		    stored_late_end);
	RUN(stored_late);
	ck_assert_int_eq(window.stall, DECODE_STALL_UNKNOWN);
}
END_TEST

START_TEST(nobody_waits_for_a_shift_before_a_load)
{
	ptrdiff_t behind = shifted_ip - shifted_start + 4;

	for (unsigned i = 0; i < 40; i++)
		run(shifted_start, shifted_start + behind, shifted_end);
	RUN(shifted);
	ck_assert_int_eq(window.stall, DECODE_STALL_UNKNOWN);
}
END_TEST

START_TEST(a_load_that_nothing_is_sampled_behind_is_not_known)
{
	run_at(20, 0);
	ck_assert_int_eq(window.stall, DECODE_STALL_UNKNOWN);
}
END_TEST

START_TEST(in_a_loop_the_operand_is_that_of_this_turn)
{
	sample.regs[DECODE_SI] = HEAP;
	sample.regs[DECODE_DI] = 5;
	sample.regs[DECODE_FLAGS] = 0x206; /* as an increment to 5 leaves them */
	RUN(summed);
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	check_access(HEAP + 40);
}
END_TEST

START_TEST(a_jump_that_closes_a_loop_is_code)
{
	RUN(chase);
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_int_eq(window.stall, DECODE_STALL_CODE);
}
END_TEST

START_TEST(an_instruction_without_operand_is_code)
{
	RUN(before);
	ck_assert_int_eq(window.stall, DECODE_STALL_CODE);
	ck_assert_uint_eq(window.stall_ip, sample.ip - 4);
}
END_TEST

START_TEST(the_load_right_before_ip_was_waited_for)
{
	RUN(loaded);
	check_access(HEAP + 8);
}
END_TEST

START_TEST(a_load_that_replaces_its_own_base_stays_unresolved)
{
	RUN(replaced);
	ck_assert_int_eq(window.stall, DECODE_STALL_ACCESS);
	ck_assert_int_eq(window.stalled[0].state, DECODE_UNKNOWN_REGISTER);
	ck_assert_uint_eq(window.stalled[0].ip, sample.ip - 4);
}
END_TEST

START_TEST(a_branch_waits_for_the_comparison_that_it_is_one_with)
{
	RUN(fused);
	check_access(HEAP + 8);
}
END_TEST

START_TEST(a_branch_does_not_wait_for_another_instruction_before_it)
{
	RUN(not_fused);
	ck_assert_int_eq(window.stall, DECODE_STALL_CODE);
}
END_TEST

/* Flags are those that the branch at the end of the loop leads to its head with, or are not. */
START_TEST(flags_tell_whether_the_head_of_a_loop_was_come_to_from_its_end)
{
	sample.regs[DECODE_CX] = 1;
	sample.regs[DECODE_SI] = HEAP;
	sample.regs[DECODE_FLAGS] = 0x202; /* not equal */
	RUN(counted_head);
	ck_assert_int_ne(window.end, DECODE_END_LOOP);
	ck_assert_int_eq(window.stall, DECODE_STALL_UNKNOWN); /* from above as well */

	sample.regs[DECODE_FLAGS] = 0x246; /* equal: the branch would not have been taken */
	RUN(counted_head);
	check_access(HEAP + 8);

	/* rcx is not what the code above leaves. */
	sample.regs[DECODE_FLAGS] = 0x202;
	RUN(cleared_head);
	check_access(HEAP);
}
END_TEST

START_TEST(where_two_ways_meet_nothing_is_said)
{
	RUN(join);
	ck_assert_int_eq(window.stall, DECODE_STALL_UNKNOWN);
	ck_assert_uint_eq(window.n_stalled, 0);
	ck_assert_uint_eq(window.stall_ip, 0);
}
END_TEST

START_TEST(behind_a_return_only_the_jump_leads_on)
{
	RUN(jumped);
	ck_assert_int_eq(window.stall, DECODE_STALL_CODE);
	ck_assert_uint_gt(window.stall_ip, sample.ip);
}
END_TEST

START_TEST(behind_a_call_the_return_was_last)
{
	RUN(returned);
	check_access(STACK - 8);
	ck_assert(window.stalled[0].is_read);
}
END_TEST

START_TEST(at_the_begin_of_a_function_the_stack_tells_its_call)
{
	stack[0] = FLAT_CODE_START + (uint64_t)(called_end - called_start);
	RUN(called);
	check_access(STACK);
	ck_assert(window.stalled[0].is_write);

	stack[0] = 0x1234;
	RUN(called);
	ck_assert_int_eq(window.stall, DECODE_STALL_UNKNOWN);
}
END_TEST

START_TEST(an_aligned_begin_may_be_come_to_from_elsewhere)
{
	RUN(padded);
	ck_assert_uint_eq(sample.ip % 16, 0);
	ck_assert_int_eq(window.stall, DECODE_STALL_UNKNOWN);
}
END_TEST

START_TEST(a_call_returns_to_an_address_that_is_aligned)
{
	RUN(aligned_join);
	ck_assert_uint_eq(sample.ip % 16, 0);
	ck_assert_int_eq(window.stall, DECODE_STALL_UNKNOWN);
}
END_TEST

START_TEST(a_repeated_instruction_waits_for_itself)
{
	sample.regs[DECODE_CX] = 5;
	sample.regs[DECODE_SI] = HEAP + 64;
	RUN(string);
	ck_assert_int_eq(window.stall, DECODE_STALL_ACCESS);
	ck_assert_uint_eq(window.n_stalled, 2);
	ck_assert(window.stalled[0].share == 0.5F);
}
END_TEST

static const struct {
	const char *list;
	unsigned mask;
	const char *printed;
} lists[] = {
	{ "window", DECODE_BY_WINDOW, "window" },
	{ "look-ahead,block", DECODE_BY_BLOCK | DECODE_BY_LOOK_AHEAD, "block,look-ahead" },
	{ "window,block,look-ahead,operand", DECODE_ESTIMATORS | DECODE_BY_OPERAND,
	  "window,block,look-ahead,operand" },
	{ "", 0, "" },
	{ "wind", 0, "" },
	{ "window,,block", 0, "" },
	{ "windows", 0, "" },
};

START_TEST(estimators_are_a_list_of_names)
{
	char text[DECODE_ESTIMATORS_BYTES];

	ck_assert_uint_eq(decode_estimators_parse(lists[_i].list), lists[_i].mask);
	decode_estimators_print(lists[_i].mask, text);
	ck_assert_str_eq(text, lists[_i].printed);
}
END_TEST

static const struct {
	unsigned estimators;
	enum decode_basis basis;
	uint32_t n_charged, n_behind;
} charges[] = {
	{ DECODE_ESTIMATORS, DECODE_BASIS_LOOP, 2, 0 },
	{ DECODE_BY_BLOCK | DECODE_BY_LOOK_AHEAD, DECODE_BASIS_BLOCK, 1, 1 },
	{ DECODE_BY_LOOK_AHEAD, DECODE_BASIS_LOOK_AHEAD, 2, 0 },
	{ DECODE_BY_OPERAND, DECODE_BASIS_OPERAND, 1, 0 },
};

START_TEST(only_the_estimators_that_are_wanted_are_used)
{
	struct decode_charge charge;

	decode_set_estimators(decoder, charges[_i].estimators);
	RUN(chase_end);
	decode_charge(&window, &charge);
	ck_assert_int_eq(charge.basis, charges[_i].basis);
	ck_assert_uint_eq(charge.n_charged, charges[_i].n_charged);
	ck_assert_uint_eq(charge.n_behind, charges[_i].n_behind);
}
END_TEST

START_TEST(an_instruction_without_operand_is_code_to_the_operand_alone)
{
	struct decode_charge charge;

	decode_set_estimators(decoder, DECODE_BY_OPERAND);
	RUN(loaded);
	decode_charge(&window, &charge);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_CODE);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("decode-stall");
	TCase *tcase = tcase_create("stall");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_loop_waits_for_what_runs_before_ip_next_time);
	tcase_add_test(tcase, what_needs_a_load_takes_no_longer_than_it);
	tcase_add_test(tcase, a_load_is_waited_for_at_its_own_address_too);
	tcase_add_test(tcase, nobody_waits_for_a_shift_before_a_load);
	tcase_add_test(tcase, a_store_is_waited_for_at_its_own_address);
	tcase_add_test(tcase, a_load_that_nothing_is_sampled_behind_is_not_known);
	tcase_add_test(tcase, in_a_chase_the_node_before_is_not_known);
	tcase_add_test(tcase, of_a_gather_a_lane_of_the_next_turn_is_told);
	tcase_add_test(tcase, in_a_loop_the_operand_is_that_of_this_turn);
	tcase_add_test(tcase, a_jump_that_closes_a_loop_is_code);
	tcase_add_test(tcase, an_instruction_without_operand_is_code);
	tcase_add_test(tcase, the_load_right_before_ip_was_waited_for);
	tcase_add_test(tcase, a_load_that_replaces_its_own_base_stays_unresolved);
	tcase_add_test(tcase, a_branch_waits_for_the_comparison_that_it_is_one_with);
	tcase_add_test(tcase, a_branch_does_not_wait_for_another_instruction_before_it);
	tcase_add_test(tcase, flags_tell_whether_the_head_of_a_loop_was_come_to_from_its_end);
	tcase_add_test(tcase, where_two_ways_meet_nothing_is_said);
	tcase_add_test(tcase, behind_a_return_only_the_jump_leads_on);
	tcase_add_test(tcase, behind_a_call_the_return_was_last);
	tcase_add_test(tcase, at_the_begin_of_a_function_the_stack_tells_its_call);
	tcase_add_test(tcase, an_aligned_begin_may_be_come_to_from_elsewhere);
	tcase_add_test(tcase, a_call_returns_to_an_address_that_is_aligned);
	tcase_add_test(tcase, a_repeated_instruction_waits_for_itself);
	tcase_add_loop_test(tcase, estimators_are_a_list_of_names, 0,
			    sizeof(lists) / sizeof(lists[0]));
	tcase_add_loop_test(tcase, only_the_estimators_that_are_wanted_are_used, 0,
			    sizeof(charges) / sizeof(charges[0]));
	tcase_add_test(tcase, an_instruction_without_operand_is_code_to_the_operand_alone);
	suite_add_tcase(suite, tcase);
	return suite;
}

int main(void)
{
	return suite_run(make_suite());
}

#else

int main(void)
{
	puts("the programs are for x86-64");
	return 77;
}

#endif
