#pragma once
/*
 * Vector and mask registers that hold a constant at an address of code, whichever way leads there:
 * what compilers put before a loop, as the ones of a gather's mask. Found by walking back over all
 * ways until each has set the register without reading anything that changes.
 */
#include <stdint.h>

#include "decode/block.h"
#include "decode/x86/machine.h"

#define HOISTED_SETS 32u
#define HOISTED_MAX  6u /* registers of an address */

struct hoisted {
	uint64_t address; /* 0: free */
	uint64_t version; /* as behind_entry.version */
	uint32_t process;
	uint8_t n;
	struct {
		uint8_t reg; /* from VECTOR_REGS on: mask registers */
		struct vector value; /* of mask registers the lowest word */
	} regs[HOISTED_MAX];
};

/* What was found before, by (process, address); direct-mapped. All zero is empty. */
struct hoisted_cache {
	struct hoisted sets[HOISTED_SETS];
};

/* The constants at the sample's ip; none where some way there is not known. */
const struct hoisted *decode_hoisted_find(struct hoisted_cache *cache,
					  const struct block_code *code,
					  const struct decode_sample *sample);

/* Give a machine that has vectors the constants. */
void decode_hoisted_take(const struct hoisted *hoisted, struct machine *machine);

/*
 * A machine at the sample's ip that has vectors: run what surely ran right before ip again, so that
 * what it made of vector and mask registers is known, as of the index of a gather. General
 * registers may be known less than before.
 */
void decode_hoisted_run_line(const struct block_code *code, const struct decode_sample *sample,
			     struct machine *machine);
