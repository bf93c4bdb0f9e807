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

#define VECTOR_REGS 32u
#define MASK_REGS   8u
#define NO_VECTOR   VECTOR_REGS

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
	OPERAND_VECTOR, /* xmm, ymm, zmm */
	OPERAND_MASK, /* k0 to k7 */
	OPERAND_OTHER, /* segment, MMX ... registers: not emulated */
};

struct operand {
	uint8_t kind; /* enum operand_kind */
	/* enum decode_reg, number of a vector or mask; OPERAND_MEMORY: index into memory */
	uint8_t reg;
	uint8_t bits; /* 8 to 64 for registers and immediates; 0: wider */
	uint8_t shift; /* 8 for ah, bh, ch, dh */
};

enum memory_flag {
	MEMORY_READ = 1 << 0,
	MEMORY_WRITE = 1 << 1,
	MEMORY_GATHER = 1 << 2, /* the index is a vector: each lane has its own address */
	MEMORY_FS = 1 << 3,
	MEMORY_GS = 1 << 4,
	MEMORY_32BIT = 1 << 5, /* the address is cut to 32 bits */
	MEMORY_BIT_OFFSET = 1 << 6, /* bt with a register: the bit may lie anywhere */
	MEMORY_LOW_INDEX = 1 << 7, /* xlat: the index is one byte */
	MEMORY_OPEN_END = 1 << 8, /* how long it is depends on what is not sampled */
	MEMORY_PACKED = 1 << 9, /* expand, compress: only as many elements as the mask has bits */
	MEMORY_LINE = 1 << 10, /* clzero: the cache line around the address */
	MEMORY_QUAD_INDEX = 1 << 11, /* indices of a gather have 64 bits, not 32 */
};

/* What decides which elements of an operand are accessed. */
enum memory_mask {
	MASK_NONE, /* all of them */
	MASK_K, /* a bit of a mask register for each */
	MASK_VECTOR, /* the sign bit of each element of a vector register */
};

struct memory_operand {
	int64_t displacement; /* with rip, where the operand is rip-relative */
	uint32_t size; /* bytes of one element */
	uint16_t count; /* elements: lanes of a gather, else 1 */
	uint16_t flags; /* MEMORY_* */
	uint8_t base; /* index into the machine's registers, or REG_ZERO */
	uint8_t index; /* of a gather REG_ZERO */
	uint8_t scale;
	uint8_t vector; /* MEMORY_GATHER: number of the register with the indices */
	uint8_t mask; /* enum memory_mask; with it: */
	uint8_t mask_reg; /* its number */
	uint8_t element; /* bytes that a bit of it decides about */
	uint8_t lanes; /* how many bits it has; several of them for one element: a broadcast */
};

/* What is known of an access whose address is: of enum decode_state. */
uint8_t decode_memory_state(const struct memory_operand *operand);

enum instruction_repeat {
	REPEAT_NONE,
	REPEAT_COUNT, /* rcx times */
	REPEAT_UNTIL, /* at most rcx times, ended by the data */
};

struct instruction {
	uint64_t address; /* address, version and process are the key in the cache */
	uint64_t version; /* decode_code_version() of its longest form */
	uint32_t process;
	uint8_t bytes; /* 0: these bytes are no instruction */
	uint8_t condition; /* of jcc, cmovcc, setcc, as in the opcode's low 4 bits */
	uint8_t repeat; /* enum instruction_repeat */
	uint8_t n_memory;
	execute_function execute;
	uint64_t immediate; /* sign-extended; for direct branches the target */
	uint32_t regs_written; /* mask by enum decode_reg: what becomes unknown if not emulated */
	uint16_t flags_written;
	uint8_t width; /* operand width in bits; of some vector instructions another one */
	uint8_t address_width;
	uint32_t vectors_written; /* mask; what becomes unknown, as regs_written */
	uint8_t masks_written;
	uint8_t element; /* of an emulated vector instruction: bits of what it counts in */
	uint8_t vector_words; /* of 64 bits, of operand 0, if that is a vector, else of operand 1 */
	uint8_t source_words; /* the same of operand 1 */
	uint8_t mask : 3; /* EVEX: number of the mask register; 0: none */
	uint8_t zeroes : 1; /* what the mask leaves out becomes 0, instead of staying */
	uint8_t broadcasts : 1; /* the memory operand is one element for all */
	uint8_t is_vex : 1; /* VEX or EVEX: with a destination of its own */
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
