#pragma once
/*
 * The instructions right before a sample's: where they begin, and what they accessed. x86 code
 * cannot be read backwards, but a sweep from nearly any byte falls into step with it after a few
 * instructions; sweeps from all bytes before ip vote on which instructions end there.
 */
#include <stddef.h>
#include <stdint.h>

#include "decode/decode.h"

#define BEHIND_SWEEP_BYTES 96u

/*
 * The lengths of the instructions before `n_bytes` bytes of code that end at address, nearest
 * first; at most n_max of them, less where the sweeps do not agree. Returns how many.
 */
unsigned decode_behind_lengths(const uint8_t *code, size_t n_bytes, uint64_t address,
			       uint8_t *ret_lengths, unsigned n_max);

/* How the code comes to an address. */
enum behind_way {
	BEHIND_NOT_ASKED,
	BEHIND_LINE, /* from the instruction before it, which is no branch */
	BEHIND_BRANCH, /* from the branch at `source`: taken, or not taken right before */
	BEHIND_RETURN, /* from the function that the call right before it called */
	BEHIND_CALL, /* from a call, if from anywhere: nothing goes on or jumps to here */
	BEHIND_UNKNOWN, /* in several ways */
};

/* Lengths found before, by (process, address); direct-mapped. All zero is empty. */
#define BEHIND_SETS 4096u

struct behind_entry {
	uint64_t address; /* 0: free */
	uint32_t process;
	uint8_t n;
	uint8_t lengths[DECODE_MAX_BEHIND];
	uint8_t way; /* enum behind_way; found by stall.c */
	uint8_t fused_bytes; /* of the instruction before source; 0: not known */
	uint64_t source;
};

struct behind_cache {
	struct behind_entry entries[BEHIND_SETS];
};

/* The entry in which (process, address) belongs; it may hold another. */
struct behind_entry *decode_behind_entry(struct behind_cache *cache, uint32_t process,
					 uint64_t address);

/* Forget what was found from code of process in [start, end). */
void decode_behind_drop(struct behind_cache *cache, uint32_t process, uint64_t start, uint64_t end);
