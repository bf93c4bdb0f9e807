#include "decode/x86/execute.h"

/* What a bit scan gives: the result is unknown unless it is written here. */
struct scan {
	struct value result;
	struct value flags;
};

static unsigned lowest_bit(uint64_t bits)
{
	return (unsigned)__builtin_ctzll(bits);
}

static unsigned highest_bit(uint64_t bits)
{
	return 63 - (unsigned)__builtin_clzll(bits);
}

static struct value zero_flag(bool is_zero)
{
	return (struct value){ is_zero ? FLAG_ZERO : 0, FLAG_ZERO };
}

static void finish_scan(struct machine *machine, const struct instruction *instruction,
			struct scan scan)
{
	/* A scan of 0 may leave all 64 bits as they were (AMD does). */
	decode_machine_skip(machine, instruction);
	if (value_is_exact(scan.result))
		decode_machine_write(machine, instruction, 0, scan.result);
	machine_set_flags(machine, FLAGS_STATUS, scan.flags);
}

/* bsf and bsr of 0 leave an undefined result. */
void decode_execute_bsf(struct machine *machine, const struct instruction *instruction)
{
	struct value a = decode_machine_read(machine, instruction, 1);
	struct scan scan = { value_unknown(), value_unknown() };

	if (value_is_exact(a))
		scan.flags = zero_flag(a.bits == 0);
	if (value_is_exact(a) && a.bits)
		scan.result = value_exact(lowest_bit(a.bits));
	finish_scan(machine, instruction, scan);
}

void decode_execute_bsr(struct machine *machine, const struct instruction *instruction)
{
	struct value a = decode_machine_read(machine, instruction, 1);
	struct scan scan = { value_unknown(), value_unknown() };

	if (value_is_exact(a))
		scan.flags = zero_flag(a.bits == 0);
	if (value_is_exact(a) && a.bits)
		scan.result = value_exact(highest_bit(a.bits));
	finish_scan(machine, instruction, scan);
}

/*
 * Processors without BMI1 run the bytes of tzcnt as bsf, and compilers use that where both agree:
 * only what is the same in both is known.
 */
void decode_execute_tzcnt(struct machine *machine, const struct instruction *instruction)
{
	struct value a = decode_machine_read(machine, instruction, 1);
	struct scan scan = { value_unknown(), value_unknown() };

	if (value_is_exact(a) && a.bits)
		scan.result = value_exact(lowest_bit(a.bits));
	if (value_is_exact(a) && a.bits && !(a.bits & 1))
		scan.flags = zero_flag(false);
	finish_scan(machine, instruction, scan);
}

/* The same bytes without the extension are bsr, which nobody wants when writing lzcnt. */
void decode_execute_lzcnt(struct machine *machine, const struct instruction *instruction)
{
	struct value a = decode_machine_read(machine, instruction, 1);
	struct scan scan = { value_unknown(), value_unknown() };
	unsigned n = instruction->width;

	if (value_is_exact(a)) {
		n = a.bits ? n - 1 - highest_bit(a.bits) : n;
		scan.result = value_exact(n);
		scan.flags = value_unite(zero_flag(n == 0),
					 (struct value){ a.bits ? 0 : FLAG_CARRY, FLAG_CARRY });
	}
	finish_scan(machine, instruction, scan);
}

void decode_execute_popcnt(struct machine *machine, const struct instruction *instruction)
{
	struct value a = decode_machine_read(machine, instruction, 1);
	struct scan scan = { value_unknown(), { 0, FLAGS_STATUS & ~FLAG_ZERO } };

	if (value_is_exact(a)) {
		scan.result = value_exact((uint64_t)__builtin_popcountll(a.bits));
		scan.flags = value_unite(scan.flags, zero_flag(a.bits == 0));
	}
	finish_scan(machine, instruction, scan);
}
