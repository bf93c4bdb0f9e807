/* What of a stack, and of code that is in no module, can be read. */
#include "tracealloc/stack/thunk.h"
#include "tracealloc/stack/unwind-walk.h"

#include <errno.h>

#include "tracealloc/arch/arch.h"
#include "tracealloc/stack/cfi.h"
#include "tracealloc/stack/module.h"
#include "tracealloc/stack/unwind-rule.h"
#include "tracealloc/thread.h"

#define MAX_PROBED_PAGES 256u /* between two frames on a stack of unknown bounds */
#define SIGSET_BYTES	 8
#define N_HOLES		 16u
#define MAX_CALL_BYTES	 7u

void ta_walk_enter(struct ta_walk *walk, uintptr_t address)
{
	const struct ta_thread *thread = walk->thread;

	walk->is_own = address >= thread->stack_start && address < thread->stack_end;
	walk->limit = walk->is_own ? thread->stack_end : (address | (TA_PAGE_BYTES - 1)) + 1;
}

/* rt_sigprocmask reads the mask before it finds out that it is not told what to do with it. */
bool ta_walk_is_readable(uintptr_t address)
{
	return ta_syscall(SYS_rt_sigprocmask, -1, (long)address, 0, SIGSET_BYTES, 0, 0) != -EFAULT;
}

bool ta_walk_reach_slow(struct ta_walk *walk, uintptr_t end)
{
	if (walk->is_own || end < walk->limit ||
	    end - walk->limit > MAX_PROBED_PAGES * TA_PAGE_BYTES)
		return false;
	for (; walk->limit < end; walk->limit += TA_PAGE_BYTES)
		if (!ta_walk_is_readable(walk->limit))
			return false;
	return true;
}

/*
 * The same, where it may be of some time ago that nothing is there. A stack that ends in code
 * without tables, as those of musl do, asks for the same word at each event.
 */
static bool is_still_readable(uintptr_t address)
{
	static _Atomic uintptr_t holes[N_HOLES];
	static _Atomic uint8_t n_asked;
	uintptr_t page = address & -(uintptr_t)TA_PAGE_BYTES;
	_Atomic uintptr_t *hole = &holes[address / TA_PAGE_BYTES % N_HOLES];
	uint8_t n = atomic_load_explicit(&n_asked, memory_order_relaxed) + 1;

	if (atomic_load_explicit(hole, memory_order_relaxed) == page) {
		atomic_store_explicit(&n_asked, n, memory_order_relaxed);
		if (n != 0)
			return false;
	}
	if (ta_walk_is_readable(address))
		return true;
	if (address % TA_PAGE_BYTES <= TA_PAGE_BYTES - sizeof(uint64_t))
		atomic_store_explicit(hole, page, memory_order_relaxed);
	return false;
}

/* Are the bytes before pc, outside of all modules, readable and a call? */
static bool is_generated_return(uintptr_t pc)
{
	if (pc < TA_PAGE_BYTES || pc >> TA_USER_ADDRESS_BITS || !is_still_readable(pc - 8) ||
	    !ta_walk_is_readable((pc - 1) & -(uintptr_t)8))
		return false;
	return ta_call_ends_at((const uint8_t *)pc, 7);
}

bool ta_walk_is_return(uintptr_t pc)
{
	pc = ta_thunk_return(pc);
	return ta_rule_is_return(pc) || is_generated_return(pc);
}

bool ta_rule_find_code(const struct ta_module *module, uintptr_t pc, uintptr_t *ret_start,
		       uintptr_t *ret_end)
{
	for (unsigned i = 0; i < TA_MODULE_RANGES; i++) {
		if (pc <= module->code[i].start || pc > module->code[i].end)
			continue;
		*ret_start = module->code[i].start;
		*ret_end = module->code[i].end;
		return true;
	}
	return false;
}

bool ta_rule_follows_call(const struct ta_module *module, uintptr_t pc)
{
	uintptr_t start;
	uintptr_t end;

	if (!ta_rule_find_code(module, pc, &start, &end))
		return false;
	return ta_thunk_follows_call(pc) ||
	       ta_call_ends_at((const uint8_t *)pc, pc - start > MAX_CALL_BYTES
							    ? MAX_CALL_BYTES
							    : (unsigned)(pc - start));
}

bool ta_rule_is_context_end(const struct ta_module *module, uintptr_t pc)
{
	struct ta_cfi_rule cfi;

	return module->is_system && ta_cfi_find(module, pc, &cfi) == 0 && cfi.start == pc;
}

bool ta_rule_is_return(uintptr_t pc)
{
	pc = ta_thunk_return(pc);
	const struct ta_module *module = ta_module_find(pc - 1);
	return module && ta_rule_follows_call(module, pc);
}
