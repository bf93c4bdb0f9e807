/* How often loops ran between two samples, counted by the emulator itself step by step. */
#include "decode/decode.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/decode/flat.h"
#include "tests/support/suite.h"

#ifdef __x86_64__

#define PROGRAM(name, text)                                                                        \
	__asm__(".pushsection .rodata\n.intel_syntax noprefix\n" #name "_start:\n" text "\n" #name \
		"_end:\n.att_syntax prefix\n.popsection");                                         \
	extern const uint8_t name##_start[], name##_end[]

#define HEAP  UINT64_C(0x555500001000)
#define STACK UINT64_C(0x7ffd00001000)

PROGRAM(copy, "1: mov rax, [rsi+rcx*8]\nmov [rdi+rcx*8], rax\ninc rcx\ncmp rcx, rdx\njb 1b\nud2");
PROGRAM(halves, "1: mov rax, [rsi]\nadd rsi, 8\nsub ecx, 3\ntest ecx, ecx\njns 1b\nud2");
PROGRAM(masked, "1: lea rax, [rcx*8]\nand eax, 1015\nmov rbx, [rsi+rax]\ninc rcx\njmp 1b");
PROGRAM(chase, "1: mov rax, [rax]\ntest rdx, rdx\njmp 1b");
/* for (;; r8++) for (rcx = 0; rcx < 10; rcx++) [rsi + rcx]; the outer loop shows in r8. */
PROGRAM(nested, "2: xor ecx, ecx\n1: mov al, [rsi+rcx]\ninc rcx\ncmp rcx, 10\njb 1b\n"
		"mov [rdi], al\ninc r8\njmp 2b");
PROGRAM(periodic, "2: xor ecx, ecx\n1: mov bl, [rsi+rcx]\ninc rcx\ncmp rcx, 10\njb 1b\n"
		  "mov [rdi], bl\njmp 2b");
PROGRAM(branch, "1: mov rax, [rsi]\ntest rax, rax\nje 2f\nadd rsi, 8\n2: add rdi, 8\njmp 1b");

/* Every other page is skipped, and only rdi shows it. */
PROGRAM(pages, "1: mov rax, [rdi]\nadd rdi, 8\ntest edi, 4095\njne 1b\nadd rdi, 4096\njmp 1b");
/* One row of rdx - rdi bytes, and then another: rdi and rdx go on together. */
PROGRAM(rows, "1: mov rax, [rdi]\nadd rdi, 8\ncmp rdi, rdx\njne 1b\nud2");
PROGRAM(signs, "1: mov rax, [rdi]\nadd rdi, 8\ndec ecx\njns 1b\nud2");

static struct flat flat;
static struct decoder *decoder;
static struct decode_sample from, to;
static struct decode_window window;
static struct decode_way way;

static void setup(void)
{
	struct decode_memory memory = flat_memory(&flat);

	flat = (struct flat){ 0 };
	from = (struct decode_sample){ .time = 1 };
	from.regs[DECODE_SP] = STACK;
	from.regs[DECODE_FLAGS] = 0x202;
	from.regs[DECODE_SI] = HEAP;
	from.regs[DECODE_DI] = HEAP + 0x10000;
	from.regs[DECODE_DX] = 1000000;
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 64, &decoder), 0);
}

static void teardown(void)
{
	decoder = decode_destroy(decoder);
}

static void load(const uint8_t *start, const uint8_t *end)
{
	flat.code = start;
	flat.code_bytes = (size_t)(end - start);
	from.ip = FLAT_CODE_START;
	to = from;
	to.time = 2;
}
#define LOAD(name) load(name##_start, name##_end)

static enum decode_count count(double *ret)
{
	return decode_iterations(decoder, &from, &to, ret);
}

START_TEST(a_counter_tells_the_iterations)
{
	double n;

	LOAD(copy);
	to.regs[DECODE_CX] = 1234;
	ck_assert_int_eq(count(&n), DECODE_COUNT_EXACT);
	ck_assert_double_eq_tol(n, 1234, 1e-9);
}
END_TEST

START_TEST(a_later_sample_may_lie_anywhere_in_the_loop)
{
	double n;

	LOAD(copy);
	to.ip += 8; /* inc rcx, number 2 of 5 */
	to.regs[DECODE_CX] = 70;
	ck_assert_int_eq(count(&n), DECODE_COUNT_EXACT);
	ck_assert_double_eq_tol(n, 70.4, 1e-9);
}
END_TEST

START_TEST(counters_of_32_bits_count_too_and_all_must_agree)
{
	double n;

	LOAD(halves);
	from.regs[DECODE_CX] = 3000;
	to.regs[DECODE_CX] = 3000 - 3 * 600;
	to.regs[DECODE_SI] += 8 * 600;
	ck_assert_int_eq(count(&n), DECODE_COUNT_EXACT);
	ck_assert_double_eq_tol(n, 600, 1e-9);

	to.regs[DECODE_SI] += 8;
	ck_assert_int_eq(count(&n), DECODE_COUNT_REFUTED);
}
END_TEST

START_TEST(a_pointer_that_may_skip_is_no_count)
{
	double n;

	LOAD(pages);
	to.regs[DECODE_DI] += 3 * 4096;
	ck_assert_int_eq(count(&n), DECODE_COUNT_NONE);
}
END_TEST

START_TEST(a_loop_that_was_left_in_between_refutes)
{
	double n;

	LOAD(rows);
	from.regs[DECODE_DX] = to.regs[DECODE_DX] = from.regs[DECODE_DI] + 800;
	to.regs[DECODE_DI] += 792;
	ck_assert_int_eq(count(&n), DECODE_COUNT_EXACT);
	ck_assert_double_eq_tol(n, 99, 1e-9);
	to.regs[DECODE_DI] += 16;
	ck_assert_int_eq(count(&n), DECODE_COUNT_REFUTED);
}
END_TEST

START_TEST(a_counter_beyond_its_end_refutes)
{
	double n;

	LOAD(signs);
	from.regs[DECODE_CX] = 50;
	to.regs[DECODE_CX] = 0;
	to.regs[DECODE_DI] += 50 * 8;
	ck_assert_int_eq(count(&n), DECODE_COUNT_EXACT);
	to.regs[DECODE_CX] = UINT32_MAX - 1;
	to.regs[DECODE_DI] += 2 * 8;
	ck_assert_int_eq(count(&n), DECODE_COUNT_REFUTED);
}
END_TEST

START_TEST(a_counter_that_went_back_refutes)
{
	double n;

	LOAD(copy);
	from.regs[DECODE_CX] = 100;
	to.regs[DECODE_CX] = 90;
	ck_assert_int_eq(count(&n), DECODE_COUNT_REFUTED);
}
END_TEST

START_TEST(another_array_refutes)
{
	double n;

	LOAD(copy);
	to.regs[DECODE_CX] = 100;
	to.regs[DECODE_SI] += 4096;
	ck_assert_int_eq(count(&n), DECODE_COUNT_REFUTED);
}
END_TEST

START_TEST(what_is_masked_does_not_count)
{
	double n;

	LOAD(masked);
	from.regs[DECODE_CX] = 1;
	from.regs[0] = 8;
	to.regs[DECODE_CX] = 201;
	to.regs[0] = 1600 & 1015;
	ck_assert_int_eq(count(&n), DECODE_COUNT_EXACT);
	ck_assert_double_eq_tol(n, 200, 1e-9);
}
END_TEST

START_TEST(a_loop_without_counter_has_no_rate)
{
	double n;

	LOAD(chase);
	to.regs[DECODE_AX] = HEAP;
	ck_assert_int_eq(count(&n), DECODE_COUNT_NONE);
}
END_TEST

START_TEST(a_sample_elsewhere_says_nothing)
{
	double n;

	LOAD(copy);
	to.ip = FLAT_CODE_START + 0x100;
	ck_assert_int_eq(count(&n), DECODE_COUNT_NONE);
}
END_TEST

START_TEST(a_replay_comes_to_the_later_sample)
{
	LOAD(nested);
	from.regs[DECODE_R8] = 7;
	to.regs[DECODE_R8] = 27;
	to.regs[DECODE_CX] = 10;
	ck_assert_int_eq(decode_replay(decoder, &from, &to, 10000, &way), 0);
	/* 20 turns of xor, 10 x 4, mov, inc, jmp. */
	ck_assert_uint_eq(way.n_instructions, 20 * 44);
	ck_assert_uint_eq(way.n_accesses, 20 * 11);
	ck_assert_uint_eq(way.n_picked, DECODE_MAX_PICKED);
	ck_assert_uint_eq(way.n_emulated, 2 * 20 * 44);
	for (uint32_t i = 0; i < way.n_picked; i++)
		ck_assert_int_eq(way.picked[i].state, DECODE_RESOLVED);
}
END_TEST

START_TEST(a_replay_gives_up_beyond_its_limit)
{
	LOAD(nested);
	to.regs[DECODE_R8] = 27;
	to.regs[DECODE_CX] = 10;
	ck_assert_int_eq(decode_replay(decoder, &from, &to, 500, &way), -ERANGE);
	ck_assert_uint_eq(way.n_emulated, 500);
}
END_TEST

START_TEST(a_state_that_comes_back_says_nothing)
{
	LOAD(periodic);
	to.regs[DECODE_CX] = 10;
	ck_assert_int_eq(decode_replay(decoder, &from, &to, 10000, &way), -EINVAL);
}
END_TEST

START_TEST(a_replay_stops_at_a_branch_on_data)
{
	LOAD(branch);
	to.regs[DECODE_DI] += 8;
	ck_assert_int_eq(decode_replay(decoder, &from, &to, 10000, &way), -EAGAIN);
}
END_TEST

START_TEST(a_replay_draws_the_same_each_time)
{
	static struct decode_way again;
	LOAD(nested);
	to.regs[DECODE_R8] = 27;
	to.regs[DECODE_CX] = 10;
	ck_assert_int_eq(decode_replay(decoder, &from, &to, 10000, &way), 0);
	ck_assert_int_eq(decode_replay(decoder, &from, &to, 10000, &again), 0);
	for (uint32_t i = 0; i < way.n_picked; i++) {
		ck_assert_uint_eq(way.picked[i].address, again.picked[i].address);
		ck_assert_uint_eq(way.picked[i].ip, again.picked[i].ip);
	}
}
END_TEST

START_TEST(the_lowest_address_names_a_loop)
{
	LOAD(copy);
	from.ip += 4;
	ck_assert_int_eq(decode_window(decoder, &from, DECODE_MAX_INSTRUCTIONS, &window), 0);
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_uint_eq(window.head_ip, FLAT_CODE_START);
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("decode-counts");
	TCase *tcase = tcase_create("counts");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_counter_tells_the_iterations);
	tcase_add_test(tcase, a_later_sample_may_lie_anywhere_in_the_loop);
	tcase_add_test(tcase, counters_of_32_bits_count_too_and_all_must_agree);
	tcase_add_test(tcase, a_pointer_that_may_skip_is_no_count);
	tcase_add_test(tcase, a_loop_that_was_left_in_between_refutes);
	tcase_add_test(tcase, a_counter_beyond_its_end_refutes);
	tcase_add_test(tcase, a_counter_that_went_back_refutes);
	tcase_add_test(tcase, another_array_refutes);
	tcase_add_test(tcase, what_is_masked_does_not_count);
	tcase_add_test(tcase, a_loop_without_counter_has_no_rate);
	tcase_add_test(tcase, a_sample_elsewhere_says_nothing);
	tcase_add_test(tcase, a_replay_comes_to_the_later_sample);
	tcase_add_test(tcase, a_replay_gives_up_beyond_its_limit);
	tcase_add_test(tcase, a_state_that_comes_back_says_nothing);
	tcase_add_test(tcase, a_replay_stops_at_a_branch_on_data);
	tcase_add_test(tcase, a_replay_draws_the_same_each_time);
	tcase_add_test(tcase, the_lowest_address_names_a_loop);
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
