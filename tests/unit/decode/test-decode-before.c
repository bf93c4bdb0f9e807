/* Which instruction a debug register's trap came from, and what it did there. */
#include "decode/watch-instruction.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/decode/flat.h"
#include "tests/support/suite.h"

#ifdef __x86_64__

#define WATCHED UINT64_C(0x555500001000)

/* Code before the trap gives the sweeps room to fall into step, as any real function does. */
#define PROGRAM(name, text)                                                                        \
	__asm__(".pushsection .rodata\n.intel_syntax noprefix\n" #name "_start:\n"                 \
		".rept 12\nmov eax, [rip+0x1000]\nlea rcx, [rax+8]\n.endr\n" text "\n" #name       \
		"_ip:\n.rept 8\nnop\n.endr\n" #name "_end:\n.att_syntax prefix\n.popsection");     \
	extern const uint8_t name##_start[], name##_ip[], name##_end[]

PROGRAM(plain_load, "mov rdx, [rdi]");
PROGRAM(plain_store, "mov [rdi], rdx");
PROGRAM(update, "lock xadd [rdi], rdx");
PROGRAM(own_base, "mov rdi, [rdi]");
PROGRAM(indexed, "mov [rsi+rbx*8+16], eax");
PROGRAM(inside, "movups [rdi-4], xmm0");
PROGRAM(compare, "cmp qword ptr [rdi], 1");
PROGRAM(elsewhere, "mov [rdi+4096], rdx");
PROGRAM(nothing, "add rax, rbx");

static const struct {
	const char *name;
	const uint8_t *start;
	const uint8_t *ip;
	const uint8_t *end;
	unsigned length; /* of the instruction; 0: it cannot be told */
	bool is_read;
	bool is_write;
} cases[] = {
#define CASE(name, ...)                                                                            \
	{                                                                                          \
#name, name##_start, name##_ip, name##_end, __VA_ARGS__                            \
	}
	CASE(plain_load, 3, true, false), CASE(plain_store, 3, false, true),
	CASE(update, 5, true, true),	  CASE(own_base, 3, true, false),
	CASE(indexed, 4, false, true),	  CASE(inside, 4, false, true),
	CASE(compare, 4, true, false),	  CASE(elsewhere, 0, false, false),
	CASE(nothing, 0, false, false),
};

static void look(int i, bool has_registers, struct decode_before *ret_before)
{
	static struct decode_before_cache cache;
	struct flat flat = { .code = cases[i].start,
			     .code_bytes = (size_t)(cases[i].end - cases[i].start) };
	struct decode_memory memory = { .code = flat_code, .user = &flat };
	struct decode_sample sample = {
		.ip = FLAT_CODE_START + (uint64_t)(cases[i].ip - cases[i].start),
		.process = (uint32_t)i + 1 + 100 * has_registers,
	};

	sample.regs[DECODE_DI] = WATCHED;
	if (cases[i].start == own_base_start)
		sample.regs[DECODE_DI] = 77; /* what was loaded */
	sample.regs[DECODE_SI] = WATCHED - 40;
	sample.regs[DECODE_BX] = 3;
	const struct decode_trap trap = { &memory, &sample, has_registers, WATCHED, 8 };
	decode_before(&cache, &trap, ret_before);
	if (ret_before->ip)
		ck_assert_uint_eq(sample.ip - ret_before->ip, cases[i].length);
}

START_TEST(the_instruction_whose_operand_lies_there_is_the_one)
{
	struct decode_before before;

	look(_i, true, &before);
	ck_assert_msg((before.ip != 0) == (cases[_i].length != 0), "%s", cases[_i].name);
	ck_assert_msg(before.is_read == cases[_i].is_read, "%s", cases[_i].name);
	ck_assert_msg(before.is_write == cases[_i].is_write, "%s", cases[_i].name);
	look(_i, true, &before); /* from the cache */
	ck_assert(before.is_write == cases[_i].is_write);
}
END_TEST

START_TEST(without_registers_the_instruction_that_sweeps_agree_on_counts)
{
	struct decode_before before;

	look(0, false, &before);
	ck_assert(before.is_read && !before.is_write);
	look(1, false, &before);
	ck_assert(!before.is_read && before.is_write);
	look(8, false, &before);
	ck_assert_uint_eq(before.ip, 0);
}
END_TEST

/* A copy that the trap interrupts: ip stands at the rep, its registers have gone on. */
static const uint8_t rep_movsb[] = { 0x90, 0x90, 0x90, 0x90, 0xf3, 0xa4, 0x90, 0x90, 0x90,
				     0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90 };

START_TEST(a_copy_that_is_under_way_tells_its_side)
{
	static struct decode_before_cache cache;
	struct flat flat = { .code = rep_movsb, .code_bytes = sizeof(rep_movsb) };
	struct decode_memory memory = { .code = flat_code, .user = &flat };
	struct decode_sample sample = { .ip = FLAT_CODE_START + 4, .process = 1 };
	const struct decode_trap trap = { &memory, &sample, true, WATCHED, 8 };
	struct decode_before before;

	sample.regs[DECODE_DI] = WATCHED + 1;
	sample.regs[DECODE_SI] = WATCHED + 4096;
	decode_before(&cache, &trap, &before);
	ck_assert(before.is_write && !before.is_read);
	sample.regs[DECODE_SI] = WATCHED + 1;
	sample.regs[DECODE_DI] = WATCHED + 4096;
	decode_before(&cache, &trap, &before);
	ck_assert(before.is_read && !before.is_write);
}
END_TEST

START_TEST(without_code_nothing_is_told)
{
	static struct decode_before_cache cache;
	struct flat flat = { .code = rep_movsb, .code_bytes = 0 };
	struct decode_memory memory = { .code = flat_code, .user = &flat };
	struct decode_sample sample = { .ip = FLAT_CODE_START + 4, .process = 1 };
	const struct decode_trap trap = { &memory, &sample, true, WATCHED, 8 };
	struct decode_before before;

	decode_before(&cache, &trap, &before);
	ck_assert_uint_eq(before.ip, 0);
	sample.ip = 3;
	decode_before(&cache, &trap, &before);
	ck_assert_uint_eq(before.ip, 0);
}
END_TEST

#endif

int main(void)
{
	Suite *suite = suite_create("decode-before");
	TCase *tcase = tcase_create("decode-before");

#ifdef __x86_64__
	tcase_add_loop_test(tcase, the_instruction_whose_operand_lies_there_is_the_one, 0,
			    sizeof(cases) / sizeof(cases[0]));
	tcase_add_test(tcase, without_registers_the_instruction_that_sweeps_agree_on_counts);
	tcase_add_test(tcase, a_copy_that_is_under_way_tells_its_side);
	tcase_add_test(tcase, without_code_nothing_is_told);
#endif
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
