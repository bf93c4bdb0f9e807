/* Windows over small assembled programs: where they end, what they know, how time is charged. */
#include "decode/decode.h"

#include <check.h>

#include "tests/unit/decode/flat.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __x86_64__

/* `name`_start to `name`_end: the assembled text; it runs (in the emulator) at FLAT_CODE_START. */
#define PROGRAM(name, text)                                                                        \
	__asm__(".pushsection .rodata\n.intel_syntax noprefix\n" #name "_start:\n" text "\n" #name \
		"_end:\n.att_syntax prefix\n.popsection");                                         \
	extern const uint8_t name##_start[], name##_end[]

PROGRAM(copy, "1: mov al, [rsi+rcx]\n"
	      "mov [rdi+rcx], al\n"
	      "inc rcx\n"
	      "cmp rcx, rdx\n"
	      "jb 1b\n"
	      "syscall");
PROGRAM(call, "1: call 2f\n"
	      "dec rcx\n"
	      "jnz 1b\n"
	      "ud2\n"
	      "2: push rbx\n"
	      "sub rsp, 16\n"
	      "mov [rsp+8], rdi\n"
	      "mov rbx, [rsp+8]\n"
	      "mov eax, [rbx]\n"
	      "add rsp, 16\n"
	      "pop rbx\n"
	      "ret");
PROGRAM(chase, "1: mov rax, [rax]\n"
	       "test rax, rax\n"
	       "jne 1b");
PROGRAM(forward, "push rdi\n"
		 "mov dword ptr [rsp-32], 0x1000\n"
		 "mov word ptr [rsp-30], 0x20\n"
		 "movzx eax, byte ptr [rsp-30]\n"
		 "mov ebx, [rsp-32]\n"
		 "pop rcx\n"
		 "mov r8, [rax]\n"
		 "mov r8, [rbx]\n"
		 "mov r8, [rcx]");
PROGRAM(below, "mov rax, [rsp-8]\n"
	       "mov r8, [rax]\n"
	       "mov rcx, [rsp-24]\n" /* no sample has it */
	       "mov r8, [rcx]\n"
	       "mov [rsp-16], rdi\n"
	       "mov rdx, [rsp-16]\n"
	       "mov r8, [rdx]\n"
	       "mov rbx, [rsp]\n"
	       "mov r8, [rbx]\n"
	       "push rsi\n"
	       "mov rax, [rsp]\n" /* where the first one was */
	       "mov r8, [rax]\n"
	       "syscall");
PROGRAM(hazard, "push rbx\n"
		"mov [rsp-16], rdi\n"
		"mov rax, [rsi]\n"
		"mov [rax], rdi\n" /* unknown address */
		"mov rdx, [rsp-16]\n"
		"mov r8, [rdx]\n" /* not known any more */
		"pop rcx\n"
		"mov r8, [rcx]\n" /* saved by push: known */
		"ret");
PROGRAM(vector_hazard, "mov [rsp-64], rdi\n"
		       "mov [rsp-40], rdi\n"
		       "movups [rsp-64], xmm0\n"
		       "mov rax, [rsp-64]\n"
		       "mov r8, [rax]\n" /* overwritten by 16 bytes that are not known */
		       "mov rbx, [rsp-40]\n"
		       "mov r8, [rbx]"); /* beside them */
PROGRAM(table, "movsxd rax, dword ptr [rbx+rcx*4]\n"
	       "add rax, rbx\n"
	       "jmp rax\n"
	       "ud2\n"
	       "mov [rdi], eax\n"
	       "syscall");
PROGRAM(switch_target, "nop\n"
		       "mov eax, [rsi]\n"
		       "jmp [rdx]");
PROGRAM(nested, "1: mov ecx, 3\n"
		"2: add [rdi+rcx*8], rax\n"
		"dec ecx\n"
		"jnz 2b\n"
		"dec rdx\n"
		"jnz 1b\n"
		"ud2");
PROGRAM(scan, "1: mov rdx, [rsi]\n"
	      "mov rdi, rbx\n"
	      "mov ecx, 100\n"
	      "repne scasb\n"
	      "jmp 1b");
PROGRAM(repeat, "1: mov ecx, 100\n"
		"rep movsb\n"
		"mov [rbx], rax\n"
		"dec rdx\n"
		"jnz 1b\n"
		"ud2");
PROGRAM(straight, ".rept 70\n"
		  "mov [rdi], eax\n"
		  ".endr\n"
		  "ud2");
PROGRAM(spin, "1: jmp 1b");
PROGRAM(bad, "nop\n"
	     ".byte 0x06");
PROGRAM(cut, "nop\n"
	     ".byte 0x48, 0x8b");
PROGRAM(masked, "and eax, 0xff\n" /* rax is not known, but fits 8 bits */
		"shr eax, 8\n"
		"mov r8, [rdi+rax]");
PROGRAM(gather, "vpgatherdd ymm0, [rdi+ymm1*4], ymm2\n"
		"vpmaskmovd [rsi], ymm1, ymm0\n"
		"syscall");
PROGRAM(lanes512, "vmovdqu32 zmm1, [rsi]\n"
		  "mov eax, 0x80ff\n"
		  "kmovw k1, eax\n"
		  "vpgatherdd zmm0{k1}, [rdi+zmm1*4]\n" /* nine of them; k1 = 0 */
		  "vmovdqu32 [rbx]{k1}, zmm0\n" /* none */
		  "kmovw k2, eax\n"
		  "vmovdqu32 [rbx]{k2}, zmm0\n" /* two runs */
		  "vpcompressd [rbx]{k2}, zmm0\n" /* nine elements */
		  "vpternlogd zmm2, zmm2, zmm2, 0xff\n"
		  "vpsubd zmm3, zmm1, zmm2\n" /* one more */
		  "kxnorw k3, k3, k3\n"
		  "vpscatterdd [rdx+zmm3*4]{k3}, zmm0\n" /* all 16 */
		  "vpcmpd k4, zmm1, [rsi]{1to16}, 2\n" /* at most the first index */
		  "vpaddd zmm4{k4}{z}, zmm1, [rsi+4]{1to16}\n"
		  "kxnorw k5, k5, k5\n"
		  "vpgatherdd zmm5{k5}, [rdi+zmm4*4]\n"
		  "vpgatherdd zmm6{k6}, [rdi+zmm4*4]\n" /* a mask that is not known */
		  "syscall");
PROGRAM(divide, "xor edx, edx\n"
		"xor ecx, ecx\n"
		"div ecx");

#define LOAD(name) load(name##_start, (size_t)(name##_end - name##_start))

#define STACK 0x7ffe00001000ull
#define HEAP  0x550000000000ull

static struct flat flat;
static struct decoder *decoder;
static struct decode_sample sample;
static struct decode_window window;
static uint8_t stack[DECODE_STACK_BYTES];

static void setup(void)
{
	struct decode_memory memory = flat_memory(&flat);

	memset(&flat, 0, sizeof(flat));
	memset(&sample, 0, sizeof(sample));
	sample.regs[DECODE_SP] = STACK;
	sample.regs[DECODE_FLAGS] = 0x202;
	sample.ip = FLAT_CODE_START;
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 0, &decoder), 0);
}

static void teardown(void)
{
	decoder = decode_destroy(decoder);
}

static void load(const uint8_t *code, size_t n_bytes)
{
	flat.code = code;
	flat.code_bytes = n_bytes;
}

static void run(void)
{
	ck_assert_int_eq(decode_window(decoder, &sample, DECODE_MAX_INSTRUCTIONS, &window), 0);
}

static void put_stack(uint64_t offset, uint64_t word)
{
	memcpy(stack + offset, &word, sizeof(word));
	sample.stack = stack;
	sample.stack_bytes = sizeof(stack);
}

START_TEST(a_loop_closes_after_one_iteration)
{
	LOAD(copy);
	sample.regs[DECODE_SI] = HEAP;
	sample.regs[DECODE_DI] = HEAP + 0x1000;
	sample.regs[DECODE_DX] = 100;
	run();
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_uint_eq(window.n_instructions, 5);
	ck_assert_uint_eq(window.n_accesses, 2);
	ck_assert_uint_eq(window.accesses[0].address, HEAP);
	ck_assert(window.accesses[0].is_read && !window.accesses[0].is_write);
	ck_assert_uint_eq(window.accesses[1].address, HEAP + 0x1000);
	ck_assert(!window.accesses[1].is_read && window.accesses[1].is_write);
}
END_TEST

START_TEST(a_loop_closes_from_its_middle)
{
	LOAD(copy);
	sample.ip += 3; /* at the store */
	sample.regs[DECODE_DX] = 100;
	sample.regs[DECODE_SI] = HEAP;
	run();
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_uint_eq(window.n_instructions, 5);
	ck_assert_uint_eq(window.accesses[1].address, HEAP + 1);
	ck_assert_uint_eq(window.accesses[1].position, 4);
}
END_TEST

START_TEST(the_last_iteration_runs_into_what_follows)
{
	LOAD(copy);
	sample.regs[DECODE_CX] = 99;
	sample.regs[DECODE_DX] = 100;
	run();
	ck_assert_int_eq(window.end, DECODE_END_SYSCALL);
	ck_assert_uint_eq(window.n_instructions, 6);
	ck_assert_uint_eq(window.end_ip, FLAT_CODE_START + flat.code_bytes - 2);
}
END_TEST

START_TEST(calls_and_returns_stay_in_the_iteration)
{
	LOAD(call);
	sample.regs[DECODE_CX] = 10;
	sample.regs[DECODE_DI] = HEAP;
	run();
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_uint_eq(window.n_instructions, 11);
	/* call, push, store, load, load through it, pop, ret */
	ck_assert_uint_eq(window.n_accesses, 7);
	ck_assert_uint_eq(window.accesses[1].address, STACK - 16);
	ck_assert_uint_eq(window.accesses[4].address, HEAP);
	ck_assert_uint_eq(window.accesses[6].address, STACK - 8);
	for (unsigned i = 0; i < window.n_accesses; i++)
		ck_assert_int_eq(window.accesses[i].state, DECODE_RESOLVED);
}
END_TEST

START_TEST(an_inner_sample_of_a_callee_closes_over_its_caller)
{
	LOAD(call);
	sample.ip = FLAT_CODE_START + 12; /* push rbx */
	sample.regs[DECODE_SP] = STACK - 8;
	sample.regs[DECODE_CX] = 10;
	put_stack(0, FLAT_CODE_START + 5);
	run();
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_uint_eq(window.n_instructions, 11);
}
END_TEST

START_TEST(a_return_without_stack_bytes_ends_the_window)
{
	LOAD(call);
	sample.ip = FLAT_CODE_START + 12;
	sample.regs[DECODE_CX] = 10;
	run();
	ck_assert_int_eq(window.end, DECODE_END_RETURN);
	ck_assert_uint_eq(window.end_ip, FLAT_CODE_START + flat.code_bytes - 1);
}
END_TEST

START_TEST(a_branch_on_loaded_data_ends_the_window)
{
	LOAD(chase);
	sample.regs[DECODE_AX] = HEAP;
	run();
	ck_assert_int_eq(window.end, DECODE_END_UNKNOWN_BRANCH);
	ck_assert_uint_eq(window.n_instructions, 3);
	ck_assert_uint_eq(window.n_accesses, 1);
	ck_assert_uint_eq(window.accesses[0].address, HEAP);
}
END_TEST

START_TEST(stores_feed_later_loads)
{
	LOAD(forward);
	sample.regs[DECODE_DI] = HEAP;
	run();
	ck_assert_int_eq(window.end, DECODE_END_NO_CODE);
	ck_assert_uint_eq(window.n_accesses, 9);
	ck_assert_uint_eq(window.accesses[6].address, 0x20);
	ck_assert_uint_eq(window.accesses[7].address, 0x201000);
	ck_assert_uint_eq(window.accesses[8].address, HEAP);
}
END_TEST

START_TEST(a_store_of_unknown_address_hides_data_but_not_saved_registers)
{
	LOAD(hazard);
	sample.regs[DECODE_BX] = HEAP;
	sample.regs[DECODE_DI] = HEAP + 0x1000;
	sample.regs[DECODE_SI] = HEAP + 0x2000;
	run();
	ck_assert_uint_eq(window.n_accesses, 9);
	ck_assert_int_eq(window.accesses[3].state, DECODE_UNKNOWN_REGISTER);
	ck_assert_int_eq(window.accesses[5].state, DECODE_UNKNOWN_REGISTER);
	ck_assert_int_eq(window.accesses[7].state, DECODE_RESOLVED);
	ck_assert_uint_eq(window.accesses[7].address, HEAP);
}
END_TEST

START_TEST(variables_below_the_stack_pointer_are_those_of_the_sample)
{
	const uint64_t words[] = { HEAP + 0x100, HEAP + 0x200 };

	LOAD(below);
	sample.below = words;
	sample.below_bytes = sizeof(words);
	put_stack(0, HEAP + 0x300);
	sample.regs[DECODE_DI] = HEAP + 0x400;
	sample.regs[DECODE_SI] = HEAP + 0x500;
	run();
	ck_assert_uint_eq(window.n_accesses, 12);
	ck_assert_uint_eq(window.accesses[1].address, HEAP + 0x200);
	ck_assert_int_eq(window.accesses[3].state, DECODE_UNKNOWN_REGISTER);
	ck_assert_uint_eq(window.accesses[6].address, HEAP + 0x400);
	ck_assert_uint_eq(window.accesses[8].address, HEAP + 0x300);
	ck_assert_uint_eq(window.accesses[11].address, HEAP + 0x500);
}
END_TEST

START_TEST(a_vector_store_hides_exactly_its_bytes)
{
	LOAD(vector_hazard);
	sample.regs[DECODE_DI] = HEAP;
	run();
	ck_assert_int_eq(window.accesses[4].state, DECODE_UNKNOWN_REGISTER);
	ck_assert_int_eq(window.accesses[6].state, DECODE_RESOLVED);
	ck_assert_uint_eq(window.accesses[6].address, HEAP);
}
END_TEST

START_TEST(a_switch_follows_its_constant_table)
{
	static const int32_t offsets[] = { 0, 0, 0, 0x1000 };
	const uint64_t table = FLAT_CODE_START - 0x1000 + 11;

	LOAD(table);
	flat.data_start = table;
	flat.data = offsets;
	flat.data_bytes = sizeof(offsets);
	sample.regs[DECODE_BX] = table;
	sample.regs[DECODE_CX] = 3;
	sample.regs[DECODE_DI] = HEAP;
	run();
	ck_assert_int_eq(window.end, DECODE_END_SYSCALL);
	ck_assert_uint_eq(window.accesses[1].address, HEAP);
}
END_TEST

START_TEST(an_unknown_target_ends_the_window)
{
	LOAD(switch_target);
	sample.regs[DECODE_DX] = HEAP;
	run();
	ck_assert_int_eq(window.end, DECODE_END_UNKNOWN_TARGET);
	ck_assert_uint_eq(window.n_accesses, 2);
	ck_assert_uint_eq(window.accesses[1].position, 2);
}
END_TEST

START_TEST(an_outer_sample_spans_the_inner_loop)
{
	LOAD(nested);
	sample.regs[DECODE_DX] = 5;
	sample.regs[DECODE_DI] = HEAP;
	run();
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_uint_eq(window.n_instructions, 1 + 3 * 3 + 2);
	ck_assert_uint_eq(window.n_accesses, 3);
	ck_assert_uint_eq(window.accesses[2].address, HEAP + 8);
}
END_TEST

START_TEST(repeats_count_as_their_elements)
{
	struct decode_charge charge;

	LOAD(repeat);
	sample.regs[DECODE_DX] = 5;
	sample.regs[DECODE_SI] = HEAP;
	sample.regs[DECODE_DI] = HEAP + 0x1000;
	sample.regs[DECODE_BX] = HEAP + 0x2000;
	run();
	decode_charge(&window, &charge);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_LOOP);
	ck_assert_uint_eq(window.n_accesses, 3);
	ck_assert_double_eq_tol(window.accesses[0].share, 100.0 / 201, 1e-6);
	ck_assert_double_eq_tol(window.accesses[1].share, 100.0 / 201, 1e-6);
	ck_assert_double_eq_tol(window.accesses[2].share, 1.0 / 201, 1e-6);
	ck_assert_uint_eq(charge.n_exact, 0);
}
END_TEST

/* How many there are the data say: time is what a sample between two of them shows. */
START_TEST(a_sample_at_a_string_that_is_compared_is_the_strings)
{
	struct decode_charge charge;

	LOAD(scan);
	sample.regs[DECODE_SI] = HEAP;
	sample.regs[DECODE_BX] = HEAP + 0x1000;
	run();
	decode_charge(&window, &charge);
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_TURN); /* no mix of it is told */
	sample.ip = FLAT_CODE_START + 11;
	sample.regs[DECODE_DI] = HEAP + 0x1000 + 50;
	sample.regs[DECODE_CX] = 50;
	run();
	decode_charge(&window, &charge);
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_uint_eq(window.n_accesses, 2);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_OPERAND);
	ck_assert_uint_eq(window.accesses[0].address, HEAP + 0x1000 + 50);
	ck_assert(window.accesses[0].share == 1 && window.accesses[1].share == 0);
	sample.regs[DECODE_CX] = 0; /* it has been counted out: what follows is another turn */
	run();
	decode_charge(&window, &charge);
	ck_assert_int_ne(charge.basis, DECODE_BASIS_OPERAND);
}
END_TEST

START_TEST(without_a_loop_the_block_is_charged_as_far_as_one_looks_ahead)
{
	struct decode_charge charge;

	LOAD(straight);
	sample.regs[DECODE_DI] = HEAP;
	run();
	ck_assert_int_eq(window.end, DECODE_END_TRAP);
	ck_assert_uint_eq(window.n_accesses, 70);
	decode_charge(&window, &charge);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_BLOCK);
	ck_assert_uint_eq(charge.n_charged, DECODE_LOOK_AHEAD);
	ck_assert_double_eq_tol(window.accesses[63].share, 1.0 / 64, 1e-6);
	ck_assert(window.accesses[64].share == 0);
	ck_assert_uint_eq(charge.n_exact, 1);
	ck_assert(charge.exact_share == 1);
}
END_TEST

START_TEST(what_is_not_resolved_keeps_its_share)
{
	struct decode_charge charge;

	LOAD(hazard);
	run();
	decode_charge(&window, &charge);
	ck_assert_uint_eq(charge.n_charged, 9);
	ck_assert_double_eq_tol(charge.unresolved_share, 2.0 / 9, 1e-6);
	ck_assert_double_eq_tol(charge.resolved_share + charge.unresolved_share, 1, 1e-6);
}
END_TEST

START_TEST(a_window_without_accesses_is_the_codes_time)
{
	struct decode_charge charge;

	LOAD(spin);
	run();
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	decode_charge(&window, &charge);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_CODE);
	ck_assert(charge.code_share == 1 && charge.resolved_share == 0);
}
END_TEST

START_TEST(no_code_at_ip_is_an_empty_window)
{
	struct decode_charge charge;

	run();
	ck_assert_int_eq(window.end, DECODE_END_NO_CODE);
	ck_assert_uint_eq(window.n_instructions, 0);
	ck_assert_uint_eq(window.end_ip, sample.ip);
	decode_charge(&window, &charge);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_NONE);
	ck_assert(charge.unresolved_share == 1);
}
END_TEST

START_TEST(bad_and_missing_bytes_are_told_apart)
{
	LOAD(bad);
	run();
	ck_assert_int_eq(window.end, DECODE_END_BAD_CODE);
	ck_assert_uint_eq(window.end_ip, FLAT_CODE_START + 1);
	decode_invalidate(decoder, 0, 0, UINT64_MAX);
	LOAD(cut);
	run();
	ck_assert_int_eq(window.end, DECODE_END_NO_CODE);
}
END_TEST

START_TEST(bits_of_unknown_registers_can_be_known)
{
	LOAD(masked);
	sample.regs[DECODE_DI] = HEAP;
	run();
	ck_assert_uint_eq(window.n_accesses, 1);
	ck_assert_uint_eq(window.accesses[0].address, HEAP);
}
END_TEST

START_TEST(a_division_by_zero_is_a_trap)
{
	LOAD(divide);
	run();
	ck_assert_int_eq(window.end, DECODE_END_TRAP);
}
END_TEST

START_TEST(the_limit_is_kept)
{
	LOAD(straight);
	ck_assert_int_eq(decode_window(decoder, &sample, 10, &window), 0);
	ck_assert_int_eq(window.end, DECODE_END_LIMIT);
	ck_assert_uint_eq(window.n_instructions, 10);
	ck_assert_int_eq(decode_window(decoder, &sample, 0, &window), -EINVAL);
	ck_assert_int_eq(decode_window(decoder, &sample, DECODE_MAX_INSTRUCTIONS + 1, &window),
			 -EINVAL);
}
END_TEST

START_TEST(instructions_are_decoded_once)
{
	LOAD(copy);
	sample.regs[DECODE_DX] = 100;
	run();
	unsigned n_code_reads = flat.n_code_reads;
	for (unsigned i = 0; i < 10; i++)
		run();
	ck_assert_uint_eq(decode_n_decoded(decoder), 5);
	ck_assert_uint_eq(flat.n_code_reads, n_code_reads);
}
END_TEST

START_TEST(processes_do_not_share_code)
{
	LOAD(spin);
	run();
	LOAD(straight);
	sample.process = 1;
	run();
	ck_assert_uint_eq(window.n_accesses, 70);
	sample.process = 0;
	run();
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_uint_eq(window.n_accesses, 0);
}
END_TEST

START_TEST(code_that_was_mapped_over_is_decoded_again)
{
	LOAD(spin);
	run();
	LOAD(straight);
	run();
	ck_assert_int_eq(window.end, DECODE_END_LOOP); /* from the cache */
	decode_invalidate(decoder, 1, 0, UINT64_MAX);
	decode_invalidate(decoder, 0, FLAT_CODE_START + 2, UINT64_MAX);
	decode_invalidate(decoder, 0, 0, FLAT_CODE_START);
	run();
	ck_assert_int_eq(window.end, DECODE_END_LOOP); /* none of these overlapped */
	decode_invalidate(decoder, 0, FLAT_CODE_START + 1, FLAT_CODE_START + 2);
	run();
	ck_assert_int_eq(window.end, DECODE_END_TRAP);
}
END_TEST

static uint32_t version_now;

static uint32_t tell_version(void *user, uint32_t process, uint64_t address, uint64_t time)
{
	(void)user;
	(void)process;
	(void)time;
	/* Of the page behind another one always: neither may be taken for the other. */
	return address < FLAT_CODE_START + 4096 ? version_now : 7;
}

START_TEST(each_version_of_code_is_decoded_for_itself)
{
	struct decode_memory memory = flat_memory(&flat);
	auto_decoder struct decoder *changing = NULL;
	uint64_t n;

	memory.version = tell_version;
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 0, &changing), 0);
	for (uint32_t turn = 0; turn < 4; turn++) {
		version_now = turn & 1;
		if (version_now)
			LOAD(straight);
		else
			LOAD(spin);
		n = decode_n_decoded(changing);
		ck_assert_int_eq(decode_window(changing, &sample, 10, &window), 0);
		ck_assert_int_eq(window.end, version_now ? DECODE_END_LIMIT : DECODE_END_LOOP);
		/* What was decoded of a version is kept beside the other one's. */
		ck_assert_int_eq(decode_n_decoded(changing) > n, turn < 2);
	}
}
END_TEST

START_TEST(a_small_cache_gives_the_same_answer)
{
	struct decode_memory memory = flat_memory(&flat);
	auto_decoder struct decoder *small = NULL;

	LOAD(straight);
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 1, &small), 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(decode_window(small, &sample, 512, &window), 0);
		ck_assert_uint_eq(window.n_accesses, 70);
	}
	ck_assert_uint_gt(decode_n_decoded(small), 71);
}
END_TEST

START_TEST(the_base_of_a_gather_is_nobodys_time)
{
	struct decode_charge charge;

	LOAD(gather);
	sample.regs[DECODE_DI] = HEAP;
	sample.regs[DECODE_SI] = HEAP + 0x1000;
	run();
	decode_charge(&window, &charge);
	ck_assert_uint_eq(window.n_accesses, 2);
	ck_assert_int_eq(window.accesses[0].state, DECODE_BASE_ONLY);
	ck_assert_int_eq(window.accesses[1].state, DECODE_MASKED);
	ck_assert(!decode_state_has_address(window.accesses[0].state));
	ck_assert(!decode_state_has_address(window.accesses[1].state)); /* the mask may be any */
	ck_assert(fabs((double)charge.unresolved_share - 1) < 1e-6);
	ck_assert(fabs((double)charge.resolved_share) < 1e-6);
}
END_TEST

/* The accesses of an instruction, in order. */
static unsigned find_accesses(unsigned position, const struct decode_access **ret_first)
{
	unsigned n = 0;

	for (unsigned i = 0; i < window.n_accesses; i++) {
		if (window.accesses[i].position != position)
			continue;
		if (n++ == 0)
			*ret_first = &window.accesses[i];
	}
	return n;
}

/* By the Intel SDM: this processor may have no AVX-512 to compare with. */
START_TEST(masks_and_lanes_of_avx512_are_told)
{
	static const int32_t indices[16] = { 5, 900, -3, 4, 5, 6,   7,	800,
					     8, 9,   10, 1, 2, 700, 11, 600 };
	const struct decode_access *lanes = NULL;
	struct decode_charge charge;
	unsigned n;

	LOAD(lanes512);
	flat.data_start = HEAP;
	flat.data = indices;
	flat.data_bytes = sizeof(indices);
	sample.regs[DECODE_SI] = HEAP;
	sample.regs[DECODE_DI] = HEAP + 0x10000;
	sample.regs[DECODE_BX] = HEAP + 0x20000;
	sample.regs[DECODE_DX] = HEAP + 0x30000;
	run();
	ck_assert_uint_eq(find_accesses(3, &lanes), 9);
	for (unsigned i = 0; i < 9; i++) {
		ck_assert_int_eq(lanes[i].state, DECODE_RESOLVED);
		ck_assert_uint_eq(lanes[i].address,
				  HEAP + 0x10000 + (uint64_t)(indices[i < 8 ? i : 15] * 4l));
	}
	ck_assert_uint_eq(find_accesses(4, &lanes), 0);
	ck_assert_uint_eq(find_accesses(6, &lanes), 2);
	ck_assert(lanes[0].address == HEAP + 0x20000 && lanes[0].size == 32);
	ck_assert(lanes[1].address == HEAP + 0x20000 + 60 && lanes[1].size == 4);
	ck_assert(lanes[1].is_write && lanes[1].state == DECODE_RESOLVED);
	decode_charge(&window, &charge);
	float run = lanes[0].share;
	ck_assert(run > 0 && lanes[1].share == run); /* one access they are together */
	ck_assert_uint_eq(find_accesses(7, &lanes), 1);
	ck_assert(lanes[0].size == 36 && lanes[0].state == DECODE_RESOLVED);
	ck_assert_double_eq_tol(lanes[0].share, 2 * run, 1e-6);
	ck_assert_uint_eq(find_accesses(11, &lanes), 16);
	for (unsigned i = 0; i < 16; i++) {
		ck_assert(lanes[i].is_write && !lanes[i].is_read);
		ck_assert_uint_eq(lanes[i].address,
				  HEAP + 0x30000 + (uint64_t)((indices[i] + 1) * 4l));
	}
	ck_assert_uint_eq(find_accesses(15, &lanes), 16);
	for (unsigned i = 0; i < 16; i++) {
		int64_t index = indices[i] <= 5 ? indices[i] + 900 : 0;

		ck_assert_uint_eq(lanes[i].address, HEAP + 0x10000 + (uint64_t)(index * 4));
	}
	n = find_accesses(16, &lanes);
	ck_assert_uint_eq(n, 1);
	ck_assert(lanes[0].state == DECODE_BASE_ONLY && lanes[0].count == 16);
}
END_TEST

static TCase *make_ends(void)
{
	TCase *tcase = tcase_create("ends");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_loop_closes_after_one_iteration);
	tcase_add_test(tcase, a_loop_closes_from_its_middle);
	tcase_add_test(tcase, the_last_iteration_runs_into_what_follows);
	tcase_add_test(tcase, calls_and_returns_stay_in_the_iteration);
	tcase_add_test(tcase, an_inner_sample_of_a_callee_closes_over_its_caller);
	tcase_add_test(tcase, an_outer_sample_spans_the_inner_loop);
	tcase_add_test(tcase, a_return_without_stack_bytes_ends_the_window);
	tcase_add_test(tcase, a_branch_on_loaded_data_ends_the_window);
	tcase_add_test(tcase, an_unknown_target_ends_the_window);
	tcase_add_test(tcase, a_division_by_zero_is_a_trap);
	tcase_add_test(tcase, no_code_at_ip_is_an_empty_window);
	tcase_add_test(tcase, bad_and_missing_bytes_are_told_apart);
	tcase_add_test(tcase, the_limit_is_kept);
	return tcase;
}

static TCase *make_memory(void)
{
	TCase *tcase = tcase_create("memory");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, stores_feed_later_loads);
	tcase_add_test(tcase, a_store_of_unknown_address_hides_data_but_not_saved_registers);
	tcase_add_test(tcase, variables_below_the_stack_pointer_are_those_of_the_sample);
	tcase_add_test(tcase, a_vector_store_hides_exactly_its_bytes);
	tcase_add_test(tcase, a_switch_follows_its_constant_table);
	tcase_add_test(tcase, bits_of_unknown_registers_can_be_known);
	tcase_add_test(tcase, masks_and_lanes_of_avx512_are_told);
	return tcase;
}

static TCase *make_charge(void)
{
	TCase *tcase = tcase_create("charge");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, repeats_count_as_their_elements);
	tcase_add_test(tcase, a_sample_at_a_string_that_is_compared_is_the_strings);
	tcase_add_test(tcase, without_a_loop_the_block_is_charged_as_far_as_one_looks_ahead);
	tcase_add_test(tcase, what_is_not_resolved_keeps_its_share);
	tcase_add_test(tcase, a_window_without_accesses_is_the_codes_time);
	tcase_add_test(tcase, the_base_of_a_gather_is_nobodys_time);
	return tcase;
}

static TCase *make_cache(void)
{
	TCase *tcase = tcase_create("cache");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, instructions_are_decoded_once);
	tcase_add_test(tcase, processes_do_not_share_code);
	tcase_add_test(tcase, code_that_was_mapped_over_is_decoded_again);
	tcase_add_test(tcase, each_version_of_code_is_decoded_for_itself);
	tcase_add_test(tcase, a_small_cache_gives_the_same_answer);
	return tcase;
}

int main(void)
{
	Suite *suite = suite_create("decode-window");

	suite_add_tcase(suite, make_ends());
	suite_add_tcase(suite, make_memory());
	suite_add_tcase(suite, make_charge());
	suite_add_tcase(suite, make_cache());
	return suite_run(suite);
}

#else

int main(void)
{
	puts("the programs of this test need an x86-64 assembler");
	return 77;
}

#endif
