/* Which instruction finished last before a sample: how the code came to ip, and what that touched. */
#include "decode/stall.h"

#include <string.h>

#include "decode/execute.h"

/* Code in which branches to ip are looked for; functions with longer branches are few. */
#define SCAN_BYTES 2048u
#define PAGE_BYTES UINT64_C(4096)

#define FUNCTION_ALIGN 16u

struct scan {
	uint8_t bytes[2 * SCAN_BYTES];
	uint64_t start; /* address of bytes[0] */
	size_t n;
};

/* Branches that lead to ip. */
struct sources {
	unsigned n;
	unsigned n_backward; /* of them, from behind ip: the ends of loops */
	uint64_t last, last_backward;
	uint8_t fused, fused_backward; /* bytes of the instruction before each of these two */
};

/* The bytes around ip, page by page: one that is not known ends them. */
static void read_around(const struct block_code *code, const struct decode_sample *sample,
			struct scan *scan)
{
	const struct decode_memory *memory = code->memory;
	uint64_t low = sample->ip < SCAN_BYTES ? 0 : sample->ip - SCAN_BYTES;
	uint64_t page = sample->ip & ~(PAGE_BYTES - 1);

	scan->start = low;
	scan->n = 0;
	while (scan->n < sizeof(scan->bytes)) {
		uint64_t at = scan->start + scan->n;
		size_t want = (size_t)(PAGE_BYTES - (at & (PAGE_BYTES - 1)));
		size_t room = sizeof(scan->bytes) - scan->n;
		size_t n = memory->code(memory->user, sample->process, at, sample->time,
					scan->bytes + scan->n, want < room ? want : room);

		if (n == 0 && at < page) {
			scan->start = page; /* that of ip is what matters */
			scan->n = 0;
			continue;
		}
		scan->n += n;
		if (n < want)
			break;
	}
}

static int32_t read_int32(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* The length of a branch at bytes[0] and its displacement; 0: there is none. */
static unsigned read_branch(const uint8_t *bytes, size_t n, int64_t *ret_displacement)
{
	bool is_short = (bytes[0] >= 0x70 && bytes[0] <= 0x7f) || bytes[0] == 0xeb ||
			(bytes[0] >= 0xe0 && bytes[0] <= 0xe3);

	if (is_short && n >= 2) {
		*ret_displacement = (int8_t)bytes[1];
		return 2;
	}
	if (bytes[0] == 0xe9 && n >= 5) {
		*ret_displacement = read_int32(bytes + 1);
		return 5;
	}
	if (n >= 6 && bytes[0] == 0x0f && bytes[1] >= 0x80 && bytes[1] <= 0x8f) {
		*ret_displacement = read_int32(bytes + 2);
		return 6;
	}
	return 0;
}

static void add_source(struct sources *sources, uint64_t address, uint64_t ip, uint8_t fused)
{
	sources->n++;
	sources->last = address;
	sources->fused = fused;
	if (address < ip)
		return;
	sources->n_backward++;
	sources->last_backward = address;
	sources->fused_backward = fused;
}

/* Bytes that read as a branch to ip are one if the code before falls into step with them. */
static void find_sources(const struct scan *scan, uint64_t ip, struct sources *sources)
{
	for (size_t at = 0; at < scan->n; at++) {
		uint64_t address = scan->start + at;
		uint8_t lengths[2] = { 0 };
		int64_t displacement;
		unsigned n = read_branch(scan->bytes + at, scan->n - at, &displacement);

		if (n == 0 || address + n + (uint64_t)displacement != ip)
			continue;
		if (decode_behind_lengths(scan->bytes, at + n, address + n, lengths, 2) >= 1 &&
		    lengths[0] == n)
			add_source(sources, address, ip, lengths[1]);
	}
}

static void set_source(struct behind_entry *entry, uint64_t source, uint8_t fused)
{
	entry->way = BEHIND_BRANCH;
	entry->source = source;
	entry->fused_bytes = fused;
}

static bool goes_on(const struct instruction *instruction)
{
	return !decode_execute_is_flow(instruction->execute) ||
	       instruction->execute == decode_execute_jcc ||
	       instruction->execute == decode_execute_call;
}

/*
 * Whether the code before ip goes on to it. nops between an end and a begin that is aligned are
 * padding, which nothing runs through.
 */
static bool is_line(const struct block_code *code, const struct decode_sample *sample,
		    const struct behind_entry *entry)
{
	uint64_t address = sample->ip;

	for (unsigned i = 0; i < entry->n; i++) {
		address -= entry->lengths[i];
		const struct instruction *instruction = code->find(code->user, sample, address);
		if (!instruction || instruction->bytes != entry->lengths[i])
			return false;
		if (instruction->execute != decode_execute_nop)
			return goes_on(instruction);
	}
	return entry->n > 0 && sample->ip % FUNCTION_ALIGN != 0;
}

static void set_line(struct behind_entry *entry, const struct instruction *before)
{
	if (before->execute == decode_execute_jcc)
		set_source(entry, before->address, entry->n > 1 ? entry->lengths[1] : 0);
	else
		entry->way = before->execute == decode_execute_call ? BEHIND_RETURN : BEHIND_LINE;
}

/*
 * One way that is certain, or the branch that closes a loop: its head is come to from above once,
 * from there at every turn.
 */
static void find_way(const struct block_code *code, const struct decode_sample *sample,
		     struct behind_entry *entry)
{
	const struct instruction *before =
		entry->n ? code->find(code->user, sample, sample->ip - entry->lengths[0]) : NULL;
	struct sources sources = { 0 };
	struct scan scan;

	read_around(code, sample, &scan);
	find_sources(&scan, sample->ip, &sources);
	bool comes_from_line = is_line(code, sample, entry);
	if (sources.n == 0 && comes_from_line)
		set_line(entry, before);
	else if (sources.n_backward == 1 && sources.n == 1)
		set_source(entry, sources.last_backward, sources.fused_backward);
	else if (sources.n == 1 && !comes_from_line && before)
		set_source(entry, sources.last, sources.fused);
	else
		entry->way = sources.n == 0 && before ? BEHIND_CALL : BEHIND_UNKNOWN;
}

static void set_state(struct decode_window *window, enum decode_stall stall, uint64_t ip)
{
	window->stall = stall;
	window->stall_ip = ip;
	for (uint32_t i = 0; i < window->n_stalled; i++)
		window->stalled[i].share = 1.0f / (float)window->n_stalled;
}

/* From accesses that were found already; those of one position follow each other. */
static void take_accesses(struct decode_window *window, const struct decode_access *accesses,
			  uint32_t n, unsigned position)
{
	for (uint32_t i = 0; i < n; i++)
		if (accesses[i].position == position && window->n_stalled < DECODE_MAX_STALLED)
			window->stalled[window->n_stalled++] = accesses[i];
}

/* A comparison or addition right before a branch is one operation with it. */
static bool is_fused(const struct instruction *instruction)
{
	static const execute_function fused[] = {
		decode_execute_cmp, decode_execute_test, decode_execute_add, decode_execute_sub,
		decode_execute_and, decode_execute_inc,	 decode_execute_dec,
	};

	for (size_t i = 0; i < sizeof(fused) / sizeof(fused[0]); i++)
		if (instruction->execute == fused[i])
			return true;
	return false;
}

/* The branch is at source, the instruction before it at source - fused_bytes. */
static const struct instruction *find_fused(const struct block_code *code,
					    const struct decode_sample *sample, uint64_t source,
					    unsigned fused_bytes)
{
	const struct instruction *branch = code->find(code->user, sample, source);

	if (!branch || branch->execute != decode_execute_jcc || fused_bytes == 0)
		return NULL;
	const struct instruction *fused = code->find(code->user, sample, source - fused_bytes);
	return fused && fused->bytes == fused_bytes && is_fused(fused) ? fused : NULL;
}

static void stall_at_branch(const struct block_code *code, const struct decode_sample *sample,
			    const struct behind_entry *entry, struct decode_window *window)
{
	const struct instruction *fused =
		find_fused(code, sample, entry->source, entry->fused_bytes);
	struct machine machine;

	if (fused && fused->n_memory) {
		decode_machine_init(&machine, code->memory, sample);
		decode_block_undo(&machine, fused);
		window->n_stalled = decode_block_accesses(&machine, fused, window->stalled);
	}
	set_state(window, window->n_stalled ? DECODE_STALL_ACCESS : DECODE_STALL_CODE,
		  window->n_stalled ? fused->address : entry->source);
}

/* A word that the call or return right before ip moved. */
static void stall_at_stack(struct decode_window *window, uint64_t ip, uint64_t address,
			   bool is_write)
{
	window->stalled[window->n_stalled++] = (struct decode_access){
		.ip = ip,
		.address = address,
		.size = 8,
		.count = 1,
		.state = DECODE_RESOLVED,
		.is_read = !is_write,
		.is_write = is_write,
	};
	set_state(window, DECODE_STALL_ACCESS, ip);
}

/* At the begin of a function the word at the stack pointer tells the call, if that is a direct one. */
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
		stall_at_stack(window, call->address, sample->regs[DECODE_SP], true);
}

static void stall_at_line(const struct decode_sample *sample, const struct behind_entry *entry,
			  struct decode_window *window)
{
	take_accesses(window, window->behind, window->n_behind, 1);
	set_state(window, window->n_stalled ? DECODE_STALL_ACCESS : DECODE_STALL_CODE,
		  sample->ip - entry->lengths[0]);
}

static void stall_before(const struct block_code *code, const struct decode_sample *sample,
			 struct decode_window *window)
{
	struct behind_entry *entry = decode_block_lengths(code, sample);

	if (entry->way == BEHIND_NOT_ASKED)
		find_way(code, sample, entry);
	switch ((enum behind_way)entry->way) {
	case BEHIND_LINE:
		stall_at_line(sample, entry, window);
		return;
	case BEHIND_BRANCH:
		stall_at_branch(code, sample, entry, window);
		return;
	case BEHIND_RETURN:
		stall_at_stack(window, sample->ip - entry->lengths[0], sample->regs[DECODE_SP] - 8,
			       false);
		return;
	case BEHIND_CALL:
		stall_at_call(code, sample, window);
		return;
	default:
		return;
	}
}

/* In a loop what ran before ip is what the window ends with. */
static void stall_in_loop(const struct block_code *code, const struct decode_sample *sample,
			  struct decode_window *window)
{
	uint32_t n = window->n_instructions;

	take_accesses(window, window->accesses, window->n_accesses, n - 1);
	if (window->n_stalled == 0 && n >= 2 && window->previous_ip < window->end_ip &&
	    window->end_ip - window->previous_ip <= INSTRUCTION_MAX_BYTES &&
	    find_fused(code, sample, window->end_ip,
		       (unsigned)(window->end_ip - window->previous_ip)))
		take_accesses(window, window->accesses, window->n_accesses, n - 2);
	set_state(window, window->n_stalled ? DECODE_STALL_ACCESS : DECODE_STALL_CODE,
		  window->n_stalled ? window->stalled[0].ip : window->end_ip);
}

void decode_stall_find(const struct block_code *code, const struct decode_sample *sample,
		       struct decode_window *window)
{
	const struct instruction *at_ip = code->find(code->user, sample, sample->ip);

	window->stall = DECODE_STALL_UNKNOWN;
	window->stall_ip = 0;
	window->n_stalled = 0;
	if (!at_ip || at_ip->bytes == 0)
		return;
	if (at_ip->repeat != REPEAT_NONE) {
		/* It is interrupted between two of its repetitions. */
		take_accesses(window, window->accesses, window->n_accesses, 0);
		set_state(window, window->n_stalled ? DECODE_STALL_ACCESS : DECODE_STALL_CODE,
			  sample->ip);
	} else if (window->end == DECODE_END_LOOP) {
		stall_in_loop(code, sample, window);
	} else {
		stall_before(code, sample, window);
	}
}
