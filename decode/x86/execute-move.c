#include "decode/x86/execute.h"

void decode_execute_nop(struct machine *machine, const struct instruction *instruction)
{
	(void)machine;
	(void)instruction;
}

/* mov, movzx: reading zero-extends. */
void decode_execute_mov(struct machine *machine, const struct instruction *instruction)
{
	decode_machine_write(machine, instruction, 0, decode_machine_read(machine, instruction, 1));
}

void decode_execute_movsx(struct machine *machine, const struct instruction *instruction)
{
	const struct operand *source = &instruction->operands[1];
	struct value a = decode_machine_read(machine, instruction, 1);

	decode_machine_write(machine, instruction, 0, value_sign_extend(a, source->bits));
}

/* The address is kept in memory[0], which is no access (n_memory is 0). */
void decode_execute_lea(struct machine *machine, const struct instruction *instruction)
{
	struct value address =
		decode_machine_address(machine, instruction, &instruction->memory[0]);

	decode_machine_write(machine, instruction, 0, address);
}

void decode_execute_xchg(struct machine *machine, const struct instruction *instruction)
{
	struct value a = decode_machine_read(machine, instruction, 0);
	struct value b = decode_machine_read(machine, instruction, 1);

	decode_machine_write(machine, instruction, 0, b);
	decode_machine_write(machine, instruction, 1, a);
}

/* A 32-bit cmov clears the upper half also when it does not move. */
void decode_execute_cmovcc(struct machine *machine, const struct instruction *instruction)
{
	struct value is_true = decode_condition(machine, instruction->condition);
	struct value a = decode_machine_read(machine, instruction, 0);
	struct value b = decode_machine_read(machine, instruction, 1);

	if (!(is_true.known & 1))
		b = value_join(a, b);
	else if (!(is_true.bits & 1))
		b = a;
	decode_machine_write(machine, instruction, 0, b);
}

void decode_execute_setcc(struct machine *machine, const struct instruction *instruction)
{
	struct value is_true = decode_condition(machine, instruction->condition);

	decode_machine_write(machine, instruction, 0, value_truncate(is_true, 1));
}

/* cbw, cwde, cdqe: ax, eax, rax = its lower half, sign-extended. */
void decode_execute_widen(struct machine *machine, const struct instruction *instruction)
{
	unsigned width = instruction->width;

	machine_set_reg(machine, DECODE_AX, width,
			value_sign_extend(machine->regs[DECODE_AX], width / 2));
}

/* cwd, cdq, cqo: dx = the sign of ax. */
void decode_execute_widen_pair(struct machine *machine, const struct instruction *instruction)
{
	unsigned width = instruction->width;
	struct value sign = value_shift_right(machine->regs[DECODE_AX], width - 1);

	machine_set_reg(machine, DECODE_DX, width, value_sign_extend(sign, 1));
}

void decode_execute_clc(struct machine *machine, const struct instruction *instruction)
{
	(void)instruction;
	machine_set_flags(machine, FLAG_CARRY, value_exact(0));
}

void decode_execute_stc(struct machine *machine, const struct instruction *instruction)
{
	(void)instruction;
	machine_set_flags(machine, FLAG_CARRY, value_exact(FLAG_CARRY));
}

void decode_execute_cmc(struct machine *machine, const struct instruction *instruction)
{
	(void)instruction;
	machine_set_flags(machine, FLAG_CARRY, value_not(machine->regs[DECODE_FLAGS]));
}

void decode_execute_cld(struct machine *machine, const struct instruction *instruction)
{
	(void)instruction;
	machine_set_flags(machine, FLAG_DIRECTION, value_exact(0));
}

void decode_execute_std(struct machine *machine, const struct instruction *instruction)
{
	(void)instruction;
	machine_set_flags(machine, FLAG_DIRECTION, value_exact(FLAG_DIRECTION));
}

#define FLAGS_IN_AH (FLAGS_STATUS & 0xff)

/* ah = SF ZF 0 AF 0 PF 1 CF */
void decode_execute_lahf(struct machine *machine, const struct instruction *instruction)
{
	struct value flags = value_merge(machine->regs[DECODE_FLAGS], value_exact(2), FLAGS_IN_AH);

	(void)instruction;
	machine->regs[DECODE_AX] =
		value_merge(value_shift_left(flags, 8), machine->regs[DECODE_AX], 0xff00);
}

void decode_execute_sahf(struct machine *machine, const struct instruction *instruction)
{
	(void)instruction;
	machine_set_flags(machine, FLAGS_IN_AH, value_shift_right(machine->regs[DECODE_AX], 8));
}

/* wrfsbase, mov fs: what fs points to is no longer known. */
void decode_execute_segment(struct machine *machine, const struct instruction *instruction)
{
	decode_machine_skip(machine, instruction);
	machine->fs_base = 0;
}
