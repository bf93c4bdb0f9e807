#pragma once
/* Random instructions of the kinds that the emulator knows, and random bytes. */
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/decode/random.h"

#define RANDOM_CODE_BYTES 32

/* Fill code with one random instruction (bytes behind its end are random as well). */
void random_instruction(struct random *random, uint8_t code[RANDOM_CODE_BYTES]);

/* The same, of SSE or AVX: many of them are no instruction, or none that is emulated. */
void random_vector_instruction(struct random *random, uint8_t code[RANDOM_CODE_BYTES]);

/* A register value: small, an edge, an address within [start, start + n_bytes), or anything. */
uint64_t random_reg(struct random *random, uint64_t start, unsigned n_bytes);
