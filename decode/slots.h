#pragma once
/*
 * Words of memory that still equal a register at an address of code, whichever way leads there:
 * arguments that code without optimisation stores on its stack before all else, and loads for each
 * use. A function that calls none has them below the stack pointer, where no sample has bytes.
 */
#include <stdint.h>

#include "decode/block.h"
#include "decode/x86/machine.h"

#define SLOTS_SETS 2048u
#define SLOTS_MAX  6u /* of an address */

struct slot {
	uint8_t reg; /* what it equals ... */
	uint8_t bytes; /* ... so many bytes of */
	uint8_t base; /* register that its address is relative to */
	int32_t displacement;
};

struct slots {
	uint64_t address; /* 0: free */
	uint64_t version; /* as behind_entry.version */
	uint32_t process;
	uint32_t n;
	struct slot slots[SLOTS_MAX];
};

/* What was found before, by (process, address); direct-mapped. All zero is empty. */
struct slots_cache {
	struct slots sets[SLOTS_SETS];
};

/*
 * The slots at the sample's ip. All ways there, back to the store of the register, are known, and
 * leave register, base and slot alone. A store elsewhere is taken not to hit the slot where none of
 * the function's instructions makes a pointer into the frame: nobody else has its address.
 */
const struct slots *decode_slots_find(struct slots_cache *cache, const struct block_code *code,
				      const struct decode_sample *sample);

/* Whether an instruction changes what the slot has or equals, the store that made it so too. */
bool decode_slots_is_stored(const struct slot *slot, const struct instruction *instruction);

/* Store them into a machine that holds the sample's registers. */
void decode_slots_take(const struct slots *slots, struct machine *machine);

/* Forget what may have been found from code of process in [start, end). */
void decode_slots_drop(struct slots_cache *cache, uint32_t process, uint64_t start, uint64_t end);
