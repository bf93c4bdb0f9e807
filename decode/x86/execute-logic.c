#include "decode/x86/execute.h"

struct value decode_result_flags(struct value result, unsigned width)
{
	struct value flags = value_move_bit(result, width - 1, 7);

	if ((result.known & 0xff) == 0xff)
		flags = value_unite(
			flags,
			(struct value){ __builtin_parityll(result.bits & 0xff) ? 0 : FLAG_PARITY,
					FLAG_PARITY });
	if (result.bits)
		return value_unite(flags, (struct value){ 0, FLAG_ZERO });
	if (value_is_exact(result))
		return value_unite(flags, (struct value){ FLAG_ZERO, FLAG_ZERO });
	return flags;
}

/* Logic clears CF and OF; AF is undefined. */
static void set_logic_flags(struct machine *machine, struct value result, unsigned width)
{
	struct value cleared = { 0, FLAG_CARRY | FLAG_OVERFLOW };

	machine_set_flags(machine, FLAGS_STATUS,
			  value_unite(decode_result_flags(result, width), cleared));
}

typedef struct value (*logic_function)(struct value a, struct value b);

static struct value combine(struct machine *machine, const struct instruction *instruction,
			    logic_function function)
{
	struct value a = decode_machine_read(machine, instruction, 0);
	struct value b = decode_machine_read(machine, instruction, 1);
	struct value result = value_truncate(function(a, b), instruction->width);

	set_logic_flags(machine, result, instruction->width);
	return result;
}

void decode_execute_and(struct machine *machine, const struct instruction *instruction)
{
	decode_machine_write(machine, instruction, 0, combine(machine, instruction, value_and));
}

void decode_execute_or(struct machine *machine, const struct instruction *instruction)
{
	decode_machine_write(machine, instruction, 0, combine(machine, instruction, value_or));
}

void decode_execute_test(struct machine *machine, const struct instruction *instruction)
{
	combine(machine, instruction, value_and);
}

/* A register with itself gives 0, whatever it was. */
void decode_execute_xor(struct machine *machine, const struct instruction *instruction)
{
	const struct operand *a = &instruction->operands[0], *b = &instruction->operands[1];
	struct value result = value_exact(0);

	if (a->kind == OPERAND_REG && b->kind == OPERAND_REG && a->reg == b->reg &&
	    a->shift == b->shift)
		set_logic_flags(machine, result, instruction->width);
	else
		result = combine(machine, instruction, value_xor);
	decode_machine_write(machine, instruction, 0, result);
}

void decode_execute_not(struct machine *machine, const struct instruction *instruction)
{
	struct value a = decode_machine_read(machine, instruction, 0);

	decode_machine_write(machine, instruction, 0,
			     value_truncate(value_not(a), instruction->width));
}

void decode_execute_andn(struct machine *machine, const struct instruction *instruction)
{
	struct value a = decode_machine_read(machine, instruction, 1);
	struct value b = decode_machine_read(machine, instruction, 2);
	struct value result = value_truncate(value_and(value_not(a), b), instruction->width);
	struct value flags = decode_result_flags(result, instruction->width);

	flags.known &= ~(uint64_t)FLAG_PARITY;
	flags.bits &= flags.known;
	machine_set_flags(machine, FLAGS_STATUS,
			  value_unite(flags, (struct value){ 0, FLAG_CARRY | FLAG_OVERFLOW }));
	decode_machine_write(machine, instruction, 0, result);
}

enum bit_change { BIT_KEEP, BIT_SET, BIT_RESET, BIT_COMPLEMENT };

static struct value change_bit(struct value a, unsigned bit, enum bit_change change)
{
	uint64_t mask = UINT64_C(1) << bit;

	switch (change) {
	case BIT_SET:
		return value_or(a, value_exact(mask));
	case BIT_RESET:
		return value_and(a, value_exact(~mask));
	case BIT_COMPLEMENT:
		return value_xor(a, value_exact(mask));
	default:
		return a;
	}
}

/* CF = the bit; the address of a memory operand already contains the rest of a bit offset. */
static void test_bit(struct machine *machine, const struct instruction *instruction,
		     enum bit_change change)
{
	struct value a = decode_machine_read(machine, instruction, 0);
	struct value bit = decode_machine_read(machine, instruction, 1);
	uint64_t mask = instruction->width - 1;

	machine_set_flags(machine, instruction->flags_written, value_unknown());
	if ((bit.known & mask) != mask) {
		if (change != BIT_KEEP)
			decode_machine_write(machine, instruction, 0, value_unknown());
		return;
	}
	machine_set_flags(machine, FLAG_CARRY, value_move_bit(a, bit.bits & mask, 0));
	if (change != BIT_KEEP)
		decode_machine_write(machine, instruction, 0,
				     change_bit(a, bit.bits & mask, change));
}

void decode_execute_bt(struct machine *machine, const struct instruction *instruction)
{
	test_bit(machine, instruction, BIT_KEEP);
}

void decode_execute_bts(struct machine *machine, const struct instruction *instruction)
{
	test_bit(machine, instruction, BIT_SET);
}

void decode_execute_btr(struct machine *machine, const struct instruction *instruction)
{
	test_bit(machine, instruction, BIT_RESET);
}

void decode_execute_btc(struct machine *machine, const struct instruction *instruction)
{
	test_bit(machine, instruction, BIT_COMPLEMENT);
}

/* Of 16 bits the result is undefined. */
void decode_execute_bswap(struct machine *machine, const struct instruction *instruction)
{
	struct value a = decode_machine_read(machine, instruction, 0);
	unsigned unused = 64 - instruction->width;

	if (instruction->width == 16)
		a = value_unknown();
	else
		a = (struct value){ __builtin_bswap64(a.bits) >> unused,
				    __builtin_bswap64(a.known) >> unused };
	decode_machine_write(machine, instruction, 0, a);
}
