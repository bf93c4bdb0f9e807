#include "decode/hoisted.h"

#include <string.h>

#include "decode/decoder.h"
#include "decode/x86/execute.h"

#define MAX_STEPS 128u /* instructions that are walked over */
#define MAX_WAYS  32u /* that are still to be walked */
#define ALL_REGS  (UINT64_MAX >> (64 - VECTOR_REGS - MASK_REGS))

/* Registers that are still to be found on a way to `address`. */
struct way {
	uint64_t address;
	uint64_t regs;
};

/* What is being found out: the registers that came to be known, each by all ways so far. */
struct search {
	const struct block_code *code;
	struct decode_sample sample; /* ip is that of the way */
	struct way ways[MAX_WAYS];
	unsigned n_ways;
	struct way seen[MAX_STEPS];
	unsigned n_seen;
	uint64_t known; /* set to a constant on some way, ... */
	uint64_t refuted; /* ... and on another to something else, or to what is not known */
	struct vector values[VECTOR_REGS + MASK_REGS];
	struct vectors vectors; /* of the machine that tries an instruction */
};

static void add_way(struct search *search, uint64_t address, uint64_t regs)
{
	regs &= ~search->refuted;
	for (unsigned i = 0; i < search->n_seen; i++)
		if (search->seen[i].address == address)
			regs &= ~search->seen[i].regs;
	if (!regs)
		return;
	if (search->n_ways == MAX_WAYS || search->n_seen == MAX_STEPS) {
		search->refuted |= regs;
		return;
	}
	search->seen[search->n_seen++] = (struct way){ address, regs };
	search->ways[search->n_ways++] = (struct way){ address, regs };
}

static bool is_same(const struct vector *a, const struct vector *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* What is not known to leave registers as they are, and does not say which it writes. */
static bool may_set_any(const struct instruction *instruction)
{
	static const execute_function setting[] = {
		decode_execute_call,
		decode_execute_vzeroupper,
		decode_execute_vzeroall,
		decode_execute_restore,
	};

	for (size_t i = 0; i < sizeof(setting) / sizeof(setting[0]); i++)
		if (instruction->execute == setting[i])
			return true;
	return instruction->bytes == 0;
}

static bool is_gather(const struct instruction *instruction)
{
	return instruction->n_memory > 0 && instruction->memory[0].flags & MEMORY_GATHER;
}

static void forget_vectors(struct machine *machine, const struct instruction *instruction)
{
	machine->vectors->known &= ~instruction->vectors_written;
	machine->vectors->masks_known &= (uint8_t)~instruction->masks_written;
}

/* General registers before each of the instructions that ran right before, nearest first. */
struct undone {
	struct value regs[DECODE_MAX_BEHIND][REG_COUNT];
	unsigned n;
};

/* Take back what ran right before, as far as it can be run again: nothing is stored. */
static void undo_line(const struct block_code *code, const struct decode_sample *sample,
		      struct machine *machine, struct undone *ret_undone)
{
	const struct behind_entry entry = *decode_block_entry(code, sample);
	unsigned n = 0;

	machine->next = sample->ip;
	for (; n < entry.n_line; n++) {
		uint64_t address = machine->next - entry.lengths[n];
		const struct instruction *found = code->find(code->user, sample, address);

		if (!found || found->bytes != entry.lengths[n] || may_set_any(found) ||
		    decode_execute_is_flow(found->execute) || decode_block_writes(found))
			break;
		const struct instruction instruction = *found;
		decode_block_undo(machine, &instruction);
		forget_vectors(machine, &instruction);
		machine->next = address;
		memcpy(ret_undone->regs[n], machine->regs, sizeof(machine->regs));
	}
	ret_undone->n = n;
}

/* What is known of a register either way is true. */
static void take_known(struct machine *machine, const struct value *regs)
{
	for (unsigned i = 0; i < REG_COUNT; i++) {
		machine->regs[i].known |= regs[i].known;
		machine->regs[i].bits |= regs[i].bits;
	}
}

void decode_hoisted_run_line(const struct block_code *code, const struct decode_sample *sample,
			     struct machine *machine)
{
	struct undone undone;

	undo_line(code, sample, machine, &undone);
	while (undone.n > 0 && machine->end == MACHINE_GOES_ON) {
		const struct instruction *found = code->find(code->user, sample, machine->next);

		if (!found)
			return;
		const struct instruction instruction = *found;
		take_known(machine, undone.regs[--undone.n]);
		decode_machine_prepare(machine, &instruction);
		machine->next += instruction.bytes;
		if (is_gather(&instruction)) /* of more memory than it is worth */
			forget_vectors(machine, &instruction);
		else
			instruction.execute(machine, &instruction);
	}
}

/*
 * What the instruction makes of registers and memory of which nothing is known but what ran right
 * before it: a mask may be made of a constant in a general register.
 */
static struct vector result_of(struct search *search, const struct instruction *instruction,
			       unsigned reg)
{
	static const struct vector none;
	struct decode_sample before = search->sample;
	struct machine machine;

	before.ip = instruction->address;
	decode_machine_init(&machine, search->code->memory, &before);
	decode_vectors_init(&machine, &search->vectors);
	for (unsigned i = 0; i < DECODE_N_REGS; i++)
		machine.regs[i] = value_unknown();
	decode_machine_lose_data(&machine);
	decode_hoisted_run_line(search->code, &before, &machine);
	machine.next = instruction->address + instruction->bytes;
	decode_machine_prepare(&machine, instruction);
	instruction->execute(&machine, instruction);
	if (reg >= VECTOR_REGS)
		return (struct vector){ .words[0] = decode_mask_read(&machine, reg - VECTOR_REGS) };
	return search->vectors.known >> reg & 1 ? search->vectors.regs[reg] : none;
}

/* The instruction sets registers on this way: the first to do so, or to the same as others. */
static void take_result(struct search *search, const struct instruction *instruction, uint64_t regs)
{
	for (; regs; regs &= regs - 1) {
		unsigned reg = (unsigned)__builtin_ctzll(regs);
		struct vector value = result_of(search, instruction, reg);
		uint64_t bit = UINT64_C(1) << reg;

		if (value.words[0].known != UINT64_MAX ||
		    (search->known & bit && !is_same(&value, &search->values[reg])))
			search->refuted |= bit;
		search->known |= bit;
		search->values[reg] = value;
	}
}

/* Walk back over the instruction at an address; what it does not set is looked for before it. */
static void walk_over(struct search *search, uint64_t address, uint64_t regs)
{
	const struct instruction *found =
		search->code->find(search->code->user, &search->sample, address);

	if (!found || may_set_any(found)) {
		search->refuted |= regs;
		return;
	}
	const struct instruction instruction = *found;
	uint64_t set = regs & (instruction.vectors_written | (uint64_t)instruction.masks_written
								     << VECTOR_REGS);
	take_result(search, &instruction, set);
	add_way(search, address, regs & ~set);
}

static void step(struct search *search, const struct way *way)
{
	search->sample.ip = way->address;
	const struct behind_entry entry = *decode_block_entry(search->code, &search->sample);
	bool is_line = entry.way == BEHIND_LINE || entry.way == BEHIND_EITHER;
	bool is_branch = entry.way == BEHIND_BRANCH || entry.way == BEHIND_EITHER;

	if (!is_line && !is_branch) {
		search->refuted |= way->regs;
		return;
	}
	if (is_line)
		walk_over(search, way->address - entry.lengths[0], way->regs);
	if (is_branch)
		walk_over(search, entry.source, way->regs);
}

static void fill(struct hoisted *hoisted, const struct block_code *code,
		 const struct decode_sample *sample)
{
	struct search search = { .code = code, .sample = *sample };

	search.sample.vectors = NULL;
	add_way(&search, sample->ip, ALL_REGS);
	while (search.n_ways > 0) {
		struct way way = search.ways[--search.n_ways];

		way.regs &= ~search.refuted;
		if (way.regs)
			step(&search, &way);
	}
	for (uint64_t found = search.known & ~search.refuted; found && hoisted->n < HOISTED_MAX;
	     found &= found - 1) {
		unsigned reg = (unsigned)__builtin_ctzll(found);

		hoisted->regs[hoisted->n].reg = (uint8_t)reg;
		hoisted->regs[hoisted->n++].value = search.values[reg];
	}
}

const struct hoisted *decode_hoisted_find(struct hoisted_cache *cache,
					  const struct block_code *code,
					  const struct decode_sample *sample)
{
	uint64_t hash =
		(sample->ip ^ (uint64_t)sample->process << 40) * UINT64_C(0x9e3779b97f4a7c15);
	struct hoisted *hoisted = &cache->sets[(hash >> 40) % HOISTED_SETS];
	uint64_t version = decode_code_version(code->memory, sample, sample->ip - BEHIND_LOOK_BYTES,
					       sample->ip + BEHIND_LOOK_BYTES - 1);

	if (hoisted->address == sample->ip && hoisted->process == sample->process &&
	    hoisted->version == version)
		return hoisted;
	hoisted->address = sample->ip;
	hoisted->process = sample->process;
	hoisted->version = version;
	hoisted->n = 0;
	fill(hoisted, code, sample);
	return hoisted;
}

void decode_hoisted_take(const struct hoisted *hoisted, struct machine *machine)
{
	for (unsigned i = 0; i < hoisted->n; i++) {
		unsigned reg = hoisted->regs[i].reg;

		if (reg < VECTOR_REGS)
			decode_vector_set(machine, reg, &hoisted->regs[i].value);
		else
			decode_mask_write(machine, reg - VECTOR_REGS,
					  hoisted->regs[i].value.words[0]);
	}
}
