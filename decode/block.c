#include "decode/block.h"

#include "decode/execute.h"
#include "decode/machine.h"

/* Two values whose sums and differences with constants show as the same distance. */
#define PROBE_A UINT64_C(0x0000123456780000)
#define PROBE_B UINT64_C(0x00005fedcba98000)

static void find_lengths(const struct block_code *code, const struct decode_sample *sample,
			 struct behind_entry *ret_entry)
{
	uint8_t bytes[BEHIND_SWEEP_BYTES];
	uint64_t page = sample->ip & ~UINT64_C(4095);
	uint64_t start = sample->ip - BEHIND_SWEEP_BYTES;
	size_t n = code->memory->code(code->memory->user, sample->process, start, sample->time,
				      bytes, sizeof(bytes));

	if (n < sizeof(bytes) && page > start) {
		/* The page before is not known: what is left of this one. */
		start = page;
		n = code->memory->code(code->memory->user, sample->process, start, sample->time,
				       bytes, sample->ip - start);
	}
	ret_entry->n = 0;
	if (start + n == sample->ip)
		ret_entry->n = (uint8_t)decode_behind_lengths(
			bytes, n, sample->ip, ret_entry->lengths, DECODE_MAX_BEHIND);
	ret_entry->process = sample->process;
	ret_entry->address = sample->ip;
	ret_entry->way = BEHIND_NOT_ASKED;
}

struct behind_entry *decode_block_lengths(const struct block_code *code,
					  const struct decode_sample *sample)
{
	struct behind_entry *entry = decode_behind_entry(code->behind, sample->process, sample->ip);

	if (entry->address != sample->ip || entry->process != sample->process)
		find_lengths(code, sample, entry);
	return entry;
}

/* What the instruction makes of a probe in one register. */
static struct value try_probe(const struct machine *after, const struct instruction *instruction,
			      unsigned reg, uint64_t probe)
{
	struct machine machine = *after;

	machine.regs[reg] = value_exact(probe);
	machine.next = instruction->address + instruction->bytes;
	decode_machine_prepare(&machine, instruction);
	instruction->execute(&machine, instruction);
	return machine.regs[reg];
}

/*
 * A register's value before the instruction. Found by running it on two values: the same distance
 * for both means that it adds a constant, and this is taken off again.
 */
static struct value before(const struct machine *after, const struct instruction *instruction,
			   unsigned reg)
{
	struct value a = try_probe(after, instruction, reg, PROBE_A);
	struct value b = try_probe(after, instruction, reg, PROBE_B);
	bool is_sum =
		value_is_exact(a) && value_is_exact(b) && a.bits - PROBE_A == b.bits - PROBE_B;

	if (!is_sum || !value_is_exact(after->regs[reg]))
		return value_unknown();
	return value_exact(after->regs[reg].bits - (a.bits - PROBE_A));
}

/* Registers whose old value could be told: those that nothing but the instruction itself feeds. */
static bool can_undo(const struct instruction *instruction, unsigned reg)
{
	uint32_t general = instruction->regs_written &
			   ~(1u << DECODE_SP | 1u << DECODE_IP | 1u << DECODE_FLAGS);
	const struct operand *to = &instruction->operands[0];

	if (reg == DECODE_SP)
		return true;
	if (general != 1u << reg)
		return false; /* xchg, xadd: each depends on the old value of the other */
	return !(instruction->n_memory && to->kind == OPERAND_REG && to->reg == reg);
}

void decode_block_undo(struct machine *machine, const struct instruction *instruction)
{
	struct machine after = *machine;

	for (unsigned reg = 0; reg < DECODE_N_REGS; reg++) {
		if (!(instruction->regs_written >> reg & 1))
			continue;
		machine->regs[reg] = can_undo(instruction, reg) ? before(&after, instruction, reg)
								: value_unknown();
	}
	machine->regs[DECODE_FLAGS] = value_unknown();
}

unsigned decode_block_accesses(const struct machine *machine, const struct instruction *instruction,
			       struct decode_access *ret_accesses)
{
	for (unsigned i = 0; i < instruction->n_memory; i++) {
		const struct memory_operand *operand = &instruction->memory[i];
		struct value address = decode_machine_address(machine, instruction, operand);
		bool is_known = value_is_exact(address) && instruction->repeat == REPEAT_NONE;

		ret_accesses[i] = (struct decode_access){
			.ip = instruction->address,
			.address = is_known ? address.bits : 0,
			.size = operand->size,
			.count = operand->count,
			.state = !is_known			     ? DECODE_UNKNOWN_REGISTER
				 : operand->flags & MEMORY_BASE_ONLY ? DECODE_BASE_ONLY
								     : DECODE_RESOLVED,
			.is_read = operand->flags & MEMORY_READ,
			.is_write = operand->flags & MEMORY_WRITE,
		};
	}
	return instruction->n_memory;
}

static void note(const struct machine *machine, const struct instruction *instruction,
		 unsigned position, struct decode_window *window)
{
	unsigned n = decode_block_accesses(machine, instruction, window->behind + window->n_behind);

	for (; n > 0; n--)
		window->behind[window->n_behind++].position = (uint16_t)position;
}

void decode_block_behind(const struct block_code *code, const struct decode_sample *sample,
			 struct decode_window *window)
{
	const struct behind_entry *entry = decode_block_lengths(code, sample);
	uint64_t address = sample->ip;
	struct machine machine;

	window->n_behind = 0;
	decode_machine_init(&machine, code->memory, sample);
	for (unsigned i = 0; i < entry->n; i++) {
		address -= entry->lengths[i];
		const struct instruction *instruction = code->find(code->user, sample, address);
		if (!instruction || instruction->bytes != entry->lengths[i] ||
		    decode_execute_is_flow(instruction->execute))
			break;
		decode_block_undo(&machine, instruction);
		note(&machine, instruction, i + 1, window);
	}
}
