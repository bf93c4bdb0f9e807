#include "decode/x86/execute.h"

static struct value flag(const struct machine *machine, unsigned bit)
{
	return value_move_bit(machine->regs[DECODE_FLAGS], bit, 0);
}

/* Pairs of conditions: the odd one is the opposite of the even one. Intel SDM volume 1, app. B. */
static struct value even_condition(const struct machine *machine, unsigned pair)
{
	const struct value carry = flag(machine, 0), zero = flag(machine, 6);
	const struct value less = value_xor(flag(machine, 7), flag(machine, 11));

	switch (pair) {
	case 0:
		return flag(machine, 11);
	case 1:
		return carry;
	case 2:
		return zero;
	case 3:
		return value_or(carry, zero);
	case 4:
		return flag(machine, 7);
	case 5:
		return flag(machine, 2);
	case 6:
		return less;
	default:
		return value_or(less, zero);
	}
}

struct value decode_condition(const struct machine *machine, unsigned condition)
{
	struct value is_true = even_condition(machine, condition >> 1);

	return condition & 1 ? value_not(is_true) : is_true;
}

/* Go to the target if bit 0 of is_true says so. */
static void branch(struct machine *machine, const struct instruction *instruction,
		   struct value is_true)
{
	if (!(is_true.known & 1))
		machine->end = DECODE_END_UNKNOWN_BRANCH;
	else if (is_true.bits & 1)
		machine->next = instruction->immediate;
}

void decode_execute_jcc(struct machine *machine, const struct instruction *instruction)
{
	branch(machine, instruction, decode_condition(machine, instruction->condition));
}

/* Bit 0: whether all bits of the value are 0. */
static struct value is_zero(struct value value)
{
	return (struct value){ value_is_exact(value) && value.bits == 0,
			       value_is_exact(value) || value.bits != 0 };
}

void decode_execute_jrcxz(struct machine *machine, const struct instruction *instruction)
{
	branch(machine, instruction,
	       is_zero(machine_get_reg(machine, DECODE_CX, instruction->address_width)));
}

/* loop, loope, loopne: condition is that of the flags, 0 (overflow) stands for none. */
void decode_execute_loop(struct machine *machine, const struct instruction *instruction)
{
	unsigned width = instruction->address_width;
	struct value count =
		value_subtract(machine->regs[DECODE_CX], value_exact(1), value_exact(0));

	machine_set_reg(machine, DECODE_CX, width, count);
	struct value again = value_not(is_zero(value_truncate(count, width)));
	if (instruction->condition)
		again = value_and(again, decode_condition(machine, instruction->condition));
	branch(machine, instruction, again);
}

/* Direct branches have their target as an immediate of 64 bits. */
static void go_to_operand(struct machine *machine, const struct instruction *instruction)
{
	struct value target = decode_machine_read(machine, instruction, 0);

	if (value_is_exact(target))
		machine->next = target.bits;
	else
		machine->end = DECODE_END_UNKNOWN_TARGET;
}

void decode_execute_jump(struct machine *machine, const struct instruction *instruction)
{
	go_to_operand(machine, instruction);
}

/* The return address is stored below the stack pointer, at the last memory operand. */
void decode_execute_call(struct machine *machine, const struct instruction *instruction)
{
	struct value address = machine->addresses[instruction->n_memory - 1];
	uint64_t return_address = machine->next;

	go_to_operand(machine, instruction);
	machine->regs[DECODE_SP] =
		value_subtract(machine->regs[DECODE_SP], value_exact(8), value_exact(0));
	if (value_is_exact(address)) {
		if (machine->n_calls < MACHINE_CALLS)
			machine->calls[machine->n_calls] = address.bits;
		machine->n_calls++;
		decode_machine_store(machine, address.bits, 8, value_exact(return_address));
	} else {
		decode_machine_forget_all(machine);
	}
}

void decode_execute_ret(struct machine *machine, const struct instruction *instruction)
{
	struct value target = value_unknown();
	uint64_t n_bytes = 8;

	machine->n_calls -= machine->n_calls > 0;
	if (value_is_exact(machine->addresses[0]))
		target = decode_machine_load(machine, machine->addresses[0].bits, 8,
					     MACHINE_READER_STACK);
	if (instruction->operands[0].kind == OPERAND_IMMEDIATE)
		n_bytes += instruction->immediate & 0xffff;
	machine->regs[DECODE_SP] =
		value_add(machine->regs[DECODE_SP], value_exact(n_bytes), value_exact(0));
	if (value_is_exact(target))
		machine->next = target.bits;
	else
		machine->end = DECODE_END_RETURN;
}

/* What processors do not agree about. */
void decode_execute_unclear(struct machine *machine, const struct instruction *instruction)
{
	(void)instruction;
	for (unsigned i = 0; i < DECODE_N_REGS; i++)
		machine->regs[i] = value_unknown();
	decode_machine_forget_all(machine);
	machine->end = DECODE_END_UNKNOWN_BRANCH;
}

void decode_execute_syscall(struct machine *machine, const struct instruction *instruction)
{
	(void)instruction;
	machine->end = DECODE_END_SYSCALL;
}

void decode_execute_trap(struct machine *machine, const struct instruction *instruction)
{
	(void)instruction;
	machine->end = DECODE_END_TRAP;
}
