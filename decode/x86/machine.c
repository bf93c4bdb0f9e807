#include "decode/x86/machine.h"

#include <stddef.h>

static bool is_on_stack(const struct machine *machine, uint64_t address)
{
	return address - machine->stack_start < machine->n_stack * 8;
}

void decode_machine_init(struct machine *machine, const struct decode_memory *memory,
			 const struct decode_sample *sample)
{
	for (unsigned i = 0; i < DECODE_N_REGS; i++)
		machine->regs[i] = value_exact(sample->regs[i]);
	machine->regs[REG_ZERO] = value_exact(0);
	machine->regs[DECODE_FLAGS] =
		(struct value){ sample->regs[DECODE_FLAGS] & FLAGS_TRACKED, FLAGS_TRACKED };
	machine->next = sample->ip;
	machine->end = MACHINE_GOES_ON;
	machine->fs_base = sample->fs_base;
	machine->is_guessing = false;
	machine->vectors = NULL;
	machine->n_calls = 0;
	machine->memory = memory;
	machine->sample = sample;
	machine->stack_start =
		(sample->regs[DECODE_SP] - (sample->below ? DECODE_BELOW_BYTES : 0)) & ~UINT64_C(7);
	machine->n_stack = MACHINE_STACK_WORDS - (sample->below ? 0 : DECODE_BELOW_BYTES / 8);
	machine->stack_loaded = 0;
	machine->stack_stable = UINT64_MAX;
	machine->words_used = 0;
	machine->words_stable = 0;
	machine->lost_start = UINT64_MAX;
	machine->lost_end = 0;
}

/* The byte at address as far as the sample has it. */
static struct value sampled_byte(const struct decode_sample *sample, uint64_t address)
{
	uint64_t offset = address - sample->regs[DECODE_SP];
	uint64_t below = sample->regs[DECODE_SP] - address;

	if (sample->below && below - 1 < sample->below_bytes && below <= DECODE_BELOW_BYTES)
		return (struct value){
			((const uint8_t *)sample->below)[sample->below_bytes - below], 0xff
		};
	if (!sample->stack || offset >= sample->stack_bytes || offset >= DECODE_STACK_BYTES)
		return (struct value){ 0, 0 };
	return (struct value){ ((const uint8_t *)sample->stack)[offset], 0xff };
}

struct value decode_machine_sampled(const struct decode_sample *sample, uint64_t address,
				    unsigned n_bytes)
{
	struct value value = { 0, 0 };

	for (unsigned i = 0; i < n_bytes; i++) {
		struct value byte = sampled_byte(sample, address + i);

		value.bits |= byte.bits << i * 8;
		value.known |= byte.known << i * 8;
	}
	return value;
}

/* Word number i of the sampled stack; the first and the last one may be known in part. */
static struct value *stack_word(struct machine *machine, unsigned i)
{
	struct value *word = &machine->stack[i];

	if (machine->stack_loaded >> i & 1)
		return word;
	machine->stack_loaded |= UINT64_C(1) << i;
	*word = decode_machine_sampled(machine->sample, machine->stack_start + i * 8, 8);
	return word;
}

static unsigned word_slot(uint64_t address)
{
	return (unsigned)(address / 8 % MACHINE_WORDS);
}

size_t decode_machine_outside(const struct machine *machine, uint64_t address, void *bytes,
			      size_t n_bytes)
{
	const struct decode_memory *memory = machine->memory;
	const struct decode_sample *sample = machine->sample;
	size_t n = 0;

	/* Nothing that the window stores can change constant data. */
	if (memory->constant)
		n = memory->constant(memory->user, sample->process, address, sample->time, bytes,
				     n_bytes);
	if (n == 0 && memory->data &&
	    (address >= machine->lost_end || address + n_bytes <= machine->lost_start))
		n = memory->data(memory->user, sample->process, address, sample->time, bytes,
				 n_bytes);
	return n < n_bytes ? n : n_bytes;
}

static struct value outside_word(const struct machine *machine, uint64_t address)
{
	uint8_t bytes[8];
	struct value word = value_unknown();
	size_t n = decode_machine_outside(machine, address, bytes, sizeof(bytes));

	for (size_t i = 0; i < n; i++) {
		word.bits |= (uint64_t)bytes[i] << i * 8;
		word.known |= UINT64_C(0xff) << i * 8;
	}
	return word;
}

/* The 8 bytes at an 8-aligned address. */
static struct value load_word(struct machine *machine, uint64_t address, enum machine_reader reader)
{
	unsigned i = word_slot(address);

	if (is_on_stack(machine, address)) {
		i = (unsigned)((address - machine->stack_start) / 8);
		if (reader == MACHINE_READER_DATA && !(machine->stack_stable >> i & 1))
			return value_unknown();
		return *stack_word(machine, i);
	}
	if (!(machine->words_used >> i & 1) || machine->words[i].address != address)
		return outside_word(machine, address);
	if (reader == MACHINE_READER_DATA && !(machine->words_stable >> i & 1))
		return value_unknown();
	return machine->words[i].value;
}

struct value decode_machine_load(struct machine *machine, uint64_t address, unsigned n_bytes,
				 enum machine_reader reader)
{
	unsigned shift = (unsigned)(address % 8) * 8;
	struct value low = load_word(machine, address & ~UINT64_C(7), reader);

	low = value_shift_right(low, shift);
	if (shift + n_bytes * 8 > 64) {
		struct value high = load_word(machine, (address & ~UINT64_C(7)) + 8, reader);

		high = value_shift_left(high, 64 - shift);
		low = value_merge(low, high, value_mask(64 - shift));
	}
	/* An index, from which code takes 1 more often than it adds as much as an array has. */
	if (machine->is_guessing && reader == MACHINE_READER_DATA)
		low = value_exact(n_bytes == 4 && !(low.known & UINT32_MAX) ? 1 : low.bits);
	return value_truncate(low, n_bytes * 8);
}

static void store_on_stack(struct machine *machine, unsigned i, struct value value, uint64_t mask)
{
	struct value *word = stack_word(machine, i);

	/* Beside the bytes that are stored now, an unstable word holds nothing certain. */
	if (!(machine->stack_stable >> i & 1))
		*word = value_unknown();
	*word = value_merge(value, *word, mask);
	machine->stack_stable |= UINT64_C(1) << i;
}

static void lose(struct machine *machine, uint64_t start, uint64_t end)
{
	if (start < machine->lost_start)
		machine->lost_start = start;
	if (end > machine->lost_end)
		machine->lost_end = end;
}

/* Replace the bits of mask in the word at an 8-aligned address. */
static void store_word(struct machine *machine, uint64_t address, struct value value, uint64_t mask)
{
	unsigned i = word_slot(address);
	struct machine_word *word = &machine->words[i];
	uint64_t bit = UINT64_C(1) << i;

	if (is_on_stack(machine, address)) {
		store_on_stack(machine, (unsigned)((address - machine->stack_start) / 8), value,
			       mask);
		return;
	}
	/* A word pushed out by another is unknown again: outside it is as it was before. */
	if (machine->words_used & bit && word->address != address)
		lose(machine, word->address, word->address + 8);
	if (!(machine->words_used & bit) || word->address != address ||
	    !(machine->words_stable & bit))
		*word = (struct machine_word){ address, value_unknown() };
	word->value = value_merge(value, word->value, mask);
	machine->words_used |= bit;
	machine->words_stable |= bit;
}

void decode_machine_store(struct machine *machine, uint64_t address, unsigned n_bytes,
			  struct value value)
{
	unsigned shift = (unsigned)(address % 8) * 8;
	uint64_t mask = value_mask(n_bytes * 8);
	uint64_t word = address & ~UINT64_C(7);

	store_word(machine, word, (struct value){ value.bits << shift, value.known << shift },
		   mask << shift);
	if (shift + n_bytes * 8 > 64) {
		value = (struct value){ value.bits >> (64 - shift), value.known >> (64 - shift) };
		store_word(machine, word + 8, value, mask >> (64 - shift));
	}
}

/* The bits of the word at `word` that lie in [start, start + n_bytes). */
static uint64_t overlap_mask(uint64_t word, uint64_t start, uint64_t n_bytes)
{
	uint64_t mask = 0;

	for (unsigned byte = 0; byte < 8; byte++)
		if (word + byte - start < n_bytes)
			mask |= UINT64_C(0xff) << byte * 8;
	return mask;
}

static void forget_bits(struct value *value, uint64_t mask)
{
	value->known &= ~mask;
	value->bits &= value->known;
}

/* The words of a short range, as of vector stores. */
static void forget_short(struct machine *machine, uint64_t address, uint64_t n_bytes)
{
	uint64_t word = address & ~UINT64_C(7);
	uint64_t n_words = (address % 8 + n_bytes + 7) / 8;

	for (; n_words > 0; n_words--, word += 8) {
		unsigned i = word_slot(word);

		if (is_on_stack(machine, word)) {
			i = (unsigned)((word - machine->stack_start) / 8);
			forget_bits(stack_word(machine, i), overlap_mask(word, address, n_bytes));
		} else if (machine->words_used >> i & 1 && machine->words[i].address == word) {
			forget_bits(&machine->words[i].value, overlap_mask(word, address, n_bytes));
		} else if (machine->memory->data) {
			store_word(machine, word, value_unknown(), UINT64_MAX);
		}
	}
}

void decode_machine_forget(struct machine *machine, uint64_t address, uint64_t n_bytes)
{
	uint64_t used = machine->words_used;

	if (n_bytes <= MACHINE_WORDS * 8) {
		forget_short(machine, address, n_bytes);
		return;
	}
	lose(machine, address, address + n_bytes < address ? UINT64_MAX : address + n_bytes);
	for (unsigned i = 0; i < machine->n_stack; i++)
		forget_bits(stack_word(machine, i),
			    overlap_mask(machine->stack_start + i * 8, address, n_bytes));
	for (; used; used &= used - 1) {
		struct machine_word *word = &machine->words[__builtin_ctzll(used)];

		forget_bits(&word->value, overlap_mask(word->address, address, n_bytes));
	}
}

void decode_machine_forget_all(struct machine *machine)
{
	machine->stack_stable = 0;
	machine->words_stable = 0;
	decode_machine_lose_data(machine);
}

void decode_machine_lose_data(struct machine *machine)
{
	lose(machine, 0, UINT64_MAX);
}
