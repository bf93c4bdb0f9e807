#include "decode/branch-targets.h"

#include <stdlib.h>
#include <string.h>

#include "decode/decoder.h"
#include "decode/previous-instructions.h"
#include "decode/x86/instruction.h"

#define PAGE_BYTES    4096u
#define BEYOND_BYTES  8u /* a branch that begins on the page ends in these */
#define SHORT_REACH   130u
#define OPEN_PAGES    2u
#define MAX_MISSING   2u /* pages without code in a row: the end */
#define TABLE_ENTRIES 1024u
#define TABLE_CHUNK   64u

#define OPCODE_CALL 0xe8
#define OPCODE_JUMP 0xe9

static int32_t read_int32(const void *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* One page that is read, with what may lie behind it. */
struct reading {
	const struct decode_memory *memory;
	const struct decode_sample *sample;
	struct targets_page *page;
	bool is_lost; /* no memory for what was found */
	uint8_t bytes[PAGE_BYTES + BEYOND_BYTES];
};

/* Pages around a page, in pairs: one bit for where a branch leads. */
static uint64_t reach_bit(uint64_t page, uint64_t target)
{
	uint64_t distance = target / PAGE_BYTES - page / PAGE_BYTES + TARGETS_REACH_PAGES + 1;

	return UINT64_C(1) << (distance / 2 & 63);
}

static void add(struct reading *reading, uint64_t source, uint64_t target, enum far_kind kind)
{
	struct targets_page *page = reading->page;

	if (page->n == page->n_allocated) {
		size_t n = page->n_allocated ? 2 * page->n_allocated : 64;
		struct far_branch *larger = reallocarray(page->branches, n, sizeof(*larger));

		if (!larger) {
			reading->is_lost = true;
			return;
		}
		page->branches = larger;
		page->n_allocated = n;
	}
	page->branches[page->n++] = (struct far_branch){ .target = target,
							 .offset = (uint16_t)(source % PAGE_BYTES),
							 .kind = (uint8_t)kind };
	page->n_tables += kind == FAR_TABLE;
	page->reached |= reach_bit(page->page, target);
}

static bool is_near(uint64_t a, uint64_t b)
{
	return a - b + TARGETS_REACH_BYTES < 2 * TARGETS_REACH_BYTES;
}

/* Entries of 4 bytes are relative to their table, those of 8 are addresses. */
static uint64_t entry_at(const uint8_t *bytes, uint64_t table, unsigned entry_bytes)
{
	uint64_t address;

	if (entry_bytes == sizeof(int32_t))
		return table + (uint64_t)(int64_t)read_int32(bytes);
	memcpy(&address, bytes, sizeof(address));
	return address;
}

/* As many entries as lead to the code around. Returns how many. */
static unsigned read_table(struct reading *reading, uint64_t source, uint64_t table,
			   unsigned entry_bytes)
{
	const struct decode_memory *memory = reading->memory;
	const struct decode_sample *sample = reading->sample;
	uint8_t bytes[TABLE_CHUNK * 8];
	unsigned n = 0;

	while (memory->constant && n < TABLE_ENTRIES) {
		size_t want = n ? (size_t)TABLE_CHUNK * entry_bytes : entry_bytes;
		size_t got = memory->constant(memory->user, sample->process,
					      table + (uint64_t)n * entry_bytes, sample->time,
					      bytes, want);

		for (size_t at = 0; at + entry_bytes <= got; at += entry_bytes, n++) {
			uint64_t target = entry_at(bytes + at, table, entry_bytes);

			if (!is_near(target, source))
				return n;
			add(reading, source, target, FAR_TABLE);
		}
		if (got < entry_bytes) /* a page may end before the table does */
			break;
	}
	return n;
}

/* lea of an address relative to ip: of a table, if what lies there leads to the code around. */
static void read_lea(struct reading *reading, const uint8_t *bytes, uint64_t address)
{
	if ((bytes[0] & 0xfb) != 0x48 || bytes[1] != 0x8d || (bytes[2] & 0xc7) != 0x05)
		return;
	uint64_t table = address + 7 + (uint64_t)(int64_t)read_int32(bytes + 3);

	if (!read_table(reading, address, table, sizeof(int32_t)))
		read_table(reading, address, table, sizeof(uint64_t));
}

/* jmp or mov of [index * 8 + table], in code that is not moved. */
static void read_fixed_table(struct reading *reading, const uint8_t *bytes, uint64_t address)
{
	bool is_jump = bytes[0] == 0xff && bytes[1] == 0x24;
	bool is_load = bytes[0] == 0x8b && (bytes[1] & 0xc7) == 0x04;

	if ((!is_jump && !is_load) || (bytes[2] & 0xc7) != 0xc5)
		return;
	read_table(reading, address, (uint64_t)(int64_t)read_int32(bytes + 3), sizeof(uint64_t));
}

/* jmp [base + index], or jmp to a register right behind an add: as compilers make switches. */
static bool is_switch(const uint8_t *bytes, size_t at)
{
	const uint8_t *jump = bytes + at;
	unsigned before = at > 0 && jump[-1] == 0x3e ? 1 : 0; /* notrack */

	if (jump[0] != 0xff)
		return false;
	if ((jump[1] & 0x3f) == 0x24)
		return (jump[2] & 0x38) != 0x20;
	if ((jump[1] & 0xf8) != 0xe0)
		return false;
	before += at > before && jump[-1 - (int)before] == 0x41; /* r8 to r15 */
	if (at < before + 3)
		return false;
	const uint8_t *sum = jump - before - 3;
	return (sum[0] & 0xf8) == 0x48 && (sum[1] == 0x01 || sum[1] == 0x03) && sum[2] >= 0xc0;
}

static void add_switch(struct reading *reading, size_t at)
{
	struct targets_page *page = reading->page;

	if (!is_switch(reading->bytes, at))
		return;
	if (page->n_switches++ == 0)
		page->first_switch = (uint16_t)at;
	page->last_switch = (uint16_t)at;
}

static void read_branch(struct reading *reading, const uint8_t *bytes, uint64_t address)
{
	bool is_condition = bytes[0] == 0x0f && bytes[1] >= 0x80 && bytes[1] <= 0x8f;
	unsigned n = is_condition ? 2 : bytes[0] == 0x0f ? 0 : 1; /* bytes of the opcode */
	uint64_t target = address + n + 4 + (uint64_t)(int64_t)read_int32(bytes + n);

	if (n > 0 && is_near(target, address))
		add(reading, address, target, bytes[0] == OPCODE_CALL ? FAR_CALL : FAR_JUMP);
}

/*
 * Where something may begin that is looked for: few bytes of a page. Most are looked at here only,
 * many at a time.
 */
static void mark(const uint8_t *restrict bytes, uint8_t *restrict marks)
{
	for (unsigned i = 0; i < PAGE_BYTES; i++) {
		uint8_t byte = bytes[i], next = bytes[i + 1];
		uint8_t is_branch = (byte & 0xfe) == OPCODE_CALL;
		uint8_t is_condition = (byte == 0x0f) & ((next & 0xf0) == 0x80);
		uint8_t is_lea = ((byte & 0xfb) == 0x48) & (next == 0x8d);
		uint8_t is_load = (byte == 0x8b) & ((next & 0xc7) == 0x04);
		uint8_t is_jump =
			(byte == 0xff) & (((next & 0x3f) == 0x24) | ((next & 0xf8) == 0xe0));

		marks[i] = is_branch | is_condition | is_lea | is_load | is_jump;
	}
}

static void read_at(struct reading *reading, size_t at)
{
	const uint8_t *bytes = reading->bytes + at;
	uint64_t address = reading->page->page + at;

	switch (bytes[0]) {
	case OPCODE_CALL:
	case OPCODE_JUMP:
	case 0x0f:
		read_branch(reading, bytes, address);
		break;
	case 0x8b:
	case 0xff:
		add_switch(reading, at);
		read_fixed_table(reading, bytes, address);
		break;
	default:
		read_lea(reading, bytes, address);
		break;
	}
}

static void read_page(struct reading *reading)
{
	uint8_t marks[PAGE_BYTES];
	uint64_t word;

	mark(reading->bytes, marks);
	for (size_t at = 0; at < reading->page->n_bytes; at += sizeof(word)) {
		memcpy(&word, marks + at, sizeof(word));
		for (; word; word &= word - 1) {
			size_t marked = at + (unsigned)__builtin_ctzll(word) / 8;
			if (marked < reading->page->n_bytes)
				read_at(reading, marked);
		}
	}
}

static size_t read_code(const struct decode_memory *memory, const struct decode_sample *sample,
			uint64_t address, uint8_t *bytes, size_t n_bytes)
{
	return memory->code(memory->user, sample->process, address, sample->time, bytes, n_bytes);
}

/* False: its code is not known. */
static bool fill_page(struct targets_page *page, const struct decode_memory *memory,
		      const struct decode_sample *sample, uint64_t address)
{
	struct reading reading = { .memory = memory, .sample = sample, .page = page };
	size_t n = read_code(memory, sample, address, reading.bytes, PAGE_BYTES);

	page->n_bytes = 0;
	if (n == 0)
		return false;
	if (n == PAGE_BYTES)
		read_code(memory, sample, address + n, reading.bytes + n, BEYOND_BYTES);
	page->page = address;
	page->process = sample->process;
	page->n_bytes = (uint32_t)n;
	page->n = 0;
	page->n_tables = 0;
	page->n_switches = 0;
	page->reached = 0;
	read_page(&reading);
	if (reading.is_lost)
		page->n_bytes = 0;
	return !reading.is_lost;
}

/* The page at an address, or NULL: its code is not known. */
static const struct targets_page *find_page(struct targets *targets,
					    const struct decode_memory *memory,
					    const struct decode_sample *sample, uint64_t address)
{
	uint64_t hash = (address / PAGE_BYTES ^ (uint64_t)sample->process << 40) *
			UINT64_C(0x9e3779b97f4a7c15);
	struct targets_page *page = &targets->pages[(hash >> 40) % TARGETS_SETS];

	uint64_t version = decode_code_version(memory, sample, address, address);

	if (page->n_bytes && page->page == address && page->process == sample->process &&
	    page->version == version)
		return page;
	page->version = version;
	return fill_page(page, memory, sample, address) ? page : NULL;
}

/* Whether an instruction of n bytes ends at bytes + end; also the length of the one before it. */
static bool is_instruction(const uint8_t *bytes, size_t end, size_t n, uint8_t *ret_before)
{
	uint8_t lengths[2] = { 0 };
	bool is_one = decode_behind_lengths(bytes, end, false, lengths, 2) >= 1 && lengths[0] == n;

	*ret_before = lengths[1];
	return is_one;
}

/* What is asked, and the code around from which branches of 8 bits may lead there. */
struct question {
	const struct decode_memory *memory;
	const struct decode_sample *sample;
	struct ways *ways;
	unsigned n_ways;
	unsigned n_switches, n_tables; /* near */
	uint64_t first, last; /* the addresses that are asked for lie between them */
	uint64_t start; /* of bytes */
	size_t n;
	uint8_t bytes[2 * SHORT_REACH + BEHIND_SWEEP_BYTES + TARGETS_MAX_RANGE];
};

static struct ways *find_ways(struct question *question, uint64_t address)
{
	if (address - question->first > question->last - question->first)
		return NULL;
	for (unsigned i = 0; i < question->n_ways; i++)
		if (question->ways[i].address == address)
			return &question->ways[i];
	return NULL;
}

static void add_jump(struct ways *ways, uint64_t source, uint8_t fused_bytes)
{
	if (ways->n_jumps < TARGETS_SOURCES)
		ways->sources[ways->n_jumps] = source;
	ways->n_jumps++;
	ways->source = source;
	ways->fused_bytes = fused_bytes;
}

static void add_table(struct ways *ways, uint64_t user)
{
	unsigned i = 0;

	ways->n_tables++;
	while (i < ways->n_users && i < TARGETS_SOURCES && ways->users[i] != user)
		i++;
	if (i < ways->n_users && i < TARGETS_SOURCES)
		return;
	if (i < TARGETS_SOURCES)
		ways->users[i] = user;
	ways->n_users++;
}

static void read_around(struct question *question)
{
	uint64_t page = question->last & ~(uint64_t)(PAGE_BYTES - 1);
	uint64_t end = question->last + SHORT_REACH;

	question->start = question->first - SHORT_REACH - BEHIND_SWEEP_BYTES;
	while (question->start + question->n < end) {
		uint64_t at = question->start + question->n;
		size_t left = PAGE_BYTES - at % PAGE_BYTES;
		size_t want = end - at < left ? end - at : left;
		size_t n = read_code(question->memory, question->sample, at,
				     question->bytes + question->n, want);

		if (n == 0 && at < page) {
			question->start = page; /* that of the last address is what matters */
			question->n = 0;
			continue;
		}
		question->n += n;
		if (n < want)
			break;
	}
}

static bool is_short(uint8_t opcode)
{
	return (opcode & 0xf0) == 0x70 || opcode == 0xeb || (opcode & 0xfc) == 0xe0;
}

static void find_short(struct question *question)
{
	for (size_t at = 0; at + 2 <= question->n; at++) {
		uint64_t end = question->start + at + 2;
		uint8_t before;

		if (!is_short(question->bytes[at]))
			continue;
		struct ways *ways =
			find_ways(question, end + (uint64_t)(int8_t)question->bytes[at + 1]);
		if (!ways || !is_instruction(question->bytes, at + 2, 2, &before) ||
		    decode_behind_is_inside(question->bytes, question->n, at))
			continue;
		add_jump(ways, end - 2, before);
	}
}

/*
 * Whether a branch of 32 bits is in truth the end of another instruction, as in movl $0, -24(%rbp):
 * 4d e8 00 00 00 00. Also the length of the instruction before.
 */
static bool is_within(const struct question *question, uint64_t source, uint8_t *ret_before)
{
	uint8_t bytes[BEHIND_SWEEP_BYTES], opcode = 0, lengths[2] = { 0 };

	read_code(question->memory, question->sample, source, &opcode, sizeof(opcode));
	uint8_t n = opcode == 0x0f ? 6 : 5;
	*ret_before = 0;
	if (read_code(question->memory, question->sample, source + n - sizeof(bytes), bytes,
		      sizeof(bytes)) < sizeof(bytes) ||
	    decode_behind_lengths(bytes, sizeof(bytes), false, lengths, 2) == 0)
		return false;
	*ret_before = lengths[0] == n ? lengths[1] : 0;
	return lengths[0] != n;
}

static void find_in_page(struct question *question, const struct targets_page *page)
{
	uint64_t reached =
		reach_bit(page->page, question->first) | reach_bit(page->page, question->last);

	if (!(page->reached & reached))
		return;
	for (uint32_t i = 0; i < page->n; i++) {
		struct ways *ways = find_ways(question, page->branches[i].target);

		if (!ways)
			continue;
		uint64_t source = page->page + page->branches[i].offset;
		uint8_t before = 0;
		if (page->branches[i].kind == FAR_TABLE)
			add_table(ways, source);
		else if (is_within(question, source, &before))
			continue;
		else if (page->branches[i].kind == FAR_CALL)
			ways->n_calls++;
		else
			add_jump(ways, source, before);
	}
}

/* The last begin of a function up to an address; 0: not known. */
static uint64_t begin_of(const struct question *question, uint64_t address)
{
	const struct decode_memory *memory = question->memory;

	return memory->begin ? memory->begin(memory->user, question->sample->process, address,
					     question->sample->time)
			     : 0;
}

/* Whether a page's switches are all of other functions, surely: a switch leads into its own. */
static bool are_elsewhere(const struct question *question, const struct targets_page *page)
{
	uint64_t first = page->page + page->first_switch;

	return page->page + page->last_switch < begin_of(question, question->last) ||
	       (first > question->last && begin_of(question, first) > question->last);
}

/* The branches of 32 bits in n pages from `page` on, step by step, until the code ends. */
static void find_far(struct targets *targets, struct question *question, uint64_t page,
		     uint64_t step)
{
	unsigned n_missing = 0;

	for (unsigned i = 0; i < TARGETS_REACH_PAGES && n_missing < MAX_MISSING;
	     i++, page += step) {
		const struct targets_page *found =
			find_page(targets, question->memory, question->sample, page);

		n_missing = found ? 0 : n_missing + 1;
		if (!found)
			continue;
		find_in_page(question, found);
		if (i > OPEN_PAGES)
			continue;
		question->n_tables += found->n_tables;
		if (found->n_switches > 0 && !are_elsewhere(question, found))
			question->n_switches += found->n_switches;
	}
}

void decode_targets_find(struct targets *targets, const struct decode_memory *memory,
			 const struct decode_sample *sample, struct ways *ways, unsigned n)
{
	struct question question = {
		.memory = memory,
		.sample = sample,
		.ways = ways,
		.n_ways = n,
		.first = ways[n - 1].address,
		.last = ways[0].address,
	};
	uint64_t page = question.last & ~(uint64_t)(PAGE_BYTES - 1);

	find_far(targets, &question, page, PAGE_BYTES);
	find_far(targets, &question, page - PAGE_BYTES, -(uint64_t)PAGE_BYTES);
	for (unsigned i = 0; i < n; i++)
		ways[i].is_open = question.n_switches > 0 && question.n_tables == 0;
	read_around(&question);
	find_short(&question);
}

void decode_targets_drop(struct targets *targets, uint32_t process, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < TARGETS_SETS; i++) {
		struct targets_page *page = &targets->pages[i];

		if (page->process == process && page->page < end &&
		    page->page + PAGE_BYTES + BEYOND_BYTES > start)
			page->n_bytes = 0;
	}
}

void decode_targets_finish(struct targets *targets)
{
	for (size_t i = 0; i < TARGETS_SETS; i++)
		free(targets->pages[i].branches);
}
