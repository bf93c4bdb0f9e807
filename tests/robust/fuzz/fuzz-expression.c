/*
 * Evaluates whatever operations as an expression of an unwind table: 10 bytes each, the operation,
 * how to spread the operand, and the operand. Memory that is read is a window of 256 bytes.
 */
#include <string.h>

#include "analyze/symbols/dwarf-expression.h"
#include "tests/robust/fuzz/fuzz.h"

#define MAX_OPS	     256u
#define WINDOW_START UINT64_C(0x7ffe00000000)
#define WINDOW_BYTES 256u

static bool read_window(void *user, uint64_t address, uint64_t *ret_value)
{
	uint64_t offset = address - WINDOW_START;

	if (offset > WINDOW_BYTES - sizeof(*ret_value))
		return false;
	memcpy(ret_value, (const uint8_t *)user + offset, sizeof(*ret_value));
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static uint8_t window[WINDOW_BYTES];
	Dwarf_Op ops[MAX_OPS] = { 0 };
	struct expression_frame frame = { .known = EXPRESSION_ALL_REGISTERS,
					  .cfa = WINDOW_START + 64,
					  .read = read_window,
					  .user = window };
	uint64_t result = 0, again = 1;
	bool is_value = false, is_value_again = true;
	size_t n = 0;

	for (size_t i = 0; i < EXPRESSION_N_REGISTERS; i++)
		frame.registers[i] = WINDOW_START + 8 * i;
	while (n_bytes > 0 && n < MAX_OPS) {
		ops[n].atom = (uint8_t)fuzz_take(&bytes, &n_bytes, 1);
		unsigned shift = (unsigned)fuzz_take(&bytes, &n_bytes, 1);
		ops[n].number = fuzz_take(&bytes, &n_bytes, 8) << shift % 64;
		ops[n].number2 = ops[n].number >> 3;
		n++;
	}
	if (!expression_evaluate(&frame, ops, n, &result, &is_value))
		return 0;
	FUZZ_REQUIRE(expression_evaluate(&frame, ops, n, &again, &is_value_again));
	FUZZ_REQUIRE(result == again && is_value == is_value_again);
	return 0;
}
