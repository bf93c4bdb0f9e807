#include "decode/watch-instruction.h"

#include <string.h>

#include "decode/previous-instructions.h"

/* A rep instruction may have gone on by some elements before the trap. */
#define STRING_SLACK_BYTES 64u

static size_t read_code(const struct decode_memory *memory, const struct decode_sample *sample,
			uint64_t address, uint8_t *bytes, size_t n_bytes)
{
	return memory->code(memory->user, sample->process, address, sample->time, bytes, n_bytes);
}

/* As much code as there is before ip; the page before it may not be known. */
static size_t read_before(const struct decode_memory *memory, const struct decode_sample *sample,
			  uint8_t bytes[static BEHIND_SWEEP_BYTES])
{
	static const size_t lengths[] = { BEHIND_SWEEP_BYTES, 48, 24, INSTRUCTION_MAX_BYTES };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t n = lengths[i];

		if (sample->ip > n && read_code(memory, sample, sample->ip - n, bytes, n) == n)
			return n;
	}
	return 0;
}

static void add_candidates(struct decode_before_entry *entry, const uint8_t *code, size_t n_bytes)
{
	for (size_t length = 1; length <= INSTRUCTION_MAX_BYTES && length <= n_bytes; length++) {
		struct instruction instruction;

		if (entry->n == DECODE_BEFORE_CANDIDATES ||
		    decode_instruction_fill(code + n_bytes - length, length, entry->ip - length,
					    &instruction) < 0 ||
		    instruction.bytes != length || instruction.n_memory == 0)
			continue;
		entry->candidates[entry->n++] = instruction;
	}
}

static void fill(struct decode_before_entry *entry, const struct decode_memory *memory,
		 const struct decode_sample *sample)
{
	uint8_t code[BEHIND_SWEEP_BYTES], next[INSTRUCTION_MAX_BYTES];
	size_t n = read_before(memory, sample, code);

	memset(entry, 0, sizeof(*entry));
	entry->ip = sample->ip;
	entry->process = sample->process;
	add_candidates(entry, code, n);
	decode_behind_lengths(code, n, false, &entry->elected, 1);
	n = read_code(memory, sample, sample->ip, next, sizeof(next));
	entry->is_in_string = n > 0 &&
			      decode_instruction_fill(next, n, sample->ip, &entry->string) == 0 &&
			      entry->string.repeat != REPEAT_NONE && entry->string.n_memory > 0;
}

static struct decode_before_entry *find(struct decode_before_cache *cache,
					const struct decode_memory *memory,
					const struct decode_sample *sample)
{
	uint64_t hash =
		(sample->ip ^ (uint64_t)sample->process << 40) * UINT64_C(0x9e3779b97f4a7c15);
	struct decode_before_entry *entry = &cache->entries[(hash >> 40) % DECODE_BEFORE_ENTRIES];

	if (entry->ip != sample->ip || entry->process != sample->process)
		fill(entry, memory, sample);
	return entry;
}

static uint64_t register_of(const struct decode_sample *sample, unsigned reg)
{
	return reg < DECODE_N_REGS ? sample->regs[reg] : 0;
}

static bool is_changed(const struct instruction *instruction, unsigned reg)
{
	return reg < DECODE_N_REGS && (instruction->regs_written >> reg & 1);
}

/* Where an operand lies, by the registers behind its instruction. False: they do not tell. */
static bool locate(const struct instruction *instruction, const struct memory_operand *operand,
		   const struct decode_sample *sample, uint64_t *ret_address)
{
	if (operand->flags & (MEMORY_GATHER | MEMORY_OPEN_END | MEMORY_LINE | MEMORY_GS |
			      MEMORY_BIT_OFFSET | MEMORY_LOW_INDEX))
		return false;
	if ((operand->flags & MEMORY_FS) && sample->fs_base == 0)
		return false;
	if (is_changed(instruction, operand->base) || is_changed(instruction, operand->index))
		return false;
	uint64_t address = register_of(sample, operand->base) +
			   register_of(sample, operand->index) * operand->scale +
			   (uint64_t)operand->displacement;
	if (operand->flags & MEMORY_32BIT)
		address &= UINT32_MAX;
	*ret_address = address + (operand->flags & MEMORY_FS ? sample->fs_base : 0);
	return true;
}

static bool overlaps(uint64_t address, uint64_t n_bytes, uint64_t other, uint64_t n_other)
{
	return address < other + n_other && other < address + n_bytes;
}

static void take(const struct instruction *instruction, const struct memory_operand *operand,
		 struct decode_before *before)
{
	before->ip = instruction->address;
	before->size = operand->size;
	before->is_read |= (operand->flags & MEMORY_READ) != 0;
	before->is_write |= (operand->flags & MEMORY_WRITE) != 0;
}

/* Does it access the range, surely? Then what it does there is added to *before. */
static bool takes_part(const struct instruction *instruction, const struct decode_sample *sample,
		       uint64_t address, uint32_t n_bytes, struct decode_before *before)
{
	bool is_there = false;

	for (unsigned i = 0; i < instruction->n_memory; i++) {
		const struct memory_operand *operand = &instruction->memory[i];
		uint64_t at;

		if (!locate(instruction, operand, sample, &at) ||
		    !overlaps(at, (uint64_t)operand->size * operand->count, address, n_bytes))
			continue;
		take(instruction, operand, before);
		is_there = true;
	}
	return is_there;
}

/* The one whose operand lies there; false: none, or several that do different things. */
static bool find_certain(const struct decode_before_entry *entry,
			 const struct decode_sample *sample, uint64_t address, uint32_t n_bytes,
			 struct decode_before *ret_before)
{
	struct decode_before found = { 0 };

	for (unsigned i = 0; i < entry->n; i++) {
		const struct instruction *instruction = &entry->candidates[i];
		struct decode_before one = { 0 };

		if (!takes_part(instruction, sample, address, n_bytes, &one))
			continue;
		if (instruction->bytes == entry->elected) {
			*ret_before = one;
			return true;
		}
		if (found.ip && (found.is_read != one.is_read || found.is_write != one.is_write))
			return false;
		found = one;
	}
	*ret_before = found;
	return found.ip != 0;
}

/* A rep that is interrupted by the trap: its registers have gone on. */
static bool find_string(const struct decode_before_entry *entry, const struct decode_sample *sample,
			uint64_t address, uint32_t n_bytes, struct decode_before *ret_before)
{
	struct decode_before found = { 0 };

	for (unsigned i = 0; entry->is_in_string && i < entry->string.n_memory; i++) {
		const struct memory_operand *operand = &entry->string.memory[i];
		uint64_t at = register_of(sample, operand->base) - STRING_SLACK_BYTES;

		if (overlaps(at, 2 * STRING_SLACK_BYTES, address, n_bytes))
			take(&entry->string, operand, &found);
	}
	if (!found.ip)
		return false;
	*ret_before = found;
	return true;
}

/* The one that the sweeps agree on, where its operand cannot be computed but may lie there. */
static bool find_elected(const struct decode_before_entry *entry,
			 const struct decode_sample *sample, bool has_registers,
			 struct decode_before *ret_before)
{
	for (unsigned i = 0; i < entry->n; i++) {
		const struct instruction *instruction = &entry->candidates[i];
		struct decode_before found = { 0 };

		if (instruction->bytes != entry->elected)
			continue;
		for (unsigned k = 0; k < instruction->n_memory; k++) {
			uint64_t at;

			/* One that can be computed lies elsewhere. */
			if (!has_registers ||
			    !locate(instruction, &instruction->memory[k], sample, &at))
				take(instruction, &instruction->memory[k], &found);
		}
		*ret_before = found;
		return found.ip != 0;
	}
	return false;
}

void decode_before(struct decode_before_cache *cache, const struct decode_trap *trap,
		   struct decode_before *ret_before)
{
	const struct decode_sample *sample = trap->sample;
	const struct decode_before_entry *entry = find(cache, trap->memory, sample);

	*ret_before = (struct decode_before){ 0 };
	if (trap->has_registers &&
	    (find_certain(entry, sample, trap->address, trap->n_bytes, ret_before) ||
	     find_string(entry, sample, trap->address, trap->n_bytes, ret_before)))
		return;
	find_elected(entry, sample, trap->has_registers, ret_before);
}
