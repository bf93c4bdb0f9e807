#pragma once
/* What the decoder takes of a perf sample. Pure functions. */
#include <stdbool.h>

#include "decode/decode.h"
#include "perf/record.h"

/* The sampled registers in the decoder's order. False: there are none of 64-bit code. */
bool decode_take_registers(const struct pmu_sample *sample, struct decode_sample *ret_input);

/*
 * The decoder's view of a sample: ip, registers, and bytes of the stack, which lie in the sample
 * as before. fs_base, process and time are 0: they are the caller's to set. False as above.
 */
bool decode_take_sample(const struct pmu_sample *sample, struct decode_sample *ret_input);
