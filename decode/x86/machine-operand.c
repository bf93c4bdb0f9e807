#include "decode/x86/machine.h"

/* How far bt and its kin move the address: the bit offset is signed and counts in operand units. */
static struct value bit_offset(const struct machine *machine, const struct instruction *instruction)
{
	const struct operand *source = &instruction->operands[1];
	unsigned bits = source->bits;
	struct value offset = value_sign_extend(machine->regs[source->reg], bits);

	if (!value_is_exact(offset))
		return value_unknown();
	return value_exact((uint64_t)((int64_t)offset.bits >> __builtin_ctz(bits)) * (bits / 8));
}

static struct value index_of(const struct machine *machine, const struct memory_operand *operand)
{
	struct value index = machine->regs[operand->index];

	return operand->flags & MEMORY_LOW_INDEX ? value_truncate(index, 8) : index;
}

/* Operands of which the address does not tell all bytes. */
#define MEMORY_NO_RANGE (MEMORY_GATHER | MEMORY_OPEN_END)

/* What segments, bt, xlat and 32-bit addressing add to the plain sum. */
static struct value adjust_address(const struct machine *machine,
				   const struct instruction *instruction,
				   const struct memory_operand *operand, struct value address)
{
	if (operand->flags & MEMORY_BIT_OFFSET)
		address = value_add(address, bit_offset(machine, instruction), value_exact(0));
	if (operand->flags & MEMORY_32BIT)
		address = value_truncate(address, 32);
	if (operand->flags & MEMORY_LINE)
		address = value_and(address, value_exact(~(uint64_t)(operand->size - 1)));
	if (operand->flags & MEMORY_GS || (operand->flags & MEMORY_FS && !machine->fs_base))
		return value_unknown();
	if (operand->flags & MEMORY_FS)
		address = value_add(address, value_exact(machine->fs_base), value_exact(0));
	return address;
}

struct value decode_machine_address(const struct machine *machine,
				    const struct instruction *instruction,
				    const struct memory_operand *operand)
{
	const uint16_t special =
		MEMORY_FS | MEMORY_GS | MEMORY_32BIT | MEMORY_BIT_OFFSET | MEMORY_LINE;
	struct value base = machine->regs[operand->base];
	struct value index = index_of(machine, operand);
	struct value address = {
		base.bits + index.bits * operand->scale + (uint64_t)operand->displacement,
		value_certain(base, index, value_exact(0)),
	};

	/* Scaling moves unknown bits up only: those below the lowest one stay certain. */
	address.bits &= address.known;
	if (operand->flags & special)
		address = adjust_address(machine, instruction, operand, address);
	return value_is_exact(address) ? address : value_unknown();
}

/* The most bits that may be open: an index of 32 bits may lead anywhere. */
#define MAX_OPEN (UINT64_C(1) << 26)

uint32_t decode_machine_range(const struct machine *machine, const struct instruction *instruction,
			      const struct memory_operand *operand, uint64_t *ret_lowest)
{
	const uint16_t special = MEMORY_FS | MEMORY_GS | MEMORY_32BIT | MEMORY_BIT_OFFSET |
				 MEMORY_LINE | MEMORY_NO_RANGE;
	struct value base = machine->regs[operand->base];
	struct value index = index_of(machine, operand);

	if (operand->flags & special || operand->mask != MASK_NONE || operand->size == 0 ||
	    instruction->repeat != REPEAT_NONE || ~base.known > MAX_OPEN || ~index.known > MAX_OPEN)
		return 0;
	*ret_lowest = base.bits + index.bits * operand->scale + (uint64_t)operand->displacement;
	return (uint32_t)(~base.known + ~index.known * operand->scale + operand->size);
}

void decode_machine_prepare(struct machine *machine, const struct instruction *instruction)
{
	for (unsigned i = 0; i < instruction->n_memory; i++)
		machine->addresses[i] =
			decode_machine_address(machine, instruction, &instruction->memory[i]);
}

static struct value read_memory(struct machine *machine, const struct instruction *instruction,
				unsigned memory)
{
	struct value address = machine->addresses[memory];
	unsigned n_bytes = instruction->memory[memory].size;

	if (n_bytes == 0 || n_bytes > 8 || instruction->memory[memory].flags & MEMORY_GATHER)
		return value_unknown();
	if (!value_is_exact(address))
		return value_truncate(value_unknown(), 8 * n_bytes);
	return decode_machine_load(machine, address.bits, n_bytes, MACHINE_READER_DATA);
}

struct value decode_machine_read(struct machine *machine, const struct instruction *instruction,
				 unsigned n)
{
	const struct operand *operand = &instruction->operands[n];

	switch (operand->kind) {
	case OPERAND_REG:
		return value_truncate(
			value_shift_right(machine->regs[operand->reg], operand->shift),
			operand->bits);
	case OPERAND_IMMEDIATE:
		return value_truncate(value_exact(instruction->immediate), operand->bits);
	case OPERAND_MEMORY:
		return read_memory(machine, instruction, operand->reg);
	default:
		return value_unknown();
	}
}

static void write_memory(struct machine *machine, const struct instruction *instruction,
			 unsigned memory, struct value value)
{
	const struct memory_operand *operand = &instruction->memory[memory];
	struct value address = machine->addresses[memory];

	if (!value_is_exact(address) || operand->flags & MEMORY_NO_RANGE || operand->size == 0)
		decode_machine_forget_all(machine);
	else if (operand->size <= 8)
		decode_machine_store(machine, address.bits, operand->size, value);
	else
		decode_machine_forget(machine, address.bits, operand->size);
}

void decode_machine_write(struct machine *machine, const struct instruction *instruction,
			  unsigned n, struct value value)
{
	const struct operand *operand = &instruction->operands[n];
	struct value *reg = &machine->regs[operand->reg];

	if (operand->kind == OPERAND_MEMORY)
		write_memory(machine, instruction, operand->reg, value);
	else if (operand->kind == OPERAND_REG && operand->shift)
		*reg = value_merge(value_shift_left(value, operand->shift), *reg,
				   value_mask(operand->bits) << operand->shift);
	else if (operand->kind == OPERAND_REG)
		machine_set_reg(machine, operand->reg, operand->bits, value);
}

static void forget_memory(struct machine *machine, const struct instruction *instruction,
			  unsigned memory)
{
	const struct memory_operand *operand = &instruction->memory[memory];
	struct value address = machine->addresses[memory];

	if (value_is_exact(address) && operand->size > 0 && !(operand->flags & MEMORY_NO_RANGE))
		decode_machine_forget(machine, address.bits, operand->size);
	else
		decode_machine_forget_all(machine);
}

void decode_machine_skip(struct machine *machine, const struct instruction *instruction)
{
	uint32_t written = instruction->regs_written;

	for (unsigned i = 0; i < instruction->n_memory; i++)
		if (instruction->memory[i].flags & MEMORY_WRITE)
			forget_memory(machine, instruction, i);
	for (; written; written &= written - 1)
		machine->regs[__builtin_ctz(written)] = value_unknown();
	if (machine->vectors) {
		machine->vectors->known &= ~instruction->vectors_written;
		machine->vectors->masks_known &= (uint8_t)~instruction->masks_written;
	}
	machine_set_flags(machine, instruction->flags_written, value_unknown());
}
