#pragma once
/*
 * Decoded instructions by (process, address): 4 ways per set. They lie in the order of their
 * coming, so that few of them take few pages; where all room is taken the oldest goes. The memory
 * is fixed when it is made.
 */
#include "decode/x86/instruction.h"

struct cache {
	struct instruction *entries;
	size_t n_entries;
	uint64_t n_added; /* so far: the next one has this number, modulo n_entries */
	uint32_t *numbers; /* of each way of each set: that of an entry + 1; 0: none */
	size_t n_sets; /* a power of two */
};

/* Returns 0 or -ENOMEM. decode_cache_finish() frees it. */
int decode_cache_init(struct cache *cache, size_t n_entries);
void decode_cache_finish(struct cache *cache);

/* The instruction, or NULL. Valid until the next decode_cache_add. */
const struct instruction *decode_cache_find(const struct cache *cache, uint32_t process,
					    uint64_t address, uint64_t version);

/* Copy the instruction in. Returns the copy. */
const struct instruction *decode_cache_add(struct cache *cache,
					   const struct instruction *instruction);

/* Drop the entries of process that overlap [start, end). */
void decode_cache_drop(struct cache *cache, uint32_t process, uint64_t start, uint64_t end);
