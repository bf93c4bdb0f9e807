/*
 * Which instruction finished last before a sample: how the code came to ip, and what that touched.
 */
#include "decode/stall.h"

#include <string.h>

#include "decode/x86/execute.h"

/*
 * The instructions that ran last before ip, nearest first. Copies: what find returns is soon gone.
 */
struct last {
	unsigned n;
	struct instruction instructions[DECODE_MAX_BEHIND];
};

static void set_state(struct decode_window *window, enum decode_stall stall, uint64_t ip)
{
	window->stall = stall;
	window->stall_ip = ip;
	for (uint32_t i = 0; i < window->n_stalled; i++)
		window->stalled[i].share = 1.0f / (float)window->n_stalled;
}

/* From accesses that were found already; those of one position follow each other. */
static void take_accesses(struct decode_window *window, unsigned position)
{
	for (uint32_t i = 0; i < window->n_accesses; i++)
		if (window->accesses[i].position == position &&
		    window->n_stalled < DECODE_MAX_STALLED)
			window->stalled[window->n_stalled++] = window->accesses[i];
}

static bool is_one_of(const struct instruction *instruction, const execute_function *functions,
		      size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (instruction->execute == functions[i])
			return true;
	return false;
}

/* A comparison or addition right before a branch is one operation with it. */
static bool is_fused(const struct instruction *instruction)
{
	static const execute_function fused[] = {
		decode_execute_cmp, decode_execute_test, decode_execute_add, decode_execute_sub,
		decode_execute_and, decode_execute_inc,	 decode_execute_dec,
	};

	return is_one_of(instruction, fused, sizeof(fused) / sizeof(fused[0]));
}

static bool add_last(const struct block_code *code, const struct decode_sample *sample,
		     uint64_t address, struct last *last)
{
	const struct instruction *found = code->find(code->user, sample, address);

	if (!found || found->bytes == 0)
		return false;
	last->instructions[last->n++] = *found;
	return true;
}

/* Those of the straight line, as far as nothing else leads between them. */
static void find_line(const struct block_code *code, const struct decode_sample *sample,
		      const struct behind_entry *entry, struct last *last)
{
	uint64_t address = sample->ip;

	last->n = 0;
	for (unsigned i = 0; i < entry->n_if_line; i++) {
		address -= entry->lengths[i];
		if (!add_last(code, sample, address, last))
			return;
	}
}

static void find_branch(const struct block_code *code, const struct decode_sample *sample,
			const struct behind_entry *entry, struct last *last)
{
	last->n = 0;
	if (add_last(code, sample, entry->source, last) && entry->fused_bytes)
		add_last(code, sample, entry->source - entry->fused_bytes, last);
}

/* Whether registers, flags and stack are as these instructions leave them. */
static bool may_have_run(const struct block_code *code, const struct decode_sample *sample,
			 const struct last *last)
{
	struct machine machine;
	uint64_t next = sample->ip;
	bool is_memory_as_then = true;

	decode_machine_init(&machine, code->memory, sample);
	for (unsigned i = 0; i < last->n; i++) {
		const struct instruction *instruction = &last->instructions[i];

		if (i > 0 && decode_execute_is_flow(instruction->execute))
			break;
		if (!decode_block_undo_checked(&machine, instruction, next, is_memory_as_then))
			return false;
		is_memory_as_then = is_memory_as_then && !decode_block_writes(instruction);
		next = instruction->address;
	}
	return true;
}

/* What takes a cycle or two when its registers are there. */
static bool is_quick(const struct instruction *instruction)
{
	static const execute_function quick[] = {
		decode_execute_mov,   decode_execute_movsx, decode_execute_lea, decode_execute_or,
		decode_execute_xor,   decode_execute_not,   decode_execute_neg, decode_execute_shl,
		decode_execute_shr,   decode_execute_sar,   decode_execute_rol, decode_execute_ror,
		decode_execute_widen,
	};

	return instruction->n_memory == 0 &&
	       (is_fused(instruction) ||
		is_one_of(instruction, quick, sizeof(quick) / sizeof(quick[0])));
}

static bool reads_of(const struct instruction *instruction, const struct instruction *before)
{
	for (unsigned i = 0; i < INSTRUCTION_MAX_OPERANDS; i++)
		if (instruction->operands[i].kind == OPERAND_REG &&
		    before->regs_written >> instruction->operands[i].reg & 1)
			return true;
	return false;
}

/*
 * Intel's processors may take an interrupt one instruction late: when the load that was waited for
 * has finished, and what needs its value (Sapphire Rapids: 64 and 93 % of the samples of a chain of
 * loads, two runs). That takes a cycle, a load four at least: a quarter of the samples behind the
 * load would be behind it. Where there is more than half as many, it was the load.
 */
static bool is_late(struct ways_cache *ways, const struct decode_sample *sample,
		    const struct last *last)
{
	const struct instruction *at = &last->instructions[0];

	return last->n > 1 && is_quick(at) && at[1].n_memory == 1 && !decode_block_writes(&at[1]) &&
	       !decode_execute_is_flow(at[1].execute) && reads_of(at, &at[1]) &&
	       decode_ways_count(ways, sample, sample->ip) >
		       2 + decode_ways_count(ways, sample, at->address) / 2;
}

/* Samples behind a load, or one instruction late. */
static uint32_t count_behind(const struct block_code *code, struct ways_cache *ways,
			     const struct decode_sample *sample, uint64_t behind)
{
	const struct instruction *next = code->find(code->user, sample, behind);
	uint64_t late = next && is_quick(next) ? behind + next->bytes : 0;

	return decode_ways_count(ways, sample, behind) +
	       (late ? decode_ways_count(ways, sample, late) : 0);
}

/* A branch that is one operation with a quick comparison; back to a loop's begin it is foreseen. */
static bool is_branch(const struct last *last)
{
	return last->instructions[0].execute == decode_execute_jcc && last->n > 1 &&
	       is_quick(&last->instructions[1]);
}

static bool may_be_missed(const struct last *last)
{
	const struct instruction *at = &last->instructions[0];

	return is_branch(last) && at->immediate > at->address;
}

/* Samples at the last instruction, or what it is one operation with. */
static uint32_t count_before(struct ways_cache *ways, const struct decode_sample *sample,
			     const struct last *last)
{
	const struct instruction *at = &last->instructions[0];

	return decode_ways_count(ways, sample, at->address) +
	       (is_branch(last) ? decode_ways_count(ways, sample, at[1].address) : 0);
}

/* Whether ip is at a load, and behind what is quick: that is not what was waited for. */
static const struct instruction *load_behind_quick(const struct block_code *code,
						   const struct decode_sample *sample,
						   const struct last *last)
{
	const struct instruction *load = code->find(code->user, sample, sample->ip);
	bool is_behind = is_quick(&last->instructions[0]) || is_branch(last);

	return is_behind && load && load->n_memory == 1 && !decode_block_writes(load) &&
			       !decode_execute_is_flow(load->execute)
		       ? load
		       : NULL;
}

/*
 * Or while the load waits, at its own address (other Xeons: 6 to 30 % of the samples of chains of
 * loads, once most). Behind a quick instruction, where the code has hardly waited for those
 * before, that is the load's if some were behind it; else nothing is said, nor where more than
 * twice as many samples are behind the load, nor behind a branch that may not have been foreseen.
 * Returns whether that is all to say.
 */
static bool stall_at_load(const struct block_code *code, struct ways_cache *ways,
			  const struct decode_sample *sample, const struct last *last,
			  struct decode_window *window)
{
	const struct instruction *at = &last->instructions[0];
	const struct instruction *load = load_behind_quick(code, sample, last);
	struct machine machine;

	if (!load)
		return false;
	uint32_t n = decode_ways_count(ways, sample, sample->ip);
	uint32_t n_behind = count_behind(code, ways, sample, sample->ip + load->bytes);
	bool is_peak = last->n > 1 && !(at[1].n_memory && reads_of(at, &at[1])) &&
		       n > 2 + 4 * count_before(ways, sample, last);
	if (!is_peak || n_behind <= n / 8 || may_be_missed(last))
		return is_peak || n_behind > 2 * n;
	decode_machine_init(&machine, code->memory, sample);
	window->n_stalled = decode_block_accesses(&machine, load, window->stalled);
	set_state(window, DECODE_STALL_ACCESS, sample->ip);
	return true;
}

/*
 * Or where a store waits for room in the store buffer, which any store before it may take: at its
 * own address, behind what is quick (70 % of the samples of random stores, model 167). They are
 * that store's, of which the caller knows that another one may be to blame. Where they are some
 * more than those at the one before nothing is said. Returns whether that is all to say.
 */
static bool stall_at_store(const struct block_code *code, struct ways_cache *ways,
			   const struct decode_sample *sample, const struct last *last,
			   struct decode_window *window)
{
	const struct instruction *at = &last->instructions[0];
	const struct instruction *store = code->find(code->user, sample, sample->ip);
	struct machine machine;

	if (!(is_quick(at) || is_branch(last)) || !store || store->n_memory != 1 ||
	    !decode_block_writes(store) || store->memory[0].flags & MEMORY_READ ||
	    decode_execute_is_flow(store->execute))
		return false;
	uint32_t n = decode_ways_count(ways, sample, sample->ip);
	uint32_t n_before = count_before(ways, sample, last);
	if (n <= 2 + 4 * n_before || may_be_missed(last))
		return n > 2 + 2 * n_before;
	decode_machine_init(&machine, code->memory, sample);
	window->n_stalled = decode_block_accesses(&machine, store, window->stalled);
	set_state(window, DECODE_STALL_ACCESS, sample->ip);
	return true;
}

/*
 * The time was lost on the last instruction, or on what a branch is one operation with. Where that
 * accessed is what its registers were before it, as far as the sample still tells them.
 */
static void stall_at(const struct block_code *code, struct ways_cache *ways,
		     const struct decode_sample *sample, const struct last *last,
		     struct decode_window *window)
{
	const struct instruction *at = &last->instructions[0];
	struct machine machine;

	bool late = last->n > 0 && is_late(ways, sample, last);

	if (last->n == 0 || stall_at_load(code, ways, sample, last, window) ||
	    (!late && stall_at_store(code, ways, sample, last, window)))
		return;
	decode_machine_init(&machine, code->memory, sample);
	decode_block_undo(&machine, at);
	if ((at->execute == decode_execute_jcc && last->n > 1 && at[1].n_memory &&
	     is_fused(&at[1])) ||
	    late) {
		at++;
		decode_block_undo(&machine, at);
	}
	decode_recall(code, &machine, at);
	window->n_stalled = decode_block_accesses(&machine, at, window->stalled);
	set_state(window, window->n_stalled ? DECODE_STALL_ACCESS : DECODE_STALL_CODE, at->address);
}

/* A word that the call right before ip stored. */
static void stall_at_push(struct decode_window *window, uint64_t ip, uint64_t address)
{
	window->stalled[window->n_stalled++] = (struct decode_access){
		.ip = ip,
		.address = address,
		.size = 8,
		.count = 1,
		.state = DECODE_RESOLVED,
		.is_write = true,
	};
	set_state(window, DECODE_STALL_ACCESS, ip);
}

/*
 * At the begin of a function the word at the stack pointer tells the call, if that is a direct one.
 */
static void stall_at_call(const struct block_code *code, const struct decode_sample *sample,
			  struct decode_window *window)
{
	uint64_t back;

	if (!sample->stack || sample->stack_bytes < sizeof(back))
		return;
	memcpy(&back, sample->stack, sizeof(back));
	const struct instruction *call = code->find(code->user, sample, back - 5);
	if (call && call->bytes == 5 && call->execute == decode_execute_call &&
	    call->immediate == sample->ip)
		stall_at_push(window, call->address, sample->regs[DECODE_SP]);
}

/* Whether it may have come from the instruction right before ip. */
static bool may_be_line(const struct block_code *code, const struct decode_sample *sample,
			const struct last *line)
{
	return line->n > 0 && (line->instructions[0].execute == decode_execute_call ||
			       may_have_run(code, sample, line));
}

/* Of two ways to ip the one that registers and flags allow, if they refute the other. */
static void choose(const struct block_code *code, const struct decode_sample *sample,
		   const struct behind_entry *entry, struct last *ret_last)
{
	struct last line;

	find_line(code, sample, entry, &line);
	find_branch(code, sample, entry, ret_last);
	bool is_line = may_be_line(code, sample, &line);
	bool is_branch = ret_last->n > 0 && may_have_run(code, sample, ret_last);
	if (is_line && !is_branch && line.instructions[0].execute != decode_execute_call)
		*ret_last = line;
	else if (is_line || !is_branch)
		ret_last->n = 0;
}

static void stall_before(const struct block_code *code, struct ways_cache *ways,
			 const struct decode_sample *sample, struct decode_window *window)
{
	const struct behind_entry entry = *decode_block_entry(code, sample);
	struct last last = { .n = 0 };

	switch ((enum behind_way)entry.way) {
	case BEHIND_LINE:
		find_line(code, sample, &entry, &last);
		break;
	case BEHIND_BRANCH:
		find_branch(code, sample, &entry, &last);
		break;
	case BEHIND_EITHER:
		choose(code, sample, &entry, &last);
		break;
	case BEHIND_RETURN:
		if (entry.source)
			add_last(code, sample, entry.source, &last);
		break;
	case BEHIND_CALL:
		stall_at_call(code, sample, window);
		break;
	default:
		break;
	}
	stall_at(code, ways, sample, &last, window);
}

/* Of operands that cannot be undone, those of the next turn; of a gather the last lane. */
static void add_next_turn(struct decode_window *window)
{
	uint32_t n = 0;

	for (uint32_t i = window->n_accesses; i > 0 && n < window->n_stalled; i--) {
		const struct decode_access *next = &window->accesses[i - 1];
		struct decode_access *access = &window->stalled[window->n_stalled - n - 1];

		if (next->ip != access->ip)
			continue;
		n++;
		if ((access->state != DECODE_UNKNOWN_REGISTER &&
		     access->state != DECODE_BASE_ONLY) ||
		    next->state != DECODE_RESOLVED)
			continue;
		access->state = DECODE_NEXT_TURN;
		access->address = next->address;
	}
}

/*
 * In a loop what ran before ip is what the window ends with, where only one way leads there: the
 * turn before may have come in another one, or the loop may just have been entered.
 */
static void stall_in_loop(const struct block_code *code, struct ways_cache *ways,
			  const struct decode_sample *sample, struct decode_window *window)
{
	const struct behind_entry entry = *decode_block_entry(code, sample);
	struct last last = { .n = 0 };

	/* Where nothing can be read before ip, the window is all there is. */
	if (entry.way == BEHIND_UNKNOWN && (entry.n > 0 || entry.is_begin))
		return;
	if (entry.way == BEHIND_RETURN && !entry.source)
		return;
	if (entry.way == BEHIND_EITHER)
		choose(code, sample, &entry, &last);
	else if (add_last(code, sample, window->end_ip, &last) && window->n_instructions >= 2)
		add_last(code, sample, window->previous_ip, &last);
	if (last.n == 0 || !may_have_run(code, sample, &last))
		return;
	stall_at(code, ways, sample, &last, window);
	add_next_turn(window);
}

void decode_stall_find(const struct block_code *code, struct ways_cache *ways,
		       const struct decode_sample *sample, struct decode_window *window)
{
	window->stall = DECODE_STALL_UNKNOWN;
	window->stall_ip = 0;
	window->n_stalled = 0;
	if (window->n_instructions == 0)
		return;
	if (window->is_repeating) {
		/* It is interrupted between two of its repetitions. */
		take_accesses(window, 0);
		set_state(window, window->n_stalled ? DECODE_STALL_ACCESS : DECODE_STALL_CODE,
			  sample->ip);
	} else if (window->end == DECODE_END_LOOP) {
		stall_in_loop(code, ways, sample, window);
	} else {
		stall_before(code, ways, sample, window);
	}
}
