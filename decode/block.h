#pragma once
#include "decode/behind.h"
#include "decode/decode.h"
#include "decode/instruction.h"

/* How the block's walk finds instructions. */
struct block_code {
	const struct decode_memory *memory;
	struct behind_cache *behind;
	/* The instruction at an address of the sample's process, or NULL. */
	const struct instruction *(*find)(void *user, const struct decode_sample *sample,
					  uint64_t address);
	void *user;
};

/*
 * Fill window->behind: the accesses of the instructions before ip in its basic block, nearest
 * first, with their addresses as far as the registers at ip still tell them. A register that an
 * instruction has changed by a constant is traced back; one that it has replaced is unknown.
 */
void decode_block_behind(const struct block_code *code, const struct decode_sample *sample,
			 struct decode_window *window);
