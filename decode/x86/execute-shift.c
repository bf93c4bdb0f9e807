#include "decode/x86/execute.h"

/* A shift with a count that is known and not 0 after masking. */
struct shift {
	struct value result; /* of the operand's width; bits above are cut by the caller */
	struct value carry; /* bit 0 */
	struct value overflow; /* bit 0; defined for a count of 1 only */
};

typedef struct shift (*shift_function)(struct value a, unsigned count, unsigned width);

static struct value bit(struct value a, unsigned n)
{
	return n < 64 ? value_move_bit(a, n, 0) : value_unknown();
}

/* With a count above the width CF is undefined. */
static struct shift shift_left(struct value a, unsigned count, unsigned width)
{
	struct shift shift = { value_shift_left(a, count), value_unknown(), value_unknown() };

	if (count <= width)
		shift.carry = bit(a, width - count);
	shift.overflow = value_xor(bit(shift.result, width - 1), shift.carry);
	return shift;
}

static struct shift shift_right(struct value a, unsigned count, unsigned width)
{
	struct shift shift = { value_shift_right(a, count), value_unknown(), value_unknown() };

	if (count <= width)
		shift.carry = bit(a, count - 1);
	shift.overflow = bit(a, width - 1);
	return shift;
}

static struct value arithmetic_right(struct value a, unsigned count)
{
	return (struct value){ (uint64_t)((int64_t)a.bits >> count),
			       (uint64_t)((int64_t)a.known >> count) };
}

static struct shift shift_arithmetic(struct value a, unsigned count, unsigned width)
{
	struct value extended = value_sign_extend(a, width);

	return (struct shift){ arithmetic_right(extended, count),
			       bit(extended, count - 1),
			       { 0, 1 } };
}

static struct value rotate(struct value a, unsigned left, unsigned width)
{
	left %= width;
	if (left == 0)
		return a;
	a = value_truncate(a, width);
	return value_or(value_shift_left(a, left), value_shift_right(a, width - left));
}

static struct shift rotate_left(struct value a, unsigned count, unsigned width)
{
	struct shift shift = { rotate(a, count, width), value_unknown(), value_unknown() };

	shift.carry = bit(shift.result, 0);
	shift.overflow = value_xor(bit(shift.result, width - 1), shift.carry);
	return shift;
}

static struct shift rotate_right(struct value a, unsigned count, unsigned width)
{
	struct shift shift = { rotate(a, width - count % width, width), value_unknown(),
			       value_unknown() };

	shift.carry = bit(shift.result, width - 1);
	shift.overflow = value_xor(shift.carry, bit(shift.result, width - 2));
	return shift;
}

/* CF and OF; rotates change no other flag. */
static void set_shift_flags(struct machine *machine, const struct shift *shift, unsigned count)
{
	struct value overflow =
		count == 1 ? value_move_bit(shift->overflow, 0, 11) : value_unknown();

	machine_set_flags(machine, FLAG_CARRY | FLAG_OVERFLOW,
			  value_unite(value_move_bit(shift->carry, 0, 0), overflow));
}

/* Read the count in operand n. False if it is not known: all that is written is then unknown. */
static bool read_count(struct machine *machine, const struct instruction *instruction, unsigned n,
		       unsigned *ret_count)
{
	struct value count = decode_machine_read(machine, instruction, n);
	uint64_t mask = instruction->width == 64 ? 63 : 31;

	if ((count.known & mask) != mask) {
		decode_machine_skip(machine, instruction);
		return false;
	}
	*ret_count = (unsigned)(count.bits & mask);
	return true;
}

/* A count of 0 changes no flag, but a 32-bit register loses its upper half as always. */
static void execute_shift(struct machine *machine, const struct instruction *instruction,
			  shift_function function, bool is_rotate)
{
	unsigned width = instruction->width, count;
	struct value a = decode_machine_read(machine, instruction, 0);

	if (!read_count(machine, instruction, 1, &count))
		return;
	if (count == 0) {
		decode_machine_write(machine, instruction, 0, a);
		return;
	}
	struct shift shift = function(a, count, width);
	shift.result = value_truncate(shift.result, width);
	decode_machine_write(machine, instruction, 0, shift.result);
	if (!is_rotate)
		machine_set_flags(machine, FLAGS_STATUS, decode_result_flags(shift.result, width));
	set_shift_flags(machine, &shift, count);
}

void decode_execute_shl(struct machine *machine, const struct instruction *instruction)
{
	execute_shift(machine, instruction, shift_left, false);
}

void decode_execute_shr(struct machine *machine, const struct instruction *instruction)
{
	execute_shift(machine, instruction, shift_right, false);
}

void decode_execute_sar(struct machine *machine, const struct instruction *instruction)
{
	execute_shift(machine, instruction, shift_arithmetic, false);
}

void decode_execute_rol(struct machine *machine, const struct instruction *instruction)
{
	execute_shift(machine, instruction, rotate_left, true);
}

void decode_execute_ror(struct machine *machine, const struct instruction *instruction)
{
	execute_shift(machine, instruction, rotate_right, true);
}

/*
 * shld and shrd: the bits that come in are those of operand 1. The flags are CF as of a plain
 * shift, and OF (a count of 1) = the sign has changed. 16 bits are left out: undefined above 16.
 */
static void execute_double_shift(struct machine *machine, const struct instruction *instruction,
				 bool is_left)
{
	unsigned width = instruction->width, count;
	struct value a = decode_machine_read(machine, instruction, 0);
	struct value b = decode_machine_read(machine, instruction, 1);

	if (width == 16)
		decode_machine_skip(machine, instruction);
	if (width == 16 || !read_count(machine, instruction, 2, &count))
		return;
	if (count == 0) {
		decode_machine_write(machine, instruction, 0, a);
		return;
	}
	struct shift shift = is_left ? shift_left(a, count, width) : shift_right(a, count, width);
	b = is_left ? value_shift_right(b, width - count) : value_shift_left(b, width - count);
	shift.result = value_truncate(value_or(value_truncate(shift.result, width), b), width);
	shift.overflow = value_xor(bit(shift.result, width - 1), bit(a, width - 1));
	decode_machine_write(machine, instruction, 0, shift.result);
	machine_set_flags(machine, FLAGS_STATUS, decode_result_flags(shift.result, width));
	set_shift_flags(machine, &shift, count);
}

void decode_execute_shld(struct machine *machine, const struct instruction *instruction)
{
	execute_double_shift(machine, instruction, true);
}

void decode_execute_shrd(struct machine *machine, const struct instruction *instruction)
{
	execute_double_shift(machine, instruction, false);
}

/* The forms of BMI2: operand 1 into operand 0, no flags. */
static void execute_plain_shift(struct machine *machine, const struct instruction *instruction,
				shift_function function)
{
	unsigned width = instruction->width, count;
	struct value a = decode_machine_read(machine, instruction, 1);

	if (!read_count(machine, instruction, 2, &count))
		return;
	if (count > 0)
		a = value_truncate(function(a, count, width).result, width);
	decode_machine_write(machine, instruction, 0, a);
}

void decode_execute_shlx(struct machine *machine, const struct instruction *instruction)
{
	execute_plain_shift(machine, instruction, shift_left);
}

void decode_execute_shrx(struct machine *machine, const struct instruction *instruction)
{
	execute_plain_shift(machine, instruction, shift_right);
}

void decode_execute_sarx(struct machine *machine, const struct instruction *instruction)
{
	execute_plain_shift(machine, instruction, shift_arithmetic);
}

void decode_execute_rorx(struct machine *machine, const struct instruction *instruction)
{
	execute_plain_shift(machine, instruction, rotate_right);
}
