#include "decode/recall.h"

#include <string.h>

#include "decode/decoder.h"
#include "decode/x86/execute.h"

#define MAX_STEPS    12u
#define MAX_BRANCHES 2u

/* The way back from an instruction, as long as there is one way only. */
struct walk {
	const struct block_code *code;
	const struct decode_sample *sample;
	uint64_t address;
	uint8_t lengths[DECODE_MAX_BEHIND]; /* of the line that leads to it, nearest first */
	unsigned n; /* of these */
	unsigned next;
	unsigned n_branches;
};

/* The line that leads to the address, or the only branch. */
static const struct instruction *look_behind(struct walk *walk)
{
	struct decode_sample there = *walk->sample;
	const struct behind_entry *entry;

	there.ip = walk->address;
	entry = decode_block_entry(walk->code, &there);
	memcpy(walk->lengths, entry->lengths, sizeof(walk->lengths));
	walk->n = entry->n_line;
	walk->next = 0;
	if (walk->n > 0 || entry->way != BEHIND_BRANCH || walk->n_branches++ == MAX_BRANCHES)
		return NULL;
	walk->address = entry->source;
	return walk->code->find(walk->code->user, walk->sample, walk->address);
}

/* The instruction that surely ran before; NULL: not known. */
static const struct instruction *step_back(struct walk *walk)
{
	if (walk->next == walk->n) {
		const struct instruction *branch = look_behind(walk);

		if (branch || walk->n == 0)
			return branch;
	}

	uint8_t length = walk->lengths[walk->next++];
	walk->address -= length;
	const struct instruction *instruction =
		walk->code->find(walk->code->user, walk->sample, walk->address);
	if (!instruction || instruction->bytes != length ||
	    (decode_execute_is_flow(instruction->execute) &&
	     instruction->execute != decode_execute_jcc))
		return NULL;
	return instruction;
}

/* What an instruction of registers only makes of a register, from the machine before it. */
static struct value make(struct machine *machine, const struct instruction *instruction,
			 unsigned reg)
{
	if (instruction->n_memory || decode_execute_is_flow(instruction->execute))
		return value_unknown();
	machine->regs[reg] = value_unknown();
	machine->next = instruction->address + instruction->bytes;
	decode_machine_prepare(machine, instruction);
	instruction->execute(machine, instruction);
	return machine->regs[reg];
}

static struct value find_value(const struct block_code *code, struct machine *machine,
			       uint64_t address, unsigned reg)
{
	struct walk walk = { .code = code, .sample = machine->sample, .address = address };

	for (unsigned i = 0; i < MAX_STEPS; i++) {
		const struct instruction *found = step_back(&walk);
		if (!found)
			break;
		const struct instruction instruction = *found;
		decode_block_undo(machine, &instruction);
		if (instruction.regs_written >> reg & 1)
			return make(machine, &instruction, reg);
	}
	return value_unknown();
}

static void recall_register(const struct block_code *code, struct machine *machine,
			    uint64_t address, unsigned reg)
{
	struct value kept[REG_COUNT], value;

	if (reg >= DECODE_N_REGS || reg == DECODE_IP || value_is_exact(machine->regs[reg]))
		return;
	memcpy(kept, machine->regs, sizeof(kept));
	value = find_value(code, machine, address, reg);
	memcpy(machine->regs, kept, sizeof(kept));
	if (value_is_exact(value))
		machine->regs[reg] = value;
}

void decode_recall(const struct block_code *code, struct machine *machine,
		   const struct instruction *instruction)
{
	const struct instruction at = *instruction;

	for (unsigned i = 0; i < at.n_memory; i++) {
		recall_register(code, machine, at.address, at.memory[i].base);
		recall_register(code, machine, at.address, at.memory[i].index);
	}
}
