#pragma once
/* What the files of decode/ share of a decoder. */
#include "decode/behind.h"
#include "decode/cache.h"
#include "decode/decode.h"
#include "decode/machine.h"

struct decoder {
	struct decode_memory memory;
	struct cache cache;
	struct behind_cache behind;
	uint64_t n_decoded;
	unsigned estimators;
};

/* The instruction at an address of the sample's process. NULL: no bytes of code. */
const struct instruction *decode_find_instruction(struct decoder *decoder,
						  const struct decode_sample *sample,
						  uint64_t address);

/* Whether the machine is back where the sample was: same ip and stack pointer. */
bool decode_is_loop_closed(const struct machine *machine, const struct decode_sample *sample);

/* Whether an operand is known to be no access: of a repeat that runs zero times. */
bool decode_is_repeated_never(const struct machine *machine, const struct instruction *instruction);

/* Operand number i of an instruction that is about to run, prepared by decode_machine_prepare(). */
void decode_fill_access(const struct machine *machine, const struct instruction *instruction,
			unsigned i, struct decode_access *ret_access);
