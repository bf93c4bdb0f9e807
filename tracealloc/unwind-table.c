#include "tracealloc/unwind-rule.h"

#include "schemas/trace-format.h"
#include "tracealloc/arch.h"
#include "tracealloc/cfi.h"
#include "tracealloc/module.h"

#define LARGEST_WORDS  (INT64_C(1) << 17) /* of the 18 bits */
#define MAX_CALL_BYTES 7u

struct ta_rule_way ta_rules[2] __attribute__((aligned(64)));

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
	return ta_call_ends_at((const uint8_t *)pc, pc - start > MAX_CALL_BYTES
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
	const struct ta_module *module = ta_module_find(pc - 1);

	return module && ta_rule_follows_call(module, pc);
}

static uint64_t pack(const struct ta_rule *rule)
{
	int64_t offset = rule->offset;
	uint32_t kind = rule->kind;

	if (kind <= TA_RULE_DEREF)
		offset /= 8;
	if (offset < -LARGEST_WORDS || offset >= LARGEST_WORDS || kind >= TA_RULE_SAVED) {
		kind = TA_RULE_LARGE;
		offset = 0;
	}
	if (rule->rbp > TA_RULE_RBP_MOST)
		kind |= TA_RULE_ODD_RBP;
	return (uint64_t)kind << TA_RULE_KIND_SHIFT | (uint64_t)rule->rbp << TA_RULE_RBP_SHIFT |
	       (uint64_t)offset << TA_RULE_OFFSET_SHIFT;
}

static void keep(uintptr_t pc, uint64_t word)
{
	uint32_t set = ta_rule_set(pc);
	uint64_t first = atomic_load_explicit(&ta_rules[0].set[set], memory_order_relaxed);

	atomic_store_explicit(&ta_rules[1].set[set], first, memory_order_relaxed);
	atomic_store_explicit(&ta_rules[0].set[set], word, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

/*
 * What was worked out while a module went may be about the module that went. The state word moves
 * first, then the table is emptied: either we see it move, or what we kept was emptied.
 */
uint64_t ta_rule_find_slow(uintptr_t pc)
{
	uint32_t before = atomic_load(&ta_state.word);
	struct ta_rule rule;
	uint64_t word;

	if (ta_rule_is_address(pc))
		rule = ta_rule_work_out(pc, false);
	else
		rule = (struct ta_rule){ .kind = TA_RULE_STOP, .offset = TRACE_STOP_BAD_STACK };
	word = pack(&rule) | (pc >> TA_RULE_SETS_LOG2 & ((UINT64_C(1) << TA_RULE_TAG_BITS) - 1));
	/* Outside of modules code may come and go unseen. */
	if (!ta_rule_is_address(pc) || (rule.kind == TA_RULE_NONE && !ta_module_find(pc - 1)))
		return word;
	keep(pc, word);
	if (atomic_load(&ta_state.word) != before)
		ta_rule_forget();
	return word;
}

void ta_rule_forget(void)
{
	/* Pairs with the one in keep(): the state word's new value comes before the empty places. */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; i < 1u << TA_RULE_SETS_LOG2; i++) {
		atomic_store_explicit(&ta_rules[0].set[i], 0, memory_order_relaxed);
		atomic_store_explicit(&ta_rules[1].set[i], 0, memory_order_relaxed);
	}
	atomic_thread_fence(memory_order_seq_cst);
}
