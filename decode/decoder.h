#pragma once
/* What the files of decode/ share of a decoder. */
#include "decode/branch-targets.h"
#include "decode/cache.h"
#include "decode/decode.h"
#include "decode/hoisted.h"
#include "decode/previous-instructions.h"
#include "decode/past.h"
#include "decode/slots.h"
#include "decode/turn.h"
#include "decode/ways.h"
#include "decode/x86/machine.h"

struct decoder {
	struct decode_memory memory;
	struct cache cache;
	struct behind_cache behind;
	struct targets targets;
	struct turn_cache turns;
	struct hoisted_cache hoisted;
	struct slots_cache slots;
	struct ways_cache ways;
	uint64_t branch; /* at the end of ip's block, if it was decided; 0: not */
	bool is_taken;
	struct past past; /* of the window that is made */
	/* the same, if ip was come to in a turn of its loop, ... */
	struct past round;
	struct decode_window next; /* ... and what follows then */
	struct vectors vectors; /* of the window that is made */
	uint64_t n_decoded;
	unsigned estimators;
	bool is_ahead_only;
	bool is_guessing;
};

/* The versions of the one or two pages that [first, last] lies on. */
static inline uint64_t decode_code_version(const struct decode_memory *memory,
					   const struct decode_sample *sample, uint64_t first,
					   uint64_t last)
{
	uint64_t version;

	if (!memory->version)
		return 0;
	version = memory->version(memory->user, sample->process, first, sample->time);
	if ((first ^ last) >> 12)
		version = version << 32 |
			  memory->version(memory->user, sample->process, last, sample->time);
	return version;
}

/* The instruction at an address of the sample's process. NULL: no bytes of code. */
const struct instruction *decode_find_instruction(struct decoder *decoder,
						  const struct decode_sample *sample,
						  uint64_t address);

/*
 * Whether the machine is back where the sample was: same ip and stack pointer, called from the
 * same places.
 */
bool decode_is_loop_closed(struct machine *machine, const struct decode_sample *sample);

/* Whether an operand is known to be no access: of a repeat that runs zero times. */
bool decode_is_repeated_never(const struct machine *machine, const struct instruction *instruction);

/* Operand number i of an instruction that is about to run, prepared by decode_machine_prepare(). */
void decode_fill_access(const struct machine *machine, const struct instruction *instruction,
			unsigned i, struct decode_access *ret_access);
