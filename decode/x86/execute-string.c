#include "decode/x86/execute.h"

/* How often a string instruction runs: once, rcx times, or not known. */
static struct value repetitions(const struct machine *machine,
				const struct instruction *instruction)
{
	if (instruction->repeat == REPEAT_NONE)
		return value_exact(1);
	return machine_get_reg(machine, DECODE_CX, instruction->address_width);
}

static struct value step(const struct machine *machine, const struct instruction *instruction)
{
	struct value flags = machine->regs[DECODE_FLAGS];
	uint64_t n_bytes = instruction->memory[0].size;

	if (!(flags.known & FLAG_DIRECTION))
		return value_unknown();
	return value_exact(flags.bits & FLAG_DIRECTION ? -n_bytes : n_bytes);
}

static void advance(struct machine *machine, const struct instruction *instruction, unsigned reg,
		    struct value n)
{
	struct value by = step(machine, instruction);

	if (value_is_exact(n) && value_is_exact(by))
		by = value_exact(n.bits * by.bits);
	else
		by = value_unknown();
	machine_set_reg(machine, reg, instruction->address_width,
			value_add(machine->regs[reg], by, value_exact(0)));
}

static void clear_count(struct machine *machine, const struct instruction *instruction)
{
	if (instruction->repeat != REPEAT_NONE)
		machine_set_reg(machine, DECODE_CX, instruction->address_width, value_exact(0));
}

static bool is_none(struct value n)
{
	return value_is_exact(n) && n.bits == 0;
}

/* n elements were stored through memory[0] (es:rdi), each of them `value` if n is 1. */
static void store_elements(struct machine *machine, const struct instruction *instruction,
			   struct value n, struct value value)
{
	struct value start = machine->addresses[0], by = step(machine, instruction);
	uint64_t n_bytes = instruction->memory[0].size;

	if (!value_is_exact(start) || !value_is_exact(n) || !value_is_exact(by) ||
	    n.bits > UINT32_MAX) {
		decode_machine_forget_all(machine);
		return;
	}
	if (n.bits == 1) {
		decode_machine_store(machine, start.bits, (unsigned)n_bytes, value);
		return;
	}
	if ((int64_t)by.bits < 0)
		start.bits -= (n.bits - 1) * n_bytes;
	decode_machine_forget(machine, start.bits, n.bits * n_bytes);
}

/* The element at memory[i], as far as it is one. */
static struct value load_element(struct machine *machine, const struct instruction *instruction,
				 unsigned i)
{
	if (!value_is_exact(machine->addresses[i]))
		return value_unknown();
	return decode_machine_load(machine, machine->addresses[i].bits, instruction->memory[i].size,
				   MACHINE_READER_DATA);
}

void decode_execute_movs(struct machine *machine, const struct instruction *instruction)
{
	struct value n = repetitions(machine, instruction);

	if (is_none(n))
		return;
	store_elements(machine, instruction, n, load_element(machine, instruction, 1));
	advance(machine, instruction, DECODE_DI, n);
	advance(machine, instruction, DECODE_SI, n);
	clear_count(machine, instruction);
}

void decode_execute_stos(struct machine *machine, const struct instruction *instruction)
{
	struct value n = repetitions(machine, instruction);

	if (is_none(n))
		return;
	store_elements(machine, instruction, n, machine->regs[DECODE_AX]);
	advance(machine, instruction, DECODE_DI, n);
	clear_count(machine, instruction);
}

void decode_execute_lods(struct machine *machine, const struct instruction *instruction)
{
	struct value n = repetitions(machine, instruction);
	struct value element = value_unknown();

	if (is_none(n))
		return;
	if (value_is_exact(n) && n.bits == 1)
		element = load_element(machine, instruction, 0);
	if (!value_is_exact(n))
		machine->regs[DECODE_AX] = value_unknown();
	else
		machine_set_reg(machine, DECODE_AX, instruction->memory[0].size * 8u, element);
	advance(machine, instruction, DECODE_SI, n);
	clear_count(machine, instruction);
}

/* Zydis does not list all of the registers that these instructions move. */
static void skip_string(struct machine *machine, const struct instruction *instruction)
{
	decode_machine_skip(machine, instruction);
	machine->regs[DECODE_SI] = value_unknown();
	machine->regs[DECODE_DI] = value_unknown();
	if (instruction->repeat != REPEAT_NONE)
		machine->regs[DECODE_CX] = value_unknown();
}

/* With 32-bit addresses registers keep or lose their upper half depending on the count. */
void decode_execute_string32(struct machine *machine, const struct instruction *instruction)
{
	skip_string(machine, instruction);
	machine->regs[DECODE_AX] = value_unknown();
	decode_machine_forget_all(machine);
}

/* With a repeat prefix the data end it: only rcx = 0 is certain. */
void decode_execute_scas(struct machine *machine, const struct instruction *instruction)
{
	unsigned width = instruction->memory[0].size * 8u;

	if (is_none(repetitions(machine, instruction)))
		return;
	if (instruction->repeat != REPEAT_NONE) {
		skip_string(machine, instruction);
		return;
	}
	decode_compare_values(machine, machine_get_reg(machine, DECODE_AX, width),
			      load_element(machine, instruction, 0), width);
	advance(machine, instruction, DECODE_DI, value_exact(1));
}

void decode_execute_cmps(struct machine *machine, const struct instruction *instruction)
{
	if (is_none(repetitions(machine, instruction)))
		return;
	if (instruction->repeat != REPEAT_NONE) {
		skip_string(machine, instruction);
		return;
	}
	decode_compare_values(machine, load_element(machine, instruction, 0),
			      load_element(machine, instruction, 1),
			      instruction->memory[0].size * 8u);
	advance(machine, instruction, DECODE_SI, value_exact(1));
	advance(machine, instruction, DECODE_DI, value_exact(1));
}
