#pragma once
#include "decode/branch-targets.h"
#include "decode/decode.h"
#include "decode/previous-instructions.h"
#include "decode/x86/instruction.h"
#include "decode/x86/machine.h"

/* How the block's walk finds instructions. */
struct block_code {
	const struct decode_memory *memory;
	struct behind_cache *behind;
	struct targets *targets;
	/* The instruction at an address of the sample's process, or NULL. */
	const struct instruction *(*find)(void *user, const struct decode_sample *sample,
					  uint64_t address);
	void *user;
};

/*
 * Fill window->behind: the accesses of the instructions before ip in its basic block as far as they
 * surely ran (nothing else leads between them and ip), nearest first, with their addresses as far
 * as the registers at ip still tell them. A register that an instruction has changed by a constant
 * is traced back; one that it has replaced is unknown.
 */
void decode_block_behind(const struct block_code *code, const struct decode_sample *sample,
			 struct decode_window *window);

/* What is known of the way to the sample's ip. Valid until the next call. */
const struct behind_entry *decode_block_entry(const struct block_code *code,
					      const struct decode_sample *sample);

/* Take back what an instruction did to the machine, as far as that can be told. */
void decode_block_undo(struct machine *machine, const struct instruction *instruction);

/* How far an instruction moves the stack pointer; 0: not by what is known here. */
uint64_t decode_block_moves_stack(const struct instruction *instruction);

/* Whether it writes memory, which cannot be taken back. */
bool decode_block_writes(const struct instruction *instruction);

/*
 * Take back what an instruction did to the machine, and tell whether it may have run last: that
 * run again it does what the machine shows, and goes on to `next`. What it would read must not have
 * been written since, by itself neither: of one that accesses memory that was, nothing is checked.
 */
bool decode_block_undo_checked(struct machine *machine, const struct instruction *instruction,
			       uint64_t next, bool is_memory_as_then);

/*
 * The accesses of an instruction that ran before ip, with the machine as it was before it: at most
 * INSTRUCTION_MAX_MEMORY, to ret_accesses. Returns how many.
 */
unsigned decode_block_accesses(const struct machine *machine, const struct instruction *instruction,
			       struct decode_access *ret_accesses);

/*
 * Registers that a load has replaced by what it read (mov (%rdx),%rdx): what they were before it is
 * computed again where an earlier instruction, on the only way there, made it out of registers that
 * still hold the same. The machine is as it was before the instruction, as far as that can be
 * undone: add the registers of its addresses that are not known.
 */
void decode_recall(const struct block_code *code, struct machine *machine,
		   const struct instruction *instruction);
