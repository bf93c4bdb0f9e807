#pragma once
/*
 * Loops with branches that nothing known decides. From ip the code is emulated over all ways that
 * such branches leave open, as far as they come back to ip. How often a branch is taken tell the
 * samples right before it that decide it, and those on its two ways, for each instruction there.
 * Both may err, by how long is waited for what: where they differ, the difference is not known.
 * What comes in to a branch goes out of it: that gives how often each way runs. So a turn is what
 * runs of it on the average, and a sample's time goes over all of its accesses, wherever in the
 * turn it was taken.
 */
#include "decode/block.h"

#define WAYS_HITS      8192u /* a power of two */
#define WAYS_TAKEN     1u
#define WAYS_NOT_TAKEN 2u
#define WAYS_MODELS    2u /* how branches go: by what is decided, by samples */
#define WAYS_NODES     24u
#define WAYS_CODE      512u /* different instructions of a loop; a power of two */
#define WAYS_STEPS     384u /* that are emulated */

/* Samples at an instruction, by where its function was called; or how a branch went. */
struct ways_hit {
	uint64_t address; /* 0: free */
	uint64_t caller; /* 0: all; or WAYS_TAKEN or WAYS_NOT_TAKEN */
	uint32_t process;
	uint32_t n;
};

/* An instruction of the loop. */
struct ways_code {
	uint64_t address;
	uint64_t caller; /* 0: not known */
	uint64_t sp;
	bool is_others; /* of another loop than the sample's: that has samples of its own */
	uint32_t nodes; /* bit for each that it lies on */
	uint16_t n_visits; /* by the first of these */
	uint8_t first;
	uint32_t n_hits;
	double n[WAYS_MODELS]; /* how often it runs, for once from ip; 0 of others' */
};

/* A way from a branch, or from ip, to the next branch. */
struct ways_node {
	uint64_t from; /* the branch it begins at; 0: ip */
	uint64_t from_sp; /* the stack pointer there */
	uint64_t branch; /* where it ends; 0: it comes back to ip, or leads elsewhere */
	uint64_t sp; /* there */
	uint32_t next; /* bit for each node that begins there */
	bool is_back;
	bool is_taken; /* the branch it begins at */
	double n[WAYS_MODELS]; /* how often it runs, for once from ip */
};

/* All that a decoder keeps; all zero is empty. */
struct ways_cache {
	struct ways_hit hits[WAYS_HITS];
	/* of the window that is made */
	struct ways_code code[WAYS_CODE];
	uint16_t numbers[2 * WAYS_CODE]; /* of code by its hash, + 1 */
	unsigned n_code;
	struct ways_node nodes[WAYS_NODES];
	unsigned n_nodes;
	unsigned n_steps;
	uint16_t code_of[DECODE_MAX_ACCESSES]; /* number of the instruction of each access */
	uint16_t of_window[DECODE_MAX_INSTRUCTIONS]; /* the same of each position */
};

/* A sample of time was taken. */
void decode_ways_hit(struct ways_cache *cache, const struct decode_sample *sample);

/* How many samples were at an instruction of the sample's process so far. */
uint32_t decode_ways_count(struct ways_cache *cache, const struct decode_sample *sample,
			   uint64_t address);

/* A branch right behind a sample was decided. */
void decode_ways_decided(struct ways_cache *cache, const struct decode_sample *sample,
			 uint64_t branch, bool is_taken);

/*
 * Whether ip is often come to from the instruction at `other`, by samples there and in the line
 * before, as compared with those of the one at `taken`: more than once in 64 times.
 */
bool decode_ways_is_usual(struct ways_cache *cache, const struct block_code *code,
			  const struct decode_sample *sample, uint64_t other, uint64_t taken);

/*
 * Weigh the window's accesses, and add those of the other ways: window->is_expected, n_likely. The
 * machine is as it was at ip. Without a way back nothing changes.
 */
void decode_ways_weigh(struct ways_cache *cache, const struct block_code *code,
		       struct machine *machine, struct decode_window *window);

/* Forget the samples in code of process in [start, end). */
void decode_ways_drop(struct ways_cache *cache, uint32_t process, uint64_t start, uint64_t end);
