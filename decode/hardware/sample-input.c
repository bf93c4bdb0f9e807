#include "decode/hardware/sample-input.h"

#include <string.h>

bool decode_take_registers(const struct pmu_sample *sample, struct decode_sample *ret_input)
{
	if (!pmu_sample_is_x86(sample))
		return false;
	if (sample->regs_mask == DECODE_REGS_MASK) {
		memcpy(ret_input->regs, sample->regs, sizeof(ret_input->regs));
		return true;
	}
	for (unsigned bit = 0, i = 0; i < DECODE_N_REGS; bit++) {
		if (DECODE_REGS_MASK >> bit & 1 &&
		    !pmu_sample_register(sample, bit, &ret_input->regs[i++]))
			return false;
	}
	return true;
}

bool decode_take_sample(const struct pmu_sample *sample, struct decode_sample *ret_input)
{
	*ret_input = (struct decode_sample){
		.ip = sample->ip,
		.stack = sample->stack,
		.stack_bytes = sample->stack_bytes > DECODE_STACK_BYTES
				       ? DECODE_STACK_BYTES
				       : (uint32_t)sample->stack_bytes,
		.below = pmu_sample_below(sample),
		.below_bytes = pmu_sample_below_bytes(sample),
	};
	return decode_take_registers(sample, ret_input);
}
