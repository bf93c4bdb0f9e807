#pragma once
/*
 * What instructions do, as functions over a machine. decode_execute_find() is the table that maps
 * Zydis' mnemonics to them. Semantics: Intel SDM volume 2; flags that it calls undefined become
 * unknown.
 */
#include <Zydis/Zydis.h>

#include "decode/x86/instruction.h"
#include "decode/x86/machine.h"

/* The function for an instruction; decode_machine_skip when it is not emulated. Never NULL. */
execute_function decode_execute_find(const ZydisDecodedInstruction *zydis);

/* How a vector instruction is emulated; execute NULL: it is not. */
struct execute_form {
	execute_function execute;
	uint8_t element; /* struct instruction */
	uint8_t width; /* the same; 0: as it is */
};
const struct execute_form *decode_execute_form(ZydisMnemonic mnemonic);

/* Whether it may go on elsewhere than at the next instruction: the end of a basic block. */
bool decode_execute_is_flow(execute_function function);

/* Whether a condition (low 4 bits of jcc) holds: 0 or 1, or unknown in bit 0. */
struct value decode_condition(const struct machine *machine, unsigned condition);

/* ZF, SF and PF of a result of `width` bits (zero-extended). */
struct value decode_result_flags(struct value result, unsigned width);

/* Each of them is decode_execute_NAME(machine, instruction), an execute_function. */
/* clang-format off */
#define EXECUTE_ARITHMETIC(X) \
	X(add) X(adc) X(sub) X(sbb) X(cmp) X(inc) X(dec) X(neg) X(xadd) X(cmpxchg)
#define EXECUTE_LOGIC(X) \
	X(and) X(or) X(xor) X(not) X(test) X(andn) X(bt) X(bts) X(btr) X(btc) X(bswap)
#define EXECUTE_COUNT(X) X(bsf) X(bsr) X(tzcnt) X(lzcnt) X(popcnt)
#define EXECUTE_MULTIPLY(X) X(imul) X(mul) X(mulx) X(div) X(idiv)
#define EXECUTE_SHIFT(X) \
	X(shl) X(shr) X(sar) X(rol) X(ror) X(shld) X(shrd) X(shlx) X(shrx) X(sarx) X(rorx)
#define EXECUTE_MOVE(X) \
	X(nop) X(mov) X(movsx) X(lea) X(xchg) X(cmovcc) X(setcc) X(widen) X(widen_pair) \
	X(clc) X(stc) X(cmc) X(cld) X(std) X(lahf) X(sahf) X(segment)
#define EXECUTE_STACK(X) X(push) X(pop) X(pushf) X(popf) X(leave) X(elsewhere) X(skip)
#define EXECUTE_STRING(X) X(movs) X(stos) X(lods) X(scas) X(cmps) X(string32)
#define EXECUTE_VECTOR(X) \
	X(vand) X(vandn) X(vor) X(vxor) X(vadd) X(vsub) X(vmull) X(vmuludq) X(vmuldq) \
	X(vmins) X(vmaxs) X(vminu) X(vmaxu) X(vsll) X(vsrl) X(vsra) X(vsllv) X(vsrlv) X(vsrav) \
	X(vternlog) X(vcmpeq) X(vcmpgt) X(vcmp) X(vcmpu)
#define EXECUTE_SHUFFLE(X) \
	X(vmov) X(vmovd) X(vmovs) X(vmovl) X(vmovh) X(vmovhl) X(vmovsx) X(vmovzx) X(vbroadcast) \
	X(vextract) X(vinsert) X(pextr) X(pinsr) X(unpackl) X(unpackh) X(pshufd) X(pshuflw) \
	X(pshufhw) X(shufps) X(shufpd) X(pshufb) X(palignr) X(pslldq) X(psrldq) X(pblend) \
	X(vperm2i128) X(vperm) X(movmsk) X(vmov2m) X(vmovm2) X(vzeroupper) X(vzeroall) X(restore)
#define EXECUTE_LANES(X) \
	X(gather) X(scatter) X(vmaskmov) X(kmov) X(kand) X(kandn) X(kor) X(kxor) X(kxnor) X(knot) \
	X(kshiftl) X(kshiftr)
#define EXECUTE_FLOW(X) \
	X(jump) X(jcc) X(jrcxz) X(loop) X(call) X(ret) X(unclear) X(syscall) X(trap)
/* clang-format on */

#define EXECUTE_DECLARE(name)                                                                      \
	void decode_execute_##name(struct machine *machine, const struct instruction *instruction);
EXECUTE_ARITHMETIC(EXECUTE_DECLARE)
EXECUTE_LOGIC(EXECUTE_DECLARE)
EXECUTE_COUNT(EXECUTE_DECLARE)
EXECUTE_MULTIPLY(EXECUTE_DECLARE)
EXECUTE_SHIFT(EXECUTE_DECLARE)
EXECUTE_MOVE(EXECUTE_DECLARE)
EXECUTE_STACK(EXECUTE_DECLARE)
EXECUTE_STRING(EXECUTE_DECLARE)
EXECUTE_VECTOR(EXECUTE_DECLARE)
EXECUTE_SHUFFLE(EXECUTE_DECLARE)
EXECUTE_LANES(EXECUTE_DECLARE)
EXECUTE_FLOW(EXECUTE_DECLARE)
#undef EXECUTE_DECLARE

/* Set the flags of the comparison a - b of `width` bits. */
void decode_compare_values(struct machine *machine, struct value a, struct value b, unsigned width);
