#include "decode/x86/machine.h"

#include <string.h>

/* Whether the machine itself holds any of the 8 bytes at address. */
static bool is_held(const struct machine *machine, uint64_t address)
{
	uint64_t words[2] = { address & ~UINT64_C(7), (address + 7) & ~UINT64_C(7) };

	for (unsigned i = 0; i < 2; i++) {
		unsigned slot = (unsigned)(words[i] / 8 % MACHINE_WORDS);

		if (words[i] - machine->stack_start < machine->n_stack * 8 ||
		    (machine->words_used >> slot & 1 && machine->words[slot].address == words[i]))
			return true;
	}
	return false;
}

/*
 * n_bytes at address: what is known beside the machine, asked for at once, but for what that holds.
 */
static void load(struct machine *machine, uint64_t address, unsigned n_bytes,
		 struct vector *ret_vector)
{
	uint8_t bytes[VECTOR_WORDS * 8] = { 0 }, known[VECTOR_WORDS * 8] = { 0 };

	memset(known, 0xff, decode_machine_outside(machine, address, bytes, n_bytes));
	for (unsigned at = 0; at < n_bytes; at += 8) {
		struct value *word = &ret_vector->words[at / 8];
		unsigned n_here = n_bytes - at < 8 ? n_bytes - at : 8;

		memcpy(&word->bits, bytes + at, sizeof(word->bits));
		memcpy(&word->known, known + at, sizeof(word->known));
		word->bits &= word->known;
		if (is_held(machine, address + at))
			*word = decode_machine_load(machine, address + at, n_here,
						    MACHINE_READER_DATA);
		*word = value_truncate(*word, n_here * 8);
	}
}

static struct vector spread(struct value element, unsigned n_bits)
{
	struct vector vector = { 0 };

	for (unsigned i = 0; i < VECTOR_WORDS * 64 / n_bits; i++)
		vector_set_lane(&vector, i, n_bits, element);
	return vector;
}

static struct vector unknown_vector(void)
{
	return (struct vector){ 0 };
}

/* What is above the operand's bytes is 0. */
static struct vector read_memory(struct machine *machine, const struct instruction *instruction,
				 unsigned memory)
{
	const struct memory_operand *operand = &instruction->memory[memory];
	struct value address = machine->addresses[memory];
	struct vector vector = vector_zero();

	if (!value_is_exact(address) || operand->flags & (MEMORY_GATHER | MEMORY_PACKED) ||
	    operand->size == 0 || operand->size > VECTOR_WORDS * 8)
		return unknown_vector();
	load(machine, address.bits, operand->size, &vector);
	return instruction->broadcasts ? spread(vector.words[0], operand->size * 8u) : vector;
}

struct vector decode_vector_read(struct machine *machine, const struct instruction *instruction,
				 unsigned n)
{
	const struct operand *operand = &instruction->operands[n];
	struct vector vector = vector_zero();

	switch (operand->kind) {
	case OPERAND_VECTOR:
		return machine->vectors->known >> operand->reg & 1
			       ? machine->vectors->regs[operand->reg]
			       : unknown_vector();
	case OPERAND_MASK:
		vector.words[0] = decode_mask_read(machine, operand->reg);
		return vector;
	case OPERAND_MEMORY:
		return read_memory(machine, instruction, operand->reg);
	case OPERAND_REG:
	case OPERAND_IMMEDIATE:
		vector.words[0] = decode_machine_read(machine, instruction, n);
		return vector;
	default:
		return unknown_vector();
	}
}

bool decode_vector_may_know(const struct machine *machine, const struct instruction *instruction,
			    unsigned n)
{
	const struct operand *operand = &instruction->operands[n];

	switch (operand->kind) {
	case OPERAND_VECTOR:
		return machine->vectors->known >> operand->reg & 1;
	case OPERAND_MASK:
		return machine->vectors->masks_known >> operand->reg & 1;
	case OPERAND_MEMORY:
		return value_is_exact(machine->addresses[operand->reg]);
	case OPERAND_REG:
		return true;
	default:
		return false;
	}
}

struct value decode_mask_read(const struct machine *machine, unsigned mask)
{
	if (!machine->vectors || !(machine->vectors->masks_known >> mask & 1))
		return value_unknown();
	return machine->vectors->masks[mask];
}

void decode_mask_write(struct machine *machine, unsigned mask, struct value value)
{
	struct vectors *vectors = machine->vectors;

	if (value.known)
		vectors->masks_known |= (uint8_t)(1u << mask);
	else
		vectors->masks_known &= (uint8_t) ~(1u << mask);
	vectors->masks[mask] = value;
}

void decode_vector_set(struct machine *machine, unsigned reg, const struct vector *vector)
{
	machine->vectors->known |= UINT32_C(1) << reg;
	machine->vectors->regs[reg] = *vector;
}

/* Whether more is known than what VEX clears, which alone is not worth the work. */
static bool is_worth(const struct vector *vector, unsigned n_words)
{
	uint64_t known = 0;

	for (unsigned i = 0; i < n_words; i++)
		known |= vector->words[i].known;
	return known != 0;
}

/* By a mask register: what stays is the old value, or 0. */
static void apply_mask(const struct machine *machine, const struct instruction *instruction,
		       const struct vector *old, struct vector *value)
{
	struct value mask = decode_mask_read(machine, instruction->mask);
	unsigned n_bits = instruction->element;

	for (unsigned i = 0; i < instruction->vector_words * 64u / n_bits; i++) {
		struct value bit = value_move_bit(mask, i, 0);
		struct value kept =
			instruction->zeroes ? value_exact(0) : vector_lane(old, i, n_bits);

		if (!(bit.known & 1))
			kept = value_join(kept, vector_lane(value, i, n_bits));
		if (!(bit.bits & 1))
			vector_set_lane(value, i, n_bits, kept);
	}
}

static void store(struct machine *machine, const struct instruction *instruction,
		  const struct vector *value)
{
	const struct memory_operand *operand = &instruction->memory[instruction->operands[0].reg];
	struct value address = machine->addresses[instruction->operands[0].reg];

	if (!value_is_exact(address) || operand->mask != MASK_NONE || operand->size == 0 ||
	    operand->size > VECTOR_WORDS * 8) {
		decode_machine_skip(machine, instruction);
		return;
	}
	for (unsigned at = 0; at < operand->size; at += 8)
		decode_machine_store(machine, address.bits + at,
				     operand->size - at < 8 ? operand->size - at : 8,
				     value->words[at / 8]);
}

void decode_vector_write(struct machine *machine, const struct instruction *instruction,
			 const struct vector *vector)
{
	const struct operand *to = &instruction->operands[0];
	struct vector value = *vector, old;

	if (to->kind == OPERAND_MEMORY) {
		store(machine, instruction, vector);
		return;
	}
	if (to->kind != OPERAND_VECTOR) {
		decode_machine_write(machine, instruction, 0, vector->words[0]);
		return;
	}
	if (!is_worth(vector, instruction->vector_words)) {
		decode_machine_skip(machine, instruction);
		return;
	}
	old = decode_vector_read(machine, instruction, 0);
	if (instruction->mask)
		apply_mask(machine, instruction, &old, &value);
	/* VEX and EVEX clear what is above the operand, the older forms keep it. */
	for (unsigned i = instruction->vector_words; i < VECTOR_WORDS; i++)
		value.words[i] = instruction->is_vex ? value_exact(0) : old.words[i];
	decode_vector_set(machine, to->reg, &value);
}

/* The sign bits of the elements of a register, from the lowest one up. */
struct value decode_vector_signs(const struct vector *vector, unsigned n_bits, unsigned n)
{
	struct value signs = value_exact(0);

	for (unsigned i = 0; i < n; i++)
		signs = value_merge(value_move_bit(vector_lane(vector, i, n_bits), n_bits - 1, i),
				    signs, UINT64_C(1) << i);
	return signs;
}

struct value decode_lanes_mask(const struct machine *machine, const struct memory_operand *operand)
{
	const struct vectors *vectors = machine->vectors;

	if (operand->mask == MASK_NONE)
		return value_exact(UINT64_MAX);
	if (!vectors)
		return value_unknown();
	if (operand->mask == MASK_K)
		return decode_mask_read(machine, operand->mask_reg);
	if (operand->mask_reg >= VECTOR_REGS || !(vectors->known >> operand->mask_reg & 1))
		return value_unknown();
	return decode_vector_signs(&vectors->regs[operand->mask_reg], operand->element * 8u,
				   operand->lanes);
}

struct value decode_lane_address(const struct machine *machine,
				 const struct memory_operand *operand, struct value base,
				 unsigned lane)
{
	const struct vectors *vectors = machine->vectors;
	unsigned n_bits = operand->flags & MEMORY_QUAD_INDEX ? 64 : 32;

	if (!vectors || !value_is_exact(base) || operand->flags & MEMORY_32BIT ||
	    operand->vector >= VECTOR_REGS || !(vectors->known >> operand->vector & 1))
		return value_unknown();
	struct value index = value_sign_extend(
		vector_lane(&vectors->regs[operand->vector], lane, n_bits), n_bits);
	if (!value_is_exact(index))
		return value_unknown();
	return value_exact(base.bits + index.bits * operand->scale);
}

static void take_vector(struct vector *vector, const uint8_t *bytes, unsigned n_bytes)
{
	*vector = (struct vector){ 0 };
	for (unsigned i = 0; i < n_bytes / 8; i++) {
		memcpy(&vector->words[i].bits, bytes + i * 8, 8);
		vector->words[i].known = UINT64_MAX;
	}
}

void decode_vectors_init(struct machine *machine, struct vectors *vectors)
{
	const struct decode_vectors *sampled = machine->sample->vectors;

	machine->vectors = vectors;
	vectors->known = 0;
	vectors->masks_known = 0;
	for (unsigned i = 0; sampled && i < sampled->n_regs && i < VECTOR_REGS; i++) {
		take_vector(&vectors->regs[i], sampled->regs[i], sampled->n_bytes);
		vectors->known |= UINT32_C(1) << i;
	}
	for (unsigned i = 0; sampled && i < sampled->n_masks && i < MASK_REGS; i++)
		decode_mask_write(machine, i, value_exact(sampled->masks[i]));
}
