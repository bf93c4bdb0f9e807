#include "decode/x86/move-code.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <string.h>

#define LONGEST	    15u /* of an instruction */
#define PROBE_BYTES 25u /* what stands for its nop */
#define NO_PROBE    SIZE_MAX

/* One instruction, and where it lies. */
struct source {
	ZydisDecodedInstruction head;
	const uint8_t *bytes;
	uint64_t next; /* address behind it */
};

static void put(struct plan_function *to, const void *bytes, size_t n)
{
	memcpy(to->code + to->n_code, bytes, n);
	to->n_code = (uint8_t)(to->n_code + n);
}

static void put_byte(struct plan_function *to, uint8_t byte)
{
	put(to, &byte, 1);
}

/* The last 4 bytes that were put, or 8 of an address, are worked out there. */
static void fix(struct plan_function *to, enum plan_fix_kind kind, unsigned back, uint64_t target)
{
	to->fixes[to->n_fixes++] = (struct plan_fix){
		.target = target,
		.at = (uint8_t)(to->n_code - back),
		.behind = to->n_code,
		.kind = (uint8_t)kind,
	};
}

static void put_near(struct plan_function *to, uint64_t target)
{
	put(to, &(uint32_t){ 0 }, sizeof(uint32_t));
	fix(to, PLAN_FIX_NEAR, sizeof(uint32_t), target);
}

static void put_jump(struct plan_function *to, uint64_t target)
{
	put_byte(to, 0xe9);
	put_near(to, target);
}

/* As it is; what it names relative to its place is as far from the new one as it has to be. */
static int put_same(struct plan_function *to, const struct source *source)
{
	const ZydisDecodedInstruction *head = &source->head;
	unsigned start = to->n_code;

	put(to, source->bytes, head->length);
	if (!(head->attributes & ZYDIS_ATTRIB_IS_RELATIVE))
		return 0;
	if (head->raw.disp.size != 32)
		return -EINVAL;
	fix(to, PLAN_FIX_NEAR, 4, source->next + (uint64_t)head->raw.disp.value);
	to->fixes[to->n_fixes - 1].at = (uint8_t)(start + head->raw.disp.offset);
	return 0;
}

/*
 * The callee shall return to where it would have: that address is pushed, from behind the code, and
 * the callee jumped to. Indirectly: FF /2 becomes FF /4.
 */
static int put_call(struct plan_function *to, const struct source *source)
{
	const ZydisDecodedInstruction *head = &source->head;
	unsigned push = to->n_code + 6u, jump, modrm;
	int r = 0;

	put(to, (const uint8_t[]){ 0xff, 0x35, 0, 0, 0, 0 }, 6);
	if (head->raw.imm[0].is_relative) {
		put_jump(to, source->next + (uint64_t)head->raw.imm[0].value.s);
	} else {
		jump = to->n_code;
		r = put_same(to, source);
		modrm = jump + head->raw.modrm.offset;
		if (head->opcode != 0xff || head->raw.modrm.reg != 2)
			return -EINVAL;
		to->code[modrm] ^= 0x30;
	}
	uint32_t distance = to->n_code - push;
	memcpy(to->code + push - 4, &distance, sizeof(distance));
	put(to, &(uint64_t){ 0 }, sizeof(uint64_t));
	fix(to, PLAN_FIX_ADDRESS, sizeof(uint64_t), source->next);
	to->ends_in_call = 1;
	return r;
}

static int put_branch(struct plan_function *to, const struct source *source)
{
	const ZydisDecodedInstruction *head = &source->head;
	uint64_t target = source->next + (uint64_t)head->raw.imm[0].value.s;
	unsigned offset = head->raw.imm[0].offset;
	uint8_t opcode = source->bytes[offset - 1];

	switch (head->meta.category) {
	case ZYDIS_CATEGORY_UNCOND_BR:
		put_jump(to, target);
		return 0;
	case ZYDIS_CATEGORY_COND_BR:
		break;
	default:
		return -EINVAL;
	}
	if ((opcode & 0xfc) == 0xe0) {
		/* loop and jrcxz know 8 bits: over a jump that leads on, to one there. */
		put(to, source->bytes, head->length);
		to->code[to->n_code - 1] = 2;
		put(to, (const uint8_t[]){ 0xeb, 5 }, 2);
		put_jump(to, target);
		return 0;
	}
	if ((opcode & 0xf0) != 0x70 && (opcode & 0xf0) != 0x80)
		return -EINVAL;
	put_byte(to, 0x0f);
	put_byte(to, 0x80 | (opcode & 0x0f));
	put_near(to, target);
	return 0;
}

/*
 * The red zone of 128 bytes below the stack pointer is the program's (System V ABI for AMD64,
 * 3.2.2). lea changes no flags.
 */
static int put_stub(struct plan_function *to)
{
	static const uint8_t down[] = { 0x48, 0x8d, 0x64, 0x24, 0x80 }; /* lea -128(%rsp), %rsp */
	static const uint8_t up[] = { 0x48, 0x8d, 0xa4, 0x24, 0x88, 0, 0, 0 }; /* lea 136(%rsp) */

	if (to->n_code + PROBE_BYTES + 2 * PLAN_JUMP_BYTES > PLAN_CODE_BYTES ||
	    to->n_fixes + 4u > PLAN_MAX_FIXES)
		return -EINVAL;
	put(to, down, sizeof(down));
	put(to, (const uint8_t[]){ 0xff, 0x35 }, 2); /* push own(%rip) */
	put_near(to, 0);
	to->fixes[to->n_fixes - 1].kind = PLAN_FIX_OWN;
	put(to, (const uint8_t[]){ 0xff, 0x15 }, 2); /* call *stub(%rip) */
	put_near(to, 0);
	to->fixes[to->n_fixes - 1].kind = PLAN_FIX_STUB;
	put(to, up, sizeof(up));
	return 0;
}

/*
 * A branch to a nop leads to the stub; a conditional one to where that will be, behind all: its
 * last 4 bytes end at *ret_branch.
 */
static int put_probe(struct plan_function *to, const struct source *source, unsigned *ret_branch)
{
	const ZydisDecodedInstruction *head = &source->head;
	int r;

	*ret_branch = 0;
	if (head->mnemonic == ZYDIS_MNEMONIC_NOP)
		return put_stub(to);
	if (head->meta.category == ZYDIS_CATEGORY_UNCOND_BR && head->raw.imm[0].is_relative) {
		r = put_stub(to);
		if (r == 0)
			put_jump(to, to->behind);
		return r;
	}
	uint8_t opcode = source->bytes[head->raw.imm[0].offset - 1];
	if (head->meta.category != ZYDIS_CATEGORY_COND_BR || !head->raw.imm[0].is_relative ||
	    ((opcode & 0xf0) != 0x70 && (opcode & 0xf0) != 0x80))
		return -EINVAL;
	put(to, (const uint8_t[]){ 0x0f, 0x80 | (opcode & 0x0f), 0, 0, 0, 0 }, 6);
	*ret_branch = to->n_code;
	return 0;
}

static int put_branched(struct plan_function *to, unsigned branch)
{
	uint32_t distance = to->n_code - branch;
	int r = put_stub(to);

	memcpy(to->code + branch - 4, &distance, sizeof(distance));
	if (r == 0)
		put_jump(to, to->behind);
	return r;
}

static int put_one(struct plan_function *to, const struct source *source)
{
	/* The most that one becomes, and the jump behind all. */
	if (to->n_code + 6u + LONGEST + 8u + PLAN_JUMP_BYTES > PLAN_CODE_BYTES ||
	    to->n_fixes + 3u > PLAN_MAX_FIXES)
		return -EINVAL;
	if (source->head.mnemonic == ZYDIS_MNEMONIC_CALL)
		return put_call(to, source);
	return source->head.raw.imm[0].is_relative ? put_branch(to, source) : put_same(to, source);
}

int move_probe(const uint8_t *bytes, size_t n_moved, uint64_t address, size_t place,
	       struct plan_function *ret)
{
	struct plan_function to = *ret;
	struct source source;
	ZydisDecoder decoder;
	unsigned branch = 0;
	int r = 0;

	to.n_code = to.n_fixes = to.ends_in_call = 0;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (size_t at = 0; r == 0 && at < n_moved; at += source.head.length) {
		if (to.ends_in_call ||
		    !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes + at,
								n_moved - at, &source.head)))
			return -EINVAL;
		source.bytes = bytes + at;
		source.next = address + at + source.head.length;
		r = at == place ? put_probe(&to, &source, &branch) : put_one(&to, &source);
	}
	if (r < 0)
		return r;
	if (!to.ends_in_call)
		put_jump(&to, address + n_moved);
	if (branch)
		r = put_branched(&to, branch);
	if (r == 0)
		*ret = to;
	return r;
}

int move_code(const uint8_t *bytes, size_t n_moved, uint64_t address, struct plan_function *ret)
{
	return move_probe(bytes, n_moved, address, NO_PROBE, ret);
}
