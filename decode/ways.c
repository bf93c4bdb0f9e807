#include "decode/ways.h"

#include <math.h>
#include <string.h>

#include "decode/decoder.h"
#include "decode/x86/execute.h"

/* None of these was swept: they were set once, and hold for the victims of decode-steps. */
#define PROBES		  8u /* places of a hash that are looked at */
#define LEAST_DECIDED	  8 /* samples that decide a branch, to count as an estimate */
#define LEAST_REST	  0.002 /* of a turn: less is not told as unknown */
#define LEAST_PROBABILITY 1e-4 /* a way that was never sampled may still run */
#define HEAD		  4u /* instructions of a way whose samples say how often it runs */
#define RARE		  32u /* a way with so many times less than another is left out */
#define USUAL		  64u /* one of at most so many times */
#define FRAME_REACH	  (UINT64_C(1) << 20)
#define NO_CODE		  UINT16_MAX
#define MAX_LOOPS	  32u
#define MAX_CALLERS	  8u

static uint64_t hash_of(uint64_t address, uint64_t caller, uint32_t process)
{
	return (address ^ caller << 24 ^ caller >> 40 ^ (uint64_t)process << 40) *
	       UINT64_C(0x9e3779b97f4a7c15);
}

/* ---- Samples by instruction ---- */

static struct ways_hit *find_hit(struct ways_cache *cache, uint64_t address, uint64_t caller,
				 uint32_t process)
{
	uint64_t at = hash_of(address, caller, process) >> 40;

	for (unsigned i = 0; i < PROBES; i++) {
		struct ways_hit *hit = &cache->hits[(at + i) % WAYS_HITS];

		if (hit->address == address && hit->caller == caller && hit->process == process)
			return hit;
	}
	return NULL;
}

static void add_hit(struct ways_cache *cache, uint64_t address, uint64_t caller, uint32_t process)
{
	struct ways_hit *hit = find_hit(cache, address, caller, process);
	uint64_t at = hash_of(address, caller, process) >> 40;

	if (!hit) {
		hit = &cache->hits[at % WAYS_HITS];
		for (unsigned i = 1; i < PROBES && hit->address; i++) {
			struct ways_hit *other = &cache->hits[(at + i) % WAYS_HITS];

			if (!other->address || other->n < hit->n)
				hit = other;
		}
		*hit = (struct ways_hit){ address, caller, process, 0 };
	}
	hit->n++;
}

static bool may_be_frame(const struct decode_sample *sample, uint64_t pointer)
{
	return pointer % 8 == 0 &&
	       pointer - sample->regs[DECODE_SP] + FRAME_REACH < 2 * FRAME_REACH;
}

/* Where the function was called, by the frame's pointer; 0: not known. */
static uint64_t find_caller(const struct decode_sample *sample)
{
	uint64_t back, offset = sample->regs[DECODE_BP] + 8 - sample->regs[DECODE_SP];

	if (!may_be_frame(sample, sample->regs[DECODE_BP]) || offset >= DECODE_STACK_BYTES ||
	    offset + sizeof(back) > sample->stack_bytes)
		return 0;
	memcpy(&back, (const uint8_t *)sample->stack + offset, sizeof(back));
	return back;
}

void decode_ways_hit(struct ways_cache *cache, const struct decode_sample *sample)
{
	uint64_t caller = find_caller(sample);

	add_hit(cache, sample->ip, 0, sample->process);
	if (caller)
		add_hit(cache, sample->ip, caller, sample->process);
}

uint32_t decode_ways_count(struct ways_cache *cache, const struct decode_sample *sample,
			   uint64_t address)
{
	const struct ways_hit *hit = find_hit(cache, address, 0, sample->process);

	return hit ? hit->n : 0;
}

void decode_ways_decided(struct ways_cache *cache, const struct decode_sample *sample,
			 uint64_t branch, bool is_taken)
{
	add_hit(cache, branch, is_taken ? WAYS_TAKEN : WAYS_NOT_TAKEN, sample->process);
}

void decode_ways_drop(struct ways_cache *cache, uint32_t process, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < WAYS_HITS; i++)
		if (cache->hits[i].process == process && cache->hits[i].address >= start &&
		    cache->hits[i].address < end)
			cache->hits[i].address = 0;
}

/* ---- All ways from ip back to it ---- */

/* What a jump back encloses. */
struct loop {
	uint64_t first; /* instruction that it leads to */
	uint64_t last; /* the jump */
};

struct search {
	struct ways_cache *cache;
	const struct block_code *code;
	struct decode_window *window;
	uint64_t frame; /* the pointer whose caller is known */
	uint64_t caller;
	struct loop loops[MAX_LOOPS];
	unsigned n_loops;
	/* ip, and where it returns to on its ways, with the stack pointer there */
	uint64_t at[MAX_CALLERS];
	uint64_t sp[MAX_CALLERS];
	unsigned n_at;
};

static uint64_t caller_of(struct search *search, struct machine *machine)
{
	struct value frame = machine->regs[DECODE_BP];

	if (!value_is_exact(frame) || !may_be_frame(machine->sample, frame.bits))
		return 0;
	if (frame.bits != search->frame) {
		struct value back =
			decode_machine_load(machine, frame.bits + 8, 8, MACHINE_READER_STACK);

		search->frame = frame.bits;
		search->caller = value_is_exact(back) ? back.bits : 0;
	}
	return search->caller;
}

/* The number of an instruction that a node runs; NO_CODE: there are too many. */
static uint16_t enter_code(struct search *search, struct machine *machine, unsigned node)
{
	struct ways_cache *cache = search->cache;
	uint64_t address = machine->next, caller = caller_of(search, machine);
	uint64_t at = hash_of(address, caller, 0) >> 40;
	uint16_t *number;

	while (number = &cache->numbers[at++ % (2 * WAYS_CODE)], *number) {
		struct ways_code *code = &cache->code[*number - 1];

		if (code->address != address || code->caller != caller)
			continue;
		code->nodes |= 1u << node;
		code->n_visits += code->first == node;
		return (uint16_t)(*number - 1);
	}
	if (cache->n_code == WAYS_CODE)
		return NO_CODE;
	cache->code[cache->n_code] = (struct ways_code){ .address = address,
							 .caller = caller,
							 .sp = machine->regs[DECODE_SP].bits,
							 .nodes = 1u << node,
							 .n_visits = 1,
							 .first = (uint8_t)node };
	*number = (uint16_t)++cache->n_code;
	return (uint16_t)(*number - 1);
}

/* Of an access that may not run the address is only known that does not depend on the way. */
static bool is_fixed(const struct instruction *instruction, unsigned i)
{
	const struct memory_operand *operand = &instruction->memory[i];

	return operand->index == REG_ZERO &&
	       (operand->base == DECODE_BP || operand->base == DECODE_SP ||
		operand->base == DECODE_IP);
}

static void note(struct search *search, const struct machine *machine,
		 const struct instruction *instruction, uint16_t number)
{
	struct decode_window *window = search->window;

	for (unsigned i = 0; i < instruction->n_memory; i++) {
		unsigned at = window->n_accesses + window->n_likely;
		struct decode_access *access = &window->accesses[at];

		if (at == DECODE_MAX_ACCESSES || decode_is_repeated_never(machine, instruction))
			return;
		decode_fill_access(machine, instruction, i, access);
		if (!is_fixed(instruction, i) && access->state == DECODE_RESOLVED)
			access->state = DECODE_NEXT_TURN;
		else if (access->state == DECODE_WITHIN) /* the base may be another way's */
			access->state = DECODE_UNKNOWN_REGISTER;
		search->cache->code_of[at] = number;
		window->n_likely++;
	}
}

static void note_jump(struct search *search, uint64_t from, uint64_t to)
{
	unsigned i = 0;

	if (to > from)
		return;
	while (i < search->n_loops && search->loops[i].first != to)
		i++;
	if (i == MAX_LOOPS)
		return;
	if (i == search->n_loops)
		search->loops[search->n_loops++] = (struct loop){ to, from };
	if (search->loops[i].last < from)
		search->loops[i].last = from;
}

/* Where loops are, and functions that go on. */
static void note_flow(struct search *search, const struct machine *machine,
		      const struct instruction *instruction)
{
	struct value sp = machine->regs[DECODE_SP];

	if (instruction->execute == decode_execute_jump ||
	    instruction->execute == decode_execute_jcc)
		note_jump(search, instruction->address, machine->next);
	if (instruction->execute == decode_execute_ret && value_is_exact(sp) &&
	    search->n_at < MAX_CALLERS && sp.bits > search->sp[search->n_at - 1]) {
		search->at[search->n_at] = machine->next;
		search->sp[search->n_at++] = sp.bits;
	}
}

static void take_both(struct search *search, const struct machine *machine,
		      const struct instruction *branch, struct ways_node *node);

/* From a branch, or ip, on: until the next one that nothing decides. */
static void run_node(struct search *search, struct machine *machine, unsigned number)
{
	struct ways_cache *cache = search->cache;
	const struct decode_sample *sample = machine->sample;

	for (unsigned position = 0; cache->n_steps < WAYS_STEPS; position++, cache->n_steps++) {
		const struct instruction *found =
			search->code->find(search->code->user, sample, machine->next);
		if (!found || found->bytes == 0)
			return;
		uint16_t code = enter_code(search, machine, number);
		if (code == NO_CODE)
			return;
		decode_machine_prepare(machine, found);
		if (number > 0 && cache->code[code].first == number)
			note(search, machine, found, code);
		else if (number == 0 && position < DECODE_MAX_INSTRUCTIONS)
			cache->of_window[position] = code;
		machine->next += found->bytes;
		found->execute(machine, found);
		if (machine->end == DECODE_END_UNKNOWN_BRANCH &&
		    found->execute == decode_execute_jcc)
			take_both(search, machine, found, &cache->nodes[number]);
		if (machine->end != MACHINE_GOES_ON)
			return;
		note_flow(search, machine, found);
		cache->nodes[number].is_back = decode_is_loop_closed(machine, sample);
		if (cache->nodes[number].is_back)
			return;
	}
}

static bool is_known(const struct ways_cache *cache, const struct ways_node *node)
{
	for (unsigned i = 0; i < cache->n_nodes; i++)
		if (&cache->nodes[i] != node && cache->nodes[i].branch == node->branch &&
		    cache->nodes[i].sp == node->sp)
			return true;
	return false;
}

/* Samples in the first instructions of a way, as far as they follow each other in memory. */
static uint32_t count_head(struct search *search, const struct decode_sample *sample,
			   uint64_t address)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < HEAD; i++) {
		const struct instruction *instruction =
			search->code->find(search->code->user, sample, address);

		n += decode_ways_count(search->cache, sample, address);
		if (!instruction || instruction->bytes == 0 ||
		    decode_execute_is_flow(instruction->execute))
			break;
		address += instruction->bytes;
	}
	return n;
}

/* The same of an instruction in the last ones of a line, up to the one at an address. */
static double find_tail(struct ways_cache *cache, const struct block_code *code,
			const struct decode_sample *sample, uint64_t address)
{
	struct decode_sample at = *sample;

	at.ip = address;
	const struct behind_entry line = *decode_block_entry(code, &at);
	uint32_t n = 0, n_code = 0;

	while (n_code < HEAD) {
		n += decode_ways_count(cache, sample, address);
		if (n_code++ == line.n_line)
			break;
		address -= line.lengths[n_code - 1];
	}
	return (double)n / n_code;
}

bool decode_ways_is_usual(struct ways_cache *cache, const struct block_code *code,
			  const struct decode_sample *sample, uint64_t other, uint64_t taken)
{
	return find_tail(cache, code, sample, other) * USUAL >
	       find_tail(cache, code, sample, taken);
}

/* Few beside many: one sample more would not change that. */
static bool is_rare(uint32_t n, uint32_t beside)
{
	return ((uint64_t)n + 1) * RARE <= beside;
}

static void take_way(struct search *search, const struct machine *machine, unsigned number,
		     uint64_t address)
{
	struct ways_node *node = &search->cache->nodes[number];
	struct machine way = *machine;

	way.end = MACHINE_GOES_ON;
	way.next = address;
	node->is_back = decode_is_loop_closed(&way, way.sample);
	if (!node->is_back)
		run_node(search, &way, number);
}

/*
 * Both ways of a branch that is new, first the one with more samples. A way that hardly any can be
 * in is left out: mostly it is the loop's end. Nodes of a branch follow each other.
 */
static void take_both(struct search *search, const struct machine *machine,
		      const struct instruction *branch, struct ways_node *node)
{
	struct ways_cache *cache = search->cache;
	const uint64_t ends[2] = { machine->next, branch->immediate };
	const uint32_t n[2] = { count_head(search, machine->sample, ends[0]),
				count_head(search, machine->sample, ends[1]) };
	unsigned first = cache->n_nodes, more = n[1] > n[0];

	if (!value_is_exact(machine->regs[DECODE_SP]))
		return;
	node->branch = branch->address;
	node->sp = machine->regs[DECODE_SP].bits;
	if (is_known(cache, node) || first + 2 > WAYS_NODES)
		return;
	note_jump(search, branch->address, branch->immediate);
	cache->n_nodes += 2;
	for (unsigned i = 0; i < 2; i++)
		cache->nodes[first + i] = (struct ways_node){ .from = node->branch,
							      .from_sp = node->sp,
							      .is_taken = more != i };
	take_way(search, machine, first, ends[more]);
	if (!is_rare(n[!more], n[more]))
		take_way(search, machine, first + 1, ends[!more]);
}

/* ---- How often they run ---- */

static bool ends_at(const struct ways_node *node, const struct ways_node *from)
{
	return node->branch == from->from && node->sp == from->from_sp;
}

static void find_next(struct ways_cache *cache)
{
	for (unsigned i = 0; i < cache->n_nodes; i++) {
		struct ways_node *node = &cache->nodes[i];

		node->next = 0;
		for (unsigned k = 1; k < cache->n_nodes && node->branch; k++)
			node->next |= (uint32_t)ends_at(node, &cache->nodes[k]) << k;
	}
}

/* The nodes from which ip is reached. */
static uint32_t find_live(const struct ways_cache *cache)
{
	uint32_t live = 0, before;

	do {
		before = live;
		for (unsigned i = 0; i < cache->n_nodes; i++) {
			const struct ways_node *node = &cache->nodes[i];

			live |= (uint32_t)(node->is_back || node->next & live) << i;
		}
	} while (live != before);
	return live;
}

/* The nodes that run behind one until its branch comes again. */
static uint32_t find_reach(const struct ways_cache *cache, unsigned number)
{
	uint32_t reach = 0, added = 1u << number;

	while (added) {
		const struct ways_node *node = &cache->nodes[__builtin_ctz(added)];

		reach |= added & -added;
		added |= node->is_back;
		if (!(node->next >> number & 1))
			added |= node->next;
		added &= ~reach;
	}
	return reach;
}

/* Samples for each instruction of code on `nodes` and none of `others`; < 0: there is none. */
static double find_density(const struct ways_cache *cache, uint32_t nodes, uint32_t others)
{
	double n = 0, n_code = 0;

	for (unsigned i = 0; i < cache->n_code; i++)
		if (cache->code[i].nodes & nodes && !(cache->code[i].nodes & others)) {
			n += cache->code[i].n_hits;
			n_code++;
		}
	return n_code > 0 ? n / n_code : -1;
}

/* The same of code that runs each time before the branch that a node begins at. */
static double find_density_before(const struct ways_cache *cache, unsigned number)
{
	uint32_t ends = 0, back = 0;
	double n = 0, n_code = 0;

	for (unsigned i = 0; i < cache->n_nodes; i++) {
		ends |= (uint32_t)ends_at(&cache->nodes[i], &cache->nodes[number]) << i;
		back |= (uint32_t)cache->nodes[i].is_back << i;
	}
	for (unsigned i = 0; i < cache->n_code; i++)
		if ((cache->code[i].nodes & ends) == ends ||
		    (ends == 1 && (cache->code[i].nodes & back) == back)) {
			n += cache->code[i].n_hits;
			n_code++;
		}
	return n_code > 0 ? n / n_code : 0;
}

/* How often the first of two ways is gone, by samples on them. */
static double weigh_two(const struct ways_cache *cache, unsigned number)
{
	uint32_t own[2];
	double density[2], all;

	for (unsigned i = 0; i < 2; i++)
		own[i] = 1u << (number + i) | cache->nodes[number + i].is_back;
	for (unsigned i = 0; i < 2; i++)
		density[i] = find_density(cache, own[i], find_reach(cache, number + !i));
	all = density[0] + density[1];
	if (density[0] >= 0 && density[1] >= 0)
		return all > 0 ? density[0] / all : 0.5;
	all = find_density_before(cache, number);
	if (all <= 0 || all <= fmax(density[0], density[1]) || density[0] == density[1])
		return density[0] > density[1] ? 1 : density[0] < density[1] ? 0 : 0.5;
	return density[0] >= 0 ? density[0] / all : 1 - density[1] / all;
}

/* The same by the samples that decided the branch; < 0: these are too few. */
static double find_decided(struct ways_cache *cache, uint32_t process, unsigned number)
{
	const struct ways_node *node = &cache->nodes[number];
	const struct ways_hit *taken = find_hit(cache, node->from, WAYS_TAKEN, process);
	const struct ways_hit *other = find_hit(cache, node->from, WAYS_NOT_TAKEN, process);
	double n_taken = taken ? taken->n : 0, n_other = other ? other->n : 0;

	if (n_taken + n_other < LEAST_DECIDED)
		return -1;
	return (node->is_taken ? n_taken : n_other) / (n_taken + n_other);
}

/* row[k]: what of node `from` goes on to k, on ways that come back. */
static void share_out(const struct ways_cache *cache, const double *probability, uint32_t live,
		      unsigned from, double row[static WAYS_NODES])
{
	uint32_t next = cache->nodes[from].next & live;
	double sum = 0;

	for (unsigned k = 0; k < cache->n_nodes; k++) {
		row[k] = next >> k & 1 ? fmax(probability[k], LEAST_PROBABILITY) : 0;
		sum += row[k];
	}
	for (unsigned k = 0; k < cache->n_nodes && sum > 0; k++)
		row[k] /= sum;
}

/* How often each node runs for once from ip: what goes into it. By elimination. */
static void solve(struct ways_cache *cache, const double *probability, uint32_t live,
		  unsigned model)
{
	double matrix[WAYS_NODES][WAYS_NODES + 1] = { 0 }, row[WAYS_NODES];
	unsigned n = cache->n_nodes;

	for (unsigned i = 0; i < n; i++) {
		matrix[i][i] += 1;
		if (!(live >> i & 1))
			continue;
		share_out(cache, probability, live, i, row);
		for (unsigned k = 1; k < n; k++)
			matrix[k][i == 0 ? n : i] += i == 0 ? row[k] : -row[k];
	}
	matrix[0][n] = 1;
	for (unsigned i = 1; i < n; i++)
		for (unsigned k = 1; k < n; k++) {
			double by = matrix[k][i] / matrix[i][i];

			for (unsigned at = i; at <= n && k != i && by != 0; at++)
				matrix[k][at] -= by * matrix[i][at];
		}
	for (unsigned i = 0; i < n; i++)
		cache->nodes[i].n[model] = live >> i & 1 ? matrix[i][n] / matrix[i][i] : 0;
}

static void find_frequencies(struct ways_cache *cache, uint32_t process, uint32_t live)
{
	double probability[WAYS_MODELS][WAYS_NODES] = { { 1 }, { 1 } };

	for (unsigned i = 0; i < cache->n_code; i++) {
		struct ways_code *code = &cache->code[i];
		const struct ways_hit *hit = find_hit(cache, code->address, code->caller, process);

		code->n_hits = hit ? hit->n : 0;
	}
	for (unsigned i = 1; i + 1 < cache->n_nodes; i += 2) {
		double decided = find_decided(cache, process, i), weighed = weigh_two(cache, i);

		probability[0][i] = decided < 0 ? weighed : decided;
		probability[1][i] = weighed;
		for (unsigned model = 0; model < WAYS_MODELS; model++)
			probability[model][i + 1] = 1 - probability[model][i];
	}
	for (unsigned model = 0; model < WAYS_MODELS; model++)
		solve(cache, probability[model], live, model);
}

static bool encloses(const struct loop *loop, uint64_t address)
{
	return address >= loop->first && address <= loop->last;
}

/*
 * The innermost loop that ip is in, or that calls its function. NULL: none; ret_caller is the one
 * of search->at that lies in it.
 */
static const struct loop *find_loop(const struct search *search, unsigned *ret_caller)
{
	const struct loop *found = NULL;

	for (*ret_caller = 0; *ret_caller < search->n_at; (*ret_caller)++) {
		for (unsigned i = 0; i < search->n_loops; i++) {
			const struct loop *loop = &search->loops[i];

			if (encloses(loop, search->at[*ret_caller]) &&
			    (!found || loop->last - loop->first < found->last - found->first))
				found = loop;
		}
		if (found)
			return found;
	}
	return NULL;
}

/*
 * Loops within the sample's own have samples of their own, and so has what is around it: how often
 * they run for each turn of it does not matter to its time. What it calls belongs to it.
 */
static void leave_to_others(struct search *search)
{
	struct ways_cache *cache = search->cache;
	unsigned caller;
	const struct loop *own = find_loop(search, &caller);

	for (unsigned i = 0; i < cache->n_code; i++) {
		struct ways_code *code = &cache->code[i];

		code->is_others =
			own && !encloses(own, code->address) && code->sp >= search->sp[caller];
		for (unsigned k = 0; k < search->n_loops; k++) {
			bool is_around = false;

			for (unsigned at = 0; at < search->n_at; at++)
				is_around |= encloses(&search->loops[k], search->at[at]);
			code->is_others |= !is_around && encloses(&search->loops[k], code->address);
		}
	}
}

/* How often each instruction runs: as often as all of its nodes. */
static void add_frequencies(struct ways_cache *cache)
{
	for (unsigned i = 0; i < cache->n_code; i++) {
		struct ways_code *code = &cache->code[i];

		for (uint32_t nodes = code->is_others ? 0 : code->nodes; nodes; nodes &= nodes - 1)
			for (unsigned model = 0; model < WAYS_MODELS; model++)
				code->n[model] += cache->nodes[__builtin_ctz(nodes)].n[model];
	}
}

/* An access that surely ran before ip stands for the same one on the ways there. */
static void move_to_behind(struct decode_window *window)
{
	for (uint32_t i = 0; i < window->n_behind; i++) {
		struct decode_access *behind = &window->behind[i];

		behind->share = 0;
		for (uint32_t k = 0; k < window->n_likely; k++) {
			struct decode_access *likely = &window->accesses[window->n_accesses + k];

			if (likely->ip != behind->ip || likely->is_write != behind->is_write ||
			    likely->share <= 0)
				continue;
			behind->share = likely->share;
			likely->share = 0;
			if (behind->state == DECODE_UNKNOWN_REGISTER &&
			    likely->state == DECODE_NEXT_TURN) {
				behind->state = DECODE_NEXT_TURN;
				behind->address = likely->address;
			}
			break;
		}
	}
}

/* What hardly ever runs is left out: it would be most of the accesses of many samples. */
static void drop_rare(struct decode_window *window, float least)
{
	struct decode_access *likely = window->accesses + window->n_accesses;
	uint32_t n = 0;

	for (uint32_t k = 0; k < window->n_likely; k++)
		if (likely[k].share > least)
			likely[n++] = likely[k];
	window->n_likely = n;
}

static const struct ways_code *code_at(const struct ways_cache *cache,
				       const struct decode_window *window, uint32_t i)
{
	return &cache->code[i < window->n_accesses ? cache->of_window[window->accesses[i].position]
						   : cache->code_of[i]];
}

/* What one model gives and the other does not is somebody's. */
static void add_rest(struct decode_window *window, double rest)
{
	unsigned at = window->n_accesses + window->n_likely;

	if (rest < LEAST_REST || at == DECODE_MAX_ACCESSES)
		return;
	window->accesses[at] = (struct decode_access){
		.count = 1, .state = DECODE_UNKNOWN_REGISTER, .is_read = true, .share = (float)rest
	};
	window->n_likely++;
}

/* Accesses of which the models are compared one by one: all but those of the stack. */
#define ONE_BY_ONE 2u

static unsigned group_of(const struct decode_sample *sample, const struct decode_access *access)
{
	return decode_turn_is_stack(sample, access) ? access->is_write : ONE_BY_ONE;
}

/*
 * Of what the models differ in only the smaller part is told, the rest may be somebody's else.
 * Variables on the stack are one owner's: of which of them it is does not matter to that.
 */
static void weigh(struct ways_cache *cache, const struct decode_sample *sample,
		  struct decode_window *window)
{
	uint32_t n = window->n_accesses + window->n_likely;
	double sums[WAYS_MODELS] = { 0 }, groups[WAYS_MODELS][ONE_BY_ONE + 1] = { { 0 } }, sum = 0;
	float most = 0;

	for (uint32_t i = 0; i < n; i++)
		for (unsigned model = 0; model < WAYS_MODELS; model++) {
			const struct decode_access *access = &window->accesses[i];
			double times = access->count * code_at(cache, window, i)->n[model];
			sums[model] += times;
			groups[model][group_of(sample, access)] += times;
		}
	if (!(sums[0] > 0 && sums[1] > 0))
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct ways_code *code = code_at(cache, window, i);
		struct decode_access *access = &window->accesses[i];
		unsigned group = group_of(sample, access);
		double a = code->n[0] / sums[0], b = code->n[1] / sums[1], told = fmin(a, b);

		if (group != ONE_BY_ONE) {
			double all_a = groups[0][group] / sums[0],
			       all_b = groups[1][group] / sums[1];

			told = all_a + all_b > 0 ? (a + b) * fmin(all_a, all_b) / (all_a + all_b)
						 : 0;
		}
		access->share = (float)told;
		sum += access->count * told;
		most = access->share > most ? access->share : most;
	}
	move_to_behind(window);
	drop_rare(window, most / RARE);
	add_rest(window, 1 - sum);
	window->is_expected = true;
}

/* Whether the turn that was found is all that runs: its branch hardly ever goes elsewhere. */
static bool is_settled(struct search *search, const struct decode_sample *sample)
{
	const struct instruction *found =
		search->code->find(search->code->user, sample, search->window->end_ip);
	uint32_t n[2];

	if (!search->window->is_turn || !found)
		return false;
	const struct instruction branch = *found;
	n[0] = count_head(search, sample, branch.address + branch.bytes);
	n[1] = count_head(search, sample, branch.immediate);
	return is_rare(n[0], n[1]) || is_rare(n[1], n[0]);
}

void decode_ways_weigh(struct ways_cache *cache, const struct block_code *code,
		       struct machine *machine, struct decode_window *window)
{
	struct search search = {
		.cache = cache,
		.code = code,
		.window = window,
		.at = { machine->sample->ip },
		.sp = { machine->sample->regs[DECODE_SP] },
		.n_at = 1,
	};

	if (is_settled(&search, machine->sample))
		return;

	cache->n_code = 0;
	cache->n_nodes = 1;
	cache->n_steps = 0;
	cache->nodes[0] = (struct ways_node){ 0 };
	memset(cache->numbers, 0, sizeof(cache->numbers));
	memset(cache->of_window, 0xff, window->n_instructions * sizeof(cache->of_window[0]));
	machine->vectors = NULL;
	window->n_likely = 0;
	run_node(&search, machine, 0);

	find_next(cache);
	uint32_t live = find_live(cache);
	/* Without vector registers it may have come less far than the window. */
	if (!(live & 1) || cache->nodes[0].is_back ||
	    cache->of_window[window->n_instructions - 1] == NO_CODE) {
		window->n_likely = 0;
		return;
	}
	find_frequencies(cache, machine->sample->process, live);
	leave_to_others(&search);
	add_frequencies(cache);
	weigh(cache, machine->sample, window);
	if (!window->is_expected)
		window->n_likely = 0;
}
