#include "decode/x86/execute.h"

/*
 * The carry out of each bit of a + b = sum, and the borrow out of each bit of a - b = difference.
 * Written in values, so that flags are known as far as the bits that they depend on.
 */
static struct value carries(struct value a, struct value b, struct value sum)
{
	return value_or(value_and(a, b), value_and(value_or(a, b), value_not(sum)));
}

static struct value borrows(struct value a, struct value b, struct value difference)
{
	struct value not_a = value_not(a);

	return value_or(value_and(not_a, b), value_and(value_or(not_a, b), difference));
}

/* All six flags from a result and its carries or borrows. */
static struct value arithmetic_flags(struct value result, struct value carry, unsigned width)
{
	struct value flags = decode_result_flags(result, width);
	struct value into_sign = value_shift_left(carry, 1);
	struct value overflow = value_xor(carry, into_sign);

	flags = value_unite(flags, value_move_bit(carry, width - 1, 0));
	flags = value_unite(flags, value_move_bit(carry, 3, 4));
	return value_unite(flags, value_move_bit(overflow, width - 1, 11));
}

static struct value carry_flag(const struct machine *machine)
{
	return machine->regs[DECODE_FLAGS]; /* it is bit 0; adders look at no other */
}

/* a + b + carry in `width` bits, and the flags in mask. */
static struct value add(struct machine *machine, struct value a, struct value b, struct value carry,
			unsigned width)
{
	struct value sum = value_truncate(value_add(a, b, carry), width);

	machine_set_flags(machine, FLAGS_STATUS, arithmetic_flags(sum, carries(a, b, sum), width));
	return sum;
}

static struct value subtract(struct machine *machine, struct value a, struct value b,
			     struct value borrow, unsigned width)
{
	struct value rest = value_truncate(value_subtract(a, b, borrow), width);

	machine_set_flags(machine, FLAGS_STATUS,
			  arithmetic_flags(rest, borrows(a, b, rest), width));
	return rest;
}

static bool is_same_register(const struct instruction *instruction)
{
	const struct operand *a = &instruction->operands[0], *b = &instruction->operands[1];

	return a->kind == OPERAND_REG && b->kind == OPERAND_REG && a->reg == b->reg &&
	       a->shift == b->shift && a->bits == b->bits;
}

/* Operand 0 minus operand 1; a register minus itself needs no known value. */
static struct value subtract_operands(struct machine *machine,
				      const struct instruction *instruction, struct value borrow)
{
	struct value a = value_exact(0), b = value_exact(0);

	if (!is_same_register(instruction)) {
		a = decode_machine_read(machine, instruction, 0);
		b = decode_machine_read(machine, instruction, 1);
	}
	return subtract(machine, a, b, borrow, instruction->width);
}

static void add_operands(struct machine *machine, const struct instruction *instruction,
			 struct value carry)
{
	struct value a = decode_machine_read(machine, instruction, 0);
	struct value b = decode_machine_read(machine, instruction, 1);

	decode_machine_write(machine, instruction, 0,
			     add(machine, a, b, carry, instruction->width));
}

void decode_execute_add(struct machine *machine, const struct instruction *instruction)
{
	add_operands(machine, instruction, value_exact(0));
}

void decode_execute_adc(struct machine *machine, const struct instruction *instruction)
{
	add_operands(machine, instruction, carry_flag(machine));
}

void decode_execute_sub(struct machine *machine, const struct instruction *instruction)
{
	decode_machine_write(machine, instruction, 0,
			     subtract_operands(machine, instruction, value_exact(0)));
}

void decode_execute_sbb(struct machine *machine, const struct instruction *instruction)
{
	decode_machine_write(machine, instruction, 0,
			     subtract_operands(machine, instruction, carry_flag(machine)));
}

void decode_execute_cmp(struct machine *machine, const struct instruction *instruction)
{
	subtract_operands(machine, instruction, value_exact(0));
}

/* inc and dec leave the carry flag alone. */
static void keep_carry(struct machine *machine, struct value flags_before)
{
	machine_set_flags(machine, FLAG_CARRY, flags_before);
}

void decode_execute_inc(struct machine *machine, const struct instruction *instruction)
{
	struct value flags = machine->regs[DECODE_FLAGS];
	struct value a = decode_machine_read(machine, instruction, 0);

	a = add(machine, a, value_exact(1), value_exact(0), instruction->width);
	decode_machine_write(machine, instruction, 0, a);
	keep_carry(machine, flags);
}

void decode_execute_dec(struct machine *machine, const struct instruction *instruction)
{
	struct value flags = machine->regs[DECODE_FLAGS];
	struct value a = decode_machine_read(machine, instruction, 0);

	a = subtract(machine, a, value_exact(1), value_exact(0), instruction->width);
	decode_machine_write(machine, instruction, 0, a);
	keep_carry(machine, flags);
}

void decode_execute_neg(struct machine *machine, const struct instruction *instruction)
{
	struct value a = decode_machine_read(machine, instruction, 0);

	a = subtract(machine, value_exact(0), a, value_exact(0), instruction->width);
	decode_machine_write(machine, instruction, 0, a);
}

void decode_execute_xadd(struct machine *machine, const struct instruction *instruction)
{
	struct value a = decode_machine_read(machine, instruction, 0);
	struct value b = decode_machine_read(machine, instruction, 1);

	b = add(machine, a, b, value_exact(0), instruction->width);
	decode_machine_write(machine, instruction, 1, a);
	decode_machine_write(machine, instruction, 0, b); /* last: xadd of a register with itself */
}

/*
 * Compare rax with operand 0; equal: operand 0 = operand 1, else rax = operand 0. What a 32-bit
 * register that is not changed has in its upper half differs between processors: unknown.
 */
void decode_execute_cmpxchg(struct machine *machine, const struct instruction *instruction)
{
	unsigned width = instruction->width;
	struct value expected = machine_get_reg(machine, DECODE_AX, width);
	struct value a = decode_machine_read(machine, instruction, 0);
	struct value b = decode_machine_read(machine, instruction, 1);

	subtract(machine, expected, a, value_exact(0), width);
	struct value flags = machine->regs[DECODE_FLAGS];
	if (!(flags.known & FLAG_ZERO) || instruction->operands[0].kind != OPERAND_MEMORY) {
		decode_machine_skip(machine, instruction);
		machine->regs[DECODE_FLAGS] = flags;
	} else if (flags.bits & FLAG_ZERO) {
		decode_machine_write(machine, instruction, 0, b);
		if (width == 32)
			machine->regs[DECODE_AX] =
				value_merge(expected, value_unknown(), value_mask(32));
	} else {
		machine_set_reg(machine, DECODE_AX, width, a);
	}
}

void decode_compare_values(struct machine *machine, struct value a, struct value b, unsigned width)
{
	subtract(machine, a, b, value_exact(0), width);
}
