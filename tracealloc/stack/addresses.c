/* What is known about return addresses, for all threads: until a module is unloaded. */
#include "tracealloc/stack/stack.h"
#include "tracealloc/stack/unwind-rule.h"
#include "tracealloc/state.h"

_Atomic uint64_t ta_stack_classes[1u << TA_CLASSES_LOG2] TA_LARGE;
_Atomic uint64_t ta_rules[4u << TA_RULE_MOST_LOG2] __attribute__((aligned(TA_PAGE_BYTES))) TA_LARGE;
_Atomic uint32_t ta_rule_sets = 1u << TA_RULE_LEAST_LOG2;

static void empty(uint32_t n_sets)
{
	for (uint32_t i = 2 * n_sets; i < 4 * n_sets; i++)
		atomic_store_explicit(&ta_rules[i], 0, memory_order_relaxed);
}

void ta_rule_forget(void)
{
	/*
	 * Pairs with the one in keep(): the state word's new value comes before the empty places.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	empty(1u << TA_RULE_LEAST_LOG2);
	if (ta_rule_n_sets() == 1u << TA_RULE_MOST_LOG2)
		empty(1u << TA_RULE_MOST_LOG2);
	atomic_thread_fence(memory_order_seq_cst);
}

/*
 * A thread may put an entry back that it has worked out just before: the unload count in the
 * entries keeps it from being used.
 */
void ta_stack_forget_addresses(void)
{
	for (size_t i = 0; i < sizeof(ta_stack_classes) / sizeof(*ta_stack_classes); i++)
		atomic_store_explicit(&ta_stack_classes[i], 0, memory_order_relaxed);
	ta_rule_forget();
}
