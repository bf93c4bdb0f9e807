#include "tracealloc/stack/unwind-rule.h"

#include "schemas/trace-format.h"
#include "tracealloc/arch/arch.h"
#include "tracealloc/stack/cfi.h"
#include "tracealloc/stack/module.h"

#define LARGEST_WORDS (INT64_C(1) << 17) /* of the 18 bits */

#define MAX_DISPLACED 32u /* rules, from a table that is not yet large */

static _Atomic uint32_t n_displaced;

static uint64_t pack(const struct ta_rule *rule)
{
	int64_t offset = rule->offset;
	uint32_t kind = rule->kind;

	if (kind <= TA_RULE_DEREF)
		offset /= 8;
	if (offset < -LARGEST_WORDS || offset >= LARGEST_WORDS || kind >= TA_RULE_SAVED ||
	    (rule->rbp <= TA_RULE_RBP_MOST && rule->rbp > TA_RULE_RBP_MASK - 2)) {
		kind = TA_RULE_LARGE;
		offset = 0;
	}
	if (rule->rbp > TA_RULE_RBP_MOST)
		kind |= TA_RULE_ODD_RBP;
	return (uint64_t)kind << TA_RULE_KIND_SHIFT |
	       (uint64_t)(rule->rbp & TA_RULE_RBP_MASK) << TA_RULE_RBP_SHIFT |
	       (uint64_t)offset << TA_RULE_OFFSET_SHIFT;
}

/* Nothing is written into a second place for nothing: its page may be untouched. */
static void keep(uint32_t n_sets, uintptr_t pc, uint64_t word)
{
	_Atomic uint64_t *first = &ta_rules[(size_t)2 * n_sets + ta_rule_set(pc, n_sets)];
	_Atomic uint64_t *second = first + n_sets;
	uint64_t displaced = atomic_load_explicit(first, memory_order_relaxed);

	if (displaced && atomic_load_explicit(second, memory_order_relaxed))
		atomic_fetch_add_explicit(&n_displaced, 1, memory_order_relaxed);
	if (displaced)
		atomic_store_explicit(second, displaced, memory_order_relaxed);
	atomic_store_explicit(first, word, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

/*
 * Go on with the large table. Threads may do it at once, and a handler may jump out of it: all
 * write the same.
 */
static void grow(void)
{
	uint32_t n = 1u << TA_RULE_LEAST_LOG2;

	for (uint32_t i = 2 * n; i-- > 0;) {
		uint64_t word = atomic_load_explicit(&ta_rules[2 * n + i], memory_order_relaxed);
		uintptr_t upper = (word & ((UINT64_C(1) << TA_RULE_TAG_BITS) - 1))
				  << TA_RULE_LEAST_LOG2;

		if (word)
			keep(1u << TA_RULE_MOST_LOG2,
			     upper | ((i & (n - 1)) ^ ta_rule_set(upper, n)), word);
	}
	atomic_store_explicit(&ta_rule_sets, 1u << TA_RULE_MOST_LOG2, memory_order_release);
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
	word = pack(&rule) | (pc >> TA_RULE_LEAST_LOG2 & ((UINT64_C(1) << TA_RULE_TAG_BITS) - 1));
	/* Outside of modules code may come and go unseen. */
	if (!ta_rule_is_address(pc) || (rule.kind == TA_RULE_NONE && !ta_module_find(pc - 1)))
		return word;
	keep(ta_rule_n_sets(), pc, word);
	if (ta_rule_n_sets() < 1u << TA_RULE_MOST_LOG2 && atomic_load(&n_displaced) > MAX_DISPLACED)
		grow();
	if (atomic_load(&ta_state.word) != before)
		ta_rule_forget();
	return word;
}
