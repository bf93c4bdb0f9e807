#include "decode/x86/execute.h"

static void move_stack_pointer(struct machine *machine, int64_t n_bytes)
{
	machine->regs[DECODE_SP] =
		value_add(machine->regs[DECODE_SP], value_exact((uint64_t)n_bytes), value_exact(0));
}

/* Store at the hidden stack operand, which is the last one, and move the stack pointer there. */
static void push_value(struct machine *machine, const struct instruction *instruction,
		       struct value value)
{
	unsigned last = instruction->n_memory - 1u;
	unsigned n_bytes = instruction->memory[last].size;

	move_stack_pointer(machine, -(int64_t)n_bytes);
	if (value_is_exact(machine->addresses[last]))
		decode_machine_store(machine, machine->addresses[last].bits, n_bytes, value);
	else
		decode_machine_forget_all(machine);
}

static struct value pop_value(struct machine *machine, const struct instruction *instruction)
{
	unsigned last = instruction->n_memory - 1u;
	unsigned n_bytes = instruction->memory[last].size;
	struct value value = value_unknown();

	if (value_is_exact(machine->addresses[last]))
		value = decode_machine_load(machine, machine->addresses[last].bits, n_bytes,
					    MACHINE_READER_STACK);
	move_stack_pointer(machine, n_bytes);
	return value;
}

void decode_execute_push(struct machine *machine, const struct instruction *instruction)
{
	push_value(machine, instruction, decode_machine_read(machine, instruction, 0));
}

/* pop rsp ends with the popped value. */
void decode_execute_pop(struct machine *machine, const struct instruction *instruction)
{
	decode_machine_write(machine, instruction, 0, pop_value(machine, instruction));
}

void decode_execute_pushf(struct machine *machine, const struct instruction *instruction)
{
	push_value(machine, instruction, machine->regs[DECODE_FLAGS]);
}

void decode_execute_popf(struct machine *machine, const struct instruction *instruction)
{
	struct value flags = pop_value(machine, instruction);

	machine_set_flags(machine, FLAGS_TRACKED, flags);
}

/* rsp = rbp, then pop rbp; its memory operand is [rbp]. */
void decode_execute_leave(struct machine *machine, const struct instruction *instruction)
{
	machine->regs[DECODE_SP] = machine->regs[DECODE_BP];
	machine_set_reg(machine, DECODE_BP, instruction->memory[0].size * 8u,
			pop_value(machine, instruction));
}

/* Instructions that write memory which Zydis does not list: enter with nesting, clzero, xsave. */
void decode_execute_elsewhere(struct machine *machine, const struct instruction *instruction)
{
	decode_machine_skip(machine, instruction);
	decode_machine_forget_all(machine);
}
