#pragma once
/*
 * Functions of allocators (record --alloc-function) as they are entered and left. What they are
 * called with says which words are sizes, blocks and pools (struct plan_rule). An allocator that
 * calls itself counts once: while a call is under way that a block comes from, calls inside it are
 * passed over. A call that was left by an exception or longjmp is seen to be over by its return
 * address, which is no longer ours. x86-64.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tracealloc/hooks/hook.h"

struct ta_function;

/*
 * A function with a rule is entered; slot is where its return address lies, words before it are as
 * the stub has left them. Records what ends. True: the return is to come to ta_allocator_leave(),
 * if ta_allocator_wait() with its thunk is called first. Signal safe.
 */
bool ta_allocator_enter(const struct ta_hook *hook, const struct ta_function *function,
			const uintptr_t *slot);
void ta_allocator_wait(const struct ta_hook *hook, const struct ta_function *function,
		       uintptr_t *slot, uintptr_t thunk);

/*
 * It is left: slot holds an address within the thunk, and words before it are as the stub has kept
 * the registers. All of them are as before afterwards. No hook runs. is_quick: only if all that is
 * needed is known, so that the C library is not called; else nothing is done: false.
 */
bool ta_allocator_leave(uintptr_t *slot, bool is_quick);
