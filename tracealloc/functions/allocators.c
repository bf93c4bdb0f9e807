#include "tracealloc/functions/allocators.h"

#include "schemas/functions-plan.h"
#include "tracealloc/functions/functions.h"
#include "tracealloc/plugin/note.h"
#include "tracealloc/stack/thunk.h"
#include "tracealloc/stack/unwind-walk.h"

#if defined(__x86_64__)
#define MAX_BYTES   (UINT64_C(1) << 47)
#define NEAR_BYTES  65536u /* calls on a stack that is not the thread's are as near as this */
#define MOST_CHAINS (UINT32_C(1) << 20) /* blocks of a list that are freed at once */

/* From the slot, in words: where the stub at the entry has kept the first six arguments. */
#define KEPT_ARGUMENTS "\0\xf8\xf9\xfa\xfb\xf7\xf6"
#define KEPT_RESULT    (-1)
#define KEPT_FRAME     (-10) /* rbp, by the stub at the return */

static uint64_t argument(const uintptr_t *slot, uint8_t place)
{
	unsigned n = place & PLAN_PLACE_NUMBER;
	int at = n <= 6 ? (int8_t)KEPT_ARGUMENTS[n] : (int)n - 6;

	return place & PLAN_PLACE_INT ? (uint32_t)slot[at] : slot[at];
}

static uint64_t argument_or_none(const uintptr_t *slot, uint8_t place)
{
	return place ? argument(slot, place) : 0;
}

/* What lies at an address of the program's, or 0: whoever wrote the rule may be wrong. */
static uint64_t word_at(uint64_t address)
{
	return ta_walk_is_readable(address) ? *(const uint64_t *)address : 0;
}

/* Of a variable of the file it is what it holds now. */
static uint64_t pool_of(const uintptr_t *slot, const struct ta_function *function)
{
	const struct plan_function *planned = function->planned;

	if (function->rule->pool != PLAN_PLACE_FILE)
		return argument_or_none(slot, function->rule->pool);
	return *(const uintptr_t *)(uintptr_t)(function->bias + planned->variable);
}

/* 0: it is none. */
static uint64_t size_of(const uintptr_t *slot, const struct plan_rule *rule)
{
	uint64_t size = rule->bytes ? rule->bytes : argument_or_none(slot, rule->size);
	uint64_t count = rule->count ? argument(slot, rule->count) : 1;

	return __builtin_mul_overflow(size, count, &size) || size > MAX_BYTES ? 0 : size;
}

/* ---- Calls under way ---- */

/* The stack grows down: is a call whose return address lies there still running? */
static bool is_running(const struct ta_thread *thread, const struct ta_alloc_call *call,
		       uintptr_t slot)
{
	bool is_own = call->slot >= thread->stack_start && call->slot < thread->stack_end &&
		      slot >= thread->stack_start;

	if (call->slot < slot)
		return false;
	/* Of another stack nothing is read: it may be gone. */
	return is_own ? *(const uintptr_t *)call->slot == call->thunk
		      : call->slot - slot < NEAR_BYTES;
}

/* Of another stack than that of a call at this slot. */
static bool is_elsewhere(const struct ta_thread *thread, const struct ta_alloc_call *call,
			 uintptr_t slot)
{
	bool has_call = call->slot >= thread->stack_start && call->slot < thread->stack_end;
	bool has_slot = slot >= thread->stack_start && slot < thread->stack_end;
	uintptr_t distance = call->slot > slot ? call->slot - slot : slot - call->slot;

	return has_call != has_slot || (!has_call && distance >= NEAR_BYTES);
}

/*
 * The call that what is at the slot is part of, or NULL: one that hands out a block, or one that
 * gives back a reference to this block, not to others.
 */
static const struct ta_alloc_call *find_outer(struct ta_thread *thread, uintptr_t slot,
					      uint64_t block)
{
	for (uint32_t i = thread->n_calls; i-- > 0;) {
		const struct ta_alloc_call *call = &thread->calls[i];

		if (is_elsewhere(thread, call, slot))
			return NULL;
		if (!is_running(thread, call, slot))
			thread->n_calls = i;
		else if (!call->is_unref || call->old == block)
			return call;
	}
	return NULL;
}

void ta_allocator_wait(const struct ta_hook *hook, const struct ta_function *function,
		       uintptr_t *slot, uintptr_t thunk)
{
	const struct plan_rule *rule = function->rule;
	struct ta_thread *thread = hook->thread;

	/* So many are under way at once: the oldest has no block, which its return counts. */
	if (thread->n_calls == TA_ALLOC_CALLS) {
		for (unsigned i = 1; i < TA_ALLOC_CALLS; i++) {
			thread->calls[i - 1] = thread->calls[i];
			ta_compiler_barrier(); /* else it becomes memmove */
		}
		thread->n_calls--;
	}
	thread->calls[thread->n_calls] = (struct ta_alloc_call){
		.slot = (uintptr_t)slot,
		.thunk = thunk,
		.size = size_of(slot, rule),
		.pool = pool_of(slot, function),
		.old = argument_or_none(slot, rule->old | rule->unref),
		.out = argument_or_none(slot, (rule->pointer | rule->create) &
						      (PLAN_PLACE_NUMBER | PLAN_PLACE_INT)),
		.begin_ticks = rule->old || rule->unref & PLAN_PLACE_RESULT ? ta_ticks_begin() : 0,
		.is_unref = rule->unref,
	};
	ta_compiler_barrier();
	thread->n_calls++;
}

/* ---- Entering ---- */

static void note_end(const struct ta_hook *hook, enum trace_call call, uint64_t address,
		     uint64_t name)
{
	struct ring_record *record = ta_record_reserve(hook->thread, hook->bits, sizeof(*record));

	if (record)
		ta_record_fill(record, ta_hook_head(hook, TRACE_OP_NOTE, call, 1), ta_ticks_begin(),
			       address, name);
}

/* A list of blocks, each of which has the address of the next one at an offset. */
static void note_chain(const struct ta_hook *hook, uint64_t block, uint64_t offset)
{
	for (uint32_t i = 0; block && i < MOST_CHAINS; i++) {
		note_end(hook, TRACE_CALL_BLOCK_END, block, 0);
		block = word_at(block + offset);
	}
}

bool ta_allocator_enter(const struct ta_hook *hook, const struct ta_function *function,
			const uintptr_t *slot)
{
	const struct plan_rule *rule = function->rule;

	uint64_t freed = argument_or_none(slot, rule->free);
	uint64_t counted = argument_or_none(slot, rule->ref | rule->unref);
	const struct ta_alloc_call *outer =
		find_outer(hook->thread, (uintptr_t)slot, freed | counted);
	/* It is freed as its last reference goes: there may have been more, that nobody saw. */
	bool is_news = outer && outer->is_unref && !outer->begin_ticks && freed;
	if (hook->bits || (outer && !is_news))
		return false;
	if (freed && rule->next)
		note_chain(hook, freed, argument(slot, rule->next));
	else if (freed && freed != hook->thread->block_end)
		note_end(hook, TRACE_CALL_BLOCK_END, freed, 0);
	/* Functions that free may call each other: a block ends once. */
	if (freed)
		hook->thread->block_end = freed;
	if (rule->reset)
		note_end(hook, TRACE_CALL_POOL_RESET, argument(slot, rule->reset),
			 function->name_id);
	if (counted && !(rule->unref & PLAN_PLACE_RESULT))
		note_end(hook, rule->ref ? TRACE_CALL_REF : TRACE_CALL_UNREF, counted, 0);
	return rule->pointer || rule->create || (counted && rule->unref);
}

/* ---- Leaving ---- */

/* The call whose return address lies at the slot, which is over; NULL: it was never seen. */
static struct ta_alloc_call *find_call(struct ta_thread *thread, uintptr_t slot)
{
	for (uint32_t i = thread ? thread->n_calls : 0; i-- > 0;)
		if (thread->calls[i].slot == slot)
			return &thread->calls[i];
	return NULL;
}

/* What a function hands out where it returns 0, or its result, or what it has left in a struct. */
static uint64_t handed_out(const struct ta_alloc_call *call, const struct plan_rule *rule,
			   uint64_t result)
{
	uint8_t place = rule->pointer | rule->create;

	if (!place || place == PLAN_PLACE_RESULT)
		return place ? result : 0;
	if (!call->out || (!(place & PLAN_PLACE_MEMBER) && (int32_t)result != 0))
		return 0;
	return word_at(call->out + rule->pointer_at);
}

static uint64_t size_up_to(uint64_t end, uint64_t block)
{
	return end > block && end - block <= MAX_BYTES ? end - block : 0;
}

/*
 * A call makes a block or a pool. False: the block's stack was not met before, and is_quick;
 * nothing is recorded then.
 */
static bool note_results(struct ta_hook *hook, const struct ta_function *function,
			 const struct ta_alloc_call *call, uint64_t result, bool is_quick)
{
	const uintptr_t *frame = (const uintptr_t *)call->slot - 1;
	const struct plan_rule *rule = function->rule;
	uint64_t out = handed_out(call, rule, result);
	struct ta_note_block block = {
		.address = rule->pointer ? out : 0,
		.size = rule->end_at ? size_up_to(word_at(call->out + rule->end_at), out)
				     : call->size,
		.pool = call->pool,
		.name = function->name_id,
		.old = call->old,
		.begin_ticks = call->begin_ticks,
	};

	if (rule->create && out)
		note_end(hook, TRACE_CALL_POOL_RESET, out, function->name_id);
	if (block.address && block.size) {
		if (!is_quick)
			ta_hook_stack(hook, frame);
		else if (hook->bits || !ta_hook_recall(hook, frame))
			return false;
		ta_note_block(hook, &block);
		hook->thread->block_end = 0;
	} else if (call->old && !call->size) {
		note_end(hook, TRACE_CALL_BLOCK_END, call->old, 0);
	}
	return true;
}

static bool finish_call(const struct ta_function *function, const struct ta_alloc_call *call,
			uint64_t result, bool is_quick)
{
	const uintptr_t *frame = (const uintptr_t *)call->slot - 1;
	bool is_done = true;
	struct ta_hook hook;

	if (ta_hook_enter(&hook, frame, RING_EVENTS_HEAP)) {
		is_done = note_results(&hook, function, call, result, is_quick);
		ta_hook_leave(&hook);
		return is_done;
	}
	if (is_quick)
		return false;
	/* In a pause nothing is born, and all ends are recorded. */
	if (!call->old || !handed_out(call, function->rule, result) ||
	    !ta_hook_enter_kept(&hook, frame, RING_EVENTS_HEAP))
		return true;
	note_end(&hook, TRACE_CALL_BLOCK_END, call->old, 0);
	ta_hook_leave(&hook);
	return true;
}

/* A reference has been given back. What says that it was the last is of the call's begin. */
static void finish_unref(const struct ta_alloc_call *call, uint64_t result)
{
	struct ta_hook hook;

	if (!call->begin_ticks || (uint32_t)result != 0 ||
	    !ta_hook_enter_kept(&hook, (const uintptr_t *)call->slot - 1, RING_EVENTS_HEAP))
		return;
	ta_note_block(&hook, &(struct ta_note_block){ .old = call->old,
						      .begin_ticks = call->begin_ticks });
	ta_hook_leave(&hook);
}

/*
 * While the stack is walked the words at the slot are those of a frame: the caller's rbp, and where
 * it goes on. The hook begins and ends within, for it goes by the second.
 */
bool ta_allocator_leave(uintptr_t *slot, bool is_quick)
{
	const struct ta_thunk_data *data = ta_thunk_data_of(*slot);
	uintptr_t thunk = slot[0], result = slot[KEPT_RESULT];
	struct ta_thread *thread = ta_tls.thread;
	struct ta_alloc_call *found = find_call(thread, (uintptr_t)slot);

	if (!found) {
		uint8_t unref = data->function->rule->unref;

		atomic_fetch_add_explicit(&ta_image.process->n_calls_unseen,
					  !unref || unref & PLAN_PLACE_RESULT,
					  memory_order_relaxed);
		return true;
	}
	struct ta_alloc_call call = *found;
	thread->n_calls = (uint32_t)(found - thread->calls);
	if (call.is_unref) {
		finish_unref(&call, result);
		return true;
	}
	slot[0] = data->to;
	slot[KEPT_RESULT] = slot[KEPT_FRAME];
	ta_compiler_barrier();
	bool is_done = finish_call(data->function, &call, result, is_quick);
	ta_compiler_barrier();
	slot[KEPT_RESULT] = result;
	slot[0] = thunk;
	if (ta_unlikely(!is_done)) {
		*found = call; /* a signal handler may have used its place */
		ta_compiler_barrier();
		thread->n_calls = (uint32_t)(found - thread->calls) + 1;
	}
	return is_done;
}
#endif
