#include "decode/turn.h"

#include <string.h>

#include "decode/decoder.h"
#include "decode/x86/execute.h"
#include "decode/x86/machine.h"

#define FAR_BYTES (TARGETS_REACH_BYTES + 4096) /* code so far away may tell something */

/* What the stack may be, as seen from its pointer. */
#define STACK_BELOW (UINT64_C(64) << 10)
#define STACK_ABOVE (UINT64_C(1) << 20)

#define FRAME_BYTES 4096u

#define MAX_SURE  32u /* instructions of a way without goal: what is further back gives little */
#define MAX_CALLS 4u /* that a way goes back into, one in another */

/* The way back from ip to one of the two addresses that the branch goes to. */
struct search {
	const struct block_code *code;
	struct decode_sample sample; /* ip is where the way has come to */
	uint64_t ip;
	uint64_t goals[2]; /* 0: none, as far as is known */
	int64_t level; /* of the stack pointer at the goal, as seen from ip's */
	int64_t sp; /* where the way has come to, if is_sp_known */
	bool is_sp_known;
	bool has_chosen;
	int64_t begin_sp; /* that of ip's function at its begin, if has_begin_sp */
	bool has_begin_sp;
	unsigned n_calls;
	struct {
		uint64_t address; /* of the call */
		int64_t sp; /* behind it, if is_sp_known */
		bool is_sp_known;
	} calls[MAX_CALLS]; /* which have returned, the last one innermost */
	struct turn_entry *entry;
	bool is_round; /* the goal is ip itself */
};

static bool is_goal(const struct search *search, uint64_t address)
{
	return (address == search->goals[0] || address == search->goals[1]) &&
	       search->n_calls == 0 && search->is_sp_known && search->sp == search->level;
}

/* Where the stack pointer was before the instruction. False: what it does to it is not known. */
static bool move_stack_back(struct search *search, const struct instruction *instruction)
{
	const struct operand *by = &instruction->operands[1];
	bool is_sum = instruction->execute == decode_execute_add ||
		      instruction->execute == decode_execute_sub;
	int64_t distance = (int64_t)decode_block_moves_stack(instruction);

	if (!(instruction->regs_written >> DECODE_SP & 1))
		return true;
	/* Where the frame was is not known; behind it lies what the function has begun with. */
	if (instruction->execute == decode_execute_leave) {
		if (search->n_calls == 0) {
			search->begin_sp = search->sp;
			search->has_begin_sp = search->is_sp_known;
		}
		search->is_sp_known = false;
		return search->n_calls > 0 || search->has_begin_sp;
	}
	if (is_sum && by->kind == OPERAND_IMMEDIATE)
		distance = instruction->execute == decode_execute_add
				   ? (int64_t)instruction->immediate
				   : -(int64_t)instruction->immediate;
	search->sp -= distance;
	return distance != 0;
}

/* Code so near that what leads there is looked for, and which changes no more than ip's. */
static bool is_near(const struct search *search, uint64_t address)
{
	uint64_t distance = address - search->ip;

	if (distance + BEHIND_LOOK_BYTES < 2 * BEHIND_LOOK_BYTES)
		return true;
	return distance + TARGETS_REACH_BYTES < 2 * TARGETS_REACH_BYTES &&
	       decode_code_version(search->code->memory, &search->sample, address, address) == 0;
}

/* The instruction at an address goes on to where the search is. False: the way ends here. */
static bool take(struct search *search, uint64_t address, unsigned length)
{
	const struct instruction *instruction =
		search->code->find(search->code->user, &search->sample, address);
	struct turn_entry *entry = search->entry;

	if (!instruction || instruction->bytes == 0 || (length && instruction->bytes != length) ||
	    entry->n == (search->goals[0] ? DECODE_MAX_TURN : MAX_SURE) ||
	    !is_near(search, address) || !move_stack_back(search, instruction))
		return false;
	entry->offsets[entry->n++] = (int32_t)(address - search->ip);
	search->sample.ip = address;
	return true;
}

static bool is_flow(const struct search *search, uint64_t address)
{
	const struct instruction *instruction =
		search->code->find(search->code->user, &search->sample, address);

	return !instruction || (decode_execute_is_flow(instruction->execute) &&
				instruction->execute != decode_execute_jcc &&
				instruction->execute != decode_execute_jump);
}

static bool take_line(struct search *search, const struct behind_entry *way, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t address = search->sample.ip - way->lengths[i];

		if (is_flow(search, address))
			return i > 0;
		if (!take(search, address, way->lengths[i]))
			return false;
		if (is_goal(search, search->sample.ip))
			return true;
	}
	return n > 0;
}

/* Into the function that the call right before has called, from its end. */
static bool go_into(struct search *search, const struct behind_entry *way)
{
	if (!way->source || search->n_calls == MAX_CALLS)
		return false;
	search->calls[search->n_calls].address = search->sample.ip - way->lengths[0];
	search->calls[search->n_calls].is_sp_known = search->is_sp_known;
	search->calls[search->n_calls++].sp = search->sp;
	search->is_sp_known = true;
	search->entry->has_calls = true;
	return take(search, way->source, 0);
}

/* The call that the stack shows, of the function at whose begin the way has come. */
static uint64_t find_caller(struct search *search)
{
	struct turn_entry *entry = search->entry;
	uint64_t back;

	if (!search->is_sp_known || search->sp < 0 ||
	    (uint64_t)search->sp + sizeof(back) > search->sample.stack_bytes ||
	    entry->n_callers == TURN_CALLERS)
		return 0;
	memcpy(&back, (const uint8_t *)search->sample.stack + search->sp, sizeof(back));
	entry->callers[entry->n_callers].offset = (uint32_t)search->sp;
	entry->callers[entry->n_callers++].back = back;

	struct decode_sample behind = search->sample;
	behind.ip = back;
	const struct behind_entry *way = decode_block_entry(search->code, &behind);
	return way->n > 0 ? back - way->lengths[0] : 0;
}

/* From a function's begin to its caller. */
static bool go_out(struct search *search)
{
	uint64_t begin = search->sample.ip, address;
	const struct instruction *call;

	if (search->n_calls > 0) {
		address = search->calls[--search->n_calls].address;
		search->sp = search->calls[search->n_calls].sp - (int64_t)sizeof(address);
		search->is_sp_known = search->calls[search->n_calls].is_sp_known;
	} else {
		if (!search->is_sp_known && search->has_begin_sp) {
			search->sp = search->begin_sp;
			search->is_sp_known = true;
		}
		address = find_caller(search);
	}
	search->entry->has_calls = true;
	call = address ? search->code->find(search->code->user, &search->sample, address) : NULL;
	/* Of a call through a pointer the stack does not say what it called: this, maybe. */
	return call && call->execute == decode_execute_call &&
	       (call->operands[0].kind == OPERAND_IMMEDIATE ? call->immediate == begin
							    : search->goals[0] != 0) &&
	       take(search, address, 0);
}

/* One line, branch or call further, as long as there is one way only. */
static bool go_back(struct search *search, const struct behind_entry *way)
{
	if (way->way == BEHIND_RETURN)
		return go_into(search, way);
	if (way->way == BEHIND_CALL)
		return go_out(search);
	if (way->n_line > 0)
		return take_line(search, way, way->n_line);
	return way->way == BEHIND_BRANCH && take(search, way->source, 0);
}

static bool walk(struct search *search);

/* One of two ways, on a copy of what is found; and where it ends. */
static bool try_way(struct search *search, const struct behind_entry *way, bool is_line,
		    struct turn_entry *ret_found, uint64_t *ret_end)
{
	struct search trying = *search;

	*ret_found = *search->entry;
	trying.entry = ret_found;
	bool is_found = (is_line ? take_line(&trying, way, way->n_if_line)
				 : take(&trying, way->source, 0)) &&
			walk(&trying);
	*ret_end = trying.sample.ip;
	return is_found;
}

/* Whether an address lies among those of the way. */
static bool is_within(const struct search *search, const struct turn_entry *way, uint64_t address)
{
	int64_t offset = (int64_t)(address - search->ip), first = 0, last = 0;

	for (unsigned i = 0; i < way->n; i++) {
		first = way->offsets[i] < first ? way->offsets[i] : first;
		last = way->offsets[i] > last ? way->offsets[i] : last;
	}
	return offset >= first && offset <= last;
}

/*
 * Of a line and a branch one belongs to the loop, and the other one enters it. Where both come from
 * the goal they are two ways through the loop, and which one it was is not known; neither where one
 * is lost within it.
 */
static bool choose(struct search *search, const struct behind_entry *way)
{
	struct turn_entry by_line, by_branch;
	uint64_t line_end, branch_end;

	if (search->has_chosen || way->way != BEHIND_EITHER || !search->goals[0])
		return false;
	search->has_chosen = true;
	search->entry->n_sure = search->entry->n;
	uint64_t line_begin = search->sample.ip - way->lengths[0], branch_begin = way->source;
	bool is_line = try_way(search, way, true, &by_line, &line_end);
	bool is_branch = try_way(search, way, false, &by_branch, &branch_end);
	if (is_line == is_branch)
		return false;
	*search->entry = is_line ? by_line : by_branch;
	search->entry->taken = is_line ? line_begin : branch_begin;
	search->entry->other = is_line ? branch_begin : line_begin;
	return !is_within(search, search->entry, is_line ? branch_end : line_end);
}

static bool walk(struct search *search)
{
	while ((search->is_round && search->entry->n == 0) || !is_goal(search, search->sample.ip)) {
		const struct behind_entry way = *decode_block_entry(search->code, &search->sample);

		if (!go_back(search, &way))
			return choose(search, &way);
	}
	return true;
}

static void fill(const struct block_code *code, const struct decode_sample *sample,
		 const uint64_t goals[static 2], struct turn_entry *entry)
{
	struct search search = {
		.code = code,
		.sample = *sample,
		.ip = sample->ip,
		.level = entry->level,
		.is_sp_known = true,
		.goals = { goals[0], goals[1] },
		.entry = entry,
		.is_round = entry->branch == TURN_ROUND,
	};

	entry->is_turn = walk(&search);
	if (!search.has_chosen)
		entry->n_sure = entry->n;
}

/* Whether the functions that the way came through were called from where it says. */
static bool has_callers(const struct turn_entry *entry, const struct decode_sample *sample)
{
	for (unsigned i = 0; i < entry->n_callers; i++) {
		uint64_t back, offset = entry->callers[i].offset;

		if (offset + sizeof(back) > sample->stack_bytes)
			return false;
		memcpy(&back, (const uint8_t *)sample->stack + offset, sizeof(back));
		if (back != entry->callers[i].back)
			return false;
	}
	return true;
}

/* What the way back is to: the branch at `at`, or as TURN_WAY and TURN_ROUND say. */
struct aim {
	uint64_t at;
	uint64_t goals[2];
	int64_t level;
};

static const struct turn_entry *find_entry(const struct block_code *code, struct turn_cache *cache,
					   const struct decode_sample *sample,
					   const struct aim *aim)
{
	uint64_t at = aim->at;
	uint64_t hash = (sample->ip ^ at << 20 ^ (uint64_t)sample->process << 40) *
			UINT64_C(0x9e3779b97f4a7c15);
	struct turn_entry *entry = &cache->entries[hash >> 40 & (TURN_SETS - 1)];
	uint64_t version = decode_code_version(code->memory, sample, sample->ip - BEHIND_LOOK_BYTES,
					       sample->ip + BEHIND_LOOK_BYTES - 1);

	if (entry->address == sample->ip && entry->branch == at &&
	    entry->process == sample->process && entry->version == version &&
	    entry->level == aim->level && has_callers(entry, sample))
		return entry;
	*entry = (struct turn_entry){ .address = sample->ip,
				      .branch = at,
				      .version = version,
				      .level = aim->level,
				      .process = sample->process };
	fill(code, sample, aim->goals, entry);
	return entry;
}

bool decode_turn_is_stack(const struct decode_sample *sample, const struct decode_access *access)
{
	uint64_t lowest = sample->regs[DECODE_SP] - STACK_BELOW;

	return decode_state_has_address(access->state) &&
	       access->address - lowest < STACK_BELOW + STACK_ABOVE;
}

/* Whether all that decides about the branch lies on the stack, so that it counts or compares. */
static bool is_by_stack(const struct decode_sample *sample, const struct decode_window *window)
{
	for (uint32_t i = 0; i < window->n_accesses; i++)
		if (!decode_turn_is_stack(sample, &window->accesses[i]))
			return false;
	return window->n_accesses > 0;
}

bool decode_turn_reads_hidden(const struct decode_sample *sample,
			      const struct decode_access *accesses, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (accesses[i].is_read && decode_turn_is_stack(sample, &accesses[i]) &&
		    accesses[i].address - sample->regs[DECODE_SP] >= sample->stack_bytes)
			return true;
	return false;
}

bool decode_turn_reads_below(const struct decode_sample *sample,
			     const struct decode_access *accesses, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (accesses[i].is_read && decode_state_has_address(accesses[i].state) &&
		    sample->regs[DECODE_SP] - accesses[i].address - 1 < STACK_BELOW)
			return true;
	return false;
}

bool decode_turn_uses_frame(const struct decode_sample *sample,
			    const struct decode_access *accesses, uint32_t n)
{
	const uint64_t *regs = sample->regs;

	if (regs[DECODE_BP] - regs[DECODE_SP] > FRAME_BYTES)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (accesses[i].is_read && decode_state_has_address(accesses[i].state) &&
		    regs[DECODE_BP] - accesses[i].address - 1 < FRAME_BYTES)
			return true;
	return false;
}

const struct turn_entry *decode_turn_find(const struct block_code *code, struct turn_cache *cache,
					  const struct machine *machine,
					  const struct decode_window *window)
{
	const struct decode_sample *sample = machine->sample;
	struct value sp = machine->regs[DECODE_SP];
	const struct instruction *found = code->find(code->user, sample, window->end_ip);

	if (!found || found->execute != decode_execute_jcc || !value_is_exact(sp))
		return NULL;
	const struct aim aim = {
		.at = found->address,
		.goals = { found->immediate, found->address + found->bytes },
		.level = (int64_t)(sp.bits - sample->regs[DECODE_SP]),
	};
	const struct turn_entry *entry = find_entry(code, cache, sample, &aim);
	if (!entry->is_turn || (entry->n_sure < entry->n && !is_by_stack(sample, window)))
		return NULL;
	return entry;
}

const struct turn_entry *decode_turn_way(const struct block_code *code, struct turn_cache *cache,
					 const struct decode_sample *sample)
{
	return find_entry(code, cache, sample, &(struct aim){ .at = TURN_WAY });
}

const struct turn_entry *decode_turn_round(const struct block_code *code, struct turn_cache *cache,
					   const struct decode_sample *sample)
{
	const struct aim aim = { .at = TURN_ROUND, .goals = { sample->ip, sample->ip } };
	const struct turn_entry *entry = find_entry(code, cache, sample, &aim);

	return entry->is_turn ? entry : NULL;
}

void decode_turn_drop(struct turn_cache *cache, uint32_t process, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < TURN_SETS; i++) {
		struct turn_entry *entry = &cache->entries[i];
		if (entry->address && entry->process == process &&
		    entry->address + FAR_BYTES > start && entry->address - FAR_BYTES < end)
			entry->address = 0;
	}
}
