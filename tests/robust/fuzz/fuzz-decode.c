/*
 * Decodes and replays any code, with any registers and stack. An input is 18 registers of one byte
 * each (bit 7: spread over 64 bits, else a small offset from the code or the stack), flags, then 64
 * bytes of stack, then code. tests/unit/decode/test-decode-fuzz.c feeds it random instructions as
 * well.
 */
#include <math.h>
#include <stdlib.h>

#include "decode/decode.h"
#include "tests/unit/decode/flat.h"
#include "tests/robust/fuzz/fuzz.h"

#define STACK_BYTES 64

struct input {
	uint8_t regs[DECODE_N_REGS];
	uint8_t has_fs;
	uint8_t stack[STACK_BYTES];
	uint8_t code[];
};

static uint64_t expand_reg(uint8_t byte)
{
	if (byte & 0x80)
		return byte * UINT64_C(0x9e3779b97f4a7c15);
	return byte & 0x40 ? 0x7ffe00000000u + byte : byte;
}

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static void require_sound_window(const struct decode_window *window)
{
	uint16_t position = 0;

	REQUIRE(window->end < DECODE_END_COUNT);
	REQUIRE(window->n_instructions <= DECODE_MAX_INSTRUCTIONS);
	REQUIRE(window->n_accesses <= DECODE_MAX_ACCESSES);
	for (uint32_t i = 0; i < window->n_accesses; i++) {
		const struct decode_access *access = &window->accesses[i];

		REQUIRE(access->position >= position);
		REQUIRE(access->position < window->n_instructions);
		REQUIRE(access->state < DECODE_STATE_COUNT && access->count > 0);
		REQUIRE(access->is_read || access->is_write);
		position = access->position;
	}
}

static void require_sound_charge(const struct decode_window *window,
				 const struct decode_charge *charge)
{
	double total = 0;

	for (uint32_t i = 0; i < window->n_accesses; i++)
		total += (double)window->accesses[i].share;
	for (uint32_t i = 0; i < window->n_behind; i++)
		total += (double)window->behind[i].share;
	REQUIRE(fabs(total - (charge->n_charged + charge->n_behind ? 1 : 0)) < 1e-4);
	REQUIRE(fabs((double)charge->resolved_share + (double)charge->unresolved_share +
		     (double)charge->code_share - 1) < 1e-4);
	REQUIRE(charge->n_charged <= window->n_accesses && charge->n_exact <= window->n_accesses);
	REQUIRE(charge->n_behind <= window->n_behind && window->n_behind <= 2 * DECODE_MAX_BEHIND);
}

static void decode_input(const struct input *input, size_t n_code_bytes)
{
	static struct decode_window window;
	struct flat flat = { .code = input->code,
			     .code_bytes = n_code_bytes,
			     .data_start = FLAT_CODE_START,
			     .data = input->code,
			     .data_bytes = n_code_bytes };
	struct decode_memory memory = flat_memory(&flat);
	struct decode_sample sample = { .ip = FLAT_CODE_START,
					.stack = input->stack,
					.stack_bytes = sizeof(input->stack) };
	auto_decoder struct decoder *decoder = NULL;
	struct decode_charge charge;

	for (unsigned i = 0; i < DECODE_N_REGS; i++)
		sample.regs[i] = expand_reg(input->regs[i]);
	sample.fs_base = input->has_fs & 1 ? 0x7f0000000000u : 0;
	REQUIRE(decode_create(DECODE_MACHINE_X86_64, &memory, 64, &decoder) == 0);
	REQUIRE(decode_window(decoder, &sample, DECODE_MAX_INSTRUCTIONS, &window) == 0);
	require_sound_window(&window);
	decode_charge(&window, &charge);
	require_sound_charge(&window, &charge);
	decode_invalidate(decoder, 0, FLAT_CODE_START + input->has_fs, UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
	struct input *input;

	if (n_bytes <= sizeof(*input))
		return 0;
	/* A copy of its own: reads beyond the end are then seen by the address sanitizer. */
	input = malloc(n_bytes);
	REQUIRE(input);
	memcpy(input, data, n_bytes);
	decode_input(input, n_bytes - sizeof(*input));
	free(input);
	return 0;
}
