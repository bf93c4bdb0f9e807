#pragma once
/*
 * One decoded instruction: what it touches and what the emulator has to do for it. Filled once
 * from Zydis, then kept in the cache.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/decode.h"

#define INSTRUCTION_MAX_BYTES	 15
#define INSTRUCTION_MAX_OPERANDS 3
#define INSTRUCTION_MAX_MEMORY	 2

#define REG_ZERO  DECODE_N_REGS /* reads as 0: no base, no index */
#define REG_COUNT (DECODE_N_REGS + 1)

struct machine;
struct instruction;

/* Changes the machine as the instruction does; what it does not know becomes unknown. */
typedef void (*execute_function)(struct machine *machine, const struct instruction *instruction);

enum operand_kind {
	OPERAND_NONE,
	OPERAND_REG,
	OPERAND_IMMEDIATE,
	OPERAND_MEMORY,
	OPERAND_OTHER, /* vector, mask, segment ... registers: not emulated */
};

struct operand {
	uint8_t kind; /* enum operand_kind */
	uint8_t reg; /* OPERAND_REG: enum decode_reg; OPERAND_MEMORY: index into memory */
	uint8_t bits; /* 8 to 64 for registers and immediates */
	uint8_t shift; /* 8 for ah, bh, ch, dh */
};

enum memory_flag {
	MEMORY_READ = 1 << 0,
	MEMORY_WRITE = 1 << 1,
	MEMORY_BASE_ONLY = 1 << 2, /* the address is only near: vector index, unknown length */
	MEMORY_FS = 1 << 3,
	MEMORY_GS = 1 << 4,
	MEMORY_32BIT = 1 << 5, /* the address is cut to 32 bits */
	MEMORY_BIT_OFFSET = 1 << 6, /* bt with a register: the bit may lie anywhere */
	MEMORY_LOW_INDEX = 1 << 7, /* xlat: the index is one byte */
};

struct memory_operand {
	int64_t displacement; /* with rip, where the operand is rip-relative */
	uint32_t size; /* bytes of one element */
	uint16_t count; /* elements: lanes of a gather, else 1 */
	uint8_t base; /* index into the machine's registers, or REG_ZERO */
	uint8_t index;
	uint8_t scale;
	uint8_t flags; /* MEMORY_* */
};

enum instruction_repeat {
	REPEAT_NONE,
	REPEAT_COUNT, /* rcx times */
	REPEAT_UNTIL, /* at most rcx times, ended by the data */
};

struct instruction {
	uint64_t address; /* address and process are the key in the cache */
	uint32_t process;
	uint8_t bytes; /* 0: these bytes are no instruction */
	uint8_t condition; /* of jcc, cmovcc, setcc, as in the opcode's low 4 bits */
	uint8_t repeat; /* enum instruction_repeat */
	uint8_t n_memory;
	execute_function execute;
	uint64_t immediate; /* sign-extended; for direct branches the target */
	uint32_t regs_written; /* mask by enum decode_reg: what becomes unknown if not emulated */
	uint16_t flags_written;
	uint8_t width; /* operand width in bits */
	uint8_t address_width;
	struct operand operands[INSTRUCTION_MAX_OPERANDS]; /* explicit ones, destination first */
	struct memory_operand memory[INSTRUCTION_MAX_MEMORY];
};

/*
 * Decode n_bytes of code at address. Returns 0 and fills *ret_instruction (address and immediate
 * are absolute; process is left 0), -EAGAIN when more bytes are needed, -EILSEQ when the
 * bytes are no instruction.
 */
int decode_instruction_fill(const void *code, size_t n_bytes, uint64_t address,
			    struct instruction *ret_instruction);
