/* What lies before a sample: where instructions begin, and what they accessed. */
#include "decode/previous-instructions.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "decode/x86/instruction.h"
#include "tests/unit/decode/flat.h"
#include "tests/support/suite.h"

#ifdef __x86_64__

#define HEAP  UINT64_C(0x555500001000)
#define STACK UINT64_C(0x7ffd00001000)

/*
 * `name`_start to `name`_end is the program, `name`_ip the sampled instruction. Code before it
 * gives the sweeps room to fall into step, as any real function does.
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
/* As in a look into a hash table: rdx is made again out of rsi and rax, behind the only branch. */
PROGRAM(recalled,
	"ret\n"
	"lea rdx, [rsi+rax*8]\n"
	"mov r11, [rdx]\n"
	"test r11, r11\n"
	"jne 1f\n"
	"ret\n"
	"ud2\n"
	"1: mov rdx, [rdx]",
	"cmp rdx, rcx\n"
	"syscall");
/* What rdx was made of is not as it was. */
PROGRAM(not_recalled,
	"ret\n"
	"lea rdx, [rsi+rax*8]\n"
	"mov rax, [rdi]\n"
	"mov rdx, [rdx]",
	"cmp rdx, rcx\n"
	"syscall");
/* Another way leads to the load. */
PROGRAM(recalled_by_two,
	"ret\n"
	"2: lea rdx, [rsi+rax*8]\n"
	"test r11, r11\n"
	"jne 1f\n"
	"mov rdx, rdi\n"
	"1: mov rdx, [rdx]",
	"cmp rdx, rcx\n"
	"syscall");
/* Of the index some bits are known: what it was made of is gone. */
PROGRAM(index_of_short, "ret\nmovzx eax, ax\nmov rax, [rdi+rax*8]", "cmp rax, rdx\nsyscall");
PROGRAM(index_of_byte, "ret\nmovzx eax, byte ptr [rsi]\nmov rax, [rdi+rax*8]",
	"cmp rax, rdx\nsyscall");
PROGRAM(index_of_word, "ret\nmov eax, [rsi]\nmov rax, [rdi+rax*8]", "cmp rax, rdx\nsyscall");
PROGRAM(index_ahead, "ret\nnop",
	"movzx eax, byte ptr [rsi]\nmov ecx, [rdi+rax*4+16]\nand ecx, 0xf0\n"
	"mov [rdx+rcx], rax\nmovsx ecx, byte ptr [rsi]\nmov [rdx+rcx], rax\nsyscall");
PROGRAM(blocked,
	"mov rdx, [rdi]\n"
	"jne 1f\n"
	"mov rcx, [rsi]\n"
	"nop",
	"nop\n"
	"1: syscall");
/* The store is jumped over now and then: whether it ran before ip is not known. */
PROGRAM(joined,
	"mov rdx, [rdi]\n"
	"jne 1f\n"
	"mov [rsi], rcx\n"
	"1: mov rcx, [rdi+8]",
	"nop\n"
	"syscall");
PROGRAM(joined_from_afar,
	"mov rdx, [rdi]\n"
	"mov [rsi], rcx\n"
	"1: mov rcx, [rdi+8]",
	"syscall\n"
	".skip 8000, 0x90\n"
	"jne 1b");
/* case 1 falls through into case 2; the table tells that case 2 is come to in another way, too. */
PROGRAM(switched,
	"lea rdx, [rip+9f]\n"
	"movsxd rax, [rdx+rax*4]\n"
	"add rax, rdx\n"
	"jmp rax\n"
	"1: mov [rsi], rcx\n"
	"2: mov rcx, [rdi+8]",
	"syscall\n"
	".balign 4\n"
	"9: .long 1b-9b, 1b-9b, 2b-9b, 0x7fffffff");
/* As in Haskell: a table lies before the code that it is of, and nobody jumps to that by name. */
PROGRAM(tabled, "jmp [rbx]\n.quad 5, 8", "mov rax, [rbp]\nsyscall");
/* As lld fills before a function, which reads as add %al,0x57(%rcx) with its first instruction. */
PROGRAM(filled, "call [rbx]\n.byte 0\npush r15\n", "push r14\nmov rdi, [rdi]\nsyscall");
/* Two bytes of the move read as a branch to ip, which only the line before leads to. */
PROGRAM(prefixed, "ret\nvmovdqa32 zmm2, zmm1\nmov edx, [rdi]\n.rept 66\nnop\n.endr\nmov ecx, [rsi]",
	"add ecx, edx\nsyscall");
/* The value behind the node's pointer: of the next node it is not known, of this one it is. */
PROGRAM(walked, "ret\n1: dec rdx\nadd rcx, [rax+8]",
	"mov rax, [rax]\ntest rdx, rdx\njne 1b\nsyscall");
/*
 * The ones of the mask are made before the loop, which has an outer one, and copied for each
 * gather.
 */
#define GATHER                                                                                     \
	"1: xor eax, eax\n2: vmovdqu ymm3, [rsi+rax]\nvmovdqa ymm2, ymm1\n"                        \
	"vpgatherdd ymm0, [rdi+ymm3*4], ymm2"
#define GATHERED                                                                                   \
	"vmovdqu [rdx+rax], ymm0\nadd rax, 32\ncmp rax, rcx\njne 2b\ndec r8\njne 1b\nsyscall"
PROGRAM(hoisted, "ret\nvpcmpeqd ymm1, ymm1, ymm1\ntest r8, r8\njle 9f\n" GATHER,
	GATHERED "\n9: ret");
/* Another way to the loop, on which the mask is another, or not known. */
PROGRAM(hoisted_twice, "ret\nvpcmpeqd ymm1, ymm1, ymm1\njmp 1f\nvpxor ymm1, ymm1, ymm1\n" GATHER,
	GATHERED);
PROGRAM(hoisted_behind_call, "ret\nvpcmpeqd ymm1, ymm1, ymm1\ncall 8f\n" GATHER,
	GATHERED "\n8: ret");
/* The mask is made of a constant in a general register. */
PROGRAM(hoisted_number,
	"ret\nmov r9d, 0x55\nxor eax, eax\nkmovw k1, r9d\n"
	"2: vmovdqu ymm3, [rsi+rax]\nkmovw k2, k1\nvpgatherdd ymm0{k2}, [rdi+ymm3*4]",
	"add rax, 32\ncmp rax, rcx\njne 2b\nsyscall");
/* Mask and index are there when the gather is sampled; the second one has stored since. */
#define BEFORE_GATHER "ret\n2: movsxd r9, eax\nvpcmpeqd ymm2, ymm2, ymm2\nvmovdqu ymm3, [rsi+r9]\n"
#define AT_GATHER     "vpgatherdd ymm0, [rdi+ymm3*4], ymm2\ncmp eax, ecx\njne 2b\nsyscall"
PROGRAM(indexed, BEFORE_GATHER "add eax, 32\nmovzx eax, ax", AT_GATHER);
PROGRAM(indexed_and_stored, BEFORE_GATHER "add eax, 32\nmov [rdx], r8", AT_GATHER);
PROGRAM(not_hoisted, "ret\nvpcmpeqd ymm4, ymm4, ymm4\n" GATHER, GATHERED);
/* Of memory that was read behind the sample: until a store that may be to it. */
PROGRAM(loaded, "ret\nnop",
	"mov rax, [rsi]\nmov ecx, [rax]\nmov [rsi+8], rdi\nmov rax, [rsi+8]\nmov ecx, [rax]\n"
	"mov rbx, [r9]\nmov [rbx], ecx\nmov rax, [rsi+16]\nmov ecx, [rax]\nsyscall");
PROGRAM(stored_over, "ret\nnop",
	"vmovups [rsi+16], ymm0\nmov rax, [rsi]\nmov ecx, [rax]\nmov rax, [rsi+24]\n"
	"mov ecx, [rax]\n"
	"mov [rsi+512], ecx\nmov rax, [rsi+16]\nmov ecx, [rax]\nmov rax, [rsi]\nmov ecx, [rax]\n"
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

START_TEST(zeros_of_a_table_before_code_are_no_instructions)
{
	uint8_t lengths[4];

	ck_assert_uint_eq(decode_behind_lengths(tabled_start, (size_t)(tabled_ip - tabled_start),
						false, lengths, 4),
			  0);
}
END_TEST

/* The push before ip, which only the table tells from what the filling makes of it. */
static uint64_t begin_of_filled(void *user, uint32_t process, uint64_t address, uint64_t time)
{
	uint64_t begin = FLAT_CODE_START + (uint64_t)(filled_ip - filled_start) - 2;

	(void)user;
	(void)process;
	(void)time;
	return address >= begin ? begin : 0;
}

START_TEST(what_fills_the_room_before_a_function_is_no_part_of_it)
{
	struct decode_memory memory = flat_memory(&flat);
	uint64_t push = FLAT_CODE_START + (uint64_t)(filled_ip - filled_start) - 2;

	decode_destroy(decoder);
	memory.begin = begin_of_filled;
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 64, &decoder), 0);
	RUN(filled);
	ck_assert_uint_eq(window.n_behind, 1);
	ck_assert_uint_eq(window.behind[0].ip, push);
	ck_assert_uint_eq(window.behind[0].address, STACK);
	ck_assert_uint_eq(window.stall_ip, push);
	/* At the begin itself nothing is known to have run. */
	run(filled_start, filled_start + (filled_ip - filled_start - 2), filled_end);
	ck_assert_uint_eq(window.n_behind, 0);
	ck_assert_int_eq(window.stall, DECODE_STALL_UNKNOWN);
}
END_TEST

START_TEST(bytes_within_a_vector_instruction_are_no_branch)
{
	sample.regs[DECODE_SI] = HEAP;
	RUN(prefixed);
	ck_assert_uint_eq(window.n_behind, 1);
	ck_assert_uint_eq(window.behind[0].address, HEAP);
	ck_assert_int_eq(window.stall, DECODE_STALL_ACCESS);
}
END_TEST

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

static void check_range(const struct decode_access *access, uint64_t address, uint32_t range)
{
	ck_assert_int_eq(access->state, DECODE_WITHIN);
	ck_assert(!decode_state_has_address(access->state));
	ck_assert_uint_eq(access->address, address);
	ck_assert_uint_eq(access->range, range);
	ck_assert_uint_eq(access->count, 1);
}

START_TEST(an_index_of_few_bits_tells_a_range)
{
	sample.regs[DECODE_DI] = HEAP;
	RUN(index_of_short);
	check_range(&window.behind[0], HEAP, 65536 * 8);
	check_range(&window.stalled[0], HEAP, 65536 * 8);
	decode_invalidate(decoder, 0, 0, UINT64_MAX);
	RUN(index_of_byte);
	check_range(&window.behind[0], HEAP, 256 * 8);
	decode_invalidate(decoder, 0, 0, UINT64_MAX);
	RUN(index_of_word);
	ck_assert_int_eq(window.behind[0].state, DECODE_UNKNOWN_REGISTER);
	ck_assert_uint_eq(window.behind[0].address, 0);
	ck_assert_uint_eq(window.behind[0].range, 0);
}
END_TEST

START_TEST(an_index_of_few_bits_tells_a_range_ahead)
{
	sample.regs[DECODE_DI] = HEAP;
	sample.regs[DECODE_DX] = HEAP + 0x1000;
	RUN(index_ahead);
	ck_assert_uint_eq(window.n_accesses, 5);
	check_range(&window.accesses[1], HEAP + 16, 256 * 4);
	check_range(&window.accesses[2], HEAP + 0x1000, 0xf0 + 8);
	/* Negative ones lead far away. */
	ck_assert_int_eq(window.accesses[4].state, DECODE_UNKNOWN_REGISTER);
}
END_TEST

START_TEST(in_a_closed_loop_the_turn_before_tells_what_the_next_one_does_not)
{
	sample.regs[DECODE_AX] = HEAP;
	sample.regs[DECODE_DX] = 5;
	RUN(walked);
	ck_assert_int_eq(charge.basis, DECODE_BASIS_LOOP);
	ck_assert_uint_eq(window.n_accesses, 2);
	ck_assert_uint_eq(window.accesses[0].address, HEAP);
	ck_assert_int_eq(window.accesses[1].state, DECODE_TURN_BEFORE);
	ck_assert_uint_eq(window.n_behind, 1);
	ck_assert_uint_eq(window.behind[0].address, HEAP + 8);
	ck_assert_uint_eq(window.behind[0].position, 1);
	ck_assert_uint_eq(window.behind[0].ip, window.accesses[1].ip);
	ck_assert(window.accesses[0].share == 0.5f && window.accesses[1].share == 0);
	ck_assert(window.behind[0].share == 0.5f);
	ck_assert(charge.resolved_share == 1 && charge.n_behind == 1);
}
END_TEST

static const uint32_t indices[16] = { 100, 200, 300, 400, 500, 600, 700, 800,
				      110, 210, 310, 410, 510, 610, 710, 810 };

static void prepare_gather(void)
{
	flat.live_start = HEAP + 0x10000;
	flat.live = indices;
	flat.live_bytes = sizeof(indices);
	sample.regs[DECODE_SI] = flat.live_start;
	sample.regs[DECODE_DI] = HEAP;
	sample.regs[DECODE_DX] = HEAP + 0x20000;
	sample.regs[DECODE_CX] = 3200;
	sample.regs[DECODE_R8] = 5;
}

/* How many lanes are told; those of the next turn, which has the second 8 indices. */
static unsigned count_lanes(void)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < window.n_accesses; i++) {
		if (window.accesses[i].size != 4 || window.accesses[i].state != DECODE_RESOLVED)
			continue;
		ck_assert_uint_eq(window.accesses[i].address, HEAP + indices[8 + n++] * 4);
	}
	return n;
}

START_TEST(a_mask_that_is_made_before_the_loop_is_known_in_it)
{
	prepare_gather();
	RUN(hoisted);
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	ck_assert_uint_eq(count_lanes(), 8);
	ck_assert(charge.resolved_share == 1);
	RUN(hoisted); /* kept */
	ck_assert_uint_eq(count_lanes(), 8);
}
END_TEST

START_TEST(a_mask_that_is_made_of_a_number_is_known)
{
	unsigned n = 0;

	prepare_gather();
	RUN(hoisted_number);
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
	for (uint32_t i = 0; i < window.n_accesses; i++)
		if (window.accesses[i].size == 4)
			ck_assert_uint_eq(window.accesses[i].address,
					  HEAP + indices[8 + 2 * n++] * 4);
	ck_assert_uint_eq(n, 4);
	ck_assert(charge.resolved_share == 1);
}
END_TEST

START_TEST(a_gather_whose_index_was_just_loaded_is_known)
{
	unsigned n = 0;

	prepare_gather();
	sample.regs[DECODE_R8 + 1] = 32;
	sample.regs[DECODE_AX] = 64;
	RUN(indexed);
	for (uint32_t i = 0; i < window.n_accesses; i++)
		if (window.accesses[i].position == 0 && window.accesses[i].state == DECODE_RESOLVED)
			ck_assert_uint_eq(window.accesses[i].address, HEAP + indices[8 + n++] * 4);
	ck_assert_uint_eq(n, 8);
	decode_invalidate(decoder, 0, 0, UINT64_MAX);
	RUN(indexed_and_stored);
	ck_assert_int_eq(window.accesses[0].position, 0);
	ck_assert_int_eq(window.accesses[0].state, DECODE_BASE_ONLY);
}
END_TEST

START_TEST(a_mask_that_another_way_may_change_is_not_known)
{
	prepare_gather();
	RUN(hoisted_twice);
	ck_assert_uint_eq(count_lanes(), 0);
	decode_invalidate(decoder, 0, 0, UINT64_MAX);
	RUN(hoisted_behind_call);
	ck_assert_uint_eq(count_lanes(), 0);
	decode_invalidate(decoder, 0, 0, UINT64_MAX);
	RUN(not_hoisted);
	ck_assert_uint_eq(count_lanes(), 0);
	ck_assert_int_eq(window.end, DECODE_END_LOOP);
}
END_TEST

static void prepare_live(const uint64_t *words, size_t n_bytes)
{
	flat.live_start = HEAP;
	flat.live = words;
	flat.live_bytes = n_bytes;
	sample.regs[DECODE_SI] = HEAP;
	sample.regs[DECODE_DI] = HEAP + 0x5000;
}

START_TEST(data_is_as_it_was_read_until_the_window_stores_it_knows_not_where)
{
	static const uint64_t words[] = { HEAP + 0x3000, HEAP + 0x3100, HEAP + 0x3200 };

	prepare_live(words, sizeof(words));
	RUN(loaded);
	ck_assert_uint_eq(window.n_accesses, 9);
	ck_assert_uint_eq(window.accesses[1].address, HEAP + 0x3000);
	ck_assert_uint_eq(window.accesses[4].address, HEAP + 0x5000); /* what was stored */
	ck_assert_int_eq(window.accesses[8].state, DECODE_UNKNOWN_REGISTER);
}
END_TEST

/* A vector that is not known, and a word that takes the place of another in the machine's table. */
START_TEST(data_that_the_window_has_stored_over_is_not_as_it_was)
{
	static const uint64_t words[128] = { HEAP + 0x3000, 0, HEAP + 0x3200, HEAP + 0x3300 };

	prepare_live(words, sizeof(words));
	sample.regs[DECODE_SI] += 0x8;
	flat.live_start += 0x8;
	RUN(stored_over);
	ck_assert_uint_eq(window.n_accesses, 10);
	ck_assert_uint_eq(window.accesses[2].address, HEAP + 0x3000);
	ck_assert_int_eq(window.accesses[4].state, DECODE_UNKNOWN_REGISTER);
	ck_assert_int_eq(window.accesses[7].state, DECODE_UNKNOWN_REGISTER);
	ck_assert_uint_eq(window.accesses[9].address, HEAP + 0x3000); /* nobody stored there */
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

START_TEST(an_address_that_its_load_replaced_is_made_again)
{
	sample.regs[DECODE_SI] = HEAP;
	sample.regs[DECODE_AX] = 5;
	RUN(recalled);
	ck_assert_uint_eq(window.n_behind, 1);
	ck_assert_int_eq(window.behind[0].state, DECODE_RESOLVED);
	ck_assert_uint_eq(window.behind[0].address, HEAP + 40);
	ck_assert_int_eq(window.stall, DECODE_STALL_ACCESS);
	ck_assert_uint_eq(window.stalled[0].address, HEAP + 40);
	decode_invalidate(decoder, 0, 0, UINT64_MAX); /* other code at the same address */
	RUN(not_recalled);
	ck_assert_int_eq(window.behind[0].state, DECODE_UNKNOWN_REGISTER);
	decode_invalidate(decoder, 0, 0, UINT64_MAX);
	RUN(recalled_by_two);
	ck_assert_int_eq(window.behind[0].state, DECODE_UNKNOWN_REGISTER);
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

static void check_only_the_load(void)
{
	ck_assert_uint_eq(window.n_behind, 1);
	ck_assert_uint_eq(window.behind[0].address, HEAP + 8);
	ck_assert(window.behind[0].is_read && !window.behind[0].is_write);
}

START_TEST(what_may_have_been_jumped_over_is_not_charged)
{
	sample.regs[DECODE_DI] = HEAP;
	RUN(joined);
	check_only_the_load();
	RUN(joined_from_afar);
	check_only_the_load();
}
END_TEST

START_TEST(a_jump_table_leads_into_a_block)
{
	sample.regs[DECODE_DI] = HEAP;
	flat.data = switched_start;
	flat.data_start = FLAT_CODE_START;
	flat.data_bytes = (size_t)(switched_end - switched_start);
	RUN(switched);
	check_only_the_load();
}
END_TEST

static size_t one_entry(void *user, uint32_t process, uint64_t address, uint64_t time, void *bytes,
			size_t n_bytes)
{
	return flat_data(user, process, address, time, bytes, n_bytes < 4 ? n_bytes : 4);
}

/* As at the end of a page: less than was asked for. */
START_TEST(a_jump_table_is_read_in_pieces)
{
	struct decode_memory memory = { .code = flat_code, .constant = one_entry, .user = &flat };

	decoder = decode_destroy(decoder);
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 64, &decoder), 0);
	sample.regs[DECODE_DI] = HEAP;
	flat.data = switched_start;
	flat.data_start = FLAT_CODE_START;
	flat.data_bytes = (size_t)(switched_end - switched_start);
	RUN(switched);
	check_only_the_load();
}
END_TEST

START_TEST(with_a_table_that_is_not_known_nothing_before_ip_is)
{
	struct decode_memory memory = { .code = flat_code, .user = &flat };

	decoder = decode_destroy(decoder);
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 64, &decoder), 0);
	RUN(switched);
	ck_assert_uint_eq(window.n_behind, 0);
	ck_assert_int_eq(window.stall, DECODE_STALL_UNKNOWN);
}
END_TEST

static uint64_t switched_begin;

static uint64_t begin_of_switched(void *user, uint32_t process, uint64_t address, uint64_t time)
{
	(void)user;
	(void)process;
	(void)time;
	return address >= switched_begin ? switched_begin : 0;
}

/* Its jump lies before a begin of a function: it leads into that before. */
START_TEST(a_switch_leads_nowhere_in_another_function)
{
	struct decode_memory memory = { .code = flat_code,
					.begin = begin_of_switched,
					.user = &flat };

	decoder = decode_destroy(decoder);
	ck_assert_int_eq(decode_create(DECODE_MACHINE_X86_64, &memory, 64, &decoder), 0);
	switched_begin = FLAT_CODE_START;
	RUN(switched);
	ck_assert_uint_eq(window.n_behind, 0);
	decode_invalidate(decoder, 0, 0, UINT64_MAX);
	switched_begin = FLAT_CODE_START + (uint64_t)(switched_ip - switched_start) - 7;
	RUN(switched);
	ck_assert_uint_eq(window.n_behind, 2);
	ck_assert_uint_eq(window.behind[1].ip, switched_begin);
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
			tally->n_told += decode_behind_lengths(code, at, false, &length, 1);
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
	TCase *tcase = tcase_create("behind");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, zeros_of_a_table_before_code_are_no_instructions);
	tcase_add_test(tcase, what_fills_the_room_before_a_function_is_no_part_of_it);
	tcase_add_test(tcase, bytes_within_a_vector_instruction_are_no_branch);
	tcase_add_test(tcase, the_access_before_ip_gets_the_time_of_its_block);
	tcase_add_test(tcase, an_index_of_few_bits_tells_a_range);
	tcase_add_test(tcase, an_index_of_few_bits_tells_a_range_ahead);
	tcase_add_test(tcase, in_a_closed_loop_the_turn_before_tells_what_the_next_one_does_not);
	tcase_add_test(tcase, a_mask_that_is_made_before_the_loop_is_known_in_it);
	tcase_add_test(tcase, a_mask_that_another_way_may_change_is_not_known);
	tcase_add_test(tcase, a_mask_that_is_made_of_a_number_is_known);
	tcase_add_test(tcase, a_gather_whose_index_was_just_loaded_is_known);
	tcase_add_test(tcase, data_is_as_it_was_read_until_the_window_stores_it_knows_not_where);
	tcase_add_test(tcase, data_that_the_window_has_stored_over_is_not_as_it_was);
	tcase_add_test(tcase, registers_changed_by_constants_are_traced_back);
	tcase_add_test(tcase, registers_that_were_replaced_are_not_known);
	tcase_add_test(tcase, an_address_that_its_load_replaced_is_made_again);
	tcase_add_test(tcase, the_block_begins_behind_the_last_branch);
	tcase_add_test(tcase, what_may_have_been_jumped_over_is_not_charged);
	tcase_add_test(tcase, a_jump_table_leads_into_a_block);
	tcase_add_test(tcase, a_jump_table_is_read_in_pieces);
	tcase_add_test(tcase, with_a_table_that_is_not_known_nothing_before_ip_is);
	tcase_add_test(tcase, a_switch_leads_nowhere_in_another_function);
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
