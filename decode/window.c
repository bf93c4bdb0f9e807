#include "decode/decode.h"

#include "decode/block.h"
#include "decode/decoder.h"
#include "decode/hoisted.h"
#include "decode/stall.h"
#include "decode/x86/execute.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_ADDRESS UINT64_C(0x10000) /* nothing is mapped below (vm.mmap_min_addr) */
#define MAX_GUESSED   192u /* instructions */

int decode_create(unsigned machine, const struct decode_memory *memory, size_t cache_entries,
		  struct decoder **ret_decoder)
{
	struct decoder *decoder;

	if (machine != DECODE_MACHINE_X86_64)
		return -EOPNOTSUPP;
	if (!memory->code)
		return -EINVAL;
	decoder = calloc(1, sizeof(*decoder));
	if (!decoder)
		return -ENOMEM;
	decoder->memory = *memory;
	decoder->estimators = DECODE_ESTIMATORS;
	int err = decode_cache_init(&decoder->cache,
				    cache_entries ? cache_entries : DECODE_CACHE_ENTRIES);
	if (err < 0) {
		free(decoder);
		return err;
	}
	*ret_decoder = decoder;
	return 0;
}

struct decoder *decode_destroy(struct decoder *decoder)
{
	if (decoder) {
		decode_cache_finish(&decoder->cache);
		decode_targets_finish(&decoder->targets);
	}
	free(decoder);
	return NULL;
}

void decode_invalidate(struct decoder *decoder, uint32_t process, uint64_t start, uint64_t end)
{
	decode_cache_drop(&decoder->cache, process, start, end);
	decode_behind_drop(&decoder->behind, process, start, end);
	decode_targets_drop(&decoder->targets, process, start, end);
	decode_turn_drop(&decoder->turns, process, start, end);
	decode_slots_drop(&decoder->slots, process, start, end);
	decode_ways_drop(&decoder->ways, process, start, end);
}

void decode_set_estimators(struct decoder *decoder, unsigned estimators)
{
	decoder->estimators = estimators;
}

void decode_set_ahead_only(struct decoder *decoder, bool is_ahead_only)
{
	decoder->is_ahead_only = is_ahead_only;
}

void decode_set_guessing(struct decoder *decoder, bool is_guessing)
{
	decoder->is_guessing = is_guessing;
}

uint64_t decode_n_decoded(const struct decoder *decoder)
{
	return decoder->n_decoded;
}

/* Decode what is not in the cache. NULL: there are no, or not enough, bytes of code. */
static const struct instruction *decode_new(struct decoder *decoder,
					    const struct decode_sample *sample, uint64_t address,
					    uint64_t version)
{
	uint8_t code[INSTRUCTION_MAX_BYTES];
	struct instruction instruction;

	size_t n_bytes = decoder->memory.code(decoder->memory.user, sample->process, address,
					      sample->time, code, sizeof(code));
	if (n_bytes == 0)
		return NULL;
	decoder->n_decoded++;
	int err = decode_instruction_fill(code, n_bytes, address, &instruction);
	if (err == -EAGAIN)
		return NULL;
	if (err < 0)
		instruction =
			(struct instruction){ .address = address, .execute = decode_execute_trap };
	instruction.process = sample->process;
	instruction.version = version;
	return decode_cache_add(&decoder->cache, &instruction);
}

const struct instruction *decode_find_instruction(struct decoder *decoder,
						  const struct decode_sample *sample,
						  uint64_t address)
{
	uint64_t version = decode_code_version(&decoder->memory, sample, address,
					       address + INSTRUCTION_MAX_BYTES - 1);
	const struct instruction *instruction =
		decode_cache_find(&decoder->cache, sample->process, address, version);

	return instruction ? instruction : decode_new(decoder, sample, address, version);
}

/* The accesses that an instruction may need room for. */
static unsigned count_room(const struct instruction *instruction)
{
	unsigned n = 0;

	for (unsigned i = 0; i < instruction->n_memory; i++) {
		const struct memory_operand *operand = &instruction->memory[i];

		n += operand->flags & MEMORY_GATHER ? operand->count + 1u
		     : operand->mask != MASK_NONE   ? operand->lanes
						    : 1;
	}
	return n;
}

/* Add `from` with another address and size. */
static void add_part(struct decode_window *window, const struct decode_access *from,
		     uint64_t address, uint32_t size, enum decode_state state)
{
	struct decode_access *access = &window->accesses[window->n_accesses++];

	*access = *from;
	access->address = address;
	access->size = size;
	access->state = (uint8_t)state;
}

/*
 * The lanes of a gather or scatter, each for itself where its index and mask are known; the others
 * are one access of so many elements.
 */
static void note_gather(struct decode_window *window, const struct machine *machine,
			const struct memory_operand *operand, const struct decode_access *from)
{
	struct value mask = decode_lanes_mask(machine, operand);
	struct value base =
		from->state == DECODE_BASE_ONLY ? value_exact(from->address) : value_unknown();
	struct decode_access rest = *from;

	rest.count = 0;
	for (unsigned i = 0; i < operand->count; i++) {
		struct value address = decode_lane_address(machine, operand, base, i);
		struct decode_access lane = *from;

		lane.count = 1;
		if (mask.known >> i & 1 && !(mask.bits >> i & 1))
			continue;
		if (mask.bits >> i & 1 && value_is_exact(address))
			add_part(window, &lane, address.bits, operand->size, DECODE_RESOLVED);
		else
			rest.count++;
	}
	if (rest.count > 0)
		window->accesses[window->n_accesses++] = rest;
}

/* Runs of the elements that a mask takes: together one access. */
static void note_runs(struct decode_window *window, const struct memory_operand *operand,
		      struct decode_access *from, uint64_t mask)
{
	from->n_parts = (uint8_t)__builtin_popcountll(mask & ~(mask << 1));
	for (unsigned i = 0; i < operand->lanes; i++) {
		unsigned start = i;

		while (i < operand->lanes && mask >> i & 1)
			i++;
		if (i > start)
			add_part(window, from, from->address + (uint64_t)start * operand->element,
				 (i - start) * operand->element, DECODE_RESOLVED);
	}
}

static void note_masked(struct decode_window *window, const struct machine *machine,
			const struct memory_operand *operand, struct decode_access *from)
{
	uint64_t lanes = value_mask(operand->lanes);
	struct value mask = decode_lanes_mask(machine, operand);
	bool is_known = (mask.known & lanes) == lanes;
	bool is_broadcast = operand->lanes * operand->element > operand->size;

	if (is_known && !(mask.bits & lanes))
		return;
	if (is_broadcast && mask.bits & lanes)
		add_part(window, from, from->address, operand->size, DECODE_RESOLVED);
	else if (!is_known || is_broadcast)
		window->accesses[window->n_accesses++] = *from;
	else if (operand->flags & MEMORY_PACKED)
		add_part(window, from, from->address,
			 (uint32_t)__builtin_popcountll(mask.bits & lanes) * operand->element,
			 DECODE_RESOLVED);
	else
		note_runs(window, operand, from, mask.bits & lanes);
}

static void note_accesses(struct decode_window *window, const struct machine *machine,
			  const struct instruction *instruction)
{
	struct decode_access access;

	if (decode_is_repeated_never(machine, instruction))
		return;
	for (unsigned i = 0; i < instruction->n_memory; i++) {
		const struct memory_operand *operand = &instruction->memory[i];

		decode_fill_access(machine, instruction, i, &access);
		access.position = (uint16_t)window->n_instructions;
		if (operand->flags & MEMORY_GATHER)
			note_gather(window, machine, operand, &access);
		else if (access.state == DECODE_MASKED)
			note_masked(window, machine, operand, &access);
		else
			window->accesses[window->n_accesses++] = access;
	}
}

/* Run one instruction. Returns false, with window->end set, when the window ends. */
static bool run_instruction(struct decoder *decoder, struct machine *machine,
			    struct decode_window *window)
{
	const struct decode_sample *sample = machine->sample;

	window->previous_ip = window->end_ip;
	window->end_ip = machine->next;
	if (machine->next < window->head_ip)
		window->head_ip = machine->next;
	const struct instruction *instruction =
		decode_find_instruction(decoder, sample, machine->next);
	if (!instruction || instruction->bytes == 0) {
		window->end = instruction ? DECODE_END_BAD_CODE : DECODE_END_NO_CODE;
		return false;
	}
	if (window->n_accesses + count_room(instruction) > DECODE_MAX_ACCESSES)
		return false;
	if (window->n_instructions == 0)
		window->is_repeating = instruction->repeat != REPEAT_NONE;
	decode_machine_prepare(machine, instruction);
	note_accesses(window, machine, instruction);
	machine->next += instruction->bytes;
	instruction->execute(machine, instruction);
	window->n_instructions++;
	if (window->n_block == 0 && decode_execute_is_flow(instruction->execute)) {
		window->n_block = window->n_instructions;
		if (instruction->execute == decode_execute_jcc && machine->end == MACHINE_GOES_ON) {
			decoder->branch = instruction->address;
			decoder->is_taken = machine->next == instruction->immediate;
		}
	}
	if (machine->end == MACHINE_GOES_ON && decode_is_loop_closed(machine, sample))
		machine->end = DECODE_END_LOOP;
	if (machine->end == MACHINE_GOES_ON)
		return true;
	window->end = machine->end;
	return false;
}

static const struct instruction *find_for_block(void *user, const struct decode_sample *sample,
						uint64_t address)
{
	return decode_find_instruction(user, sample, address);
}

static bool is_open(const struct decode_access *accesses, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!decode_state_has_address(accesses[i].state))
			return true;
	return false;
}

/* Whether a register is wanted that is not known, or not all of it. */
static bool is_register_open(const struct decode_access *access)
{
	return access->state == DECODE_UNKNOWN_REGISTER || access->state == DECODE_WITHIN;
}

/* An access of the same instruction that is known. */
static const struct decode_access *find_known(const struct decode_access *accesses, uint32_t n,
					      const struct decode_access *access)
{
	for (uint32_t i = 0; i < n; i++)
		if (accesses[i].ip == access->ip && accesses[i].state == DECODE_RESOLVED &&
		    accesses[i].is_write == access->is_write && accesses[i].size == access->size)
			return &accesses[i];
	return NULL;
}

/*
 * The access of the next turn that is not known, and of which `behind` is that of the turn before.
 */
static struct decode_access *find_next_turn(struct decode_window *window,
					    const struct decode_access *behind)
{
	for (uint32_t i = window->n_accesses; i > 0; i--) {
		struct decode_access *access = &window->accesses[i - 1];

		if (access->ip == behind->ip && is_register_open(access) &&
		    access->is_write == behind->is_write && access->size == behind->size &&
		    access->count == behind->count)
			return access;
	}
	return NULL;
}

/*
 * What a pointer that was loaded leads to is not known of the next turn, but of the turn before,
 * which ran right before ip: it stands for the other. What is known of both is kept out of behind.
 */
static void take_turn_before(struct decode_window *window)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < window->n_behind; i++) {
		struct decode_access behind = window->behind[i];
		struct decode_access *next =
			behind.state == DECODE_RESOLVED ? find_next_turn(window, &behind) : NULL;

		if (!next)
			continue;
		next->state = DECODE_TURN_BEFORE;
		window->behind[n++] = behind;
	}
	window->n_behind = n;
}

static struct block_code code_of(struct decoder *decoder)
{
	return (struct block_code){
		.memory = &decoder->memory,
		.behind = &decoder->behind,
		.targets = &decoder->targets,
		.find = find_for_block,
		.user = decoder,
	};
}

/* What surely ran right before ip, into decoder->past. */
static bool solve_way(struct decoder *decoder, const struct decode_sample *sample)
{
	const struct block_code code = code_of(decoder);
	const struct slots *slots = decode_slots_find(&decoder->slots, &code, sample);
	const struct turn_entry *way = decode_turn_way(&code, &decoder->turns, sample);

	return decode_past_solve(&code, sample, slots, way, &decoder->past);
}

/* Accesses before ip that are not known, where the way there was solved. */
static void take_past(const struct past *past, struct decode_access *accesses, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < past->n_accesses; k++)
			if (accesses[i].state == DECODE_UNKNOWN_REGISTER &&
			    past->accesses[k].ip == accesses[i].ip &&
			    past->accesses[k].is_write == accesses[i].is_write &&
			    (!accesses[i].position ||
			     past->accesses[k].position == accesses[i].position)) {
				float share = accesses[i].share;

				accesses[i] = past->accesses[k];
				accesses[i].share = share;
			}
}

/*
 * Of a turn that runs on the average: what is not known of what comes, and was accessed by the same
 * instruction on the way to ip, which is further than its block.
 */
static void take_line(const struct past *past, struct decode_window *window)
{
	uint32_t n = window->n_accesses + window->n_likely;

	for (uint32_t i = 0; i < n && window->n_behind < 2 * DECODE_MAX_TURN; i++) {
		struct decode_access *access = &window->accesses[i];
		const struct decode_access *known =
			access->share > 0 && is_register_open(access)
				? find_known(past->accesses, past->n_accesses, access)
				: NULL;

		if (!known)
			continue;
		window->behind[window->n_behind] = *known;
		window->behind[window->n_behind++].share = access->share;
		access->share = 0;
	}
}

/* The turn before ip, where the window ends with the branch that decides about another one. */
static void take_turn(struct decoder *decoder, const struct block_code *code,
		      const struct machine *machine, struct decode_window *window)
{
	const struct decode_sample *sample = machine->sample;
	const struct turn_entry *turn = decode_turn_find(code, &decoder->turns, machine, window);
	const struct slots *slots = decode_slots_find(&decoder->slots, code, sample);
	struct past *past = &decoder->past;

	if (!turn || (turn->n_sure < turn->n &&
		      decode_ways_is_usual(&decoder->ways, code, sample, turn->other, turn->taken)))
		return;
	if (!decode_past_solve(code, sample, slots, turn, past))
		return;
	memcpy(window->behind, past->accesses, past->n_accesses * sizeof(past->accesses[0]));
	window->n_behind = past->n_accesses;
	window->is_turn = true;
}

/* What is known before the window begins, beside the sample. */
struct start {
	const struct hoisted *hoisted; /* NULL: none */
	const struct past *past; /* NULL: none */
	bool is_guessing;
};

static void begin(struct decoder *decoder, struct machine *machine, const struct start *start)
{
	decode_machine_init(machine, &decoder->memory, machine->sample);
	decode_vectors_init(machine, &decoder->vectors);
	if (start->hoisted) {
		const struct block_code code = code_of(decoder);
		struct machine before;

		decode_hoisted_take(start->hoisted, machine);
		before = *machine; /* with the same vectors */
		decode_hoisted_run_line(&code, machine->sample, &before);
	}
	if (start->past)
		decode_past_take(start->past, machine);
	machine->is_guessing = start->is_guessing;
}

/* The whole turn, where a branch ends the window that variables on the stack decide. */
static void look_for_turn(struct decoder *decoder, const struct machine *machine,
			  const struct start *start, struct decode_window *window)
{
	const struct decode_sample *sample = machine->sample;
	const struct block_code code = code_of(decoder);
	bool is_plain = decode_turn_uses_frame(sample, window->accesses, window->n_accesses) ||
			decode_turn_uses_frame(sample, window->behind, window->n_behind);
	struct machine again;

	if (!is_plain && !decode_turn_reads_hidden(sample, window->accesses, window->n_accesses) &&
	    !decode_turn_reads_hidden(sample, window->behind, window->n_behind))
		return;
	again.sample = sample;
	if (is_plain)
		begin(decoder, &again, start);
	take_turn(decoder, &code, machine, window);
	if (!is_plain)
		return;
	decode_ways_weigh(&decoder->ways, &code, &again, window);
	if (window->is_expected)
		take_line(&decoder->past, window);
}

static void look_behind(struct decoder *decoder, const struct machine *machine,
			const struct start *start, struct decode_window *window)
{
	const struct decode_sample *sample = machine->sample;
	const struct block_code code = code_of(decoder);
	bool is_loop =
		window->end == DECODE_END_LOOP && (window->estimators & DECODE_BY_WINDOW) != 0;
	/* A closed loop that tells all of its accesses needs no block. */
	if (!is_loop || is_open(window->accesses, window->n_accesses))
		decode_block_behind(&code, sample, window);
	decode_stall_find(&code, &decoder->ways, sample, window);
	/* Other code hardly ever loads what it follows next out of its frame. */
	if (decoder->past.n_accesses == 0 &&
	    sample->regs[DECODE_BP] - sample->regs[DECODE_SP] < DECODE_STACK_BYTES &&
	    (is_open(window->behind, window->n_behind) ||
	     is_open(window->stalled, window->n_stalled)))
		solve_way(decoder, sample);
	take_past(&decoder->past, window->behind, window->n_behind);
	take_past(&decoder->past, window->stalled, window->n_stalled);
	if (is_loop)
		take_turn_before(window);
	else if (window->end == DECODE_END_UNKNOWN_BRANCH && window->estimators & DECODE_BY_WINDOW)
		look_for_turn(decoder, machine, start, window);
}

/* From the sample on; constants of vector registers are taken as far as they are told. */
static void run_window(struct decoder *decoder, struct machine *machine, const struct start *start,
		       unsigned max_instructions, struct decode_window *window)
{
	const struct decode_sample *sample = machine->sample;

	window->end_ip = sample->ip; /* loads of what ran before it count as its own */
	begin(decoder, machine, start);
	window->end = DECODE_END_LIMIT;
	window->head_ip = sample->ip;
	window->n_instructions = 0;
	window->n_block = 0;
	window->is_repeating = false;
	window->n_accesses = 0;
	decoder->branch = 0;
	while (window->n_instructions < max_instructions)
		if (!run_instruction(decoder, machine, window))
			break;
	if (window->n_block == 0)
		window->n_block = window->n_instructions;
}

/* Whether a mask, or an index of a gather, was wanted and is not known. */
static bool lacks_vectors(const struct decode_window *window)
{
	for (uint32_t i = 0; i < window->n_accesses; i++)
		if (window->accesses[i].state == DECODE_BASE_ONLY ||
		    window->accesses[i].state == DECODE_MASKED)
			return true;
	return false;
}

/* Whether the window reads variables of a function without optimisation that no sample has. */
static bool reads_variables(const struct decode_sample *sample, const struct decode_window *window)
{
	return decode_turn_reads_below(sample, window->accesses, window->n_accesses) ||
	       (decode_turn_uses_frame(sample, window->accesses, window->n_accesses) &&
		decode_turn_reads_hidden(sample, window->accesses, window->n_accesses));
}

/* What registers tell of such variables, and what ran right before. Whether there is any such. */
static bool look_past(struct decoder *decoder, const struct decode_sample *sample,
		      const struct decode_window *window)
{
	if ((window->end == DECODE_END_LOOP && !is_open(window->accesses, window->n_accesses)) ||
	    !reads_variables(sample, window))
		return false;
	return solve_way(decoder, sample) && decoder->past.words_used;
}

/* The addresses of decoder->next and round for those that are not known; not of what is no page. */
static void take_next(const struct decoder *decoder, enum decode_state state,
		      struct decode_access *accesses, uint32_t n)
{
	const struct decode_window *next = &decoder->next;
	const struct past *round = &decoder->round;

	for (uint32_t i = 0; i < n; i++) {
		const struct decode_access *known = NULL;

		if (!is_register_open(&accesses[i]))
			continue;
		known = find_known(next->accesses, next->n_accesses, &accesses[i]);
		if (!known)
			known = find_known(round->accesses, round->n_accesses, &accesses[i]);
		if (!known || known->address < LEAST_ADDRESS)
			continue;
		accesses[i].state = (uint8_t)state;
		accesses[i].address = known->address;
	}
}

static void take_all_next(const struct decoder *decoder, enum decode_state state,
			  struct decode_window *window)
{
	take_next(decoder, state, window->accesses, window->n_accesses + window->n_likely);
	take_next(decoder, state, window->behind, window->n_behind);
}

static bool is_any_open(const struct decode_window *window)
{
	return is_open(window->accesses, window->n_accesses + window->n_likely) ||
	       is_open(window->behind, window->n_behind);
}

/*
 * Of what is not known in a loop: where another turn accesses, if ip was come to in a turn and not
 * from the loop's entry.
 */
static void look_round(struct decoder *decoder, const struct decode_sample *sample,
		       const struct start *start, struct decode_window *window)
{
	const struct block_code code = code_of(decoder);
	struct start round = { start->hoisted, &decoder->round, false };
	struct machine machine = { .sample = sample };
	const struct turn_entry *turn = decode_turn_round(&code, &decoder->turns, sample);

	if (!turn)
		return;
	const struct slots *slots = decode_slots_find(&decoder->slots, &code, sample);
	if (!decode_past_solve(&code, sample, slots, turn, &decoder->round))
		return;
	run_window(decoder, &machine, &round, DECODE_MAX_INSTRUCTIONS, &decoder->next);
	take_all_next(decoder, DECODE_NEXT_TURN, window);
}

/* Where arrays begin that are accessed by an index which is not known. */
static void guess(struct decoder *decoder, const struct decode_sample *sample,
		  const struct start *start, struct decode_window *window)
{
	const struct block_code code = code_of(decoder);
	const struct slots *slots = decode_slots_find(&decoder->slots, &code, sample);
	const struct turn_entry *way = decode_turn_way(&code, &decoder->turns, sample);
	struct start guessing = { start->hoisted, start->past, true };
	struct machine machine = { .sample = sample };

	if (!decode_past_guess(&code, sample, slots, way, &decoder->round))
		decoder->round.n_accesses = 0;
	run_window(decoder, &machine, &guessing, MAX_GUESSED, &decoder->next);
	take_all_next(decoder, DECODE_FROM_BASE, window);
	take_next(decoder, DECODE_FROM_BASE, window->stalled, window->n_stalled);
}

int decode_window(struct decoder *decoder, const struct decode_sample *sample,
		  unsigned max_instructions, struct decode_window *ret_window)
{
	const struct block_code code = code_of(decoder);
	struct start start = { NULL, NULL, false };
	struct machine machine;

	if (max_instructions == 0 || max_instructions > DECODE_MAX_INSTRUCTIONS)
		return -EINVAL;
	ret_window->estimators = decoder->estimators;
	ret_window->stall = DECODE_STALL_UNKNOWN;
	ret_window->stall_ip = 0;
	ret_window->n_stalled = 0;
	ret_window->n_behind = 0;
	ret_window->is_turn = false;
	ret_window->is_expected = false;
	ret_window->n_likely = 0;
	decoder->past.n_accesses = 0;
	machine.sample = sample;
	run_window(decoder, &machine, &start, max_instructions, ret_window);
	if (!sample->vectors && lacks_vectors(ret_window)) {
		start.hoisted = decode_hoisted_find(&decoder->hoisted, &code, sample);
		run_window(decoder, &machine, &start, max_instructions, ret_window);
	}
	if (ret_window->n_instructions == 0 || decoder->is_ahead_only)
		return 0;
	/* Whoever asks for less asks for something else than a sample's time. */
	if (max_instructions == DECODE_MAX_INSTRUCTIONS)
		decode_ways_hit(&decoder->ways, sample);
	if (look_past(decoder, sample, ret_window)) {
		start.past = &decoder->past;
		run_window(decoder, &machine, &start, max_instructions, ret_window);
	}
	if (max_instructions == DECODE_MAX_INSTRUCTIONS && decoder->branch)
		decode_ways_decided(&decoder->ways, sample, decoder->branch, decoder->is_taken);
	look_behind(decoder, &machine, &start, ret_window);
	if (max_instructions < DECODE_MAX_INSTRUCTIONS || !is_any_open(ret_window) ||
	    !reads_variables(sample, ret_window))
		return 0;
	look_round(decoder, sample, &start, ret_window);
	if (decoder->is_guessing && is_any_open(ret_window))
		guess(decoder, sample, &start, ret_window);
	return 0;
}
