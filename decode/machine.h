#pragma once
/*
 * The emulated thread: registers, flags, the memory that the window knows. It lives for one
 * window.
 */
#include <stdbool.h>
#include <stdint.h>

#include "decode/decode.h"
#include "decode/instruction.h"
#include "decode/value.h"

#define MACHINE_WORDS	    64 /* stored words outside the sampled stack; a power of two, <= 64 */
#define MACHINE_STACK_WORDS (DECODE_STACK_BYTES / 8 + 1) /* rsp need not be aligned */
#define MACHINE_GOES_ON	    DECODE_END_COUNT

#define FLAG_CARRY     0x001u
#define FLAG_PARITY    0x004u
#define FLAG_ADJUST    0x010u
#define FLAG_ZERO      0x040u
#define FLAG_SIGN      0x080u
#define FLAG_DIRECTION 0x400u
#define FLAG_OVERFLOW  0x800u
#define FLAGS_STATUS                                                                               \
	(FLAG_CARRY | FLAG_PARITY | FLAG_ADJUST | FLAG_ZERO | FLAG_SIGN | FLAG_OVERFLOW)
#define FLAGS_TRACKED (FLAGS_STATUS | FLAG_DIRECTION)

struct machine_word {
	uint64_t address;
	struct value value;
};

struct machine {
	struct value regs[REG_COUNT]; /* [DECODE_IP] is not used */
	uint64_t next; /* address of the next instruction */
	enum decode_end end; /* MACHINE_GOES_ON, or why it cannot go on */
	uint64_t fs_base; /* 0: not known */
	struct value addresses[INSTRUCTION_MAX_MEMORY]; /* of the current instruction's operands */

	const struct decode_memory *memory;
	const struct decode_sample *sample;

	/*
	 * A word that a store of unknown address may have hit is not stable: only ret, pop and
	 * leave may still read it (see decode.h).
	 */
	uint64_t stack_start; /* of stack[0], 8-aligned */
	uint64_t stack_loaded; /* bit per word of stack: its value is valid */
	uint64_t stack_stable; /* bit per word of stack */
	struct value stack[MACHINE_STACK_WORDS];
	uint64_t words_used; /* bit per word of words */
	uint64_t words_stable;
	struct machine_word words[MACHINE_WORDS];
};

/* Who reads memory: see the assumption in decode.h. */
enum machine_reader {
	MACHINE_READER_DATA,
	MACHINE_READER_STACK, /* ret, pop, leave */
};

/* Start at the sample. memory and sample must outlive the machine. */
void decode_machine_init(struct machine *machine, const struct decode_memory *memory,
			 const struct decode_sample *sample);

/*
 * The address of a memory operand of instruction with the current registers: exact, or unknown.
 * fs without base and gs give unknown.
 */
struct value decode_machine_address(const struct machine *machine,
				    const struct instruction *instruction,
				    const struct memory_operand *operand);

/* Compute machine->addresses for the instruction; to be called before its execute(). */
void decode_machine_prepare(struct machine *machine, const struct instruction *instruction);

/* The n_bytes (1 to 8) at address, zero-extended. */
struct value decode_machine_load(struct machine *machine, uint64_t address, unsigned n_bytes,
				 enum machine_reader reader);

/* Store the n_bytes (1 to 8) low bytes of value. */
void decode_machine_store(struct machine *machine, uint64_t address, unsigned n_bytes,
			  struct value value);

/* Something unknown was stored to [address, address + n_bytes). */
void decode_machine_forget(struct machine *machine, uint64_t address, uint64_t n_bytes);

/* Something was stored at an unknown address. */
void decode_machine_forget_all(struct machine *machine);

/* Read operand number n of instruction, zero-extended from its width; unknown where it has none. */
struct value decode_machine_read(struct machine *machine, const struct instruction *instruction,
				 unsigned n);

/* Write value to operand number n of instruction as the processor does (32 bits clear the rest). */
void decode_machine_write(struct machine *machine, const struct instruction *instruction,
			  unsigned n, struct value value);

/* All that the instruction writes becomes unknown: what is done when it is not emulated. */
void decode_machine_skip(struct machine *machine, const struct instruction *instruction);

/* Set n_bits of a register as the processor does: 32 clear the rest, 16 and 8 keep it. */
static inline void machine_set_reg(struct machine *machine, unsigned reg, unsigned n_bits,
				   struct value value)
{
	struct value *old = &machine->regs[reg];

	if (n_bits >= 32)
		*old = value_truncate(value, n_bits);
	else
		*old = value_merge(value, *old, value_mask(n_bits));
}

/* The n_bits low bits of a register, zero-extended. */
static inline struct value machine_get_reg(const struct machine *machine, unsigned reg,
					   unsigned n_bits)
{
	return value_truncate(machine->regs[reg], n_bits);
}

/* Replace the flags in mask by those of flags. */
static inline void machine_set_flags(struct machine *machine, uint64_t mask, struct value flags)
{
	machine->regs[DECODE_FLAGS] = value_merge(flags, machine->regs[DECODE_FLAGS], mask);
}
