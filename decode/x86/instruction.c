#include "decode/x86/instruction.h"

#include "decode/x86/execute.h"
#include "decode/x86/machine.h"

#include <errno.h>
#include <string.h>

#define ACTIONS_READ  (ZYDIS_OPERAND_ACTION_READ | ZYDIS_OPERAND_ACTION_CONDREAD)
#define ACTIONS_WRITE (ZYDIS_OPERAND_ACTION_WRITE | ZYDIS_OPERAND_ACTION_CONDWRITE)

/* Zydis' view of one instruction. */
struct view {
	ZydisDecodedInstruction head;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	uint64_t address;
};

/* perf's order of the registers against the processor's (ax cx dx bx sp bp si di r8-r15). */
static const uint8_t reg_by_number[16] = {
	DECODE_AX,     DECODE_CX,     DECODE_DX,     DECODE_BX,	    DECODE_SP,	   DECODE_BP,
	DECODE_SI,     DECODE_DI,     DECODE_R8,     DECODE_R8 + 1, DECODE_R8 + 2, DECODE_R8 + 3,
	DECODE_R8 + 4, DECODE_R8 + 5, DECODE_R8 + 6, DECODE_R8 + 7,
};

/* The general register that contains reg; REG_ZERO if none does. */
static uint8_t find_reg(ZydisRegister reg)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15)
		return REG_ZERO;
	return reg_by_number[whole - ZYDIS_REGISTER_RAX];
}

/* 0 to 31 of xmm, ymm, zmm; NO_VECTOR for others. */
static uint8_t vector_number(ZydisRegister reg)
{
	static const ZydisRegister first[] = { ZYDIS_REGISTER_XMM0, ZYDIS_REGISTER_YMM0,
					       ZYDIS_REGISTER_ZMM0 };

	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		if (reg >= first[i] && reg < first[i] + VECTOR_REGS)
			return (uint8_t)(reg - first[i]);
	return NO_VECTOR;
}

static bool is_mask(ZydisRegister reg)
{
	return reg >= ZYDIS_REGISTER_K0 && reg <= ZYDIS_REGISTER_K7;
}

static bool is_high_byte(ZydisRegister reg)
{
	return reg >= ZYDIS_REGISTER_AH && reg <= ZYDIS_REGISTER_BH;
}

/* Instructions whose memory operand is only an address, a hint or a cache line. */
static bool has_no_access(const ZydisDecodedInstruction *head)
{
	switch (head->mnemonic) {
	case ZYDIS_MNEMONIC_CLFLUSH:
	case ZYDIS_MNEMONIC_CLFLUSHOPT:
	case ZYDIS_MNEMONIC_CLWB:
	case ZYDIS_MNEMONIC_CLDEMOTE:
	case ZYDIS_MNEMONIC_INVLPG:
	case ZYDIS_MNEMONIC_NOP:
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
		return true;
	default:
		break;
	}
	return head->meta.category == ZYDIS_CATEGORY_PREFETCH ||
	       head->meta.category == ZYDIS_CATEGORY_PREFETCHWT1 ||
	       head->meta.category == ZYDIS_CATEGORY_WIDENOP ||
	       head->meta.isa_set == ZYDIS_ISA_SET_AVX512PF_512;
}

/* Accesses whose length depends on what the sample does not hold. */
static bool has_unknown_length(const ZydisDecodedInstruction *head)
{
	return head->meta.category == ZYDIS_CATEGORY_XSAVE ||
	       head->meta.category == ZYDIS_CATEGORY_XSAVEOPT ||
	       head->meta.category == ZYDIS_CATEGORY_AMX_TILE;
}

/* Gathers and scatters by quadword indices have one lane per index, not per element of data. */
static bool has_quadword_index(ZydisMnemonic mnemonic)
{
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_VPGATHERQD:
	case ZYDIS_MNEMONIC_VPGATHERQQ:
	case ZYDIS_MNEMONIC_VGATHERQPS:
	case ZYDIS_MNEMONIC_VGATHERQPD:
	case ZYDIS_MNEMONIC_VPSCATTERQD:
	case ZYDIS_MNEMONIC_VPSCATTERQQ:
	case ZYDIS_MNEMONIC_VSCATTERQPS:
	case ZYDIS_MNEMONIC_VSCATTERQPD:
		return true;
	default:
		return false;
	}
}

static uint16_t count_lanes(const struct view *view, const ZydisDecodedOperand *memory)
{
	unsigned data_bits = 0;
	unsigned index_bits = ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, memory->mem.index);

	if (has_quadword_index(view->head.mnemonic))
		return (uint16_t)(index_bits / 64);
	/* The data are the widest register: masks are smaller. */
	for (unsigned i = 0; i < view->head.operand_count_visible; i++)
		if (view->operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    view->operands[i].size > data_bits)
			data_bits = view->operands[i].size;
	return memory->size && data_bits >= memory->size ? (uint16_t)(data_bits / memory->size) : 1;
}

/* Base, index and displacement as they are written. */
static void fill_address(struct memory_operand *ret, const struct view *view,
			 const ZydisDecodedOperand *zydis)
{
	ret->displacement = zydis->mem.disp.has_displacement ? zydis->mem.disp.value : 0;
	ret->base = find_reg(zydis->mem.base);
	ret->index = REG_ZERO;
	ret->scale = zydis->mem.scale;
	ret->count = 1;
	if (zydis->mem.base == ZYDIS_REGISTER_RIP || zydis->mem.base == ZYDIS_REGISTER_EIP)
		ret->displacement += (int64_t)(view->address + view->head.length);
	if (zydis->mem.type != ZYDIS_MEMOP_TYPE_VSIB)
		ret->index = find_reg(zydis->mem.index);
	if (view->head.address_width == 32)
		ret->flags |= MEMORY_32BIT;
	if (zydis->mem.segment == ZYDIS_REGISTER_FS)
		ret->flags |= MEMORY_FS;
	if (zydis->mem.segment == ZYDIS_REGISTER_GS)
		ret->flags |= MEMORY_GS;
}

static bool is_bit_string(const struct view *view)
{
	switch (view->head.mnemonic) {
	case ZYDIS_MNEMONIC_BT:
	case ZYDIS_MNEMONIC_BTS:
	case ZYDIS_MNEMONIC_BTR:
	case ZYDIS_MNEMONIC_BTC:
		return view->operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
	default:
		return false;
	}
}

/* Where Zydis' operand is not yet the address that the processor uses. */
static void correct_address(struct memory_operand *ret, const struct view *view,
			    const ZydisDecodedOperand *zydis)
{
	bool is_hidden = zydis->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;

	/* push, call: Zydis shows the stack pointer before it is moved. */
	if (is_hidden && ret->base == DECODE_SP && zydis->actions & ACTIONS_WRITE)
		ret->displacement -= ret->size;
	/* pop [rsp + x] computes its address after the increment. */
	if (!is_hidden && ret->base == DECODE_SP && view->head.mnemonic == ZYDIS_MNEMONIC_POP)
		ret->displacement += view->head.operand_width / 8;
	if (view->head.mnemonic == ZYDIS_MNEMONIC_XLAT) {
		ret->index = DECODE_AX;
		ret->scale = 1;
		ret->flags |= MEMORY_LOW_INDEX;
	}
	if (is_bit_string(view))
		ret->flags |= MEMORY_BIT_OFFSET;
	if (zydis->mem.type == ZYDIS_MEMOP_TYPE_VSIB) {
		ret->flags |= MEMORY_GATHER;
		ret->count = count_lanes(view, zydis);
		ret->vector = vector_number(zydis->mem.index);
		if (has_quadword_index(view->head.mnemonic))
			ret->flags |= MEMORY_QUAD_INDEX;
	}
	if (ret->size == 0 || has_unknown_length(&view->head))
		ret->flags |= MEMORY_OPEN_END;
}

/* The operand that masks a masked move of AVX or SSE; NULL: it is none. */
static const ZydisDecodedOperand *find_vector_mask(const struct view *view)
{
	switch (view->head.mnemonic) {
	case ZYDIS_MNEMONIC_VMASKMOVPS:
	case ZYDIS_MNEMONIC_VMASKMOVPD:
	case ZYDIS_MNEMONIC_VPMASKMOVD:
	case ZYDIS_MNEMONIC_VPMASKMOVQ:
	case ZYDIS_MNEMONIC_MASKMOVDQU:
	case ZYDIS_MNEMONIC_VMASKMOVDQU:
	case ZYDIS_MNEMONIC_MASKMOVQ:
		return &view->operands[1];
	default:
		break;
	}
	/* Gathers of AVX2; those of AVX-512 have a mask register. */
	return view->head.meta.category == ZYDIS_CATEGORY_AVX2GATHER ? &view->operands[2] : NULL;
}

static unsigned mask_element(const struct view *view, const ZydisDecodedOperand *zydis)
{
	switch (view->head.mnemonic) {
	case ZYDIS_MNEMONIC_MASKMOVDQU:
	case ZYDIS_MNEMONIC_VMASKMOVDQU:
	case ZYDIS_MNEMONIC_MASKMOVQ:
		return 1;
	case ZYDIS_MNEMONIC_VMASKMOVPS:
	case ZYDIS_MNEMONIC_VPMASKMOVD:
		return 4;
	case ZYDIS_MNEMONIC_VMASKMOVPD:
	case ZYDIS_MNEMONIC_VPMASKMOVQ:
		return 8;
	default:
		return zydis->element_size / 8u;
	}
}

static bool is_packed(const ZydisDecodedInstruction *head)
{
	return head->meta.category == ZYDIS_CATEGORY_EXPAND ||
	       head->meta.category == ZYDIS_CATEGORY_COMPRESS;
}

/* Elements of the operand; of a broadcast those of the register that it fills. */
static unsigned mask_lanes(const struct view *view, const struct memory_operand *memory)
{
	if (memory->flags & MEMORY_GATHER)
		return memory->count;
	if (view->head.avx.broadcast.mode != ZYDIS_BROADCAST_MODE_INVALID && memory->element)
		return view->head.avx.vector_length / 8u / memory->element;
	return memory->element ? memory->size / memory->element : 1;
}

/* Which elements an instruction touches may depend on a mask. */
static void fill_mask(struct memory_operand *ret, const struct view *view,
		      const ZydisDecodedOperand *zydis)
{
	const ZydisDecodedOperand *vector = find_vector_mask(view);
	ZydisRegister k = view->head.avx.mask.reg;

	if (vector) {
		ret->mask = MASK_VECTOR;
		ret->mask_reg = vector_number(vector->reg.value);
	} else if (k > ZYDIS_REGISTER_K0 && k <= ZYDIS_REGISTER_K7) {
		ret->mask = MASK_K;
		ret->mask_reg = (uint8_t)(k - ZYDIS_REGISTER_K0);
	} else {
		return;
	}
	ret->element = (uint8_t)mask_element(view, zydis);
	ret->lanes = (uint8_t)mask_lanes(view, ret);
	if (is_packed(&view->head))
		ret->flags |= MEMORY_PACKED;
}

uint8_t decode_memory_state(const struct memory_operand *operand)
{
	if (operand->flags & MEMORY_GATHER)
		return DECODE_BASE_ONLY;
	if (operand->mask != MASK_NONE)
		return DECODE_MASKED;
	return operand->flags & MEMORY_OPEN_END ? DECODE_FIRST_ONLY : DECODE_RESOLVED;
}

static void fill_memory(struct instruction *ret, const struct view *view,
			const ZydisDecodedOperand *zydis)
{
	struct memory_operand *memory = &ret->memory[ret->n_memory++];

	fill_address(memory, view, zydis);
	memory->size = zydis->size / 8u;
	if (zydis->actions & ACTIONS_READ)
		memory->flags |= MEMORY_READ;
	if (zydis->actions & ACTIONS_WRITE)
		memory->flags |= MEMORY_WRITE;
	correct_address(memory, view, zydis);
	fill_mask(memory, view, zydis);
}

static bool is_memory(const ZydisDecodedOperand *zydis)
{
	return zydis->type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       (zydis->mem.type == ZYDIS_MEMOP_TYPE_MEM ||
		zydis->mem.type == ZYDIS_MEMOP_TYPE_VSIB) &&
	       zydis->actions & (ACTIONS_READ | ACTIONS_WRITE);
}

static void fill_written_reg(struct instruction *ret, const ZydisDecodedOperand *zydis)
{
	uint8_t reg = find_reg(zydis->reg.value), vector = vector_number(zydis->reg.value);

	if (reg != REG_ZERO)
		ret->regs_written |= UINT32_C(1) << reg;
	if (vector != NO_VECTOR)
		ret->vectors_written |= UINT32_C(1) << vector;
	if (is_mask(zydis->reg.value))
		ret->masks_written |= (uint8_t)(1u << (zydis->reg.value - ZYDIS_REGISTER_K0));
	if (zydis->reg.value == ZYDIS_REGISTER_FS)
		ret->execute = decode_execute_segment;
}

static void fill_effects(struct instruction *ret, const struct view *view)
{
	const ZydisAccessedFlags *flags = view->head.cpu_flags;
	bool has_access = !has_no_access(&view->head);

	for (unsigned i = 0; i < view->head.operand_count; i++) {
		const ZydisDecodedOperand *zydis = &view->operands[i];

		if (is_memory(zydis) && has_access && ret->n_memory < INSTRUCTION_MAX_MEMORY)
			fill_memory(ret, view, zydis);
		else if (zydis->type == ZYDIS_OPERAND_TYPE_REGISTER &&
			 zydis->actions & ACTIONS_WRITE)
			fill_written_reg(ret, zydis);
	}
	if (flags)
		ret->flags_written = FLAGS_TRACKED & (flags->modified | flags->set_0 |
						      flags->set_1 | flags->undefined);
}

static void fill_reg_operand(struct operand *ret, const ZydisDecodedOperand *zydis)
{
	uint8_t reg = find_reg(zydis->reg.value);

	if (vector_number(zydis->reg.value) != NO_VECTOR) {
		ret->kind = OPERAND_VECTOR;
		ret->reg = vector_number(zydis->reg.value);
		return;
	}
	if (is_mask(zydis->reg.value)) {
		ret->kind = OPERAND_MASK;
		ret->reg = (uint8_t)(zydis->reg.value - ZYDIS_REGISTER_K0);
		return;
	}
	if (reg == REG_ZERO)
		return;
	ret->kind = OPERAND_REG;
	ret->reg = reg;
	ret->bits = (uint8_t)zydis->size;
	ret->shift = is_high_byte(zydis->reg.value) ? 8 : 0;
}

static void fill_immediate(struct instruction *ret, struct operand *operand,
			   const struct view *view, const ZydisDecodedOperand *zydis)
{
	ZyanU64 target;

	operand->kind = OPERAND_IMMEDIATE;
	operand->bits = ret->width;
	ret->immediate = zydis->imm.value.u;
	if (!zydis->imm.is_relative)
		return;
	operand->bits = 64;
	if (ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&view->head, zydis, view->address, &target)))
		ret->immediate = target;
}

static void fill_words(struct instruction *ret, const ZydisDecodedOperand *zydis, unsigned n)
{
	uint8_t words =
		(uint8_t)(ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, zydis->reg.value) / 64);

	if (n == 0)
		ret->vector_words = words;
	if (n == 1)
		ret->source_words = words;
	if (n == 1 && ret->operands[0].kind != OPERAND_VECTOR)
		ret->vector_words = words;
}

/*
 * The explicit operands, without the mask of EVEX; memory ones are numbered in the order of
 * fill_effects(). An immediate may be the fourth.
 */
static void fill_operands(struct instruction *ret, const struct view *view)
{
	struct operand beyond;
	uint8_t n_memory = 0;

	for (unsigned i = 0, n = 0; i < view->head.operand_count_visible; i++) {
		const ZydisDecodedOperand *zydis = &view->operands[i];
		struct operand *operand =
			n < INSTRUCTION_MAX_OPERANDS ? &ret->operands[n] : &beyond;

		if (zydis->encoding == ZYDIS_OPERAND_ENCODING_MASK)
			continue;
		operand->kind = OPERAND_OTHER;
		if (zydis->type == ZYDIS_OPERAND_TYPE_REGISTER) {
			fill_reg_operand(operand, zydis);
		} else if (zydis->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
			fill_immediate(ret, operand, view, zydis);
		} else if (is_memory(zydis) && n_memory < ret->n_memory) {
			operand->kind = OPERAND_MEMORY;
			operand->bits = zydis->size <= 64 ? (uint8_t)zydis->size : 0;
			operand->reg = n_memory++;
		}
		if (operand->kind == OPERAND_VECTOR)
			fill_words(ret, zydis, n);
		n++;
	}
}

static void fill_vector(struct instruction *ret, const struct view *view)
{
	const struct execute_form *form = decode_execute_form(view->head.mnemonic);
	ZydisInstructionEncoding encoding = view->head.encoding;

	if (!form->execute || ret->execute != form->execute)
		return;
	ret->element = form->element;
	if (form->width || ret->execute == decode_execute_vbroadcast ||
	    ret->execute == decode_execute_scatter)
		ret->width = form->width;
	ret->is_vex = encoding == ZYDIS_INSTRUCTION_ENCODING_VEX ||
		      encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX;
	if (is_mask(view->head.avx.mask.reg))
		ret->mask = (view->head.avx.mask.reg - ZYDIS_REGISTER_K0) & 7;
	ret->zeroes = view->head.avx.mask.mode == ZYDIS_MASK_MODE_ZEROING;
	ret->broadcasts = view->head.avx.broadcast.mode != ZYDIS_BROADCAST_MODE_INVALID &&
			  !view->head.avx.broadcast.is_static;
}

/* F2 and F3 both repeat; what ends cmps and scas early is the data. */
static uint8_t find_repeat(const ZydisDecodedInstruction *head)
{
	if (head->meta.category != ZYDIS_CATEGORY_STRINGOP ||
	    !(head->attributes &
	      (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE)))
		return REPEAT_NONE;
	return head->cpu_flags && head->cpu_flags->modified ? REPEAT_UNTIL : REPEAT_COUNT;
}

/* jcc, cmovcc and setcc have it in their opcode; loope is "zero", loopne "not zero". */
static uint8_t find_condition(const ZydisDecodedInstruction *head)
{
	switch (head->mnemonic) {
	case ZYDIS_MNEMONIC_LOOPE:
		return 4;
	case ZYDIS_MNEMONIC_LOOPNE:
		return 5;
	case ZYDIS_MNEMONIC_LOOP:
		return 0;
	default:
		return head->opcode & 0xf;
	}
}

static uint8_t find_width(const struct view *view)
{
	unsigned bits = view->head.operand_width;

	if (view->head.operand_count_visible > 0 &&
	    view->operands[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
		bits = view->operands[0].size;
	return (uint8_t)(bits == 0 || bits > 64 ? 64 : bits);
}

/* lea needs its address computed, though it accesses nothing. */
static void fill_lea(struct instruction *ret, const struct view *view)
{
	fill_address(&ret->memory[0], view, &view->operands[1]);
	ret->memory[0].flags &= MEMORY_32BIT;
}

/* clzero has no operand but rax: 64 bytes around it are written. */
static void fill_clzero(struct instruction *ret)
{
	ret->memory[0] = (struct memory_operand){ .size = 64,
						  .count = 1,
						  .base = DECODE_AX,
						  .index = REG_ZERO,
						  .flags = MEMORY_WRITE | MEMORY_LINE };
	ret->n_memory = 1;
}

static int decode_bytes(const void *code, size_t n_bytes, struct view *ret_view)
{
	ZydisDecoder zydis;
	ZyanStatus status;

	ZydisDecoderInit(&zydis, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	status = ZydisDecoderDecodeFull(&zydis, code, n_bytes, &ret_view->head, ret_view->operands);
	if (status == ZYDIS_STATUS_NO_MORE_DATA && n_bytes < INSTRUCTION_MAX_BYTES)
		return -EAGAIN;
	return ZYAN_FAILED(status) ? -EILSEQ : 0;
}

int decode_instruction_fill(const void *code, size_t n_bytes, uint64_t address,
			    struct instruction *ret_instruction)
{
	struct view view = { .address = address };
	int err = decode_bytes(code, n_bytes, &view);

	if (err < 0)
		return err;
	memset(ret_instruction, 0, sizeof(*ret_instruction));
	ret_instruction->address = address;
	ret_instruction->bytes = view.head.length;
	ret_instruction->width = find_width(&view);
	ret_instruction->address_width = view.head.address_width;
	ret_instruction->condition = find_condition(&view.head);
	ret_instruction->repeat = find_repeat(&view.head);
	ret_instruction->execute = decode_execute_find(&view.head);
	fill_effects(ret_instruction, &view);
	fill_operands(ret_instruction, &view);
	fill_vector(ret_instruction, &view);
	if (view.head.mnemonic == ZYDIS_MNEMONIC_LEA)
		fill_lea(ret_instruction, &view);
	if (view.head.mnemonic == ZYDIS_MNEMONIC_CLZERO)
		fill_clzero(ret_instruction);
	return 0;
}
