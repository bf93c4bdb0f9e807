#include "decode/block.h"

#include <string.h>

#include "decode/decoder.h"
#include "decode/x86/execute.h"
#include "decode/x86/machine.h"

/* Two values whose sums and differences with constants show as the same distance. */
#define PROBE_A UINT64_C(0x0000123456780000)
#define PROBE_B UINT64_C(0x00005fedcba98000)

/* Beyond so many instructions a function is not looked through for its returns. */
#define MAX_FUNCTION   64u
#define FUNCTION_ALIGN 16u
#define SHORT_BYTES    2u /* of a branch of 8 bits */
#define MAX_SWITCH     12u /* instructions from a table's address to the jump */

/* So far before a function's end its begin is looked for. */
#define FRAME_BYTES 2048u
#define FRAME_CHUNK 256u
#define MAX_FRAMED  512u /* instructions */

/* The last begin of a function up to ip; 0: not known. */
static uint64_t find_begin(const struct decode_memory *memory, const struct decode_sample *sample)
{
	return memory->begin
		       ? memory->begin(memory->user, sample->process, sample->ip, sample->time)
		       : 0;
}

static void find_lengths(const struct block_code *code, const struct decode_sample *sample,
			 struct behind_entry *ret_entry)
{
	uint8_t bytes[BEHIND_SWEEP_BYTES];
	uint64_t page = sample->ip & ~UINT64_C(4095);
	uint64_t begin = find_begin(code->memory, sample);
	uint64_t start = sample->ip - BEHIND_SWEEP_BYTES;

	if (begin > start && begin < sample->ip)
		start = begin;
	size_t n = code->memory->code(code->memory->user, sample->process, start, sample->time,
				      bytes, sample->ip - start);
	if (start + n < sample->ip && page > start) {
		/* The page before is not known: what is left of this one. */
		start = page;
		n = code->memory->code(code->memory->user, sample->process, start, sample->time,
				       bytes, sample->ip - start);
	}
	*ret_entry = (struct behind_entry){ .process = sample->process,
					    .address = sample->ip,
					    .is_begin = begin == sample->ip };
	if (start + n == sample->ip)
		ret_entry->n = (uint8_t)decode_behind_lengths(
			bytes, n, start == begin, ret_entry->lengths, DECODE_MAX_BEHIND);
}

static bool is_free(const struct ways *ways)
{
	return !ways->is_open && ways->n_jumps + ways->n_calls + ways->n_tables == 0;
}

static bool goes_on(const struct instruction *instruction)
{
	return !decode_execute_is_flow(instruction->execute) ||
	       instruction->execute == decode_execute_jcc ||
	       instruction->execute == decode_execute_call;
}

/*
 * Whether the code before ip, or before the n-th instruction before it, goes on to it. nops between
 * an end and a begin that is aligned are padding, which nothing runs through. So are they behind
 * code that may go on, where no branch leads to the begin: it is no loop's, but that of a function
 * which is called through a pointer.
 */
static bool is_line(const struct block_code *code, const struct decode_sample *sample,
		    const struct behind_entry *entry, const struct ways *ways, unsigned n)
{
	bool is_begin = ways[n].address % FUNCTION_ALIGN == 0;

	for (unsigned i = n; i < entry->n; i++) {
		const struct instruction *instruction =
			code->find(code->user, sample, ways[i + 1].address);
		if (!instruction || instruction->bytes != entry->lengths[i])
			return false;
		if (instruction->execute == decode_execute_nop && !is_free(&ways[i + 1]))
			return true; /* it is no padding: something leads there */
		if (instruction->execute != decode_execute_nop)
			return goes_on(instruction) &&
			       !(is_begin && i > n &&
				 (ways[n].n_jumps == 0 ||
				  instruction->execute == decode_execute_call));
	}
	return entry->n > n && !is_begin;
}

/* The only ret that a function ends with; 0: it has several, or may end otherwise. */
static uint64_t find_return(const struct block_code *code, const struct decode_sample *sample,
			    uint64_t function)
{
	uint64_t address = function, furthest = function, found = 0;

	for (unsigned i = 0; i < MAX_FUNCTION; i++) {
		const struct instruction *instruction = code->find(code->user, sample, address);
		if (!instruction || instruction->bytes == 0)
			return 0;
		execute_function execute = instruction->execute;
		bool is_direct = instruction->operands[0].kind == OPERAND_IMMEDIATE;
		bool is_jump = execute == decode_execute_jump || execute == decode_execute_jcc;
		if (is_jump && (!is_direct || instruction->immediate < function))
			return 0;
		if (is_jump && instruction->immediate > furthest)
			furthest = instruction->immediate;
		if (execute == decode_execute_ret && found)
			return 0;
		if (execute == decode_execute_ret)
			found = address;
		else if (decode_execute_is_flow(execute) && !is_jump &&
			 execute != decode_execute_call)
			return 0;
		address += instruction->bytes;
		if ((execute == decode_execute_ret || execute == decode_execute_jump) &&
		    address > furthest)
			return found;
	}
	return 0;
}

/* By the instruction right before ip. */
static void set_line(const struct block_code *code, const struct decode_sample *sample,
		     struct behind_entry *entry)
{
	const struct instruction *before =
		code->find(code->user, sample, sample->ip - entry->lengths[0]);

	entry->way = BEHIND_LINE;
	if (before->execute != decode_execute_call)
		return;
	entry->way = BEHIND_RETURN;
	if (before->operands[0].kind == OPERAND_IMMEDIATE)
		entry->source = find_return(code, sample, before->immediate);
}

/* By the branch that leads to ip; what ran before that is known if nothing else leads there. */
static void set_source(const struct block_code *code, const struct decode_sample *sample,
		       const struct ways *ways, struct behind_entry *entry)
{
	struct ways of_source = { .address = ways->source };

	decode_targets_find(code->targets, code->memory, sample, &of_source, 1);
	entry->source = ways->source;
	entry->fused_bytes = is_free(&of_source) ? ways->fused_bytes : 0;
}

/* What a function leaves as it was: none begins with reading memory by it. */
#define KEPT (1u << DECODE_BX | 1u << DECODE_BP | 0xfu << (DECODE_R8 + 4))

/* Whether the code at ip, behind nops, accesses memory by the frame's pointer or the like. */
static bool goes_on_with_kept(const struct block_code *code, const struct decode_sample *sample)
{
	uint64_t address = sample->ip;
	const struct instruction *instruction;

	while (instruction = code->find(code->user, sample, address),
	       instruction && instruction->bytes && instruction->execute == decode_execute_nop)
		address += instruction->bytes;
	for (unsigned i = 0; instruction && i < instruction->n_memory; i++)
		if (instruction->memory[i].base < DECODE_N_REGS &&
		    KEPT >> instruction->memory[i].base & 1)
			return true;
	return false;
}

/*
 * A begin that is aligned may be a function's, which is called in ways that code does not show, and
 * jumped to by another as its last act.
 */
static bool may_be_function(const struct block_code *code, const struct decode_sample *sample,
			    uint64_t source)
{
	const struct instruction *branch = code->find(code->user, sample, source);

	return sample->ip % FUNCTION_ALIGN == 0 &&
	       (!branch || branch->bytes > SHORT_BYTES || branch->execute == decode_execute_jump) &&
	       !goes_on_with_kept(code, sample);
}

/* Whether the code from a function's frame on leads to an address, and leaves the frame alone. */
static bool keeps_frame(const struct block_code *code, const struct decode_sample *sample,
			uint64_t address, uint64_t to)
{
	uint64_t furthest = address;

	for (unsigned i = 0; i < MAX_FRAMED && address < to; i++) {
		const struct instruction *instruction = code->find(code->user, sample, address);
		if (!instruction || instruction->bytes == 0)
			return false;
		execute_function execute = instruction->execute;
		bool is_jump = execute == decode_execute_jump || execute == decode_execute_jcc;
		bool is_end = execute == decode_execute_leave || execute == decode_execute_pop;
		if (is_jump && instruction->operands[0].kind == OPERAND_IMMEDIATE &&
		    instruction->immediate > furthest)
			furthest = instruction->immediate;
		if (instruction->regs_written >> DECODE_BP & 1 && !is_end)
			return false;
		address += instruction->bytes;
		if ((execute == decode_execute_ret || execute == decode_execute_jump) &&
		    address > furthest)
			return false;
	}
	return address == to;
}

/*
 * Whether the instruction before ip, a ret, has popped the frame's pointer: the function begins
 * with making it from the stack's, so that it was where that pointed.
 */
static bool pops_frame(const struct block_code *code, const struct decode_sample *sample)
{
	static const uint8_t begin[] = { 0x55, 0x48, 0x89, 0xe5 }; /* push %rbp; mov %rsp,%rbp */
	const uint64_t pop = sample->ip - sizeof(begin[0]);
	const struct instruction *at_ip = code->find(code->user, sample, sample->ip);
	uint8_t bytes[FRAME_CHUNK + sizeof(begin)];

	if (!at_ip || at_ip->execute != decode_execute_ret)
		return false;
	const struct instruction *found = code->find(code->user, sample, pop);
	if (!found || found->bytes != 1 || found->execute != decode_execute_pop ||
	    found->operands[0].kind != OPERAND_REG || found->operands[0].reg != DECODE_BP)
		return false;
	for (uint64_t end = pop; pop - end < FRAME_BYTES; end -= FRAME_CHUNK) {
		uint64_t start = end - FRAME_CHUNK;

		if (code->memory->code(code->memory->user, sample->process, start, sample->time,
				       bytes, sizeof(bytes)) < sizeof(bytes))
			return false;
		for (size_t at = FRAME_CHUNK; at > 0; at--)
			if (memcmp(bytes + at - 1, begin, sizeof(begin)) == 0)
				return keeps_frame(code, sample, start + at - 1 + sizeof(begin),
						   pop);
	}
	return false;
}

/* The jump by the table that the code at an address uses; 0: not known. */
static uint64_t find_switch(const struct block_code *code, const struct decode_sample *sample,
			    uint64_t address)
{
	for (unsigned i = 0; i < MAX_SWITCH; i++) {
		const struct instruction *instruction = code->find(code->user, sample, address);

		if (!instruction || instruction->bytes == 0)
			return 0;
		if (decode_execute_is_flow(instruction->execute))
			return instruction->execute == decode_execute_jump &&
					       instruction->operands[0].kind != OPERAND_IMMEDIATE
				       ? address
				       : 0;
		address += instruction->bytes;
	}
	return 0;
}

static bool add_source(struct behind_entry *entry, uint64_t source)
{
	int16_t offset = (int16_t)(source - entry->address);

	for (unsigned i = 0; i < entry->n_sources; i++)
		if (entry->sources[i] == offset)
			return true;
	if (entry->address + (uint64_t)offset != source || entry->n_sources == TARGETS_SOURCES)
		return false;
	entry->sources[entry->n_sources++] = offset;
	return true;
}

/* Of several branches, or a switch, where they are all that leads there. */
static void set_sources(const struct block_code *code, const struct decode_sample *sample,
			const struct ways *ways, struct behind_entry *entry)
{
	bool is_whole = ways->n_jumps <= TARGETS_SOURCES && ways->n_users <= TARGETS_SOURCES &&
			!ways->n_calls && !entry->is_begin;

	for (unsigned i = 0; i < ways->n_users && is_whole; i++)
		is_whole = add_source(entry, find_switch(code, sample, ways->users[i]));
	for (unsigned i = 0; i < ways->n_jumps && is_whole; i++)
		is_whole = (entry->n_if_line > 0 ||
			    !may_be_function(code, sample, ways->sources[i])) &&
			   add_source(entry, ways->sources[i]);
	if (!is_whole)
		entry->n_sources = 0;
}

static void find_way(const struct block_code *code, const struct decode_sample *sample,
		     const struct ways *ways, struct behind_entry *entry)
{
	bool comes_from_line = entry->n_if_line > 0;

	if (ways->is_open || entry->n == 0)
		return;
	if (ways->n_tables || ways->n_jumps > 1) {
		set_sources(code, sample, ways, entry);
		return;
	}
	if (ways->n_jumps)
		set_source(code, sample, ways, entry);
	if (is_free(ways) && comes_from_line)
		set_line(code, sample, entry);
	else if (ways->n_calls == 0 && ways->n_jumps)
		entry->way = comes_from_line ? BEHIND_EITHER
			     : entry->is_begin || may_be_function(code, sample, entry->source)
				     ? BEHIND_UNKNOWN
				     : BEHIND_BRANCH;
	else if (ways->n_jumps == 0 && !comes_from_line)
		entry->way = BEHIND_CALL;
}

static void fill_entry(const struct block_code *code, const struct decode_sample *sample,
		       struct behind_entry *entry)
{
	struct ways ways[DECODE_MAX_BEHIND + 1] = { { .address = sample->ip } };

	find_lengths(code, sample, entry);
	for (unsigned i = 0; i < entry->n; i++)
		ways[i + 1].address = ways[i].address - entry->lengths[i];
	decode_targets_find(code->targets, code->memory, sample, ways, entry->n + 1);
	while (!entry->is_begin && (entry->n_if_line == 0 || is_free(&ways[entry->n_if_line])) &&
	       is_line(code, sample, entry, ways, entry->n_if_line))
		entry->n_if_line++;
	entry->n_line = is_free(&ways[0]) ? entry->n_if_line : 0;
	entry->pops_frame = entry->n_line > 0 && pops_frame(code, sample);
	find_way(code, sample, ways, entry);
}

const struct behind_entry *decode_block_entry(const struct block_code *code,
					      const struct decode_sample *sample)
{
	struct behind_entry *entry = decode_behind_entry(code->behind, sample->process, sample->ip);
	uint64_t version = decode_code_version(code->memory, sample, sample->ip - BEHIND_LOOK_BYTES,
					       sample->ip + BEHIND_LOOK_BYTES - 1);

	if (entry->address != sample->ip || entry->process != sample->process ||
	    entry->version != version)
		fill_entry(code, sample, entry);
	entry->version = version;
	return entry;
}

/* What the instruction makes of a probe in one register. It must not write memory. */
static struct value try_probe(struct machine *machine, const struct instruction *instruction,
			      unsigned reg, uint64_t probe)
{
	struct value kept[REG_COUNT], result;

	memcpy(kept, machine->regs, sizeof(kept));
	machine->regs[reg] = value_exact(probe);
	machine->next = instruction->address + instruction->bytes;
	decode_machine_prepare(machine, instruction);
	instruction->execute(machine, instruction);
	result = machine->regs[reg];
	memcpy(machine->regs, kept, sizeof(kept));
	return result;
}

/*
 * A register's value before the instruction. Found by running it on two values: the same distance
 * for both means that it adds a constant, and this is taken off again.
 */
static struct value before(struct machine *after, const struct instruction *instruction,
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

/* What may add a constant to a register, or leave it, and writes no memory when it does. */
static bool may_add(const struct instruction *instruction)
{
	static const execute_function adding[] = {
		decode_execute_add, decode_execute_sub, decode_execute_inc,
		decode_execute_dec, decode_execute_lea, decode_execute_cmovcc,
	};

	for (size_t i = 0; i < sizeof(adding) / sizeof(adding[0]); i++)
		if (instruction->execute == adding[i])
			return instruction->operands[0].kind == OPERAND_REG;
	return false;
}

uint64_t decode_block_moves_stack(const struct instruction *instruction)
{
	execute_function execute = instruction->execute;
	uint64_t n_bytes = 8;

	if (execute == decode_execute_call)
		return -n_bytes;
	if (execute == decode_execute_ret)
		return n_bytes + (instruction->operands[0].kind == OPERAND_IMMEDIATE
					  ? instruction->immediate & 0xffff
					  : 0);
	n_bytes = instruction->n_memory ? instruction->memory[instruction->n_memory - 1].size : 0;
	if (execute == decode_execute_push || execute == decode_execute_pushf)
		return -n_bytes;
	return execute == decode_execute_pop || execute == decode_execute_popf ? n_bytes : 0;
}

/* A register that the instruction wrote, before that. */
static struct value undo_register(struct machine *machine, const struct instruction *instruction,
				  unsigned reg)
{
	uint32_t written = instruction->regs_written & ~(1u << DECODE_IP | 1u << DECODE_FLAGS);
	const struct operand *to = &instruction->operands[0];
	uint64_t distance = reg == DECODE_SP ? decode_block_moves_stack(instruction) : 0;

	/* The frame's pointer is what the stack's was made from. */
	if (instruction->execute == decode_execute_leave && reg == DECODE_BP &&
	    instruction->width == 64)
		return value_subtract(machine->regs[DECODE_SP], value_exact(8), value_exact(0));
	if (distance && !(to->kind == OPERAND_REG && to->reg == DECODE_SP))
		return value_subtract(machine->regs[reg], value_exact(distance), value_exact(0));
	/* Alone: of two that are written each may depend on the old value of the other. */
	if (written != 1u << reg || instruction->n_memory || !may_add(instruction))
		return value_unknown();
	return before(machine, instruction, reg);
}

void decode_block_undo(struct machine *machine, const struct instruction *instruction)
{
	struct value old[DECODE_N_REGS];

	memcpy(old, machine->regs, sizeof(old));
	for (unsigned reg = 0; reg < DECODE_N_REGS; reg++)
		if (instruction->regs_written >> reg & 1)
			old[reg] = undo_register(machine, instruction, reg);
	memcpy(machine->regs, old, sizeof(old));
	machine_set_flags(machine, instruction->flags_written, value_unknown());
}

/* Whether nothing that is known of both differs. */
static bool agree(const struct value a[static DECODE_N_REGS],
		  const struct value b[static DECODE_N_REGS])
{
	for (unsigned i = 0; i < DECODE_N_REGS; i++)
		if (i != DECODE_IP && (a[i].bits ^ b[i].bits) & a[i].known & b[i].known)
			return false;
	return true;
}

bool decode_block_writes(const struct instruction *instruction)
{
	for (unsigned i = 0; i < instruction->n_memory; i++)
		if (instruction->memory[i].flags & MEMORY_WRITE)
			return true;
	return false;
}

/* Whether a call left its return address, as far as the stack is known. */
static bool has_pushed(struct machine *after, uint64_t address)
{
	struct value word =
		decode_machine_load(after, after->regs[DECODE_SP].bits, 8, MACHINE_READER_STACK);

	return ((word.bits ^ address) & word.known) == 0;
}

bool decode_block_undo_checked(struct machine *machine, const struct instruction *instruction,
			       uint64_t next, bool is_memory_as_then)
{
	struct value after[DECODE_N_REGS], old[DECODE_N_REGS];
	uint64_t end = instruction->address + instruction->bytes;

	if ((instruction->n_memory && !is_memory_as_then) || decode_block_writes(instruction)) {
		bool is_call = instruction->execute == decode_execute_call;
		bool may_be = !is_memory_as_then || !is_call || has_pushed(machine, end);

		decode_block_undo(machine, instruction);
		return may_be;
	}
	memcpy(after, machine->regs, sizeof(after));
	decode_block_undo(machine, instruction);
	memcpy(old, machine->regs, sizeof(old));
	machine->next = end;
	machine->end = MACHINE_GOES_ON;
	decode_machine_prepare(machine, instruction);
	instruction->execute(machine, instruction);
	bool may_be = (machine->end != MACHINE_GOES_ON || machine->next == next) &&
		      agree(machine->regs, after);
	memcpy(machine->regs, old, sizeof(old));
	return may_be;
}

/* ---- Registers that a load has replaced ---- */

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

	there.ip = walk->address;
	const struct behind_entry *entry = decode_block_entry(walk->code, &there);
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

/*
 * What an instruction makes of a register, from the machine before it. What it loads may have
 * changed since: of that only the zeros count with which a short word is extended.
 */
static struct value make(struct machine *machine, const struct instruction *instruction,
			 unsigned reg)
{
	if (decode_block_writes(instruction) || decode_execute_is_flow(instruction->execute))
		return value_unknown();
	machine->regs[reg] = value_unknown();
	machine->next = instruction->address + instruction->bytes;
	for (unsigned i = 0; i < instruction->n_memory; i++)
		machine->addresses[i] = value_unknown();
	instruction->execute(machine, instruction);
	struct value made = machine->regs[reg];
	bool is_loaded = instruction->n_memory && (made.bits || value_is_exact(made));
	return is_loaded ? value_unknown() : made;
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
	machine->regs[reg] = value_unite(machine->regs[reg], value);
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

/* ---- Accesses ---- */

/* What is known of where an operand with an index that is open accesses. */
static void note_range(const struct machine *machine, const struct instruction *instruction,
		       unsigned i, struct decode_access *access)
{
	if (access->state != DECODE_UNKNOWN_REGISTER)
		return;
	access->range = decode_machine_range(machine, instruction, &instruction->memory[i],
					     &access->address);
	if (access->range)
		access->state = DECODE_WITHIN;
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
			.state = is_known ? decode_memory_state(operand) : DECODE_UNKNOWN_REGISTER,
			.is_read = operand->flags & MEMORY_READ,
			.is_write = operand->flags & MEMORY_WRITE,
		};
		note_range(machine, instruction, i, &ret_accesses[i]);
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
	const struct behind_entry entry = *decode_block_entry(code, sample);
	uint64_t address = sample->ip;
	struct machine machine;

	window->n_behind = 0;
	decode_machine_init(&machine, code->memory, sample);
	for (unsigned i = 0; i < entry.n_line; i++) {
		address -= entry.lengths[i];
		const struct instruction *found = code->find(code->user, sample, address);
		if (!found || found->bytes != entry.lengths[i] ||
		    decode_execute_is_flow(found->execute))
			break;
		const struct instruction instruction = *found;
		decode_block_undo(&machine, &instruction);
		if (i == 0 && entry.pops_frame)
			machine.regs[DECODE_BP] = machine.regs[DECODE_SP];
		decode_recall(code, &machine, &instruction);
		note(&machine, &instruction, i + 1, window);
	}
}

/* ---- Of the window and of ways ---- */

/* The range of a repeated string instruction: from rcx and the direction flag. */
static void apply_repeat(const struct machine *machine, const struct instruction *instruction,
			 struct decode_access *access)
{
	struct value n = machine_get_reg(machine, DECODE_CX, instruction->address_width);
	struct value flags = machine->regs[DECODE_FLAGS];

	if (!value_is_exact(n) || !(flags.known & FLAG_DIRECTION) ||
	    instruction->repeat == REPEAT_UNTIL) {
		/* Without a bit that is set in the count there may be no repetition. */
		if (access->state == DECODE_RESOLVED)
			access->state = n.bits ? DECODE_FIRST_ONLY : DECODE_BASE_ONLY;
		return;
	}
	access->count = n.bits > UINT32_MAX ? UINT32_MAX : (uint32_t)n.bits;
	if (access->state == DECODE_RESOLVED && flags.bits & FLAG_DIRECTION)
		access->address -= (uint64_t)(access->count - 1) * access->size;
}

static uint8_t find_state(const struct machine *machine, const struct memory_operand *operand,
			  struct value address)
{
	if (!value_is_exact(address))
		return operand->flags & MEMORY_GS ||
				       (operand->flags & MEMORY_FS && !machine->fs_base)
			       ? DECODE_UNKNOWN_SEGMENT
			       : DECODE_UNKNOWN_REGISTER;
	return decode_memory_state(operand);
}

bool decode_is_repeated_never(const struct machine *machine, const struct instruction *instruction)
{
	struct value n = machine_get_reg(machine, DECODE_CX, instruction->address_width);

	return instruction->repeat != REPEAT_NONE && value_is_exact(n) && n.bits == 0;
}

void decode_fill_access(const struct machine *machine, const struct instruction *instruction,
			unsigned i, struct decode_access *ret_access)
{
	const struct memory_operand *operand = &instruction->memory[i];

	*ret_access = (struct decode_access){
		.ip = instruction->address,
		.address = machine->addresses[i].bits,
		.size = operand->size,
		.count = operand->count,
		.state = find_state(machine, operand, machine->addresses[i]),
		.is_read = operand->flags & MEMORY_READ,
		.is_write = operand->flags & MEMORY_WRITE,
	};
	note_range(machine, instruction, i, ret_access);
	if (instruction->repeat != REPEAT_NONE)
		apply_repeat(machine, instruction, ret_access);
}

/* Whether the stack pointer is as it was sampled. */
static bool is_level(const struct machine *machine)
{
	struct value stack_pointer = machine->regs[DECODE_SP];

	return value_is_exact(stack_pointer) &&
	       stack_pointer.bits == machine->sample->regs[DECODE_SP];
}

/*
 * Whether the functions that were called and go on were called from where the sample's were: one
 * that is called twice in a turn is there twice.
 */
static bool has_callers(struct machine *machine)
{
	const struct decode_sample *sample = machine->sample;

	for (unsigned i = 0; i < machine->n_calls && i < MACHINE_CALLS; i++) {
		uint64_t then, offset = machine->calls[i] - sample->regs[DECODE_SP];

		if (offset + sizeof(then) > sample->stack_bytes || offset >= DECODE_STACK_BYTES)
			continue;
		memcpy(&then, (const uint8_t *)sample->stack + offset, sizeof(then));
		struct value now = decode_machine_load(machine, machine->calls[i], sizeof(then),
						       MACHINE_READER_STACK);
		if ((now.bits ^ then) & now.known)
			return false;
	}
	return true;
}

bool decode_is_loop_closed(struct machine *machine, const struct decode_sample *sample)
{
	return machine->next == sample->ip && is_level(machine) && has_callers(machine);
}
