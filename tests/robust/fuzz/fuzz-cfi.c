/*
 * Asks tracealloc for the rules of frames in a module whose unwind tables are whatever bytes: 4
 * bytes say where its .eh_frame_hdr begins, 2 how far pc lies behind the module's start, the rest
 * is the module, which ends at a page that cannot be read and begins with zeros behind another one.
 */
#include <string.h>

#include "tests/robust/fuzz/fuzz.h"
#include "tracealloc/stack/cfi.h"
#include "tracealloc/stack/unwind-rule.h"

#define ROOM_BYTES  65536u
#define GUARD_BYTES 4096u
#define N_PCS	    24u

union ta_state_page ta_state; /* in place of state.c */
_Atomic bool ta_sandbox_is_on; /* and of sandbox.c */

bool ta_sandbox_allows(long number, const long arguments[6])
{
	(void)number, (void)arguments;
	return true;
}

static struct ta_module module;

/* In place of module.c: there is one module. */
const struct ta_module *ta_module_find(uintptr_t pc)
{
	return pc >= module.code[0].start && pc < module.code[0].end ? &module : NULL;
}

static uint8_t *get_room(void)
{
	static uint8_t *room;
	uint8_t *all;

	if (room)
		return room;
	/* In the low addresses, so that absolute pointers of four bytes can reach it. */
	all = mmap((void *)0x10000000, ROOM_BYTES + 2 * GUARD_BYTES, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	FUZZ_REQUIRE(all != MAP_FAILED);
	FUZZ_REQUIRE(mprotect(all + GUARD_BYTES, ROOM_BYTES, PROT_READ | PROT_WRITE) == 0);
	return room = all + GUARD_BYTES;
}

static void make_module(uint32_t at_table, const uint8_t *bytes, size_t n_bytes)
{
	uint8_t *start = get_room() + ROOM_BYTES - n_bytes;

	memcpy(start, bytes, n_bytes);
	module = (struct ta_module){
		.bias = (uintptr_t)start,
		.start = (uintptr_t)start,
		.end = (uintptr_t)start + n_bytes,
		.eh_frame_hdr = (uintptr_t)start + at_table % (n_bytes + 8),
		.eh_frame_hdr_end = (uintptr_t)start + n_bytes,
		.is_system = n_bytes & 1,
	};
	module.code[0].start = module.start;
	module.code[0].end = module.end;
}

static void ask(uintptr_t pc)
{
	struct ta_cfi_rule rule = { 0 };

	if (ta_cfi_find(&module, pc, &rule) == 0 && rule.cfa_expression_bytes > 0) {
		FUZZ_REQUIRE((uintptr_t)rule.cfa_expression >= module.start);
		FUZZ_REQUIRE((uintptr_t)rule.cfa_expression + rule.cfa_expression_bytes <=
			     module.end);
	}
	ta_rule_work_out(pc + 1, true);
	ta_rule_work_out(pc + 1, false);
	ta_rule_is_return(pc + 1);
	ta_rule_find_slow(pc + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	uint32_t at_table = (uint32_t)fuzz_take(&bytes, &n_bytes, 4);
	size_t offset = (size_t)fuzz_take(&bytes, &n_bytes, 2);

	if (n_bytes == 0 || n_bytes > ROOM_BYTES)
		return 0;
	make_module(at_table, bytes, n_bytes);
	ask(module.start + offset % n_bytes);
	for (size_t i = 0; i < N_PCS; i++)
		ask(module.start + i * n_bytes / N_PCS);
	return 0;
}
