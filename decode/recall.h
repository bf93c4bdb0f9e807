#pragma once
/*
 * Registers that a load has replaced by what it read (mov (%rdx),%rdx): what they were before it is
 * computed again where an earlier instruction, on the only way there, made it out of registers that
 * still hold the same.
 */
#include "decode/block.h"

/*
 * The machine is as it was before the instruction, as far as that can be undone: add the registers
 * of its addresses that are not known.
 */
void decode_recall(const struct block_code *code, struct machine *machine,
		   const struct instruction *instruction);
