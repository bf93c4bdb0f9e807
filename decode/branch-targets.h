#pragma once
/*
 * Where else than from the instruction before it control may come to an address: from the direct
 * branches and calls of the code around, and from jump tables in constant data. What is no
 * instruction but reads as a branch counts as well: this is for telling that nothing else leads
 * there.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/decode.h"

/* Branches of 32 bits are looked for so many pages before and behind: functions are shorter. */
#define TARGETS_REACH_PAGES 32u
#define TARGETS_REACH_BYTES (TARGETS_REACH_PAGES * UINT64_C(4096))
#define TARGETS_SETS	    8192u

enum far_kind {
	FAR_JUMP,
	FAR_CALL,
	FAR_TABLE, /* an entry of a jump table that the code at `offset` uses */
};

/* A branch or call of 32 bits. */
struct far_branch {
	uint64_t target;
	uint16_t offset; /* in its page */
	uint8_t kind; /* enum far_kind */
};

/* What was found in one page of code. */
struct targets_page {
	uint64_t page; /* its address; with n_bytes 0: free */
	uint64_t version;
	uint32_t process;
	uint32_t n_bytes;
	uint32_t n;
	uint32_t n_tables; /* of these, entries of tables */
	uint32_t n_switches; /* jumps through a table */
	uint16_t first_switch, last_switch; /* of these, in the page */
	uint64_t reached; /* where branches lead: a bit for two pages each */
	size_t n_allocated;
	struct far_branch *branches;
};

/* Pages by (process, address); direct-mapped. All zero is empty. */
struct targets {
	struct targets_page pages[TARGETS_SETS];
};

#define TARGETS_SOURCES 20u

/* What leads to an address, beside the instruction before it. */
struct ways {
	uint64_t address; /* what is asked */
	unsigned n_jumps;
	unsigned n_calls;
	unsigned n_tables;
	uint64_t source; /* of the last jump */
	uint64_t sources[TARGETS_SOURCES]; /* of the first ones */
	unsigned n_users; /* of the tables, ... */
	uint64_t users[TARGETS_SOURCES]; /* ... the first of them */
	uint8_t fused_bytes; /* of the instruction before source; 0: not known */
	/* a switch of the function is near whose table is not known: nothing can be ruled out */
	bool is_open;
};

/*
 * All ways to n addresses of the sample's process, which are in ways[].address from the highest
 * down, within TARGETS_MAX_RANGE. The other members are 0 and are filled in.
 */
#define TARGETS_MAX_RANGE 128u
void decode_targets_find(struct targets *targets, const struct decode_memory *memory,
			 const struct decode_sample *sample, struct ways *ways, unsigned n);

/* Forget what was found in [start, end) of process. */
void decode_targets_drop(struct targets *targets, uint32_t process, uint64_t start, uint64_t end);

void decode_targets_finish(struct targets *targets);
