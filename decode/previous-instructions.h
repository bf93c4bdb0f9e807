#pragma once
/*
 * The instructions right before a sample's: where they begin, and what they accessed. x86 code
 * cannot be read backwards, but a sweep from nearly any byte falls into step with it after a few
 * instructions; sweeps from all bytes before ip vote on which instructions end there.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/branch-targets.h"
#include "decode/decode.h"

#define BEHIND_SWEEP_BYTES 96u

/*
 * The lengths of the instructions that `n_bytes` bytes of code end with, nearest first; at most
 * n_max of them, less where the sweeps do not agree. is_begin: the first byte surely begins one, so
 * that its sweep outvotes all others. Returns how many.
 */
unsigned decode_behind_lengths(const uint8_t *code, size_t n_bytes, bool is_begin,
			       uint8_t *ret_lengths, unsigned n_max);

/*
 * Whether three quarters of the sweeps find code[at] in the middle of a vector instruction, whose
 * prefix (62, c4 or c5) has bytes that read as short branches.
 */
bool decode_behind_is_inside(const uint8_t *code, size_t n_bytes, size_t at);

/* How the code comes to an address. */
enum behind_way {
	BEHIND_UNKNOWN, /* in several ways, or none that is known */
	BEHIND_LINE, /* from the instruction before it */
	BEHIND_BRANCH, /* from the branch at `source` */
	BEHIND_EITHER, /* from one of these two */
	/* from the function that the call right before it called: the ret at `source` */
	BEHIND_RETURN,
	BEHIND_CALL, /* from a call, if from anywhere */
};

/* How far around ip changed code is noticed. */
#define BEHIND_LOOK_BYTES 2048u

/* What was found before, by (process, address); direct-mapped. All zero is empty. */
#define BEHIND_SETS 16384u

struct behind_entry {
	uint64_t address; /* 0: free */
	uint64_t version; /* decode_code_version() of all that is looked at around it */
	uint32_t process;
	uint8_t n;
	/* of these, those that surely ran right before: nothing else leads between them */
	uint8_t n_line;
	uint8_t lengths[DECODE_MAX_BEHIND];
	uint8_t way; /* enum behind_way */
	uint8_t fused_bytes; /* of the instruction that ran before `source`; 0: not known */
	uint8_t n_if_line; /* those that surely ran if the one right before ip did; 0: it did not */
	bool is_begin; /* a function surely begins at ip: no line leads there */
	bool pops_frame; /* the instruction before: rbp was where it popped from */
	uint64_t source; /* BEHIND_RETURN: 0 where the function has several */
	/* BEHIND_UNKNOWN: all branches that lead there, as seen from address, beside the line if
	 * n_if_line; none where more may */
	uint8_t n_sources;
	int16_t sources[TARGETS_SOURCES];
};

struct behind_cache {
	struct behind_entry entries[BEHIND_SETS];
};

/* The entry in which (process, address) belongs; it may hold another. */
struct behind_entry *decode_behind_entry(struct behind_cache *cache, uint32_t process,
					 uint64_t address);

/* Forget what may have been found from code of process in [start, end). */
void decode_behind_drop(struct behind_cache *cache, uint32_t process, uint64_t start, uint64_t end);
