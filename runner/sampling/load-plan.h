#pragma once
/*
 * Where the loads of an instruction's window lead, told from the registers of a sample without a
 * look at the code: most are at the sum of two registers and a constant, those of a[b[i]] as well
 * as of a gather. The sums are found from a few samples whose windows were decoded. What is told
 * wrong costs a reading that nobody asks for.
 */
#include <stdbool.h>
#include <stdint.h>

#include "decode/decode.h"

#define LOAD_PLAN_RANGES 4u

/* Words of 8 bytes that a window loads. */
struct load_range {
	uint64_t address;
	uint32_t n_words;
};

/* All zero knows nothing. */
struct load_plan {
	uint64_t regs[DECODE_N_REGS]; /* of the last sample */
	struct {
		struct load_range last;
		uint64_t constant; /* the least one; words are aligned, so it is not told exactly */
		uint8_t slack; /* so much more it may be */
		uint8_t first, second, shift; /* registers, the second one shifted left */
		bool is_found;
	} ranges[LOAD_PLAN_RANGES];
	uint32_t n; /* 0: no sample yet */
	uint32_t n_right; /* samples in a row of which all was told right */
	uint32_t n_searches;
};

/* What the window of a sample has loaded, in its order. */
void load_plan_learn(struct load_plan *plan, const uint64_t *regs, const struct load_range *ranges,
		     uint32_t n);

/* Tell that of another sample. Returns how many ranges, 0: that is not known. */
uint32_t load_plan_tell(const struct load_plan *plan, const uint64_t *regs,
			struct load_range ret_ranges[LOAD_PLAN_RANGES]);

/* Whether all of many samples in a row was told right. */
bool load_plan_is_sure(const struct load_plan *plan);
