#include "decode/slots.h"

#include <string.h>

#include "decode/decoder.h"
#include "decode/x86/execute.h"

#define MAX_STEPS   256u /* instructions that are walked over */
#define STACK_BELOW 128u /* code may use as much without moving its pointer (System V ABI, 3.2.2) */
#define STACK_ABOVE (UINT64_C(64) << 10)
#define FAR_BYTES   (TARGETS_REACH_BYTES + 4096) /* code so far away may tell something */

/* All instructions on the ways back from an address. */
struct search {
	const struct block_code *code;
	struct decode_sample sample; /* ip is that of the way */
	const struct slot *goal; /* where it is stored a way ends; NULL: at the function's begin */
	uint64_t seen[MAX_STEPS];
	unsigned n_seen;
	unsigned n_walked; /* of these; the ways behind the others are still to be walked */
	bool is_open; /* some way is not known */
};

static const struct instruction *find(const struct search *search, uint64_t address)
{
	return search->code->find(search->code->user, &search->sample, address);
}

/* Whether an instruction stores a register relative to another one, and nothing else. */
static bool is_slot(const struct instruction *instruction, struct slot *ret_slot)
{
	const struct operand *from = &instruction->operands[1];
	const struct memory_operand *to = &instruction->memory[0];

	if (instruction->execute != decode_execute_mov || instruction->n_memory != 1 ||
	    instruction->operands[0].kind != OPERAND_MEMORY || from->kind != OPERAND_REG ||
	    from->bits < 32 || to->index != REG_ZERO || to->base >= DECODE_N_REGS ||
	    to->base == DECODE_IP || to->flags & (MEMORY_FS | MEMORY_GS | MEMORY_32BIT) ||
	    to->displacement != (int32_t)to->displacement)
		return false;
	*ret_slot = (struct slot){ from->reg, from->bits / 8, to->base, (int32_t)to->displacement };
	return true;
}

static bool is_goal(const struct search *search, const struct instruction *instruction)
{
	struct slot slot;

	return search->goal && is_slot(instruction, &slot) && slot.reg == search->goal->reg &&
	       slot.bytes == search->goal->bytes && slot.base == search->goal->base &&
	       slot.displacement == search->goal->displacement;
}

static void add(struct search *search, uint64_t address)
{
	const struct instruction *instruction = find(search, address);

	for (unsigned i = 0; i < search->n_seen; i++)
		if (search->seen[i] == address)
			return;
	if (!instruction || instruction->bytes == 0 || search->n_seen == MAX_STEPS)
		search->is_open = true;
	else if (!is_goal(search, instruction))
		search->seen[search->n_seen++] = address;
}

/* What may have run right before an address. */
static void add_before(struct search *search, uint64_t address)
{
	search->sample.ip = address;
	const struct behind_entry entry = *decode_block_entry(search->code, &search->sample);
	bool is_either = entry.way == BEHIND_EITHER;

	if (entry.way == BEHIND_CALL && !search->goal)
		return;
	for (unsigned i = 0; i < entry.n_sources; i++)
		add(search, address + (uint64_t)(int64_t)entry.sources[i]);
	if (entry.n_sources && entry.n_if_line)
		add(search, address - entry.lengths[0]);
	if (entry.n_sources)
		return;
	if (entry.way != BEHIND_LINE && entry.way != BEHIND_BRANCH && !is_either) {
		search->is_open = true;
		return;
	}
	if (entry.way == BEHIND_LINE || is_either)
		add(search, address - entry.lengths[0]);
	if (entry.way == BEHIND_BRANCH || is_either)
		add(search, entry.source);
}

static void walk(struct search *search)
{
	add_before(search, search->sample.ip);
	while (search->n_walked < search->n_seen && !search->is_open)
		add_before(search, search->seen[search->n_walked++]);
}

static bool overlaps(const struct memory_operand *operand, const struct slot *slot)
{
	int64_t distance = operand->displacement - slot->displacement;

	return operand->index != REG_ZERO ||
	       (distance < slot->bytes && -distance < (int64_t)operand->size * operand->count);
}

enum effect {
	LEAVES_IT,
	MAY_CHANGE_IT, /* if somebody has the slot's address */
	CHANGES_IT,
};

static enum effect find_effect(const struct instruction *instruction, const struct slot *slot)
{
	enum effect effect = LEAVES_IT;

	if (instruction->regs_written & (1u << slot->reg | 1u << slot->base | 1u << DECODE_SP) ||
	    (decode_execute_is_flow(instruction->execute) &&
	     instruction->execute != decode_execute_jcc &&
	     instruction->execute != decode_execute_jump))
		return CHANGES_IT;
	for (unsigned i = 0; i < instruction->n_memory; i++) {
		const struct memory_operand *operand = &instruction->memory[i];

		if (!(operand->flags & MEMORY_WRITE) || operand->base == DECODE_IP)
			continue;
		if (operand->base != slot->base)
			effect = MAY_CHANGE_IT;
		else if (overlaps(operand, slot) || instruction->repeat != REPEAT_NONE)
			return CHANGES_IT;
	}
	return effect;
}

/*
 * Whether an instruction hands out an address of the stack: by anything but an operand in memory.
 * The base of a slot may get it, and the stack pointer and the frame's go to each other.
 */
static bool hands_out(const struct instruction *instruction, const struct slot *slot)
{
	const uint32_t frame = 1u << DECODE_SP | 1u << DECODE_BP | 1u << slot->base;
	bool is_lea = instruction->execute == decode_execute_lea;
	bool is_frame = is_lea && (frame >> instruction->memory[0].base & 1 ||
				   (instruction->memory[0].index < DECODE_N_REGS &&
				    frame >> instruction->memory[0].index & 1));

	for (unsigned i = 1; i < INSTRUCTION_MAX_OPERANDS; i++)
		is_frame = is_frame || (instruction->operands[i].kind == OPERAND_REG &&
					frame >> instruction->operands[i].reg & 1);
	return is_frame && !(instruction->regs_written & frame) &&
	       instruction->execute != decode_execute_cmp &&
	       instruction->execute != decode_execute_test;
}

/* Whether an instruction makes the base out of another address of the frame. */
static bool makes_base(const struct instruction *instruction)
{
	const uint32_t frame = 1u << DECODE_SP | 1u << DECODE_BP;
	const struct operand *from = &instruction->operands[1];

	return (instruction->execute == decode_execute_mov && from->kind == OPERAND_REG &&
		frame >> from->reg & 1) ||
	       (instruction->execute == decode_execute_lea &&
		frame >> instruction->memory[0].base & 1);
}

/* Whether the slot lies in the function's frame, and nothing makes another pointer into that. */
static bool is_private(const struct block_code *code, const struct decode_sample *sample,
		       const struct slot *slot)
{
	struct search all = { .code = code, .sample = *sample };
	bool is_frame = slot->base == DECODE_SP;

	walk(&all);
	for (unsigned i = 0; i < all.n_seen && !all.is_open; i++) {
		const struct instruction *instruction = find(&all, all.seen[i]);
		bool writes_base = instruction && slot->base != DECODE_SP &&
				   instruction->regs_written >> slot->base & 1;

		if (!instruction || hands_out(instruction, slot) ||
		    (writes_base && !makes_base(instruction)))
			return false;
		is_frame = is_frame || writes_base;
	}
	return is_frame && !all.is_open;
}

/* Whether all ways to the sample store the slot, and leave it so. */
static bool holds(const struct block_code *code, const struct decode_sample *sample,
		  const struct slot *slot)
{
	struct search search = { .code = code, .sample = *sample, .goal = slot };
	bool may_change = false;

	walk(&search);
	for (unsigned i = 0; i < search.n_seen && !search.is_open; i++) {
		const struct instruction *instruction = find(&search, search.seen[i]);
		enum effect effect = instruction ? find_effect(instruction, slot) : CHANGES_IT;

		if (effect == CHANGES_IT)
			return false;
		may_change = may_change || effect == MAY_CHANGE_IT;
	}
	return !search.is_open && (!may_change || is_private(code, sample, slot));
}

bool decode_slots_is_stored(const struct slot *slot, const struct instruction *instruction)
{
	return find_effect(instruction, slot) == CHANGES_IT;
}

static bool has(const struct slots *slots, const struct slot *slot)
{
	for (unsigned i = 0; i < slots->n; i++)
		if (slots->slots[i].base == slot->base &&
		    slots->slots[i].displacement == slot->displacement)
			return true;
	return false;
}

static void fill(struct slots *slots, const struct block_code *code,
		 const struct decode_sample *sample)
{
	struct search all = { .code = code, .sample = *sample };

	/* Ways that are not known do not matter behind a slot's store. */
	add_before(&all, sample->ip);
	while (all.n_walked < all.n_seen)
		add_before(&all, all.seen[all.n_walked++]);
	for (unsigned i = 0; i < all.n_seen && slots->n < SLOTS_MAX; i++) {
		const struct instruction *instruction = find(&all, all.seen[i]);
		struct slot slot;

		if (instruction && is_slot(instruction, &slot) && !has(slots, &slot) &&
		    holds(code, sample, &slot))
			slots->slots[slots->n++] = slot;
	}
}

const struct slots *decode_slots_find(struct slots_cache *cache, const struct block_code *code,
				      const struct decode_sample *sample)
{
	uint64_t hash =
		(sample->ip ^ (uint64_t)sample->process << 40) * UINT64_C(0x9e3779b97f4a7c15);
	struct slots *slots = &cache->sets[(hash >> 40) % SLOTS_SETS];
	uint64_t version = decode_code_version(code->memory, sample, sample->ip - BEHIND_LOOK_BYTES,
					       sample->ip + BEHIND_LOOK_BYTES - 1);

	if (slots->address == sample->ip && slots->process == sample->process &&
	    slots->version == version)
		return slots;
	slots->address = sample->ip;
	slots->process = sample->process;
	slots->version = version;
	slots->n = 0;
	fill(slots, code, sample);
	return slots;
}

void decode_slots_take(const struct slots *slots, struct machine *machine)
{
	const uint64_t *regs = machine->sample->regs;

	for (unsigned i = 0; i < slots->n; i++) {
		const struct slot *slot = &slots->slots[i];
		uint64_t address = regs[slot->base] + (uint64_t)(int64_t)slot->displacement;

		/* Elsewhere another thread may write. */
		if (address - (regs[DECODE_SP] - STACK_BELOW) < STACK_BELOW + STACK_ABOVE)
			decode_machine_store(machine, address, slot->bytes,
					     value_exact(regs[slot->reg]));
	}
}

void decode_slots_drop(struct slots_cache *cache, uint32_t process, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < SLOTS_SETS; i++) {
		struct slots *slots = &cache->sets[i];
		if (slots->address && slots->process == process &&
		    slots->address + FAR_BYTES > start && slots->address - FAR_BYTES < end)
			slots->address = 0;
	}
}
