#include "decode/previous-instructions.h"

#include <Zydis/Zydis.h>
#include <string.h>

#include "decode/branch-targets.h"
#include "decode/x86/instruction.h"

#define FAR_BYTES   (TARGETS_REACH_BYTES + 4096) /* code so far away may tell something */
#define MIN_VOTES   4u /* sweeps that must have come through an instruction */
#define LOOK_BEFORE (BEHIND_SWEEP_BYTES - INSTRUCTION_MAX_BYTES) /* where sweeps begin */
#define SURE_VOTES  (3 * BEHIND_SWEEP_BYTES) /* of one that is right: more than all others allow */

/* What sweeps found: the length at each offset (0: no instruction), and how many came by. */
struct sweep {
	uint8_t lengths[BEHIND_SWEEP_BYTES];
	uint16_t votes[BEHIND_SWEEP_BYTES + 1];
};

/*
 * The length of the instruction at code[0], or 0. Its operands are not asked for: that takes half
 * the time; nor is what it means, which is an eighth of the rest.
 */
static uint8_t find_length(const ZydisDecoder *zydis, const uint8_t *code, size_t n_bytes)
{
	ZydisDecodedInstruction instruction;

	/* add %al,(%rax): no compiler makes it; it is data, such as the tables of Haskell. */
	if (n_bytes >= 2 && code[0] == 0 && code[1] == 0)
		return 0;
	return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(zydis, NULL, code, n_bytes, &instruction))
		       ? instruction.length
		       : 0;
}

/* Each offset starts a sweep of its own; sweeps that meet go on together. */
static void sweep_all(const uint8_t *code, size_t n_bytes, bool is_begin, struct sweep *sweep)
{
	ZydisDecoder zydis;

	ZydisDecoderInit(&zydis, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ZydisDecoderEnableMode(&zydis, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
	memset(sweep, 0, sizeof(*sweep));
	sweep->votes[0] = is_begin ? SURE_VOTES : 0;
	for (size_t at = 0; at < n_bytes; at++) {
		sweep->votes[at]++;
		sweep->lengths[at] = find_length(&zydis, code + at, n_bytes - at);
		if (sweep->lengths[at])
			sweep->votes[at + sweep->lengths[at]] += sweep->votes[at];
	}
}

/*
 * The length of the instruction that ends at `end`, by three quarters of the votes; 0: no telling.
 */
static uint8_t elect(const struct sweep *sweep, size_t end)
{
	size_t best = 0;
	unsigned n_best = 0, n_all = 0;

	for (size_t length = 1; length <= INSTRUCTION_MAX_BYTES && length <= end; length++) {
		if (sweep->lengths[end - length] != length)
			continue;
		unsigned n = sweep->votes[end - length];
		n_all += n;
		if (n > n_best) {
			n_best = n;
			best = length;
		}
	}
	return n_best >= MIN_VOTES && 4 * n_best >= 3 * n_all ? (uint8_t)best : 0;
}

unsigned decode_behind_lengths(const uint8_t *code, size_t n_bytes, bool is_begin,
			       uint8_t *ret_lengths, unsigned n_max)
{
	size_t skipped = n_bytes > BEHIND_SWEEP_BYTES ? n_bytes - BEHIND_SWEEP_BYTES : 0;
	struct sweep sweep;
	unsigned n = 0;

	n_bytes -= skipped;
	sweep_all(code + skipped, n_bytes, is_begin && skipped == 0, &sweep);
	for (size_t end = n_bytes; n < n_max; n++) {
		ret_lengths[n] = elect(&sweep, end);
		if (ret_lengths[n] == 0)
			break;
		end -= ret_lengths[n];
	}
	return n;
}

static bool is_vector_prefix(uint8_t byte)
{
	return byte == 0x62 || byte == 0xc4 || byte == 0xc5;
}

bool decode_behind_is_inside(const uint8_t *code, size_t n_bytes, size_t at)
{
	size_t start = at > LOOK_BEFORE ? at - LOOK_BEFORE : 0;
	size_t n = n_bytes - start < BEHIND_SWEEP_BYTES ? n_bytes - start : BEHIND_SWEEP_BYTES;
	struct sweep sweep;
	unsigned n_over = 0;

	code += start;
	at -= start;
	sweep_all(code, n, false, &sweep);
	for (size_t i = at > INSTRUCTION_MAX_BYTES ? at - INSTRUCTION_MAX_BYTES : 0; i < at; i++)
		if (i + sweep.lengths[i] > at && is_vector_prefix(code[i]))
			n_over += sweep.votes[i];
	return n_over >= MIN_VOTES && n_over >= 3u * sweep.votes[at];
}

struct behind_entry *decode_behind_entry(struct behind_cache *cache, uint32_t process,
					 uint64_t address)
{
	uint64_t hash = (address ^ (uint64_t)process << 40) * UINT64_C(0x9e3779b97f4a7c15);

	return &cache->entries[hash >> 40 & (BEHIND_SETS - 1)];
}

void decode_behind_drop(struct behind_cache *cache, uint32_t process, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < BEHIND_SETS; i++) {
		struct behind_entry *entry = &cache->entries[i];
		if (entry->address && entry->process == process &&
		    entry->address + FAR_BYTES > start && entry->address - FAR_BYTES < end)
			entry->address = 0;
	}
}
