/*
 * Call stacks on processors other than x86-64: by .eh_frame where a frame's place hangs on it
 * (aarch64), by the chain that the ABI makes every function keep (ppc64le). A stack whose words are
 * all as the last walk has read them is taken again; any other one is walked from the hook
 * outwards.
 */
#include <stddef.h>

#include "schemas/trace-format.h"
#include "tracealloc/arch/arch.h"
#include "tracealloc/own-time.h"
#include "tracealloc/ring/chunk.h"
#include "tracealloc/stack/cfi.h"
#include "tracealloc/stack/module.h"
#include "tracealloc/stack/stack-hash.h"
#include "tracealloc/stack/stack.h"
#include "tracealloc/stack/unwind-rule.h"
#include "tracealloc/stack/unwind-walk.h"
#include "tracealloc/stack/unwind.h"
#include "tracealloc/state.h"
#include "tracealloc/thread.h"

#define WORD	    sizeof(uintptr_t)
#define RETURN_WORD 2u /* of the back chain: where a function saves its return address */

/* How to leave a frame, in bytes from the CFA but for `cfa` itself. */
struct way {
	bool is_by_frame; /* CFA = frame pointer + cfa, else stack pointer + cfa */
	bool is_frame_saved;
	int64_t cfa;
	int64_t frame;
	int64_t ret;
};

/* What was interrupted is not behind a call, and where it was lies in registers that were saved. */
static bool is_trampoline(uintptr_t pc)
{
	static const uint32_t code[] = TA_TRAMPOLINE;
	const uint32_t *at = (const uint32_t *)pc;

	return pc % sizeof(*at) == 0 && ta_walk_is_readable(pc) && at[0] == code[0] &&
	       at[1] == code[1];
}

/* Can a rule of two parts say it: the return address lies above the saved frame pointer? */
static bool is_pair(const struct ta_cfi_rule *cfi)
{
	int64_t below = -cfi->rbp_offset;

	return cfi->rbp_place == TA_CFI_AT_CFA && cfi->return_offset == cfi->rbp_offset + 8 &&
	       below > 0 && below % 8 == 0 && below / 8 <= TA_RULE_RBP_MOST;
}

static struct ta_rule condense(const struct ta_cfi_rule *cfi)
{
	struct ta_rule rule = { .kind = TA_RULE_STOP, .offset = TRACE_STOP_NO_RULE };

	if (TA_HAS_BACK_CHAIN)
		return (struct ta_rule){ .kind = TA_RULE_RSP };
	if (cfi->return_place != TA_CFI_AT_CFA || cfi->cfa_is_other ||
	    (cfi->cfa_register != TA_CFI_RBP && cfi->cfa_register != TA_CFI_RSP) ||
	    (cfi->rbp_place != TA_CFI_AT_CFA && cfi->rbp_place != TA_CFI_SAME))
		return rule;
	if (!is_pair(cfi) || cfi->cfa_offset % 8 != 0)
		return (struct ta_rule){ .kind = TA_RULE_LARGE };
	return (struct ta_rule){
		.kind = cfi->cfa_register == TA_CFI_RBP ? TA_RULE_RBP : TA_RULE_RSP,
		.rbp = (uint32_t)(-cfi->rbp_offset / 8),
		.offset = cfi->cfa_offset,
	};
}

/* Of an address in a module that no call returns to. */
static struct ta_rule work_out_odd(const struct ta_module *module, uintptr_t pc)
{
	if (ta_rule_is_context_end(module, pc) || (module->is_system && ta_is_own_address(pc)))
		return (struct ta_rule){ .kind = TA_RULE_OUTERMOST };
	return (struct ta_rule){
		.kind = TA_RULE_STOP,
		.offset = is_trampoline(pc) ? TRACE_STOP_NO_RULE : TRACE_STOP_BAD_STACK,
	};
}

struct ta_rule ta_rule_work_out(uintptr_t pc, bool is_exact)
{
	const struct ta_module *module = ta_module_find(pc - 1);
	struct ta_cfi_rule cfi;

	(void)is_exact;
	if (!module)
		return (struct ta_rule){ .kind = TA_RULE_NONE };
	if (!ta_rule_follows_call(module, pc))
		return work_out_odd(module, pc);
	if (ta_cfi_find(module, pc - 1, &cfi) < 0)
		return (struct ta_rule){ .kind = module->is_loader ? TA_RULE_OUTERMOST
								   : TA_RULE_NONE };
	if (cfi.return_place == TA_CFI_UNDEFINED)
		return (struct ta_rule){ .kind = TA_RULE_OUTERMOST };
	return condense(&cfi);
}

/* False: the walk ends; walk->stop says why. */
static bool end_walk(struct ta_walk *walk, uint32_t reason)
{
	walk->stop = reason;
	return false;
}

/* Read a word of the stack that the next walk has to find unchanged. */
static bool read_word(struct ta_walk *walk, struct ta_unwind *unwind, uintptr_t address,
		      uintptr_t *ret_word)
{
	if (address % WORD != 0 || !ta_walk_reach(walk, address + WORD))
		return end_walk(walk, TRACE_STOP_BAD_STACK);
	*ret_word = *(const uintptr_t *)address;
	unwind->checks[unwind->n_top_checks++] =
		(struct ta_unwind_check){ (const uintptr_t *)address, *ret_word };
	return true;
}

static bool step_chain(struct ta_walk *walk, struct ta_unwind *unwind,
		       struct ta_registers *registers)
{
	uintptr_t outer;
	uintptr_t pc;

	if (!read_word(walk, unwind, registers->rsp, &outer))
		return false;
	if (outer == 0)
		return end_walk(walk, TRACE_STOP_NONE);
	if (outer <= registers->rsp || outer % (2 * WORD) != 0)
		return end_walk(walk, TRACE_STOP_BAD_STACK);
	if (!read_word(walk, unwind, outer + RETURN_WORD * WORD, &pc))
		return false;
	*registers = (struct ta_registers){ .pc = pc, .rsp = outer };
	return pc != 0 || end_walk(walk, TRACE_STOP_NONE);
}

/*
 * Generated code, or assembly: by the frame record that the frame pointer points to, if it is one.
 */
static bool step_record(struct ta_walk *walk, struct ta_unwind *unwind,
			struct ta_registers *registers)
{
	uintptr_t record = registers->rbp;
	uintptr_t outer;
	uintptr_t pc;

	if (!ta_walk_is_return(registers->pc))
		return end_walk(walk, TRACE_STOP_BAD_STACK);
	if (record < registers->rsp || !read_word(walk, unwind, record, &outer) ||
	    !read_word(walk, unwind, record + WORD, &pc) ||
	    !ta_walk_is_return(ta_return_address(pc)))
		return end_walk(walk, TRACE_STOP_NO_RULE);
	*registers = (struct ta_registers){
		.pc = ta_return_address(pc),
		.rsp = record + 2 * WORD, /* or above: see find_cfa() */
		.rbp = outer,
	};
	walk->is_exact = false;
	return true;
}

/*
 * Behind a frame that a record told of, the stack pointer is known no more. But a function that has
 * a record, as its rule says, has put its address into the frame pointer.
 */
static uintptr_t find_cfa(const struct ta_walk *walk, const struct way *way,
			  const struct ta_registers *registers)
{
	if (way->is_by_frame)
		return registers->rbp + (uintptr_t)way->cfa;
	if (walk->has_rbp || !way->is_frame_saved)
		return registers->rsp + (uintptr_t)way->cfa;
	return registers->rbp - (uintptr_t)way->frame;
}

static bool step_way(struct ta_walk *walk, struct ta_unwind *unwind, const struct way *way,
		     struct ta_registers *registers)
{
	uintptr_t cfa = find_cfa(walk, way, registers);
	uintptr_t frame = registers->rbp;
	uintptr_t pc;

	if (cfa <= registers->rsp || cfa % WORD != 0 ||
	    cfa + (uintptr_t)way->ret < registers->rsp || way->ret >= 0)
		return end_walk(walk, TRACE_STOP_BAD_STACK);
	if (!read_word(walk, unwind, cfa + (uintptr_t)way->ret, &pc))
		return false;
	if (way->is_frame_saved && (cfa + (uintptr_t)way->frame < registers->rsp ||
				    !read_word(walk, unwind, cfa + (uintptr_t)way->frame, &frame)))
		return end_walk(walk, TRACE_STOP_BAD_STACK);
	pc = ta_return_address(pc);
	*registers = (struct ta_registers){ .pc = pc, .rsp = cfa, .rbp = frame };
	return pc != 0 || end_walk(walk, TRACE_STOP_NONE);
}

/* The way out of a frame whose rule does not fit into a word. */
static bool find_large(uintptr_t pc, struct way *ret_way)
{
	const struct ta_module *module = ta_module_find(pc - 1);
	struct ta_cfi_rule cfi;

	if (!module || ta_cfi_find(module, pc - 1, &cfi) < 0)
		return false;
	*ret_way = (struct way){
		.is_by_frame = cfi.cfa_register == TA_CFI_RBP,
		.is_frame_saved = cfi.rbp_place == TA_CFI_AT_CFA,
		.cfa = cfi.cfa_offset,
		.frame = cfi.rbp_offset,
		.ret = cfi.return_offset,
	};
	return true;
}

static bool step_rule(struct ta_walk *walk, struct ta_unwind *unwind, uint64_t rule,
		      struct ta_registers *registers)
{
	struct way way = {
		.is_by_frame = ta_rule_kind(rule) == TA_RULE_RBP,
		.is_frame_saved = true,
		.cfa = ta_rule_offset(rule) * (int64_t)WORD,
		.frame = -(int64_t)(ta_rule_rbp(rule) * WORD),
		.ret = -(int64_t)(ta_rule_rbp(rule) * WORD) + (int64_t)WORD,
	};

	if (TA_HAS_BACK_CHAIN)
		return step_chain(walk, unwind, registers);
	if (ta_rule_kind(rule) == TA_RULE_LARGE && !find_large(registers->pc, &way))
		return end_walk(walk, TRACE_STOP_NO_RULE);
	return step_way(walk, unwind, &way, registers);
}

/* Go one frame out. */
static bool step(struct ta_walk *walk, struct ta_unwind *unwind, uint64_t rule,
		 struct ta_registers *registers)
{
	switch (ta_rule_kind(rule)) {
	case TA_RULE_OUTERMOST:
		return end_walk(walk, TRACE_STOP_NONE);
	case TA_RULE_NONE:
		if (is_trampoline(registers->pc))
			return end_walk(walk, TRACE_STOP_NO_RULE);
		walk->has_rbp = false;
		return TA_HAS_BACK_CHAIN ? step_chain(walk, unwind, registers)
					 : step_record(walk, unwind, registers);
	case TA_RULE_STOP:
		return end_walk(walk, (uint32_t)ta_rule_offset(rule));
	default:
		return step_rule(walk, unwind, rule, registers);
	}
}

static void walk_out(struct ta_walk *walk, struct ta_unwind *unwind, const uintptr_t *frame)
{
	struct ta_registers registers = { .pc = frame[1], .rsp = frame[2], .rbp = frame[0] };

	do {
		struct ta_unwind_fresh *fresh = &unwind->fresh[walk->n_fresh];

		if (walk->n_fresh == ta_image.max_frames) {
			walk->stop = TRACE_STOP_DEPTH;
			return;
		}
		fresh->pc = registers.pc;
		fresh->rule = ta_rule_find(registers.pc);
		if (walk->n_fresh > 0 && ta_rule_kind(fresh->rule) == TA_RULE_STOP &&
		    ta_rule_offset(fresh->rule) == TRACE_STOP_BAD_STACK) {
			walk->stop = TRACE_STOP_BAD_STACK;
			return;
		}
		walk->hash_sum += ta_hash_term(registers.pc, walk->n_fresh);
		walk->n_fresh++;
	} while (step(walk, unwind, unwind->fresh[walk->n_fresh - 1].rule, &registers));
}

/* The id of a stack that is not in the table: of its nodes, those that are new are written. */
static uint32_t name_walk(struct ta_thread *thread, const struct ta_walk *walk)
{
	uint64_t hash = ta_hash_of_stop(walk->stop);
	uint32_t id;

	/* Names of modules that the walk has found come before the nodes. */
	if (ta_module_has_news())
		ta_chunk_announce(thread);
	if (!ta_stack_name_stop(thread, walk->stop, &id))
		return 0;
	return ta_stack_name_fresh(thread, walk->n_fresh, id, hash);
}

static uint32_t capture_new(struct ta_thread *thread, const uintptr_t *frame)
{
	struct ta_unwind *unwind = &thread->unwind;
	struct ta_walk walk = { .thread = thread, .has_rbp = true };

	unwind->top_slot = 0;
	unwind->n_top_checks = 0;
	ta_compiler_barrier();
	ta_walk_enter(&walk, frame[2]);
	walk_out(&walk, unwind, frame);
	if (walk.stop != TRACE_STOP_NONE)
		atomic_fetch_add_explicit(&ta_image.process->n_truncated_stacks, 1,
					  memory_order_relaxed);
	uint64_t hash = ta_hash_join(walk.hash_sum, ta_hash_of_stop(walk.stop), walk.n_fresh);
	uint32_t id = ta_stack_find(thread, hash, frame[1]);
	if (!id)
		id = name_walk(thread, &walk);
	unwind->top_rbp = frame[0];
	unwind->top_id = id;
	ta_compiler_barrier();
	unwind->top_slot = id && walk.is_own ? frame[2] : 0;
	return id;
}

/* Has no word changed that the last walk has read? Then it is the same stack. */
static bool is_last(const struct ta_unwind *unwind, const uintptr_t *frame)
{
	uintptr_t difference = frame[0] ^ unwind->top_rbp;

	if (frame[2] != unwind->top_slot || frame[1] != unwind->fresh[0].pc)
		return false;
	for (uint32_t i = 0; i < unwind->n_top_checks; i++)
		difference |= *unwind->checks[i].word ^ unwind->checks[i].value;
	return difference == 0;
}

uint32_t ta_stack_capture(struct ta_thread *thread, const uintptr_t *frame)
{
	if (ta_unlikely(ta_image.stacks == RING_STACKS_NONE))
		return 0;
	if (ta_likely(is_last(&thread->unwind, frame)))
		return thread->unwind.top_id;
	if (ta_likely(!ta_image.is_measured)) {
		thread->stack_id = capture_new(thread, frame);
		return thread->stack_id;
	}
	uint64_t since = ta_own_now(thread);

	thread->stack_id = capture_new(thread, frame);
	ta_own_add(thread, since);
	return thread->stack_id;
}
