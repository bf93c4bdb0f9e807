#include "decode/x86/execute.h"

__extension__ typedef __int128 signed_wide;
__extension__ typedef unsigned __int128 unsigned_wide;

static int64_t sign_extended(struct value value, unsigned width)
{
	return (int64_t)value_sign_extend(value, width).bits;
}

/* CF = OF = the product did not fit; the other four are undefined. */
static void set_product_flags(struct machine *machine, bool is_known, bool overflows)
{
	struct value flags = value_unknown();

	if (is_known)
		flags = (struct value){ overflows ? FLAG_CARRY | FLAG_OVERFLOW : 0,
					FLAG_CARRY | FLAG_OVERFLOW };
	machine_set_flags(machine, FLAGS_STATUS, flags);
}

/* The low bits of a product depend on the same number of low bits of its factors. */
static struct value low_product(struct value a, struct value b)
{
	uint64_t known = value_certain(a, b, value_exact(0));

	return (struct value){ a.bits * b.bits & known, known };
}

/* The double-wide result of mul, and what div divides: ax, or dx:ax of the width. */
static void set_wide(struct machine *machine, unsigned width, struct value low, struct value high)
{
	if (width == 8) {
		low = value_merge(low, value_shift_left(high, 8), 0xff);
		machine_set_reg(machine, DECODE_AX, 16, low);
		return;
	}
	machine_set_reg(machine, DECODE_AX, width, low);
	machine_set_reg(machine, DECODE_DX, width, high);
}

/* rax times operand 0 into rdx:rax. */
static void multiply_wide(struct machine *machine, const struct instruction *instruction,
			  bool is_signed)
{
	unsigned width = instruction->width;
	struct value a = machine_get_reg(machine, DECODE_AX, width);
	struct value b = decode_machine_read(machine, instruction, 0);
	bool is_known = value_is_exact(a) && value_is_exact(b);
	unsigned_wide product = (unsigned_wide)a.bits * b.bits;

	if (is_signed)
		product = (unsigned_wide)((signed_wide)sign_extended(a, width) *
					  sign_extended(b, width));
	uint64_t low = (uint64_t)product & value_mask(width);
	uint64_t high = (uint64_t)(product >> width) & value_mask(width);
	bool overflows = high != 0;
	if (is_signed)
		overflows = high != (low >> (width - 1) & 1 ? value_mask(width) : 0);
	set_product_flags(machine, is_known, overflows);
	if (is_known)
		set_wide(machine, width, value_exact(low), value_exact(high));
	else
		set_wide(machine, width, value_truncate(low_product(a, b), width), value_unknown());
}

void decode_execute_mul(struct machine *machine, const struct instruction *instruction)
{
	multiply_wide(machine, instruction, false);
}

/* Two or three operands: destination = the last two multiplied. */
static void multiply_signed(struct machine *machine, const struct instruction *instruction)
{
	unsigned width = instruction->width;
	unsigned first = instruction->operands[2].kind == OPERAND_NONE ? 0 : 1;
	struct value a = decode_machine_read(machine, instruction, first);
	struct value b = decode_machine_read(machine, instruction, first + 1);

	struct value result = value_truncate(low_product(a, b), width);
	signed_wide product = (signed_wide)sign_extended(a, width) * sign_extended(b, width);
	set_product_flags(machine, value_is_exact(a) && value_is_exact(b),
			  product != (signed_wide)sign_extended(result, width));
	decode_machine_write(machine, instruction, 0, result);
}

void decode_execute_imul(struct machine *machine, const struct instruction *instruction)
{
	if (instruction->operands[1].kind == OPERAND_NONE)
		multiply_wide(machine, instruction, true);
	else
		multiply_signed(machine, instruction);
}

/* Operand 0 is the high half, operand 1 the low half (the same register: the high half). */
void decode_execute_mulx(struct machine *machine, const struct instruction *instruction)
{
	unsigned width = instruction->width;
	struct value a = machine_get_reg(machine, DECODE_DX, width);
	struct value b = decode_machine_read(machine, instruction, 2);
	struct value low = value_unknown(), high = value_unknown();
	unsigned_wide product = (unsigned_wide)a.bits * b.bits;

	if (value_is_exact(a) && value_is_exact(b)) {
		low = value_exact((uint64_t)product & value_mask(width));
		high = value_exact((uint64_t)(product >> width) & value_mask(width));
	}
	decode_machine_write(machine, instruction, 1, low);
	decode_machine_write(machine, instruction, 0, high);
}

struct division {
	bool is_known;
	bool traps;
	uint64_t quotient;
	uint64_t remainder;
};

static struct division divide_unsigned(unsigned_wide dividend, uint64_t divisor, unsigned width)
{
	struct division division = { .is_known = true };

	division.traps = divisor == 0 || dividend >> width >= divisor;
	if (division.traps)
		return division;
	unsigned_wide quotient = dividend / divisor;
	division.quotient = (uint64_t)quotient;
	division.remainder = (uint64_t)(dividend - quotient * divisor);
	return division;
}

/* By magnitudes: the most negative number over -1 must not be divided in C. */
static struct division divide_signed(unsigned_wide dividend, uint64_t divisor, unsigned width)
{
	bool is_negative = (signed_wide)dividend < 0, divides_negative = (int64_t)divisor < 0;
	uint64_t limit = UINT64_C(1) << (width - 1);

	struct division division = divide_unsigned(is_negative ? -dividend : dividend,
						   divides_negative ? -divisor : divisor, 64);
	if (division.traps)
		return division;
	if (is_negative != divides_negative) {
		division.traps = division.quotient > limit;
		division.quotient = -division.quotient;
	} else {
		division.traps = division.quotient >= limit;
	}
	if (is_negative)
		division.remainder = -division.remainder;
	return division;
}

static struct division divide(const struct machine *machine, struct value divisor, unsigned width,
			      bool is_signed)
{
	struct value low = machine_get_reg(machine, DECODE_AX, width);
	struct value high = machine_get_reg(machine, DECODE_DX, width);

	if (width == 8) {
		low = machine_get_reg(machine, DECODE_AX, 16);
		high = value_truncate(value_shift_right(low, 8), 8);
		low = value_truncate(low, 8);
	}
	if (!value_is_exact(low) || !value_is_exact(high) || !value_is_exact(divisor))
		return (struct division){ .is_known = false };
	unsigned_wide dividend = (unsigned_wide)high.bits << width | low.bits;
	if (!is_signed)
		return divide_unsigned(dividend, divisor.bits, width);
	signed_wide extended =
		(signed_wide)((unsigned_wide)sign_extended(high, width) << width | low.bits);
	return divide_signed((unsigned_wide)extended, (uint64_t)sign_extended(divisor, width),
			     width);
}

static void execute_division(struct machine *machine, const struct instruction *instruction,
			     bool is_signed)
{
	unsigned width = instruction->width;
	struct value divisor = decode_machine_read(machine, instruction, 0);
	struct division division = divide(machine, divisor, width, is_signed);

	if (!division.is_known) {
		decode_machine_skip(machine, instruction);
	} else if (division.traps) {
		machine->end = DECODE_END_TRAP;
	} else {
		machine_set_flags(machine, FLAGS_STATUS, value_unknown());
		set_wide(machine, width, value_exact(division.quotient & value_mask(width)),
			 value_exact(division.remainder & value_mask(width)));
	}
}

void decode_execute_div(struct machine *machine, const struct instruction *instruction)
{
	execute_division(machine, instruction, false);
}

void decode_execute_idiv(struct machine *machine, const struct instruction *instruction)
{
	execute_division(machine, instruction, true);
}
