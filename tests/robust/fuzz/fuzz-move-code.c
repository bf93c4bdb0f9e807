/*
 * Moves whatever bytes as the first instructions of a function (move-code.h) and puts them at
 * another place. There each instruction must be what it was, and lead to where it led: as Zydis
 * reads both.
 */
#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "decode/x86/move-code.h"
#include "tests/robust/fuzz/fuzz.h"

#define ADDRESS UINT64_C(0x7f0012345678)
#define PLACE	(ADDRESS + 0x2345000)

struct code {
	const uint8_t *bytes;
	size_t n;
	uint64_t address;
	size_t at;
	ZydisDecodedInstruction head;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

static bool next(struct code *code)
{
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code->bytes + code->at,
						 code->n - code->at, &code->head, code->operands)))
		return false;
	code->at += code->head.length;
	return true;
}

/* What its operand that depends on the place names. */
static uint64_t named(const struct code *code)
{
	uint64_t start = code->address + code->at - code->head.length, absolute = 0;

	for (unsigned i = 0; i < code->head.operand_count; i++)
		if (ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&code->head, &code->operands[i], start,
							  &absolute)))
			return absolute;
	return 0;
}

static void require_jump(struct code *moved, uint64_t target)
{
	FUZZ_REQUIRE(next(moved) && moved->head.mnemonic == ZYDIS_MNEMONIC_JMP);
	FUZZ_REQUIRE(named(moved) == target);
}

/* push of an address that stands in the code, then a jump. */
static void check_call(const struct code *old, struct code *moved)
{
	uint64_t pushed;

	FUZZ_REQUIRE(next(moved) && moved->head.mnemonic == ZYDIS_MNEMONIC_PUSH);
	size_t at = named(moved) - PLACE;
	FUZZ_REQUIRE(at + sizeof(pushed) == moved->n);
	memcpy(&pushed, moved->bytes + at, sizeof(pushed));
	FUZZ_REQUIRE(pushed == ADDRESS + old->at);
	FUZZ_REQUIRE(next(moved) && moved->head.mnemonic == ZYDIS_MNEMONIC_JMP);
	FUZZ_REQUIRE(named(moved) == named(old) && moved->at == at);
	const ZydisDecodedOperand *to = &old->operands[0], *now = &moved->operands[0];

	FUZZ_REQUIRE(to->type == now->type);
	if (to->type == ZYDIS_OPERAND_TYPE_REGISTER)
		FUZZ_REQUIRE(to->reg.value == now->reg.value);
	if (to->type == ZYDIS_OPERAND_TYPE_MEMORY)
		FUZZ_REQUIRE(to->mem.base == now->mem.base && to->mem.index == now->mem.index &&
			     to->mem.scale == now->mem.scale &&
			     to->mem.segment == now->mem.segment);
}

/* loop and its kin lead over a jump to another one; other branches are longer ones. */
static void check_branch(const struct code *old, struct code *moved)
{
	FUZZ_REQUIRE(next(moved) && moved->head.mnemonic == old->head.mnemonic);
	if (named(moved) == named(old))
		return;
	uint64_t far = named(moved);

	require_jump(moved, PLACE + moved->at + 7);
	FUZZ_REQUIRE(far == PLACE + moved->at);
	require_jump(moved, named(old));
}

static void check_one(struct code *old, struct code *moved)
{
	FUZZ_REQUIRE(next(old));
	if (old->head.mnemonic == ZYDIS_MNEMONIC_CALL) {
		check_call(old, moved);
	} else if (old->head.raw.imm[0].is_relative) {
		check_branch(old, moved);
	} else {
		FUZZ_REQUIRE(next(moved) && moved->head.length == old->head.length &&
			     moved->head.mnemonic == old->head.mnemonic &&
			     named(moved) == named(old));
		FUZZ_REQUIRE(old->head.attributes & ZYDIS_ATTRIB_IS_RELATIVE ||
			     memcmp(old->bytes + old->at - old->head.length,
				    moved->bytes + moved->at - old->head.length,
				    old->head.length) == 0);
	}
}

/* False: something is out of reach, and the program leaves the function as it was. */
static bool put_there(struct plan_function *function)
{
	for (unsigned i = 0; i < function->n_fixes; i++) {
		const struct plan_fix *fix = &function->fixes[i];
		int64_t far = (int64_t)(fix->target - (PLACE + fix->behind));
		int32_t distance = (int32_t)far;
		size_t n = fix->kind == PLAN_FIX_ADDRESS ? sizeof(fix->target) : sizeof(distance);

		FUZZ_REQUIRE(fix->at + n <= function->n_code && fix->behind <= function->n_code);
		if (fix->kind != PLAN_FIX_ADDRESS && far != distance)
			return false;
		memcpy(function->code + fix->at,
		       n == sizeof(distance) ? (const void *)&distance : &fix->target, n);
	}
	return true;
}

/* The first byte says how many of the others are moved. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct plan_function function = { 0 };
	size_t n = n_bytes > 1 ? bytes[0] % n_bytes : 0;
	int r = n ? move_code(bytes + 1, n, ADDRESS, &function) : -EINVAL;

	FUZZ_REQUIRE(r == 0 || r == -EINVAL);
	if (r < 0)
		return 0;
	FUZZ_REQUIRE(function.n_code <= PLAN_CODE_BYTES && function.n_fixes <= PLAN_MAX_FIXES);
	if (!put_there(&function))
		return 0;
	struct code old = { .bytes = bytes + 1, .n = n, .address = ADDRESS };
	struct code moved = { .bytes = function.code, .n = function.n_code, .address = PLACE };

	while (old.at < n)
		check_one(&old, &moved);
	if (!function.ends_in_call)
		require_jump(&moved, ADDRESS + n);
	FUZZ_REQUIRE(moved.at == moved.n || function.ends_in_call);
	return 0;
}
