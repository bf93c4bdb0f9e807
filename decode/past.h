#pragma once
/*
 * What ran right before ip, solved in both directions: back from the registers at ip, as far as
 * instructions can be undone, and forward again with what that tells. A load that just ran tells
 * the word that it read, a store the one that it wrote.
 */
#include "decode/slots.h"
#include "decode/turn.h"

struct past {
	uint32_t n_accesses;
	struct decode_access accesses[2 * DECODE_MAX_TURN]; /* nearest first, from position 1 on */
	uint64_t words_used;
	struct machine_word words[MACHINE_WORDS]; /* of memory, at ip */
};

/* Solve the way to ip. False: it cannot have come that way. */
bool decode_past_solve(const struct block_code *code, const struct decode_sample *sample,
		       const struct slots *slots, const struct turn_entry *way,
		       struct past *ret_past);

/* The same, but what is not known of memory is guessed, as DECODE_FROM_BASE says; without words. */
bool decode_past_guess(const struct block_code *code, const struct decode_sample *sample,
		       const struct slots *slots, const struct turn_entry *way,
		       struct past *ret_past);

/* Store the words, beside what the sample has of the stack, into a machine that begins there. */
void decode_past_take(const struct past *past, struct machine *machine);
