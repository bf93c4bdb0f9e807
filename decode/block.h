#pragma once
#include "decode/behind.h"
#include "decode/decode.h"
#include "decode/instruction.h"
#include "decode/machine.h"

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

/* The entry of the sample's ip, with the lengths of the instructions before it. */
struct behind_entry *decode_block_lengths(const struct block_code *code,
					  const struct decode_sample *sample);

/* Take back what an instruction did to the machine, as far as that can be told. */
void decode_block_undo(struct machine *machine, const struct instruction *instruction);

/*
 * The accesses of an instruction that ran before ip, with the machine as it was before it: at most
 * INSTRUCTION_MAX_MEMORY, to ret_accesses. Returns how many.
 */
unsigned decode_block_accesses(const struct machine *machine, const struct instruction *instruction,
			       struct decode_access *ret_accesses);
