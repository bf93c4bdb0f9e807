#include "decode/decode.h"

#include <check.h>

#include "tests/unit/decode/flat.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Encodings and operands by hand from the Intel SDM volume 2. Every register r holds
 * REG(r), so that an address tells which registers it was made of.
 */
#define REG(i) (0x10000000ull * ((i) + 1))
#define AX     REG(DECODE_AX)
#define BX     REG(DECODE_BX)
#define CX     REG(DECODE_CX)
#define DX     REG(DECODE_DX)
#define SI     REG(DECODE_SI)
#define DI     REG(DECODE_DI)
#define BP     REG(DECODE_BP)
#define SP     REG(DECODE_SP)
#define R9     REG(DECODE_R8 + 1)
#define R12    REG(DECODE_R8 + 4)
#define R13    REG(DECODE_R8 + 5)
#define FS     0x7f0000001000ull

struct expected_access {
	uint64_t address;
	uint32_t size;
	char mode; /* 'r', 'w', or 'm' for both; 0 ends the list */
	uint8_t state;
	uint32_t count; /* 0 stands for 1 */
};

struct row {
	const char *name;
	uint8_t n_bytes;
	uint8_t code[15];
	struct expected_access accesses[3];
};

#define CODE(...)                                                                                  \
	sizeof((uint8_t[]){ __VA_ARGS__ }),                                                        \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

static const struct row rows[] = {
	{ "mov rax, [rbx+rcx*8+0x10]",
	  CODE(0x48, 0x8b, 0x44, 0xcb, 0x10),
	  { { BX + 8 * CX + 16, 8, 'r' } } },
	{ "mov [rbx-1], al", CODE(0x88, 0x43, 0xff), { { BX - 1, 1, 'w' } } },
	{ "mov ax, [r12]", CODE(0x66, 0x41, 0x8b, 0x04, 0x24), { { R12, 2, 'r' } } },
	{ "mov eax, [r13+0]", CODE(0x41, 0x8b, 0x45, 0x00), { { R13, 4, 'r' } } },
	{ "mov eax, [rip+0x100]",
	  CODE(0x8b, 0x05, 0x00, 0x01, 0x00, 0x00),
	  { { FLAT_CODE_START + 6 + 0x100, 4, 'r' } } },
	{ "mov eax, [0x1000] (no base)",
	  CODE(0x8b, 0x04, 0x25, 0x00, 0x10, 0x00, 0x00),
	  { { 0x1000, 4, 'r' } } },
	{ "movabs rax, [0x123456789abcdef0]",
	  CODE(0x48, 0xa1, 0xf0, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12),
	  { { 0x123456789abcdef0, 8, 'r' } } },
	{ "mov eax, [ebx+esi] (32-bit addressing)",
	  CODE(0x67, 0x8b, 0x04, 0x33),
	  { { (BX + SI) & 0xffffffff, 4, 'r' } } },
	{ "mov rax, fs:[0x28]",
	  CODE(0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0x00, 0x00, 0x00),
	  { { FS + 0x28, 8, 'r' } } },
	{ "mov rax, fs:[rbx-8]", CODE(0x64, 0x48, 0x8b, 0x43, 0xf8), { { FS + BX - 8, 8, 'r' } } },
	{ "mov rax, gs:[0]",
	  CODE(0x65, 0x48, 0x8b, 0x04, 0x25, 0x00, 0x00, 0x00, 0x00),
	  { { 0, 8, 'r', DECODE_UNKNOWN_SEGMENT } } },
	{ "mov rax, ds:[rbx] (ignored prefix)", CODE(0x3e, 0x48, 0x8b, 0x03), { { BX, 8, 'r' } } },
	{ "add [rdi], eax", CODE(0x01, 0x07), { { DI, 4, 'm' } } },
	{ "cmp [rdi], eax", CODE(0x39, 0x07), { { DI, 4, 'r' } } },
	{ "lock xadd [rdi], eax", CODE(0xf0, 0x0f, 0xc1, 0x07), { { DI, 4, 'm' } } },
	{ "lock cmpxchg [rdi], ecx", CODE(0xf0, 0x0f, 0xb1, 0x0f), { { DI, 4, 'm' } } },
	{ "cmpxchg16b [rdi]", CODE(0x48, 0x0f, 0xc7, 0x0f), { { DI, 16, 'm' } } },
	{ "xchg [rdi], eax", CODE(0x87, 0x07), { { DI, 4, 'm' } } },
	{ "sete [rdi]", CODE(0x0f, 0x94, 0x07), { { DI, 1, 'w' } } },
	{ "cmove eax, [rdi] (reads in any case)", CODE(0x0f, 0x44, 0x07), { { DI, 4, 'r' } } },
	{ "movsxd rax, dword [rdi]", CODE(0x48, 0x63, 0x07), { { DI, 4, 'r' } } },
	{ "movzx eax, byte [rdi]", CODE(0x0f, 0xb6, 0x07), { { DI, 1, 'r' } } },
	{ "div qword [rdi]", CODE(0x48, 0xf7, 0x37), { { DI, 8, 'r' } } },
	{ "push rax", CODE(0x50), { { SP - 8, 8, 'w' } } },
	{ "push ax", CODE(0x66, 0x50), { { SP - 2, 2, 'w' } } },
	{ "push 1", CODE(0x6a, 0x01), { { SP - 8, 8, 'w' } } },
	{ "push [rsp+8] (address before)",
	  CODE(0xff, 0x74, 0x24, 0x08),
	  { { SP + 8, 8, 'r' }, { SP - 8, 8, 'w' } } },
	{ "pop rax", CODE(0x58), { { SP, 8, 'r' } } },
	{ "pop [rsp+8] (address after)",
	  CODE(0x8f, 0x44, 0x24, 0x08),
	  { { SP + 16, 8, 'w' }, { SP, 8, 'r' } } },
	{ "pop [rbx]", CODE(0x8f, 0x03), { { BX, 8, 'w' }, { SP, 8, 'r' } } },
	{ "pushfq", CODE(0x9c), { { SP - 8, 8, 'w' } } },
	{ "popfq", CODE(0x9d), { { SP, 8, 'r' } } },
	{ "call +0", CODE(0xe8, 0x00, 0x00, 0x00, 0x00), { { SP - 8, 8, 'w' } } },
	{ "call [rsp+8] (address before)",
	  CODE(0xff, 0x54, 0x24, 0x08),
	  { { SP + 8, 8, 'r' }, { SP - 8, 8, 'w' } } },
	{ "call rax", CODE(0xff, 0xd0), { { SP - 8, 8, 'w' } } },
	{ "jmp [rip+0]",
	  CODE(0xff, 0x25, 0x00, 0x00, 0x00, 0x00),
	  { { FLAT_CODE_START + 6, 8, 'r' } } },
	{ "ret", CODE(0xc3), { { SP, 8, 'r' } } },
	{ "ret 8", CODE(0xc2, 0x08, 0x00), { { SP, 8, 'r' } } },
	{ "leave", CODE(0xc9), { { BP, 8, 'r' } } },
	{ "enter 16, 0", CODE(0xc8, 0x10, 0x00, 0x00), { { SP - 8, 8, 'w' } } },
	{ "lea rax, [rbx+rcx]", CODE(0x48, 0x8d, 0x04, 0x0b), { { 0 } } },
	{ "nop dword [rax]", CODE(0x0f, 0x1f, 0x00), { { 0 } } },
	{ "endbr64", CODE(0xf3, 0x0f, 0x1e, 0xfa), { { 0 } } },
	{ "prefetcht0 [rdi]", CODE(0x0f, 0x18, 0x0f), { { 0 } } },
	{ "prefetchw [rax]", CODE(0x0f, 0x0d, 0x08), { { 0 } } },
	{ "clflush [rax]", CODE(0x0f, 0xae, 0x38), { { 0 } } },
	{ "clflushopt [rax]", CODE(0x66, 0x0f, 0xae, 0x38), { { 0 } } },
	{ "clwb [rax]", CODE(0x66, 0x0f, 0xae, 0x30), { { 0 } } },
	{ "add eax, ecx", CODE(0x01, 0xc8), { { 0 } } },
	{ "xlatb", CODE(0xd7), { { BX + (AX & 0xff), 1, 'r' } } },
	{ "bt [rdi], eax (bit offset)",
	  CODE(0x0f, 0xa3, 0x07),
	  { { DI + (AX >> 5) * 4, 4, 'r' } } },
	{ "bts [rdi], rax", CODE(0x48, 0x0f, 0xab, 0x07), { { DI + (AX >> 6) * 8, 8, 'm' } } },
	{ "bt dword [rdi], 40 (within the operand)",
	  CODE(0x0f, 0xba, 0x27, 0x28),
	  { { DI, 4, 'r' } } },
	{ "movsb", CODE(0xa4), { { DI, 1, 'w' }, { SI, 1, 'r' } } },
	{ "rep movsb", CODE(0xf3, 0xa4), { { DI, 1, 'w', 0, CX }, { SI, 1, 'r', 0, CX } } },
	{ "rep movsq", CODE(0xf3, 0x48, 0xa5), { { DI, 8, 'w', 0, CX }, { SI, 8, 'r', 0, CX } } },
	{ "repne movsb (repeats as well)",
	  CODE(0xf2, 0xa4),
	  { { DI, 1, 'w', 0, CX }, { SI, 1, 'r', 0, CX } } },
	{ "rep stosd", CODE(0xf3, 0xab), { { DI, 4, 'w', 0, CX } } },
	{ "lodsw", CODE(0x66, 0xad), { { SI, 2, 'r' } } },
	{ "repne scasb (ended by the data)",
	  CODE(0xf2, 0xae),
	  { { DI, 1, 'r', DECODE_FIRST_ONLY } } },
	{ "repe cmpsb",
	  CODE(0xf3, 0xa6),
	  { { SI, 1, 'r', DECODE_FIRST_ONLY }, { DI, 1, 'r', DECODE_FIRST_ONLY } } },
	{ "movsd xmm0, [rdi] (not the string one)",
	  CODE(0xf2, 0x0f, 0x10, 0x07),
	  { { DI, 8, 'r' } } },
	{ "movups [rdi], xmm0", CODE(0x0f, 0x11, 0x07), { { DI, 16, 'w' } } },
	{ "addps xmm0, [rdi]", CODE(0x0f, 0x58, 0x07), { { DI, 16, 'r' } } },
	{ "vmovdqu ymm0, [r9]", CODE(0xc4, 0xc1, 0x7e, 0x6f, 0x01), { { R9, 32, 'r' } } },
	{ "vmovups [rdi+0x40], zmm0 (disp8*64)",
	  CODE(0x62, 0xf1, 0x7c, 0x48, 0x11, 0x47, 0x01),
	  { { DI + 64, 64, 'w' } } },
	{ "vaddps zmm0, zmm0, [rdi]{1to16}",
	  CODE(0x62, 0xf1, 0x7c, 0x58, 0x58, 0x07),
	  { { DI, 4, 'r' } } },
	{ "vpgatherdd xmm0, [rax+xmm1*4], xmm2",
	  CODE(0xc4, 0xe2, 0x69, 0x90, 0x04, 0x88),
	  { { AX, 4, 'r', DECODE_BASE_ONLY, 4 } } },
	{ "vpgatherdd ymm0, [rax+ymm1*4], ymm2",
	  CODE(0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x88),
	  { { AX, 4, 'r', DECODE_BASE_ONLY, 8 } } },
	{ "vpgatherdq ymm0, [rax+xmm1*4], ymm2",
	  CODE(0xc4, 0xe2, 0xed, 0x90, 0x04, 0x88),
	  { { AX, 8, 'r', DECODE_BASE_ONLY, 4 } } },
	{ "vpgatherqd xmm0, [rax+xmm1*4], xmm2",
	  CODE(0xc4, 0xe2, 0x69, 0x91, 0x04, 0x88),
	  { { AX, 4, 'r', DECODE_BASE_ONLY, 2 } } },
	{ "vpgatherdd zmm0{k1}, [rax+zmm1*4]",
	  CODE(0x62, 0xf2, 0x7d, 0x49, 0x90, 0x04, 0x88),
	  { { AX, 4, 'r', DECODE_BASE_ONLY, 16 } } },
	{ "vpscatterqq [rax+zmm1*4]{k1}, zmm0",
	  CODE(0x62, 0xf2, 0xfd, 0x49, 0xa1, 0x04, 0x88),
	  { { AX, 8, 'w', DECODE_BASE_ONLY, 8 } } },
	{ "fld qword [rdi]", CODE(0xdd, 0x07), { { DI, 8, 'r' } } },
	{ "fstp tbyte [rdi]", CODE(0xdb, 0x3f), { { DI, 10, 'w' } } },
	{ "fxsave [rdi]", CODE(0x0f, 0xae, 0x07), { { DI, 512, 'w' } } },
	{ "xsavec [rdi] (length by features)",
	  CODE(0x0f, 0xc7, 0x27),
	  { { DI, 576, 'w', DECODE_FIRST_ONLY } } },
	{ "ldmxcsr [rdi]", CODE(0x0f, 0xae, 0x17), { { DI, 4, 'r' } } },
	{ "movdir64b rax, [rdi]",
	  CODE(0x66, 0x0f, 0x38, 0xf8, 0x07),
	  { { DI, 64, 'r' }, { AX, 64, 'w' } } },
	{ "maskmovdqu xmm0, xmm1",
	  CODE(0x66, 0x0f, 0xf7, 0xc1),
	  { { DI, 16, 'w', DECODE_MASKED } } },
	{ "vpmaskmovd ymm0, ymm1, [rdi]",
	  CODE(0xc4, 0xe2, 0x75, 0x8c, 0x07),
	  { { DI, 32, 'r', DECODE_MASKED } } },
	{ "vmovups [rdi]{k1}, zmm0",
	  CODE(0x62, 0xf1, 0x7c, 0x49, 0x11, 0x07),
	  { { DI, 64, 'w', DECODE_MASKED } } },
	{ "vpexpandd zmm0{k1}, [rdi]",
	  CODE(0x62, 0xf2, 0x7d, 0x49, 0x89, 0x07),
	  { { DI, 64, 'r', DECODE_MASKED } } },
	{ "clzero (the line around rax)", CODE(0x0f, 0x01, 0xfc), { { AX & ~63ull, 64, 'w' } } },
};

static struct decode_window window;

static void run_code(const void *code, size_t n_bytes, struct decode_sample *sample)
{
	struct flat flat = { .code = code, .code_bytes = n_bytes };
	struct decode_memory memory = flat_memory(&flat);
	auto_decoder struct decoder *decoder = NULL;

	sample->ip = FLAT_CODE_START;
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 16, &decoder), 0);
	ck_assert_int_eq(decode_window(decoder, sample, 1, &window), 0);
}

static struct decode_sample plain_sample(void)
{
	struct decode_sample sample = { .fs_base = FS };

	for (unsigned i = 0; i < DECODE_N_REGS; i++)
		sample.regs[i] = REG(i);
	sample.regs[DECODE_FLAGS] = 0x202;
	return sample;
}

static void check_access(const struct row *row, unsigned i)
{
	const struct expected_access *expected = &row->accesses[i];
	const struct decode_access *access = &window.accesses[i];

	ck_assert_msg(access->address == expected->address, "%s: operand %u at %#lx, not %#lx",
		      row->name, i, (unsigned long)access->address,
		      (unsigned long)expected->address);
	ck_assert_msg(access->size == expected->size, "%s: operand %u has %u bytes", row->name, i,
		      access->size);
	ck_assert_msg(access->is_read == (expected->mode != 'w'), "%s: read", row->name);
	ck_assert_msg(access->is_write == (expected->mode != 'r'), "%s: write", row->name);
	ck_assert_msg(access->state == expected->state, "%s: state %u", row->name, access->state);
	ck_assert_msg(access->count == (expected->count ? expected->count : 1), "%s: count %u",
		      row->name, access->count);
	ck_assert_uint_eq(access->position, 0);
	ck_assert_uint_eq(access->ip, FLAT_CODE_START);
}

START_TEST(an_instruction_has_the_operands_of_the_manual)
{
	const struct row *row = &rows[_i];
	struct decode_sample sample = plain_sample();
	unsigned n = 0;

	while (n < 3 && row->accesses[n].mode)
		n++;
	run_code(row->code, row->n_bytes, &sample);
	ck_assert_msg(window.n_accesses == n, "%s: %u accesses, not %u", row->name,
		      window.n_accesses, n);
	for (unsigned i = 0; i < n; i++)
		check_access(row, i);
}
END_TEST

START_TEST(a_backward_repeat_gives_the_lowest_address)
{
	static const uint8_t code[] = { 0xf3, 0x48, 0xab }; /* rep stosq */
	struct decode_sample sample = plain_sample();

	sample.regs[DECODE_FLAGS] |= 0x400;
	sample.regs[DECODE_CX] = 5;
	run_code(code, sizeof(code), &sample);
	ck_assert_uint_eq(window.n_accesses, 1);
	ck_assert_uint_eq(window.accesses[0].address, DI - 4 * 8);
	ck_assert_uint_eq(window.accesses[0].count, 5);
}
END_TEST

START_TEST(a_repeat_of_zero_touches_nothing)
{
	static const uint8_t code[] = { 0xf3, 0xa4 }; /* rep movsb */
	struct decode_sample sample = plain_sample();

	sample.regs[DECODE_CX] = 0;
	run_code(code, sizeof(code), &sample);
	ck_assert_uint_eq(window.n_accesses, 0);
	ck_assert_uint_eq(window.n_instructions, 1);
}
END_TEST

START_TEST(thread_local_data_need_the_fs_base)
{
	static const uint8_t code[] = { 0x64, 0x48, 0x8b, 0x03 }; /* mov rax, fs:[rbx] */
	struct decode_sample sample = plain_sample();

	sample.fs_base = 0;
	run_code(code, sizeof(code), &sample);
	ck_assert_uint_eq(window.n_accesses, 1);
	ck_assert_uint_eq(window.accesses[0].state, DECODE_UNKNOWN_SEGMENT);
	ck_assert_uint_eq(window.accesses[0].address, 0);
}
END_TEST

START_TEST(a_negative_bit_offset_moves_down)
{
	static const uint8_t code[] = { 0x0f, 0xa3, 0x07 }; /* bt [rdi], eax */
	struct decode_sample sample = plain_sample();

	sample.regs[DECODE_AX] = (uint32_t)-1;
	run_code(code, sizeof(code), &sample);
	ck_assert_uint_eq(window.accesses[0].address, DI - 4);
}
END_TEST

START_TEST(other_machines_are_not_supported)
{
	struct flat flat = { 0 };
	struct decode_memory memory = flat_memory(&flat);
	struct decoder *decoder = NULL;

	ck_assert_int_eq(decode_create(183 /* EM_AARCH64 */, &memory, 0, &decoder), -EOPNOTSUPP);
	ck_assert_int_eq(decode_create(3 /* EM_386 */, &memory, 0, &decoder), -EOPNOTSUPP);
	memory.code = NULL;
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 0, &decoder), -EINVAL);
	ck_assert_ptr_null(decoder);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("decode-operand");
	TCase *tcase = tcase_create("operand");

	tcase_add_loop_test(tcase, an_instruction_has_the_operands_of_the_manual, 0,
			    (int)(sizeof(rows) / sizeof(rows[0])));
	tcase_add_test(tcase, a_backward_repeat_gives_the_lowest_address);
	tcase_add_test(tcase, a_repeat_of_zero_touches_nothing);
	tcase_add_test(tcase, thread_local_data_need_the_fs_base);
	tcase_add_test(tcase, a_negative_bit_offset_moves_down);
	tcase_add_test(tcase, other_machines_are_not_supported);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
