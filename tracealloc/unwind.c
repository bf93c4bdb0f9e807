#include "tracealloc/unwind.h"

#include <stddef.h>

#include "schemas/trace-format.h"
#include "tracealloc/module.h"
#include "tracealloc/stack.h"
#include "tracealloc/state.h"
#include "tracealloc/thread.h"
#include "tracealloc/unwind-walk.h"

#define WORD sizeof(uintptr_t)

/*
 * The frames of the last walk, from the outermost in, whose words have not changed. Those further
 * in than slot are gone; what lies outside of it is in use and can be read.
 */
static uint32_t count_unchanged(const struct ta_unwind *unwind, uintptr_t slot)
{
	const struct ta_unwind_check *check = unwind->checks;
	uint32_t k;

	/* Which frames a cut-off stack has depends on where it begins. */
	if (unwind->stop == TRACE_STOP_DEPTH)
		return 0;
	for (k = 0; k < unwind->n && unwind->frames[k].slot >= slot; k++)
		for (; check < &unwind->checks[unwind->frames[k].end_check]; check++)
			if (*check->word != check->value)
				return k;
	return k;
}

/* Has the walk come to a frame that is known with all outside of it? Drops those further in. */
static inline bool is_known(const struct ta_unwind *unwind, struct ta_walk *walk,
			    const struct ta_registers *registers)
{
	const struct ta_unwind_frame *frame;

	while (walk->n_known > 0 && unwind->frames[walk->n_known - 1].slot < registers->slot)
		walk->n_known--;
	if (walk->n_known == 0)
		return false;
	frame = &unwind->frames[walk->n_known - 1];
	return frame->slot == registers->slot && !walk->is_exact &&
	       (!frame->needs_rbp || (walk->has_rbp && frame->rbp == registers->rbp)) &&
	       walk->n_fresh + walk->n_known <= ta_image.max_frames;
}

/* Go one frame out by a rule of the two usual kinds. False: it is not, or something is wrong. */
static inline bool step_usual(const struct ta_walk *walk, uint64_t rule,
			      struct ta_registers *registers)
{
	enum ta_rule_kind kind = ta_rule_kind(rule);
	uint32_t n_words = ta_rule_rbp(rule);
	uintptr_t rsp = registers->rsp;
	uintptr_t cfa = kind == TA_RULE_RBP ? registers->rbp : rsp;

	cfa += (uintptr_t)ta_rule_offset(rule) * WORD;
	if (ta_unlikely(kind > TA_RULE_RBP || cfa <= rsp || cfa > walk->limit || cfa % WORD != 0 ||
			walk->is_exact || !walk->has_rbp))
		return false;
	if (n_words) {
		/* Inside the frame; the special values lie outside of every frame. */
		if (ta_unlikely(n_words * WORD > cfa - rsp || n_words >= TA_RULE_RBP_AT_RBP))
			return false;
		registers->rbp = ((const uintptr_t *)cfa)[-(ptrdiff_t)n_words];
	}
	registers->slot = cfa - WORD;
	registers->pc = *(const uintptr_t *)registers->slot;
	registers->rsp = cfa;
	return true;
}

static bool step_out(struct ta_walk *walk, uint64_t rule, struct ta_registers *registers)
{
	struct ta_registers copy;
	bool ok;

	if (ta_likely(step_usual(walk, rule, registers)))
		return true;
	copy = *registers; /* so that the others stay in registers of the processor */
	ok = ta_walk_step_rare(walk, rule, &copy);
	*registers = copy;
	return ok;
}

/* Collect the frames that are not known, from the hook's caller outwards. */
static void walk_out(struct ta_walk *walk, struct ta_unwind *unwind, const uintptr_t *frame)
{
	struct ta_registers registers = {
		.slot = (uintptr_t)&frame[1],
		.pc = frame[1],
		.rsp = (uintptr_t)&frame[2],
		.rbp = frame[0],
	};

	while (!is_known(unwind, walk, &registers)) {
		struct ta_unwind_fresh *fresh = &unwind->fresh[walk->n_fresh];

		if (walk->n_fresh == ta_image.max_frames) {
			walk->stop = TRACE_STOP_DEPTH;
			walk->n_known = 0;
			break;
		}
		walk->n_fresh++;
		fresh->slot = registers.slot;
		fresh->rbp = registers.rbp;
		fresh->pc = registers.pc;
		fresh->rule = ta_rule_find(registers.pc);
		if (!step_out(walk, fresh->rule, &registers)) {
			walk->n_known = 0;
			break;
		}
	}
	if (!walk->is_own)
		walk->n_odd = walk->n_fresh;
}

/* Where the function of this frame has saved its caller's rbp; NULL: it has not. */
static const uintptr_t *saved_rbp(const struct ta_unwind_fresh *fresh, uintptr_t outer_slot)
{
	uint32_t n_words = ta_rule_rbp(fresh->rule);

	if (n_words == TA_RULE_RBP_SAME)
		return NULL;
	if (n_words == TA_RULE_RBP_AT_RBP)
		return (const uintptr_t *)fresh->rbp;
	return (const uintptr_t *)(outer_slot + WORD - n_words * WORD);
}

/* Keep a frame whose callers are kept already, with the words that lead out of it. */
static void push(struct ta_unwind *unwind, const struct ta_unwind_fresh *fresh, uint32_t node)
{
	struct ta_unwind_frame *frame = &unwind->frames[unwind->n];
	uint32_t c = unwind->n ? frame[-1].end_check : 0;

	frame->slot = fresh->slot;
	frame->rbp = fresh->rbp;
	frame->node = node;
	frame->needs_rbp = false;
	unwind->checks[c++] = (struct ta_unwind_check){ (const uintptr_t *)fresh->slot, fresh->pc };
	if (unwind->n) {
		const struct ta_unwind_frame *outer = &frame[-1];
		const uintptr_t *saved = saved_rbp(fresh, outer->slot);
		enum ta_rule_kind kind = ta_rule_kind(fresh->rule);

		if (kind == TA_RULE_DEREF)
			unwind->checks[c++] =
				(struct ta_unwind_check){ (const uintptr_t *)fresh->rbp +
								  ta_rule_offset(fresh->rule),
							  outer->slot + WORD };
		if (saved && outer->needs_rbp)
			unwind->checks[c++] = (struct ta_unwind_check){ saved, outer->rbp };
		frame->needs_rbp = kind != TA_RULE_RSP || (!saved && outer->needs_rbp);
	}
	frame->end_check = (uint16_t)c;
	ta_compiler_barrier();
	unwind->n++;
}

/* The whole stack may be taken again, should the next hook be called from the same place. */
static void set_top(struct ta_unwind *unwind, uint32_t id)
{
	const struct ta_unwind_frame *top = &unwind->frames[unwind->n - 1];

	unwind->top_rbp = top->rbp;
	unwind->top_rbp_mask = top->needs_rbp ? UINTPTR_MAX : 0;
	unwind->n_top_checks = top->end_check;
	unwind->top_id = id;
	ta_compiler_barrier();
	unwind->top_slot = top->slot;
}

/* Name what the walk has found, and keep what may be taken again. 0: no room. */
static uint32_t take(struct ta_thread *thread, const struct ta_walk *walk)
{
	struct ta_unwind *unwind = &thread->unwind;
	uint32_t id;

	if (walk->n_known) {
		id = unwind->frames[walk->n_known - 1].node;
	} else {
		unwind->stop = walk->stop;
		if (!ta_stack_name_stop(thread, walk->stop, &id))
			return 0;
	}
	for (uint32_t i = walk->n_fresh; i-- > 0;) {
		const struct ta_unwind_fresh *fresh = &unwind->fresh[i];

		if (!ta_stack_name_frame(thread, id, fresh->pc, &id))
			return 0;
		if (i >= walk->n_odd)
			push(unwind, fresh, id);
	}
	if (walk->n_odd == 0 && unwind->n)
		set_top(unwind, id);
	return id;
}

static __attribute__((noinline)) uint32_t capture_new(struct ta_thread *thread,
						      const uintptr_t *frame)
{
	struct ta_unwind *unwind = &thread->unwind;
	struct ta_walk walk = { .thread = thread, .has_rbp = true };

	ta_walk_enter(&walk, (uintptr_t)frame);
	if (walk.is_own)
		walk.n_known = count_unchanged(unwind, (uintptr_t)&frame[1]);
	unwind->top_slot = 0;
	walk_out(&walk, unwind, frame);
	if (walk.n_known == 0 && walk.stop != TRACE_STOP_NONE)
		atomic_fetch_add_explicit(&ta_image.process->n_truncated_stacks, 1,
					  memory_order_relaxed);
	unwind->n = walk.n_known;
	ta_compiler_barrier();
	/* Names of modules that the walk has found come before the nodes. */
	if (ta_module_has_news())
		ta_module_announce(thread);
	return take(thread, &walk);
}

/* Has no word changed that the last walk has read? Then it is the same stack. */
static inline bool is_last(const struct ta_unwind *unwind, const uintptr_t *frame)
{
	uintptr_t difference = (frame[0] ^ unwind->top_rbp) & unwind->top_rbp_mask;

	if ((uintptr_t)&frame[1] != unwind->top_slot)
		return false;
	for (uint32_t i = 0; i < unwind->n_top_checks; i++)
		difference |= *unwind->checks[i].word ^ unwind->checks[i].value;
	return difference == 0;
}

uint32_t ta_unwind_capture(struct ta_thread *thread, const uintptr_t *frame)
{
	if (ta_likely(is_last(&thread->unwind, frame)))
		return thread->unwind.top_id;
	thread->stack_id = capture_new(thread, frame);
	return thread->stack_id;
}

void ta_unwind_forget(struct ta_unwind *unwind)
{
	unwind->top_slot = 0;
	unwind->n = 0;
}
