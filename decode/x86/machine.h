#pragma once
/*
 * The emulated thread: registers, flags, the memory that the window knows. It lives for one
 * window.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/decode.h"
#include "decode/x86/instruction.h"
#include "decode/x86/value.h"

#define MACHINE_WORDS 64 /* stored words outside the sampled stack; a power of two, <= 64 */
/* rsp need not be aligned */
#define MACHINE_STACK_WORDS ((DECODE_BELOW_BYTES + DECODE_STACK_BYTES) / 8 + 1)
#define MACHINE_CALLS	    8u
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

/* A register of 512 bits, word 0 the lowest; all zero: nothing of it is known. */
#define VECTOR_WORDS 8u
struct vector {
	struct value words[VECTOR_WORDS];
};

struct vectors {
	/* bit per register: something of it is known, else its words do not count */
	uint32_t known;
	uint8_t masks_known; /* the same of mask registers */
	struct vector regs[VECTOR_REGS];
	struct value masks[MASK_REGS];
};

struct machine {
	struct value regs[REG_COUNT]; /* [DECODE_IP] is not used */
	uint64_t next; /* address of the next instruction */
	enum decode_end end; /* MACHINE_GOES_ON, or why it cannot go on */
	uint64_t fs_base; /* 0: not known */
	struct value addresses[INSTRUCTION_MAX_MEMORY]; /* of the current instruction's operands */
	bool is_guessing; /* data that is not known reads as 1 where it is of 4 bytes, else as 0 */
	struct vectors *vectors; /* NULL: vector registers are not tracked, all are unknown */
	unsigned n_calls; /* that have not returned: the first MACHINE_CALLS have their ... */
	uint64_t calls[MACHINE_CALLS]; /* ... return addresses here on the stack */

	const struct decode_memory *memory;
	const struct decode_sample *sample;

	/*
	 * A word that a store of unknown address may have hit is not stable: only ret, pop and
	 * leave may still read it (see decode.h).
	 */
	uint64_t stack_start; /* of stack[0], 8-aligned */
	unsigned n_stack; /* words of stack that are used */
	uint64_t stack_loaded; /* bit per word of stack: its value is valid */
	uint64_t stack_stable; /* bit per word of stack */
	struct value stack[MACHINE_STACK_WORDS];
	uint64_t words_used; /* bit per word of words */
	uint64_t words_stable;
	/* of stores that words do not hold: from start to end data may not be as it was any more */
	uint64_t lost_start, lost_end;
	struct machine_word words[MACHINE_WORDS];
};

/* Who reads memory: see the assumption in decode.h. */
enum machine_reader {
	MACHINE_READER_DATA,
	MACHINE_READER_STACK, /* ret, pop, leave */
};

/* Start at the sample. memory and sample must outlive the machine. Without vector registers. */
void decode_machine_init(struct machine *machine, const struct decode_memory *memory,
			 const struct decode_sample *sample);

/*
 * The address of a memory operand of instruction with the current registers: exact, or unknown.
 * fs without base and gs give unknown.
 */
struct value decode_machine_address(const struct machine *machine,
				    const struct instruction *instruction,
				    const struct memory_operand *operand);

/*
 * Where an operand accesses of which the address is not known, but few bits are open: in so many
 * bytes from *ret_lowest on, whatever those bits are. 0: that is not known either.
 */
uint32_t decode_machine_range(const struct machine *machine, const struct instruction *instruction,
			      const struct memory_operand *operand, uint64_t *ret_lowest);

/* Compute machine->addresses for the instruction; to be called before its execute(). */
void decode_machine_prepare(struct machine *machine, const struct instruction *instruction);

/* The n_bytes (1 to 8) at address, zero-extended. */
struct value decode_machine_load(struct machine *machine, uint64_t address, unsigned n_bytes,
				 enum machine_reader reader);

/*
 * Read n_bytes at address out of what is known of memory beside what the machine holds: constant
 * data, or data as it was. Returns how many are known.
 */
size_t decode_machine_outside(const struct machine *machine, uint64_t address, void *bytes,
			      size_t n_bytes);

/* The n_bytes (1 to 8) at address as far as the sample has them of the stack. */
struct value decode_machine_sampled(const struct decode_sample *sample, uint64_t address,
				    unsigned n_bytes);

/* Store the n_bytes (1 to 8) low bytes of value. */
void decode_machine_store(struct machine *machine, uint64_t address, unsigned n_bytes,
			  struct value value);

/* Something unknown was stored to [address, address + n_bytes). */
void decode_machine_forget(struct machine *machine, uint64_t address, uint64_t n_bytes);

/* Something was stored at an unknown address. */
void decode_machine_forget_all(struct machine *machine);

/* No data is taken from outside any more, as far from the sample, where it may be another. */
void decode_machine_lose_data(struct machine *machine);

/* Read operand number n of instruction, zero-extended from its width; unknown where it has none. */
struct value decode_machine_read(struct machine *machine, const struct instruction *instruction,
				 unsigned n);

/* Write value to operand number n of instruction as the processor does (32 bits clear the rest). */
void decode_machine_write(struct machine *machine, const struct instruction *instruction,
			  unsigned n, struct value value);

/* All that the instruction writes becomes unknown: what is done when it is not emulated. */
void decode_machine_skip(struct machine *machine, const struct instruction *instruction);

/* From here on the machine tracks vector registers, in `vectors`; what the sample has is known. */
void decode_vectors_init(struct machine *machine, struct vectors *vectors);

/*
 * Vector registers; all of these but decode_lanes_mask() and decode_lane_address() want
 * machine->vectors.
 *
 * Read operand number n: a vector, memory (repeated where the instruction broadcasts it), a mask or
 * a general register; what is above its bytes is 0, but for registers.
 */
struct vector decode_vector_read(struct machine *machine, const struct instruction *instruction,
				 unsigned n);

/* Whether reading operand n can give anything but unknown bits; quick. */
bool decode_vector_may_know(const struct machine *machine, const struct instruction *instruction,
			    unsigned n);

/* Write operand 0 as the processor does: by the mask register, what is above cleared or kept. */
void decode_vector_write(struct machine *machine, const struct instruction *instruction,
			 const struct vector *vector);

/* All 512 bits of a register. */
void decode_vector_set(struct machine *machine, unsigned reg, const struct vector *vector);

struct value decode_mask_read(const struct machine *machine, unsigned mask);
void decode_mask_write(struct machine *machine, unsigned mask, struct value value);

/* The sign bits of the n lowest elements of n_bits, as bits 0 to n - 1. */
struct value decode_vector_signs(const struct vector *vector, unsigned n_bits, unsigned n);

/* Which lanes of an operand are accessed: a bit for each. */
struct value decode_lanes_mask(const struct machine *machine, const struct memory_operand *operand);

/* Where a lane of a gather or scatter lies, which has this base; exact or unknown. */
struct value decode_lane_address(const struct machine *machine,
				 const struct memory_operand *operand, struct value base,
				 unsigned lane);

static inline struct vector vector_zero(void)
{
	struct vector vector;

	for (unsigned i = 0; i < VECTOR_WORDS; i++)
		vector.words[i] = value_exact(0);
	return vector;
}

/* Element number `lane` of n_bits (8 to 64). */
static inline struct value vector_lane(const struct vector *vector, unsigned lane, unsigned n_bits)
{
	unsigned at = lane * n_bits;

	return value_truncate(value_shift_right(vector->words[at / 64], at % 64), n_bits);
}

static inline void vector_set_lane(struct vector *vector, unsigned lane, unsigned n_bits,
				   struct value value)
{
	unsigned at = lane * n_bits;
	struct value *word = &vector->words[at / 64];

	*word = value_merge(value_shift_left(value, at % 64), *word, value_mask(n_bits) << at % 64);
}

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
