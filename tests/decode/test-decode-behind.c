/* What lies before a sample: where instructions begin, and what they accessed. */
#include "decode/behind.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "decode/instruction.h"
#include "tests/decode/flat.h"
#include "tests/suite.h"

#ifdef __x86_64__

#define HEAP  UINT64_C(0x555500001000)
#define STACK UINT64_C(0x7ffd00001000)

/*
 * `name`_start to `name`_end is the program, `name`_ip the sampled instruction. Code before it gives
 * the sweeps room to fall into step, as any real function does.
 */
#define PROGRAM(name, before, behind)                                                              \
	__asm__(".pushsection .rodata\n.intel_syntax noprefix\n" #name "_start:\n"                 \
		".rept 12\nmov eax, [rip+0x1000]\nlea rcx, [rax+8]\n.endr\n" before "\n" #name     \
		"_ip:\n" behind "\n" #name "_end:\n.att_syntax prefix\n.popsection");              \
	extern const uint8_t name##_start[], name##_ip[], name##_end[]

/* The load that is waited for lies before the sample, as in a vectorised strlen. */
PROGRAM(stall,
	"ret\n"
	"vmovdqu ymm1, [rdi]\n"
	"vpmovmskb eax, ymm1",
	"tzcnt eax, eax\n"
	"jne 1f\n"
	"mov rax, [rsi]\n"
	"1: ret");
PROGRAM(traced_back,
	"ret\n"
	"mov rdx, [rdi+8]\n"
	"add rdi, 16\n"
	"inc rsi\n"
	"push rsi\n"
	"lea r8, [r8-4]",
	"mov [r8], edx\n"
	"syscall");
PROGRAM(replaced,
	"ret\n"
	"mov rdx, [rax]\n" /* from before rax was replaced: not to be told any more */
	"mov rax, [rax+8]\n"
	"xadd [rdi], rbx\n"
	"mov r9, [rbx]",
	"test rax, rax\n"
	"syscall");
PROGRAM(blocked,
	"mov rdx, [rdi]\n"
	"jne 1f\n"
	"mov rcx, [rsi]\n"
	"1: nop",
	"syscall");
PROGRAM(nothing, "ret\ninc rax", "vpmovmskb eax, ymm1\ntest eax, eax\nje 1f\n1: ret");

static struct flat flat;
static struct decoder *decoder;
static struct decode_sample sample;
static struct decode_window window;
static struct decode_charge charge;

static void setup(void)
{
	struct decode_memory memory = flat_memory(&flat);

	flat = (struct flat){ 0 };
	sample = (struct decode_sample){ 0 };
	sample.regs[DECODE_SP] = STACK;
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
	decode_charge(&window, &charge);
}
#define RUN(name) run(name##_start, name##_ip, name##_end)

START_TEST(the_access_before_ip_gets_the_time_of_its_block)
{
	sample.regs[DECODE_DI] = HEAP;
	RUN(stall);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_BLOCK);
	ck_assert_uint_eq(window.n_behind, 1);
	ck_assert_int_eq(window.behind[0].state, DECODE_RESOLVED);
	ck_assert_uint_eq(window.behind[0].address, HEAP);
	ck_assert_uint_eq(window.behind[0].size, 32);
	ck_assert(window.behind[0].is_read && !window.behind[0].is_write);
	ck_assert(window.behind[0].share == 1 && charge.resolved_share == 1);
}
END_TEST

START_TEST(registers_changed_by_constants_are_traced_back)
{
	sample.regs[DECODE_DI] = HEAP + 16;
	sample.regs[DECODE_R8] = HEAP + 0x100;
	sample.regs[DECODE_SP] = STACK - 8;
	RUN(traced_back);
	ck_assert_uint_eq(window.n_behind, 2);
	ck_assert_uint_eq(window.behind[0].address, STACK - 8); /* push */
	ck_assert(window.behind[0].is_write);
	ck_assert_uint_eq(window.behind[1].address, HEAP + 8);
	ck_assert_int_eq(window.behind[1].state, DECODE_RESOLVED);
	/* Three accesses in the block: the two before ip and the store at it. */
	ck_assert_double_eq_tol(window.accesses[0].share, 1.0 / 3, 1e-6);
	ck_assert_double_eq_tol(charge.resolved_share, 1, 1e-6);
}
END_TEST

START_TEST(registers_that_were_replaced_are_not_known)
{
	sample.regs[DECODE_AX] = HEAP;
	sample.regs[DECODE_BX] = HEAP + 0x40;
	sample.regs[DECODE_DI] = HEAP + 0x80;
	RUN(replaced);
	ck_assert_uint_eq(window.n_behind, 4);
	ck_assert_int_eq(window.behind[0].state, DECODE_RESOLVED); /* rbx after xadd */
	ck_assert_uint_eq(window.behind[0].address, HEAP + 0x40);
	ck_assert_uint_eq(window.behind[1].address, HEAP + 0x80); /* xadd's own operand */
	ck_assert_int_eq(window.behind[2].state, DECODE_UNKNOWN_REGISTER);
	ck_assert_int_eq(window.behind[3].state, DECODE_UNKNOWN_REGISTER);
	ck_assert_double_eq_tol(charge.unresolved_share, 0.5, 1e-6);
}
END_TEST

START_TEST(the_block_begins_behind_the_last_branch)
{
	sample.regs[DECODE_SI] = HEAP;
	sample.regs[DECODE_DI] = HEAP + 8;
	RUN(blocked);
	ck_assert_uint_eq(window.n_behind, 1);
	ck_assert_uint_eq(window.behind[0].address, HEAP);
}
END_TEST

START_TEST(a_window_that_ends_early_without_an_access_says_nothing)
{
	RUN(nothing);
	ck_assert_int_eq(window.end, DECODE_END_UNKNOWN_BRANCH);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_NONE);
	ck_assert(charge.unresolved_share == 1 && charge.code_share == 0);
}
END_TEST

START_TEST(the_same_address_in_other_code_is_read_anew)
{
	sample.regs[DECODE_DI] = HEAP;
	RUN(stall);
	uint64_t ip = sample.ip;
	RUN(blocked);
	decode_invalidate(decoder, 0, 0, UINT64_MAX);
	RUN(stall);
	ck_assert_uint_eq(sample.ip, ip);
	ck_assert_uint_eq(window.behind[0].address, HEAP);
}
END_TEST

/* Functions of the C library, large and written by people and compilers. */
static const char *const functions[] = { "qsort_r", "vfprintf",	   "vfscanf",  "regcomp",
					 "strtod",  "getaddrinfo", "glob",     "fts_read",
					 "iconv",   "strptime",	   "mktime",   "realloc",
					 "fnmatch", "getopt",	   "vfwprintf" };

struct tally {
	unsigned n, n_told, n_right;
};

/* A sweep from a function's start is the truth; ask at each instruction what came before it. */
static void check_function(const uint8_t *code, struct tally *tally)
{
	size_t previous = 0;

	for (size_t at = 0; at < 2000;) {
		struct instruction instruction;
		uint8_t length = 0;

		if (at > BEHIND_SWEEP_BYTES) {
			tally->n++;
			tally->n_told += decode_behind_lengths(code, at, 0x10000 + at, &length, 1);
			tally->n_right += length == at - previous;
		}
		if (decode_instruction_fill(code + at, 15, 0x10000 + at, &instruction) < 0)
			break;
		previous = at;
		at += instruction.bytes;
	}
}

START_TEST(sweeps_find_where_the_instructions_of_real_code_begin)
{
	struct tally tally = { 0 };

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		const uint8_t *code = dlsym(RTLD_DEFAULT, functions[i]);
		ck_assert_ptr_nonnull(code);
		check_function(code, &tally);
	}
	printf("%u instructions: %u told, %u right\n", tally.n, tally.n_told, tally.n_right);
	ck_assert_uint_gt(tally.n, 3000);
	ck_assert_uint_ge(tally.n_told * 100, tally.n * 95);
	ck_assert_uint_ge(tally.n_right * 1000, tally.n_told * 995);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("decode-behind");
	TCase *tcase = suite_case("behind");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, the_access_before_ip_gets_the_time_of_its_block);
	tcase_add_test(tcase, registers_changed_by_constants_are_traced_back);
	tcase_add_test(tcase, registers_that_were_replaced_are_not_known);
	tcase_add_test(tcase, the_block_begins_behind_the_last_branch);
	tcase_add_test(tcase, a_window_that_ends_early_without_an_access_says_nothing);
	tcase_add_test(tcase, the_same_address_in_other_code_is_read_anew);
	tcase_add_test(tcase, sweeps_find_where_the_instructions_of_real_code_begin);
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
