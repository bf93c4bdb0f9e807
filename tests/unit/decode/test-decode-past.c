/* Variables below the stack pointer: what registers, and what ran right before, tell of them. */
#include "decode/decode.h"

#include <check.h>
#include <stdio.h>

#include "tests/unit/decode/flat.h"
#include "tests/support/suite.h"

#ifdef __x86_64__

#define HEAP  UINT64_C(0x555500001000)
#define FRAME UINT64_C(0x7ffd00001000)

/* `name`_ip is the sampled instruction, 9: the one that is looked at. */
#define PROGRAM(name, before, behind)                                                              \
	__asm__(".pushsection .rodata\n.balign 16\n.intel_syntax noprefix\n" #name "_start:\n"     \
		".rept 12\nmov eax, [rip+0x1000]\nlea rcx, [rax+8]\n.endr\nret\n"                  \
		".balign 16, 0x90\n" before "\n" #name "_ip:\n" behind "\n" #name                  \
		"_end:\n.att_syntax prefix\n.popsection");                                         \
	extern const uint8_t name##_start[], name##_ip[], name##_end[]

#define ENTER "push rbp\nmov rbp, rsp\n"
#define LEAVE "pop rbp\nret"
#define LOOP  "mov rax, [rbp-8]\nmov ecx, [rax]\nmov eax, [rbp-16]\ntest eax, eax\njne 1b\n" LEAVE

PROGRAM(argument, ENTER "mov [rbp-8], rdi\nmov [rbp-16], esi\n1: nop\n", LOOP);
PROGRAM(argument_gone, ENTER "mov [rbp-8], rdi\n1: xor edi, edi\n", LOOP);
PROGRAM(variable, ENTER "mov [rbp-8], rdi\n1: inc qword ptr [rbp-8]\n", LOOP);
PROGRAM(other_way, ENTER "test esi, esi\nje 1f\nmov [rbp-8], rdi\n1: nop\n", LOOP);
/* Three ways lead to one place, and one of them changes the slot. */
PROGRAM(joined,
	ENTER "mov [rbp-8], rdi\n1: test ecx, ecx\nje 2f\ntest edx, edx\njs 2f\nnop\n2: nop\n",
	LOOP);
PROGRAM(joined_changed,
	ENTER "mov [rbp-8], rdi\n1: test ecx, ecx\nje 2f\ntest edx, edx\njs 2f\n"
	      "mov [rbp-8], rcx\n2: nop\n",
	LOOP);
/* c7 45 e8 00 00 00 00: what reads as a call, of what is right behind it, is none. */
PROGRAM(no_call, ENTER "mov [rbp-8], rdi\nmov dword ptr [rbp-24], 0\n1: nop\n", LOOP);
/* One of the ways is a switch. */
PROGRAM(switched,
	ENTER "mov [rbp-8], rdi\n1: mov eax, esi\njmp [rax*8+0x500000]\nnop\n"
	      ".globl switched_case\nswitched_case: nop\n",
	LOOP);
extern const uint8_t switched_case[];
/* The index is nowhere. */
PROGRAM(open_index, ENTER "mov [rbp-8], rdi\n1: nop\n",
	"mov rax, [rbp-8]\nmovsxd rcx, [rbp-16]\nmov edx, [rax+rcx*4-4]\n"
	"test edx, edx\njne 1b\n" LEAVE);
/* Stores through a pointer: nobody has the frame's address, or somebody may. */
PROGRAM(stored, ENTER "mov [rbp-8], rdi\n1: mov [rdx], ecx\n", LOOP);
PROGRAM(handed_out, ENTER "lea rdx, [rbp-8]\nmov [rbp-8], rdi\n1: mov [rdx], ecx\n", LOOP);
PROGRAM(no_frame, "mov [rbp-8], rdi\n1: mov [rdx], ecx\n", LOOP);

/* A load, or a store, that just ran tells the word: the index at -16, the pointer at -8. */
PROGRAM(loaded,
	ENTER "2: mov eax, [rbp-16]\ncdqe\nlea rdx, [rax*8]\nmov rax, [rbp-8]\n"
	      "add dword ptr [rbp-16], 1\n",
	"mov ecx, [rbp-16]\nmov rax, [rbp-8]\nmov rcx, [rax+rcx*8]\n" LEAVE);
PROGRAM(put, ENTER "lea rdx, [rbp-24]\nmov [rbp-8], rbx\nmov rax, [rbp-16]\nmov [rax], ecx\n",
	"mov rdx, [rbp-8]\nmov ecx, [rdx]\n" LEAVE);
/* Of a sum and one of its parts the other one follows: the index, which no register has. */
#define INDEX "mov eax, [rbp-16]\ncdqe\nlea rdx, [rax*8]\nmov rax, [rbp-8]\n"
#define AGAIN "mov ecx, [rbp-16]\nmov rax, [rbp-8]\nmov rcx, [rax+rcx*8]\n" LEAVE
PROGRAM(added, ENTER "mov [rbp-8], rdi\n" INDEX "add rax, rdx\nmov rdx, [rax]\n", AGAIN);
PROGRAM(taken_off, ENTER "mov [rbp-8], rdi\n" INDEX "sub rax, rdx\nmov rdx, [rax]\n", AGAIN);
PROGRAM(addressed, ENTER "mov [rbp-8], rdi\n" INDEX "lea rax, [rdx+rax]\nmov edx, 0\n", AGAIN);
/* A later load tells what an earlier one, whose register is gone, has read. */
PROGRAM(twice, ENTER "mov rax, [rbp-8]\nmov rax, [rax+16]\nmov rax, [rbp-8]\n",
	"mov ecx, [rbp-16]\nmov eax, [rax]\n" LEAVE);

/* The pointer's word is sampled: as it was when it was loaded, or stored to since. */
#define FOLLOW "sub rsp, 64\nmov rax, [rbp-8]\nmov rax, [rax+16]\n"
PROGRAM(sampled, ENTER FOLLOW "mov [rbp-16], rcx\n", "nop\n" LEAVE);
PROGRAM(sampled_later, ENTER FOLLOW "mov [rbp-12], rcx\n", "nop\n" LEAVE);
PROGRAM(sampled_elsewhere, ENTER FOLLOW "mov rcx, [rcx]\nmov [rcx], edx\nmov ecx, 0\n",
	"nop\n" LEAVE);
PROGRAM(sampled_store,
	ENTER "sub rsp, 64\nmov rax, [rcx]\nmov edx, [rax]\nmov [rbp-8], rax\nmov eax, 0\n",
	"nop\n" LEAVE);

/* Nothing tells which way the branch goes; half of the turns go through two more instructions. */
PROGRAM(two_ways, ENTER "mov [rbp-8], rdi\n1: mov rax, [rbp-8]\n",
	"mov ecx, [rax]\ntest ecx, ecx\nje 2f\n"
	".globl two_ways_inner\ntwo_ways_inner: mov rdx, [rbp-24]\nmov edx, [rdx]\n"
	"2: nop\njmp 1b");
extern const uint8_t two_ways_inner[];

/* A loop in a loop, and nothing tells how long either goes on. */
PROGRAM(outer, ENTER ".globl outer_first\nouter_first: mov rax, [rbp-8]\n",
	"mov ecx, [rbp-16]\n"
	".globl inner_ip\ninner_ip: mov edx, [rbp-24]\ntest edx, edx\njne inner_ip\n"
	"mov ecx, [rbp-32]\ntest ecx, ecx\njne outer_first\n" LEAVE);
extern const uint8_t outer_first[], inner_ip[];

static struct flat flat;
static struct decoder *decoder;
static struct decode_sample sample;
static struct decode_window window;

static void setup(void)
{
	struct decode_memory memory = flat_memory(&flat);

	flat = (struct flat){ 0 };
	sample = (struct decode_sample){ 0 };
	sample.regs[DECODE_SP] = sample.regs[DECODE_BP] = FRAME;
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 64, &decoder), 0);
}

static void teardown(void)
{
	decoder = decode_destroy(decoder);
}

static void run(const uint8_t *start, const uint8_t *ip, const uint8_t *end)
{
	if (flat.code != start)
		decode_invalidate(decoder, 0, 0, UINT64_MAX);
	flat.code = start;
	flat.code_bytes = (size_t)(end - start);
	sample.ip = FLAT_CODE_START + (uint64_t)(ip - start);
	ck_assert_int_eq(decode_window(decoder, &sample, DECODE_MAX_INSTRUCTIONS, &window), 0);
}
#define RUN(name) run(name##_start, name##_ip, name##_end)

/* The share of the accesses of the instruction at `at` of the code that was run. */
static double share_at(const struct decode_charge *charge, const uint8_t *at)
{
	uint64_t ip = FLAT_CODE_START + (uint64_t)(at - (const uint8_t *)flat.code);
	double share = 0;

	for (uint32_t i = 0; i < charge->n_charged; i++)
		share += window.accesses[i].ip == ip ? (double)window.accesses[i].share : 0;
	for (uint32_t i = 0; i < charge->n_behind; i++)
		share += window.behind[i].ip == ip ? (double)window.behind[i].share : 0;
	return share;
}

START_TEST(a_turn_of_two_ways_is_weighed_by_where_samples_are)
{
	struct decode_charge charge;

	sample.regs[DECODE_DI] = HEAP;
	for (unsigned i = 0; i < 13; i++) {
		run(two_ways_start, i == 3 || i == 5 ? two_ways_inner : two_ways_ip, two_ways_end);
		ck_assert(window.end != DECODE_END_LOOP);
	}
	/* 11 of six instructions that every turn has, 2 of two. */
	decode_charge(&window, &charge);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_TURN);
	double turns = 11.0 / 6, inners = 2.0 / 2, all = 2 * turns + 2 * inners;
	ck_assert_double_eq_tol(share_at(&charge, two_ways_ip), turns / all, 1e-6);
	ck_assert_double_eq_tol(share_at(&charge, two_ways_inner), inners / all, 1e-6);
	ck_assert_double_eq_tol(share_at(&charge, two_ways_inner + 4), inners / all, 1e-6);
	/* It may not run: its address is nobody's. */
	ck_assert(!decode_state_has_address(window.accesses[charge.n_charged - 1].state));
}
END_TEST

START_TEST(a_loop_and_one_within_have_their_time_each_for_itself)
{
	struct decode_charge charge;

	run(outer_start, outer_ip, outer_end);
	decode_charge(&window, &charge);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_TURN);
	ck_assert_double_eq_tol(share_at(&charge, outer_first), 1.0 / 3, 1e-6);
	ck_assert_double_eq_tol(share_at(&charge, outer_ip), 1.0 / 3, 1e-6);
	ck_assert_double_eq_tol(share_at(&charge, inner_ip), 0, 1e-6);
	run(outer_start, inner_ip, outer_end);
	decode_charge(&window, &charge);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_TURN);
	ck_assert_double_eq_tol(share_at(&charge, inner_ip), 1, 1e-6);
}
END_TEST

START_TEST(an_argument_is_as_its_register_says)
{
	sample.regs[DECODE_DI] = HEAP;
	sample.regs[DECODE_SI] = 3;
	RUN(argument);
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_uint_eq(window.n_accesses, 3);
	ck_assert_uint_eq(window.accesses[1].address, HEAP);
	RUN(argument); /* kept */
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	sample.regs[DECODE_SI] = 0;
	RUN(argument);
	ck_assert_int_eq(window.end, DECODE_END_RETURN);
}
END_TEST

static void check_not_known(void)
{
	ck_assert_uint_ge(window.n_accesses, 2);
	ck_assert_uint_eq(window.accesses[0].address, FRAME - 8);
	ck_assert_int_eq(window.accesses[1].state, DECODE_UNKNOWN_REGISTER);
}

START_TEST(a_register_that_is_used_again_tells_no_argument)
{
	sample.regs[DECODE_DI] = HEAP;
	RUN(argument_gone);
	check_not_known();
	RUN(variable);
	check_not_known();
	RUN(other_way);
	check_not_known();
}
END_TEST

START_TEST(stores_elsewhere_leave_a_frame_alone_that_nobody_points_to)
{
	sample.regs[DECODE_DI] = HEAP;
	sample.regs[DECODE_DX] = HEAP + 4096;
	RUN(stored);
	ck_assert_uint_eq(window.accesses[1].address, HEAP);
	RUN(handed_out);
	check_not_known();
	RUN(no_frame);
	check_not_known();
}
END_TEST

START_TEST(what_was_loaded_tells_the_word_that_was_read)
{
	sample.regs[DECODE_AX] = HEAP;
	sample.regs[DECODE_DX] = 5 * 8;
	RUN(loaded);
	ck_assert_uint_eq(window.accesses[2].address, HEAP + 6 * 8);
	ck_assert_int_eq(window.accesses[2].state, DECODE_RESOLVED);
}
END_TEST

START_TEST(a_sum_and_one_of_its_parts_tell_the_other)
{
	sample.regs[DECODE_DI] = HEAP;
	sample.regs[DECODE_DX] = 12345;
	sample.regs[DECODE_AX] = HEAP + 5 * 8;
	sample.regs[DECODE_FLAGS] = 0x4; /* parity */
	RUN(added);
	ck_assert_uint_eq(window.accesses[2].address, HEAP + 5 * 8);
	sample.regs[DECODE_DX] = 0;
	RUN(addressed);
	ck_assert_uint_eq(window.accesses[2].address, HEAP + 5 * 8);
	sample.regs[DECODE_AX] = HEAP - 5 * 8;
	sample.regs[DECODE_FLAGS] = 0x14; /* and a borrow of the lowest four bits */
	RUN(taken_off);
	ck_assert_uint_eq(window.accesses[2].address, HEAP + 5 * 8);
	/* No multiple of 8 was added: it did not come that way. */
	sample.regs[DECODE_AX] = HEAP + 5;
	sample.regs[DECODE_FLAGS] = 0x4;
	RUN(added);
	ck_assert_int_eq(window.accesses[2].state, DECODE_UNKNOWN_REGISTER);
}
END_TEST

START_TEST(what_was_stored_is_lost_by_a_store_to_who_knows_where)
{
	sample.regs[DECODE_BX] = HEAP;
	sample.regs[DECODE_DX] = FRAME - 24;
	sample.regs[DECODE_AX] = HEAP + 4096;
	RUN(put);
	ck_assert_uint_eq(window.accesses[1].address, HEAP);
	/* A frame's word through another pointer: it is that word. */
	sample.regs[DECODE_AX] = FRAME - 8;
	RUN(put);
	ck_assert_uint_ne(window.accesses[1].address, HEAP);
}
END_TEST

START_TEST(a_later_load_tells_what_an_earlier_one_read)
{
	sample.regs[DECODE_AX] = HEAP;
	RUN(twice);
	ck_assert_uint_ge(window.n_behind, 3);
	ck_assert_uint_eq(window.behind[1].address, HEAP + 16);
	ck_assert_int_eq(window.behind[1].state, DECODE_RESOLVED);
}
END_TEST

START_TEST(an_argument_is_known_where_several_branches_lead)
{
	sample.regs[DECODE_DI] = HEAP;
	RUN(joined);
	ck_assert_uint_eq(window.accesses[1].address, HEAP);
	RUN(joined_changed);
	check_not_known();
	RUN(no_call);
	ck_assert_uint_eq(window.accesses[1].address, HEAP);
}
END_TEST

START_TEST(an_argument_is_known_behind_a_switch_whose_table_is)
{
	uint64_t table = FLAT_CODE_START + (uint64_t)(switched_case - switched_start);

	sample.regs[DECODE_DI] = HEAP;
	RUN(switched);
	check_not_known();
	flat.data_start = 0x500000;
	flat.data = &table;
	flat.data_bytes = sizeof(table);
	decode_invalidate(decoder, 0, 0, UINT64_MAX);
	RUN(switched);
	ck_assert_uint_eq(window.accesses[1].address, HEAP);
}
END_TEST

START_TEST(where_an_array_begins_is_guessed_if_wanted)
{
	sample.regs[DECODE_DI] = HEAP;
	RUN(open_index);
	ck_assert_uint_ge(window.n_accesses, 3);
	ck_assert_int_eq(window.accesses[2].state, DECODE_UNKNOWN_REGISTER);
	decode_set_guessing(decoder, true);
	RUN(open_index);
	ck_assert_int_eq(window.accesses[2].state, DECODE_FROM_BASE);
	ck_assert_uint_eq(window.accesses[2].address, HEAP);
	ck_assert(!decode_state_has_address(DECODE_FROM_BASE));
	/* Without a base it is somewhere in the first pages. */
	sample.regs[DECODE_DI] = 0;
	RUN(open_index);
	ck_assert_int_eq(window.accesses[2].state, DECODE_UNKNOWN_REGISTER);
}
END_TEST

/* The nearest access of 8 bytes at an offset from the block; its state. */
static const struct decode_access *find_behind(uint64_t address)
{
	for (uint32_t i = 0; i < window.n_behind; i++)
		if (window.behind[i].address == address)
			return &window.behind[i];
	return NULL;
}

START_TEST(a_sampled_word_tells_what_was_loaded_by_it)
{
	const uint64_t stack[] = { 0, 0, 0, 0, 0, 0, 0, HEAP, 0, 0 };

	sample.regs[DECODE_BP] = FRAME + 64;
	sample.regs[DECODE_FLAGS] = 0x4; /* parity, by the sub */
	sample.stack = stack;
	sample.stack_bytes = sizeof(stack);
	RUN(sampled);
	ck_assert_ptr_nonnull(find_behind(HEAP + 16));
	RUN(sampled_store);
	ck_assert_ptr_nonnull(find_behind(HEAP));
	RUN(sampled_later);
	ck_assert_ptr_null(find_behind(HEAP + 16));
	RUN(sampled_elsewhere);
	ck_assert_ptr_null(find_behind(HEAP + 16));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("decode-past");
	TCase *tcase = tcase_create("past");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, an_argument_is_as_its_register_says);
	tcase_add_test(tcase, a_register_that_is_used_again_tells_no_argument);
	tcase_add_test(tcase, stores_elsewhere_leave_a_frame_alone_that_nobody_points_to);
	tcase_add_test(tcase, what_was_loaded_tells_the_word_that_was_read);
	tcase_add_test(tcase, a_sum_and_one_of_its_parts_tell_the_other);
	tcase_add_test(tcase, what_was_stored_is_lost_by_a_store_to_who_knows_where);
	tcase_add_test(tcase, a_later_load_tells_what_an_earlier_one_read);
	tcase_add_test(tcase, an_argument_is_known_where_several_branches_lead);
	tcase_add_test(tcase, an_argument_is_known_behind_a_switch_whose_table_is);
	tcase_add_test(tcase, where_an_array_begins_is_guessed_if_wanted);
	tcase_add_test(tcase, a_sampled_word_tells_what_was_loaded_by_it);
	tcase_add_test(tcase, a_turn_of_two_ways_is_weighed_by_where_samples_are);
	tcase_add_test(tcase, a_loop_and_one_within_have_their_time_each_for_itself);
	suite_add_tcase(suite, tcase);

	return suite_run(suite);
}

#else

int main(void)
{
	puts("the programs of this test need an x86-64 assembler");
	return 77;
}

#endif
