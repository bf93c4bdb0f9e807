#include "decode/x86/execute.h"

#define EACH_CONDITION(X)                                                                          \
	X(O) X(NO) X(B) X(NB) X(Z) X(NZ) X(BE) X(NBE) X(S) X(NS) X(P) X(NP) X(L) X(NL) X(LE) X(NLE)
#define ROW(mnemonic, name) [ZYDIS_MNEMONIC_##mnemonic] = decode_execute_##name,
#define ROWS_CONDITION(condition)                                                                  \
	ROW(J##condition, jcc) ROW(CMOV##condition, cmovcc) ROW(SET##condition, setcc)

/* clang-format off */
static const execute_function by_mnemonic[ZYDIS_MNEMONIC_MAX_VALUE + 1] = {
	EACH_CONDITION(ROWS_CONDITION)
	ROW(ADD, add) ROW(ADC, adc) ROW(SUB, sub) ROW(SBB, sbb) ROW(CMP, cmp)
	ROW(INC, inc) ROW(DEC, dec) ROW(NEG, neg) ROW(XADD, xadd) ROW(CMPXCHG, cmpxchg)
	ROW(AND, and) ROW(OR, or) ROW(XOR, xor) ROW(NOT, not) ROW(TEST, test) ROW(ANDN, andn)
	ROW(BT, bt) ROW(BTS, bts) ROW(BTR, btr) ROW(BTC, btc) ROW(BSWAP, bswap)
	ROW(BSF, bsf) ROW(BSR, bsr) ROW(TZCNT, tzcnt) ROW(LZCNT, lzcnt) ROW(POPCNT, popcnt)
	ROW(IMUL, imul) ROW(MUL, mul) ROW(MULX, mulx) ROW(DIV, div) ROW(IDIV, idiv)
	ROW(SHL, shl) ROW(SHR, shr) ROW(SAR, sar) ROW(ROL, rol) ROW(ROR, ror)
	ROW(SHLD, shld) ROW(SHRD, shrd)
	ROW(SHLX, shlx) ROW(SHRX, shrx) ROW(SARX, sarx) ROW(RORX, rorx)
	ROW(NOP, nop) ROW(MOV, mov) ROW(MOVZX, mov) ROW(MOVSX, movsx) ROW(MOVSXD, movsx)
	ROW(LEA, lea) ROW(XCHG, xchg)
	ROW(CBW, widen) ROW(CWDE, widen) ROW(CDQE, widen)
	ROW(CWD, widen_pair) ROW(CDQ, widen_pair) ROW(CQO, widen_pair)
	ROW(CLC, clc) ROW(STC, stc) ROW(CMC, cmc) ROW(CLD, cld) ROW(STD, std)
	ROW(LAHF, lahf) ROW(SAHF, sahf)
	ROW(PUSH, push) ROW(POP, pop) ROW(LEAVE, leave)
	ROW(PUSHF, pushf) ROW(PUSHFQ, pushf) ROW(POPF, popf) ROW(POPFQ, popf)
	ROW(ENTER, elsewhere) ROW(CLZERO, skip) ROW(ENQCMD, elsewhere)
	ROW(WRFSBASE, segment) ROW(LFS, segment)
	ROW(JMP, jump) ROW(JRCXZ, jrcxz) ROW(JECXZ, jrcxz) ROW(CALL, call) ROW(RET, ret)
	ROW(LOOP, loop) ROW(LOOPE, loop) ROW(LOOPNE, loop)
	ROW(XBEGIN, syscall) ROW(UD0, trap) ROW(UD1, trap) ROW(UD2, trap)
	ROW(CLI, trap) ROW(STI, trap)
	ROW(RDTSC, skip) ROW(RDTSCP, skip) ROW(RDPMC, skip)
};

/* Of the category STRINGOP only: movsd and cmpsd are SSE instructions as well. */
static const execute_function string_by_mnemonic[ZYDIS_MNEMONIC_MAX_VALUE + 1] = {
	ROW(MOVSB, movs) ROW(MOVSW, movs) ROW(MOVSD, movs) ROW(MOVSQ, movs)
	ROW(STOSB, stos) ROW(STOSW, stos) ROW(STOSD, stos) ROW(STOSQ, stos)
	ROW(LODSB, lods) ROW(LODSW, lods) ROW(LODSD, lods) ROW(LODSQ, lods)
	ROW(SCASB, scas) ROW(SCASW, scas) ROW(SCASD, scas) ROW(SCASQ, scas)
	ROW(CMPSB, cmps) ROW(CMPSW, cmps) ROW(CMPSD, cmps) ROW(CMPSQ, cmps)
};
/* clang-format on */

/* What user code cannot run, or where the kernel goes on. */
static const execute_function by_category[ZYDIS_CATEGORY_MAX_VALUE + 1] = {
	[ZYDIS_CATEGORY_SYSCALL] = decode_execute_syscall,
	[ZYDIS_CATEGORY_INTERRUPT] = decode_execute_syscall,
	[ZYDIS_CATEGORY_UNCOND_BR] = decode_execute_syscall,
	[ZYDIS_CATEGORY_COND_BR] = decode_execute_unclear,
	[ZYDIS_CATEGORY_CALL] = decode_execute_syscall,
	[ZYDIS_CATEGORY_RET] = decode_execute_syscall,
	[ZYDIS_CATEGORY_UINTR] = decode_execute_syscall,
	[ZYDIS_CATEGORY_SGX] = decode_execute_syscall,
	[ZYDIS_CATEGORY_SYSRET] = decode_execute_trap,
	[ZYDIS_CATEGORY_SYSTEM] = decode_execute_trap,
	[ZYDIS_CATEGORY_IO] = decode_execute_trap,
	[ZYDIS_CATEGORY_IOSTRINGOP] = decode_execute_trap,
	[ZYDIS_CATEGORY_VTX] = decode_execute_trap,
};

void decode_execute_skip(struct machine *machine, const struct instruction *instruction)
{
	decode_machine_skip(machine, instruction);
}

static execute_function find_string(const ZydisDecodedInstruction *zydis)
{
	execute_function function = string_by_mnemonic[zydis->mnemonic];

	return function && zydis->address_width == 64 ? function : decode_execute_string32;
}

static bool has_prefix(const ZydisDecodedInstruction *zydis, uint8_t prefix)
{
	for (unsigned i = 0; i < zydis->raw.prefix_count; i++)
		if (zydis->raw.prefixes[i].value == prefix)
			return true;
	return false;
}

/*
 * Where processors do not agree. Branches with an operand-size prefix (and no REX.W) are cut to 16
 * bits by AMD, not by Intel; loope and loopne with F2 or F3 take the condition from the prefix on
 * some; pause with REX.B is xchg r8 on some. No compiler makes them.
 */
static bool is_unclear(const ZydisDecodedInstruction *zydis)
{
	if (zydis->mnemonic == ZYDIS_MNEMONIC_PAUSE)
		return zydis->raw.rex.B;
	if (zydis->meta.branch_type == ZYDIS_BRANCH_TYPE_NONE)
		return false;
	if (has_prefix(zydis, 0x66) &&
	    !(zydis->attributes & ZYDIS_ATTRIB_HAS_REX && zydis->raw.rex.W))
		return true;
	return (zydis->mnemonic == ZYDIS_MNEMONIC_LOOPE ||
		zydis->mnemonic == ZYDIS_MNEMONIC_LOOPNE) &&
	       (has_prefix(zydis, 0xf2) || has_prefix(zydis, 0xf3));
}

execute_function decode_execute_find(const ZydisDecodedInstruction *zydis)
{
	execute_function function = by_mnemonic[zydis->mnemonic];

	if (zydis->meta.category == ZYDIS_CATEGORY_STRINGOP)
		return find_string(zydis);
	if (zydis->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return decode_execute_syscall;
	if (zydis->mnemonic == ZYDIS_MNEMONIC_LEAVE && zydis->operand_width != 64)
		return decode_execute_elsewhere;
	if (is_unclear(zydis))
		return decode_execute_unclear;
	if (!function)
		function = decode_execute_form(zydis->mnemonic)->execute;
	if (!function)
		function = by_category[zydis->meta.category];
	return function ? function : decode_execute_skip;
}

bool decode_execute_is_flow(execute_function function)
{
#define EXECUTE_NAME(name) decode_execute_##name,
	static const execute_function flow[] = { EXECUTE_FLOW(EXECUTE_NAME) };
#undef EXECUTE_NAME

	for (size_t i = 0; i < sizeof(flow) / sizeof(flow[0]); i++)
		if (flow[i] == function)
			return true;
	return false;
}
