#include "decode/past.h"

#include <string.h>

#include "decode/x86/execute.h"

#define MAX_STORES (2 * DECODE_MAX_TURN)
#define MAX_ROUNDS 3u

struct step {
	struct instruction instruction;
	struct value before[DECODE_N_REGS]; /* as far as it is known from what ran later */
};

struct range {
	uint64_t address;
	uint64_t n_bytes;
};

static const struct range everywhere = { 0, UINT64_MAX };

struct solver {
	const struct block_code *code;
	const struct decode_sample *at_ip;
	struct decode_sample sample; /* without stack: it is of ip's time */
	const struct slots *slots;
	unsigned n;
	struct step steps[DECODE_MAX_TURN]; /* nearest first */
	struct range stores[MAX_STORES]; /* of the way so far */
	unsigned n_stores;
	bool is_lost; /* one of them at an unknown address */
	struct range written[DECODE_MAX_TURN]
			    [INSTRUCTION_MAX_MEMORY]; /* by each step; 0: nothing */
	bool is_guessing; /* what is not known of memory; what is known goes before */
	bool is_open; /* a word that was loaded is not known */
	bool has_news; /* a register came to be known, going back */
	unsigned n_first; /* words that are as some later load tells from the begin on */
	struct machine_word first[MACHINE_WORDS];
	struct past *past;
};

static bool unite(struct value *value, struct value more)
{
	bool agrees = !((value->bits ^ more.bits) & value->known & more.known);

	*value = value_unite(*value, more);
	return agrees;
}

static const struct value none_carried = { 0, UINT64_MAX };

static struct value sum(struct value a, struct value b)
{
	return value_add(a, b, none_carried);
}

static struct value difference(struct value a, struct value b)
{
	return value_subtract(a, b, none_carried);
}

/* ---- Back ---- */

/* What the result tells of the register that it was made of: that, and what is known of it. */
static unsigned find_source(const struct instruction *instruction, struct value result,
			    struct value *ret_value)
{
	const struct operand *to = &instruction->operands[0], *from = &instruction->operands[1];
	const struct memory_operand *lea = &instruction->memory[0];
	bool is_reg = from->kind == OPERAND_REG && from->shift == 0 && to->shift == 0;
	uint64_t mask = 0;

	*ret_value = result;
	if ((instruction->execute == decode_execute_mov ||
	     instruction->execute == decode_execute_movsx) &&
	    is_reg) {
		mask = value_mask(from->bits);
	} else if (instruction->execute == decode_execute_widen) {
		mask = value_mask(instruction->width / 2);
		from = to;
	}
	if (mask) {
		ret_value->known &= mask;
		ret_value->bits &= mask;
		return instruction->execute == decode_execute_widen ? DECODE_AX : from->reg;
	}
	if (instruction->execute == decode_execute_shl && from->kind == OPERAND_IMMEDIATE &&
	    to->bits == 64) {
		*ret_value = (struct value){ result.bits >> (instruction->immediate & 63),
					     result.known >> (instruction->immediate & 63) };
		return to->reg;
	}
	if (instruction->execute != decode_execute_lea || to->bits != 64 ||
	    lea->flags & MEMORY_32BIT || (lea->base != REG_ZERO && lea->index != REG_ZERO) ||
	    !value_is_exact(result))
		return REG_ZERO;
	unsigned shift = lea->base == REG_ZERO && lea->scale ? __builtin_ctz(lea->scale) : 0;
	*ret_value = (struct value){ (result.bits - (uint64_t)lea->displacement) >> shift,
				     UINT64_MAX >> shift };
	return lea->base == REG_ZERO ? lea->index : lea->base;
}

#define CALLEE_SAVED (1u << DECODE_BX | 1u << DECODE_BP | 1u << DECODE_SP | 0xfu << (DECODE_R8 + 4))
#define MAX_CALLS    8u

/* What functions leave as it was, at the end of those that the way went back into. */
struct kept {
	unsigned n;
	struct value regs[MAX_CALLS][DECODE_N_REGS];
};

/*
 * Back over a function's end, and over its call: there is again what it had to leave alone. And
 * over a register that is saved: on the stack it still is.
 */
static void go_through(struct kept *kept, struct machine *machine,
		       const struct instruction *instruction, const struct value *after)
{
	unsigned reg = instruction->operands[0].reg;

	if (instruction->execute == decode_execute_ret && kept->n < MAX_CALLS) {
		memcpy(kept->regs[kept->n++], after, sizeof(kept->regs[0]));
	} else if (instruction->execute == decode_execute_call && kept->n > 0) {
		kept->n--;
		for (reg = 0; reg < DECODE_N_REGS; reg++)
			if (CALLEE_SAVED >> reg & 1 && !value_is_exact(machine->regs[reg]))
				machine->regs[reg] = kept->regs[kept->n][reg];
	} else if (instruction->execute == decode_execute_push && kept->n == 0 &&
		   instruction->operands[0].kind == OPERAND_REG &&
		   value_is_exact(after[DECODE_SP])) {
		machine->regs[reg] = decode_machine_load(machine, after[DECODE_SP].bits, 8,
							 MACHINE_READER_STACK);
	}
}

static struct value result_of(const struct instruction *instruction, const struct value *after)
{
	if (instruction->execute == decode_execute_widen)
		return after[DECODE_AX];
	return instruction->operands[0].kind == OPERAND_REG ? after[instruction->operands[0].reg]
							    : value_unknown();
}

/* Whether an instruction has popped the frame's pointer, before a ret. */
static bool pops_frame(const struct solver *solver, const struct instruction *instruction)
{
	struct decode_sample behind = solver->sample;

	if (instruction->execute != decode_execute_pop ||
	    !(instruction->regs_written >> DECODE_BP & 1))
		return false;
	behind.ip = instruction->address + instruction->bytes;
	return decode_block_entry(solver->code, &behind)->pops_frame;
}

static bool go_back(struct solver *solver, const struct turn_entry *way)
{
	struct kept kept = { .n = 0 };
	bool is_memory_as_then = true;
	uint64_t next = solver->sample.ip;
	struct machine machine;

	decode_machine_init(&machine, solver->code->memory, solver->at_ip);
	for (solver->n = 0; solver->n < way->n; solver->n++) {
		struct step *step = &solver->steps[solver->n];
		const struct instruction *found = solver->code->find(
			solver->code->user, &solver->sample,
			solver->sample.ip + (uint64_t)(int64_t)way->offsets[solver->n]);
		struct value result, source, after[DECODE_N_REGS];

		if (!found)
			return false;
		memcpy(after, machine.regs, sizeof(after));
		step->instruction = *found;
		found = &step->instruction;
		result = result_of(found, after);
		if (!decode_block_undo_checked(&machine, found, next, is_memory_as_then))
			return false;
		if (pops_frame(solver, found))
			machine.regs[DECODE_BP] = machine.regs[DECODE_SP];
		unsigned reg = find_source(found, result, &source);
		if (reg < DECODE_N_REGS && reg != DECODE_IP && !unite(&machine.regs[reg], source))
			return false;
		if (way->has_calls)
			go_through(&kept, &machine, found, after);
		memcpy(step->before, machine.regs, sizeof(step->before));
		is_memory_as_then = is_memory_as_then && !decode_block_writes(found);
		next = found->address;
	}
	return true;
}

/* ---- What the sample has of the stack ---- */

static bool overlaps(const struct range *range, uint64_t address, uint64_t n_bytes)
{
	return address - range->address < range->n_bytes || range->address - address < n_bytes;
}

/* Where the steps store, as far as the registers before them are known. */
static void find_written(struct solver *solver, struct machine *machine)
{
	for (unsigned i = 0; i < solver->n; i++) {
		const struct step *step = &solver->steps[i];

		memcpy(machine->regs, step->before, sizeof(step->before));
		for (unsigned k = 0; k < step->instruction.n_memory; k++) {
			const struct memory_operand *operand = &step->instruction.memory[k];
			struct value address =
				decode_machine_address(machine, &step->instruction, operand);
			bool is_known = value_is_exact(address) &&
					step->instruction.repeat == REPEAT_NONE &&
					!(operand->flags & (MEMORY_GATHER | MEMORY_OPEN_END));

			solver->written[i][k] =
				!(operand->flags & MEMORY_WRITE) ? (struct range){ 0, 0 }
				: is_known ? (struct range){ address.bits, (uint64_t)operand->size *
										   operand->count }
					   : everywhere;
		}
	}
}

/*
 * Bytes of the stack in front of a step, or behind it: those of the sample, if nothing has stored
 * there since.
 */
static struct value find_sampled(const struct solver *solver, unsigned i, bool is_behind,
				 struct range at)
{
	if (at.n_bytes == 0 || at.n_bytes > 8)
		return value_unknown();
	for (unsigned later = 0; later < i + !is_behind; later++)
		for (unsigned k = 0; k < solver->steps[later].instruction.n_memory; k++)
			if (overlaps(&solver->written[later][k], at.address, at.n_bytes))
				return value_unknown();
	return decode_machine_sampled(solver->at_ip, at.address, (unsigned)at.n_bytes);
}

/* What a step loads. False: it cannot have come that way. */
static bool load_sampled(const struct solver *solver, struct machine *machine, unsigned i)
{
	const struct instruction *instruction = &solver->steps[i].instruction;

	for (unsigned k = 0; k < instruction->n_memory; k++) {
		const struct memory_operand *operand = &instruction->memory[k];
		struct value address = machine->addresses[k];

		if (!(operand->flags & MEMORY_READ) || !value_is_exact(address) ||
		    operand->count != 1)
			continue;
		struct value sampled = find_sampled(solver, i, false,
						    (struct range){ address.bits, operand->size });
		if (!sampled.known)
			continue;
		struct value word = decode_machine_load(machine, address.bits, operand->size,
							MACHINE_READER_STACK);
		if (!unite(&word, sampled))
			return false;
		decode_machine_store(machine, address.bits, operand->size, word);
	}
	return true;
}

/* What is found out of a register before a step. */
static bool tell(struct solver *solver, struct value *before, struct value more)
{
	more.bits &= more.known;
	solver->has_news = solver->has_news || (more.known & ~before->known) != 0;
	return unite(before, more);
}

/* A sum of two registers and one of them tell the other. */
static bool solve_sum(struct solver *solver, const struct instruction *instruction,
		      const struct value *after, struct value *before)
{
	const struct operand *to = &instruction->operands[0], *from = &instruction->operands[1];
	bool is_sum = instruction->execute == decode_execute_add;

	if ((!is_sum && instruction->execute != decode_execute_sub) || to->kind != OPERAND_REG ||
	    from->kind != OPERAND_REG || to->bits < 32 || to->bits != from->bits)
		return true;
	struct value result = after[to->reg], a = before[to->reg], b = before[from->reg];
	struct value first = is_sum ? difference(result, b) : sum(result, b);
	struct value second = is_sum ? difference(result, a) : difference(a, result);
	if (to->reg == from->reg) {
		if (!is_sum)
			return true;
		/* The highest bit is gone. */
		first = (struct value){ result.bits >> 1, result.known >> 1 };
		first.known &= value_mask(to->bits - 1);
		second = first;
	}
	first.known &= value_mask(to->bits);
	second.known &= value_mask(to->bits);
	return tell(solver, &before[to->reg], first) && tell(solver, &before[from->reg], second);
}

/* The same of an address that was computed. */
static bool solve_lea(struct solver *solver, const struct instruction *instruction,
		      const struct value *after, struct value *before)
{
	const struct operand *to = &instruction->operands[0];
	const struct memory_operand *lea = &instruction->memory[0];

	if (instruction->execute != decode_execute_lea || to->bits != 64 ||
	    lea->flags & (MEMORY_32BIT | MEMORY_FS | MEMORY_GS) || lea->base >= DECODE_N_REGS ||
	    lea->index >= DECODE_N_REGS || lea->base == lea->index || lea->base == DECODE_IP ||
	    !lea->scale)
		return true;
	unsigned shift = (unsigned)__builtin_ctz(lea->scale);
	struct value rest = difference(after[to->reg], value_exact((uint64_t)lea->displacement));
	struct value index = difference(rest, before[lea->base]);
	struct value base = difference(rest, value_shift_left(before[lea->index], shift));
	index = (struct value){ index.bits >> shift, index.known >> shift };
	return tell(solver, &before[lea->base], base) && tell(solver, &before[lea->index], index);
}

/* A word that was stored tells the register that it is of. */
static bool solve_store(struct solver *solver, unsigned i)
{
	struct step *step = &solver->steps[i];
	const struct operand *to = &step->instruction.operands[0];
	const struct operand *from = &step->instruction.operands[1];

	if (step->instruction.execute != decode_execute_mov || to->kind != OPERAND_MEMORY ||
	    from->kind != OPERAND_REG || from->shift)
		return true;
	return tell(solver, &step->before[from->reg],
		    find_sampled(solver, i, true, solver->written[i][0]));
}

/*
 * Back once more, with what going forward has told since. False: it cannot have come that way.
 */
static bool go_back_again(struct solver *solver)
{
	for (unsigned i = 0; i < solver->n; i++) {
		struct step *step = &solver->steps[i];
		uint32_t written =
			step->instruction.regs_written | 1u << DECODE_IP | 1u << DECODE_FLAGS;
		struct value after[DECODE_N_REGS];

		for (unsigned reg = 0; reg < DECODE_N_REGS; reg++) {
			after[reg] = i ? solver->steps[i - 1].before[reg]
				       : value_exact(solver->sample.regs[reg]);
			if (!(written >> reg & 1) && !tell(solver, &step->before[reg], after[reg]))
				return false;
		}
		if (!solve_store(solver, i) ||
		    !solve_sum(solver, &step->instruction, after, step->before) ||
		    !solve_lea(solver, &step->instruction, after, step->before))
			return false;
		struct value source;
		unsigned reg = find_source(&step->instruction, result_of(&step->instruction, after),
					   &source);
		if (reg < DECODE_N_REGS && reg != DECODE_IP &&
		    !tell(solver, &step->before[reg], source))
			return false;
	}
	return true;
}

/* ---- And forward ---- */

static bool has_stored(const struct solver *solver, uint64_t address, uint64_t n_bytes)
{
	for (unsigned i = 0; i < solver->n_stores; i++)
		if (overlaps(&solver->stores[i], address, n_bytes))
			return true;
	return solver->is_lost || solver->n_stores == MAX_STORES;
}

/* A word that was loaded is what the register got. */
static void learn(struct solver *solver, struct machine *machine,
		  const struct instruction *instruction, const struct value *after)
{
	const struct operand *to = &instruction->operands[0], *from = &instruction->operands[1];
	struct value address = machine->addresses[0];

	if ((instruction->execute != decode_execute_mov &&
	     instruction->execute != decode_execute_movsx) ||
	    to->kind != OPERAND_REG || to->shift || from->kind != OPERAND_MEMORY ||
	    !value_is_exact(address) || instruction->memory[0].size > 8) {
		solver->is_open =
			solver->is_open || (instruction->n_memory > 0 && !value_is_exact(address));
		return;
	}
	unsigned n_bytes = instruction->memory[0].size;
	struct value word =
		decode_machine_load(machine, address.bits, n_bytes, MACHINE_READER_DATA);
	struct value read = after[to->reg];
	uint64_t mask = value_mask(n_bytes * 8);

	read.bits &= mask;
	read.known &= mask;
	solver->is_open = solver->is_open || ((read.known | word.known) & mask) != mask;
	if (!(read.known & ~word.known) || !unite(&word, read))
		return;
	decode_machine_store(machine, address.bits, n_bytes, word);
	if (solver->n_first < MACHINE_WORDS && !has_stored(solver, address.bits, n_bytes) &&
	    (word.known & mask) == mask && (n_bytes == 4 || n_bytes == 8))
		solver->first[solver->n_first++] =
			(struct machine_word){ .address = address.bits,
					       .value = { word.bits & mask, mask } };
}

static void note_stores(struct solver *solver, const struct machine *machine,
			const struct instruction *instruction)
{
	for (unsigned i = 0; i < instruction->n_memory; i++) {
		const struct memory_operand *operand = &instruction->memory[i];

		if (!(operand->flags & MEMORY_WRITE))
			continue;
		if (!value_is_exact(machine->addresses[i]) || solver->n_stores == MAX_STORES)
			solver->is_lost = true;
		else
			solver->stores[solver->n_stores++] =
				(struct range){ machine->addresses[i].bits,
						(uint64_t)operand->size * operand->count };
	}
}

static bool run_step(struct solver *solver, struct machine *machine, unsigned i)
{
	struct step *step = &solver->steps[i];
	const struct instruction *instruction = &step->instruction;
	struct past *past = solver->past;
	struct value after[DECODE_N_REGS];

	for (unsigned reg = 0; reg < DECODE_N_REGS; reg++) {
		if (solver->is_guessing) {
			machine->regs[reg].known &= ~step->before[reg].known;
			machine->regs[reg].bits &= machine->regs[reg].known;
		}
		if (reg != DECODE_IP && !unite(&machine->regs[reg], step->before[reg]))
			return false;
		step->before[reg] = machine->regs[reg];
		after[reg] = i ? solver->steps[i - 1].before[reg]
			       : value_exact(solver->sample.regs[reg]);
	}
	machine->next = instruction->address + instruction->bytes;
	machine->end = MACHINE_GOES_ON;
	decode_machine_prepare(machine, instruction);
	/* From the last one on: the nearest is to be the first. */
	past->n_accesses -= instruction->n_memory;
	decode_block_accesses(machine, instruction, past->accesses + past->n_accesses);
	for (unsigned k = 0; k < instruction->n_memory; k++)
		past->accesses[past->n_accesses + k].position = (uint16_t)(i + 1);
	if (!load_sampled(solver, machine, i))
		return false;
	instruction->execute(machine, instruction);
	note_stores(solver, machine, instruction);
	learn(solver, machine, instruction, after);
	return true;
}

/* Slots that were so before the way began: else they are what the way itself stores. */
static void take_slots(const struct solver *solver, bool has_calls, struct machine *machine)
{
	struct slots before = { .n = 0 };

	for (unsigned i = 0; i < solver->slots->n && !has_calls; i++) {
		const struct slot *slot = &solver->slots->slots[i];
		bool is_stored = false;

		for (unsigned k = 0; k < solver->n; k++)
			is_stored = is_stored ||
				    decode_slots_is_stored(slot, &solver->steps[k].instruction);
		if (!is_stored)
			before.slots[before.n++] = *slot;
	}
	decode_slots_take(&before, machine);
}

static bool go_forward(struct solver *solver, bool has_calls, struct machine *machine)
{
	struct past *past = solver->past;

	decode_machine_init(machine, solver->code->memory, &solver->sample);
	machine->is_guessing = solver->is_guessing;
	find_written(solver, machine);
	for (unsigned reg = 0; reg < DECODE_N_REGS; reg++)
		machine->regs[reg] = value_unknown();
	take_slots(solver, has_calls, machine);
	for (unsigned i = 0; i < solver->n_first; i++)
		decode_machine_store(machine, solver->first[i].address,
				     (unsigned)__builtin_popcountll(solver->first[i].value.known) /
					     8,
				     solver->first[i].value);
	solver->n_stores = 0;
	solver->is_lost = false;
	solver->is_open = false;
	past->n_accesses = 0;
	for (unsigned i = 0; i < solver->n; i++)
		past->n_accesses += solver->steps[i].instruction.n_memory;
	for (unsigned i = solver->n; i > 0; i--)
		if (!run_step(solver, machine, i - 1))
			return false;
	for (unsigned i = 0; i < solver->n; i++)
		past->n_accesses += solver->steps[i].instruction.n_memory;
	for (unsigned reg = 0; reg < DECODE_N_REGS && !solver->is_guessing; reg++) {
		uint64_t known = machine->regs[reg].known;

		if (reg != DECODE_IP && reg != DECODE_FLAGS &&
		    (machine->regs[reg].bits ^ solver->sample.regs[reg]) & known)
			return false;
	}
	return true;
}

/*
 * Back and forward again, as long as a word or a register comes to be known by it. False: it cannot
 * have come that way.
 */
static bool go_again(struct solver *solver, bool has_calls, struct machine *machine)
{
	unsigned n_first = 0;

	for (unsigned i = 0; i < MAX_ROUNDS; i++) {
		solver->has_news = solver->n_first > n_first;
		n_first = solver->n_first;
		if (solver->is_open && !go_back_again(solver))
			return false;
		if (!solver->has_news)
			return true;
		if (!go_forward(solver, has_calls, machine))
			return false;
	}
	return true;
}

static bool solve(struct solver *solver, const struct turn_entry *way, struct machine *machine)
{
	if (go_back(solver, way) && go_forward(solver, way->has_calls, machine) &&
	    go_again(solver, way->has_calls, machine))
		return true;
	solver->past->n_accesses = 0;
	return false;
}

static void begin(struct solver *solver, const struct block_code *code,
		  const struct decode_sample *sample, const struct slots *slots)
{
	solver->code = code;
	solver->at_ip = sample;
	solver->sample = *sample;
	solver->sample.stack = NULL;
	solver->sample.below = NULL;
	solver->slots = slots;
	solver->n_first = 0;
	solver->is_guessing = false;
}

bool decode_past_solve(const struct block_code *code, const struct decode_sample *sample,
		       const struct slots *slots, const struct turn_entry *way,
		       struct past *ret_past)
{
	struct solver solver;
	struct machine machine;

	begin(&solver, code, sample, slots);
	solver.past = ret_past;
	ret_past->n_accesses = 0;
	ret_past->words_used = 0;
	if (!solve(&solver, way, &machine))
		return false;
	/* What the function's own words are they stay, wherever it stored. */
	decode_slots_take(slots, &machine);
	ret_past->words_used = machine.words_used & machine.words_stable;
	memcpy(ret_past->words, machine.words, sizeof(machine.words));
	return true;
}

bool decode_past_guess(const struct block_code *code, const struct decode_sample *sample,
		       const struct slots *slots, const struct turn_entry *way,
		       struct past *ret_past)
{
	struct solver solver;
	struct machine machine;

	begin(&solver, code, sample, slots);
	solver.past = ret_past;
	ret_past->words_used = 0;
	if (!solve(&solver, way, &machine))
		return false;
	solver.is_guessing = true;
	return go_forward(&solver, way->has_calls, &machine);
}

void decode_past_take(const struct past *past, struct machine *machine)
{
	memcpy(machine->words, past->words, sizeof(machine->words));
	machine->words_used = past->words_used;
	machine->words_stable = past->words_used;
}
