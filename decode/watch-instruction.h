#pragma once
/*
 * What a debug register saw: the trap comes behind the instruction that accessed, so ip is that of
 * the next one. x86 code cannot be read backwards, but here the address is known: an instruction
 * that ends at ip and whose operand lies there is the one. Where the operand can no longer be
 * computed (the instruction has changed its registers), sweeps of the code decide (behind.h).
 *
 * Pure functions on the caller's memory; one thread for each cache.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/decode.h"
#include "decode/x86/instruction.h"

#define DECODE_BEFORE_ENTRIES	 256u
#define DECODE_BEFORE_CANDIDATES 6u

/* The instructions that may end at ip, and have a memory operand. */
struct decode_before_entry {
	uint64_t ip; /* 0: free */
	uint32_t process;
	uint8_t n;
	uint8_t elected; /* length of the one that sweeps agree on; 0: they do not */
	bool is_in_string; /* at ip stands a rep: it may be under way */
	struct instruction string; /* that one */
	struct instruction candidates[DECODE_BEFORE_CANDIDATES];
};

/* All zero is empty. */
struct decode_before_cache {
	struct decode_before_entry entries[DECODE_BEFORE_ENTRIES];
};

struct decode_before {
	uint64_t ip; /* of the instruction; 0: it cannot be told, and nor can the rest */
	uint32_t size; /* bytes of its operand; 0: not known */
	bool is_read;
	bool is_write; /* both: read-modify-write */
};

/* A trap. */
struct decode_trap {
	const struct decode_memory *memory; /* code only */
	const struct decode_sample *sample; /* stack is not read */
	bool has_registers; /* sample->regs are those of the trap; else only the sweeps can tell */
	uint64_t address; /* what is watched */
	uint32_t n_bytes;
};

/* Which instruction accessed [address, address + n_bytes) and trapped at sample->ip. */
void decode_before(struct decode_before_cache *cache, const struct decode_trap *trap,
		   struct decode_before *ret_before);
