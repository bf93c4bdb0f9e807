/* From one sample to the next, instruction by instruction. */
#include <errno.h>
#include <string.h>

#include "decode/decoder.h"
#include "decode/x86/execute.h"

#define MIN_KNOWN 8u /* registers, of 16, that must be known to say where it is */

struct replay {
	struct decoder *decoder;
	struct machine machine;
	const struct decode_sample *to;
	struct decode_way *way;
	uint64_t seed;
	uint64_t n;
};

static uint64_t draw(struct replay *replay)
{
	replay->seed ^= replay->seed << 13;
	replay->seed ^= replay->seed >> 7;
	replay->seed ^= replay->seed << 17;
	return replay->seed;
}

/* Each access stays with the same probability, however many follow. */
static void pick(struct replay *replay, const struct decode_access *access)
{
	struct decode_way *way = replay->way;

	way->n_accesses += access->count;
	if (way->n_picked < DECODE_MAX_PICKED) {
		way->picked[way->n_picked++] = *access;
		return;
	}
	uint64_t at = draw(replay) % way->n_accesses;
	if (at < (uint64_t)DECODE_MAX_PICKED * access->count)
		way->picked[at % DECODE_MAX_PICKED] = *access;
}

static void note(struct replay *replay, const struct instruction *instruction)
{
	struct decode_access access;

	if (instruction->n_memory == 0 || decode_is_repeated_never(&replay->machine, instruction))
		return;
	for (unsigned i = 0; i < instruction->n_memory; i++) {
		decode_fill_access(&replay->machine, instruction, i, &access);
		pick(replay, &access);
	}
}

/* One instruction; with_accesses: those are counted. 0 or -EAGAIN. */
static int step(struct replay *replay, bool with_accesses)
{
	struct machine *machine = &replay->machine;
	const struct instruction *instruction =
		decode_find_instruction(replay->decoder, machine->sample, machine->next);

	if (!instruction || instruction->bytes == 0)
		return -EAGAIN;
	decode_machine_prepare(machine, instruction);
	if (with_accesses)
		note(replay, instruction);
	machine->next += instruction->bytes;
	instruction->execute(machine, instruction);
	replay->n++;
	return machine->end == MACHINE_GOES_ON ? 0 : -EAGAIN;
}

static bool agree(struct value value, uint64_t sampled)
{
	return ((value.bits ^ sampled) & value.known) == 0;
}

static bool is_stack_the_same(struct replay *replay)
{
	const struct decode_sample *to = replay->to;

	for (uint32_t at = 0; to->stack && at + 8 <= to->stack_bytes; at += 8) {
		uint64_t word;

		memcpy(&word, (const uint8_t *)to->stack + at, sizeof(word));
		if (!agree(decode_machine_load(&replay->machine, to->regs[DECODE_SP] + at, 8,
					       MACHINE_READER_DATA),
			   word))
			return false;
	}
	return true;
}

/* Whether all that is known is as in the later sample, and enough is. */
static bool is_there(struct replay *replay)
{
	const struct machine *machine = &replay->machine;
	unsigned n_known = 0;

	if (machine->next != replay->to->ip)
		return false;
	for (unsigned i = 0; i < DECODE_N_REGS; i++) {
		if (i == DECODE_IP || i == DECODE_FLAGS)
			continue;
		if (!agree(machine->regs[i], replay->to->regs[i]))
			return false;
		n_known += value_is_exact(machine->regs[i]);
	}
	return n_known >= MIN_KNOWN && is_stack_the_same(replay);
}

/* -EINVAL when it comes to look the same again soon: then the first time says nothing. */
static int check_unique(struct replay *replay)
{
	uint64_t until = 2 * replay->n;

	while (replay->n < until && step(replay, false) == 0)
		if (is_there(replay))
			return -EINVAL;
	return 0;
}

static int walk(struct replay *replay, uint64_t max_instructions)
{
	int r;

	do {
		if (replay->n >= max_instructions)
			return -ERANGE;
		r = step(replay, true);
	} while (r == 0 && !is_there(replay));
	if (r < 0)
		return r;
	replay->way->n_instructions = replay->n;
	return check_unique(replay);
}

int decode_replay(struct decoder *decoder, const struct decode_sample *from,
		  const struct decode_sample *to, uint64_t max_instructions,
		  struct decode_way *ret_way)
{
	struct replay replay = {
		.decoder = decoder, .to = to, .way = ret_way, .seed = from->time * 2 + 1
	};

	ret_way->n_instructions = 0;
	ret_way->n_accesses = 0;
	ret_way->n_picked = 0;
	decode_machine_init(&replay.machine, &decoder->memory, from);
	decode_machine_lose_data(&replay.machine);
	int r = walk(&replay, max_instructions);
	ret_way->n_emulated = replay.n;
	return r;
}
