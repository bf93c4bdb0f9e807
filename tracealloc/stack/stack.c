#include "tracealloc/stack/stack.h"

#include <string.h>

#include "schemas/trace-format.h"
#include "tracealloc/arch/arch.h"
#include "tracealloc/own-time.h"
#include "tracealloc/ring/record.h"
#include "tracealloc/stack/cfi.h"
#include "tracealloc/stack/module.h"
#include "tracealloc/stack/stack-hash.h"
#include "tracealloc/stack/thunk.h"
#include "tracealloc/stack/unwind-rule.h"
#include "tracealloc/state.h"

#define PC_BITS	    56u
#define OUTER_STEPS 3u /* __libc_start_call_main, __libc_start_main, _start */

/*
 * What a return address says about going on from its frame. A function of the address alone, so it
 * is worked out once for each address.
 */
enum pc_class {
	CLASS_UNKNOWN,
	CLASS_CHAIN, /* the function keeps a frame pointer: rbp leads to its caller */
	CLASS_OUTERMOST, /* nothing of the program lies further out */
	CLASS_NO_FRAME_POINTER,
	CLASS_NO_RULE, /* in code that says nothing about its frames */
	CLASS_NOT_A_CALL, /* not code, or not behind a call instruction: no return address */
};

static const uint8_t class_stop[] = {
	[CLASS_NO_FRAME_POINTER] = TRACE_STOP_NO_FRAME_POINTER,
	[CLASS_NO_RULE] = TRACE_STOP_NO_RULE,
	[CLASS_NOT_A_CALL] = TRACE_STOP_BAD_STACK,
	[CLASS_OUTERMOST] = TRACE_STOP_NONE,
};

static bool in_stack(const struct ta_thread *thread, uintptr_t address)
{
	return address >= thread->stack_start && address % 16 == 0 &&
	       address + 2 * sizeof(uintptr_t) <= thread->stack_end;
}

/* Does the rule say the usual frame: rbp points at the saved rbp, below the return address? */
static bool is_frame_pointer(const struct ta_cfi_rule *rule)
{
	return !rule->cfa_is_other && rule->cfa_register == TA_CFI_RBP && rule->cfa_offset == 16 &&
	       rule->rbp_place == TA_CFI_AT_CFA && rule->rbp_offset == -16 &&
	       rule->return_place == TA_CFI_AT_CFA && rule->return_offset == -8;
}

struct registers {
	uintptr_t pc;
	uintptr_t rsp;
	uintptr_t rbp;
};

/* Go one frame out by the rule. False when it cannot be done. */
static bool step_out(const struct ta_thread *thread, const struct ta_cfi_rule *rule,
		     struct registers *registers)
{
	uintptr_t cfa = rule->cfa_register == TA_CFI_RSP ? registers->rsp : registers->rbp;

	cfa += (uintptr_t)rule->cfa_offset;
	if (rule->cfa_is_other || rule->cfa_register < TA_CFI_RBP ||
	    rule->cfa_register > TA_CFI_RSP || cfa <= registers->rsp || !in_stack(thread, cfa - 16))
		return false;
	if (rule->rbp_place == TA_CFI_AT_CFA) {
		uintptr_t saved = cfa + (uintptr_t)rule->rbp_offset;

		if (saved < registers->rsp || saved > cfa - sizeof(saved))
			return false;
		registers->rbp = *(const uintptr_t *)saved;
	}
	registers->pc = ((const uintptr_t *)cfa)[-1];
	registers->rsp = cfa;
	return true;
}

/*
 * Does the C library's code at this frame call main or a thread's function? Then _start or clone,
 * which say that they have no caller, are at most two frames further out.
 */
static bool is_outermost(const struct ta_thread *thread, const struct ta_frame *frame)
{
	struct registers registers = {
		.pc = ta_thunk_return(frame->pc),
		.rsp = frame->address + 2 * sizeof(uintptr_t),
		.rbp = *(const uintptr_t *)frame->address,
	};

	for (unsigned i = 0; i < OUTER_STEPS; i++) {
		const struct ta_module *module = ta_module_find(registers.pc - 1);
		struct ta_cfi_rule rule;

		if (!module || ta_cfi_find(module, registers.pc - 1, &rule) < 0)
			return false;
		if (rule.return_place == TA_CFI_UNDEFINED)
			return true;
		if (!step_out(thread, &rule, &registers))
			return false;
	}
	return false;
}

static bool follows_call(const struct ta_module *module, uintptr_t pc)
{
	for (unsigned i = 0; i < TA_MODULE_RANGES; i++) {
		uintptr_t start = module->code[i].start;

		if (pc > start && pc <= module->code[i].end)
			return ta_thunk_follows_call(pc) ||
			       ta_call_ends_at((const uint8_t *)pc,
					       pc - start > 7 ? 7 : (unsigned)(pc - start));
	}
	return false;
}

static enum pc_class work_out(const struct ta_thread *thread, const struct ta_frame *frame)
{
	uintptr_t pc = ta_thunk_return(frame->pc);
	const struct ta_module *module = ta_module_find(pc - 1);
	struct ta_cfi_rule rule;

	if (!module || !follows_call(module, pc))
		return CLASS_NOT_A_CALL;
	if (ta_cfi_find(module, pc - 1, &rule) < 0)
		return CLASS_NO_RULE;
	if (rule.return_place == TA_CFI_UNDEFINED)
		return CLASS_OUTERMOST;
	if (is_frame_pointer(&rule))
		return CLASS_CHAIN;
	if (module->is_system && in_stack(thread, frame->address) && is_outermost(thread, frame))
		return CLASS_OUTERMOST;
	return CLASS_NO_FRAME_POINTER;
}

static enum pc_class classify(const struct ta_thread *thread, const struct ta_frame *frame)
{
	uint64_t epoch = ta_tls.seen / TA_ON_EPOCH & 0xf;
	uint64_t key = frame->pc | epoch << 60;
	uint64_t hash = frame->pc * UINT64_C(0x9e3779b97f4a7c15) >> (64 - TA_CLASSES_LOG2);
	uint64_t entry = atomic_load_explicit(&ta_stack_classes[hash], memory_order_relaxed);

	if (ta_likely((entry & ~(UINT64_C(0xf) << PC_BITS)) == key))
		return (enum pc_class)(entry >> PC_BITS & 0xf);
	enum pc_class found = frame->pc >> PC_BITS ? CLASS_NOT_A_CALL : work_out(thread, frame);
	atomic_store_explicit(&ta_stack_classes[hash], key | (uint64_t)found << PC_BITS,
			      memory_order_relaxed);
	return found;
}

/* Follow the chain of frame pointers from the hook's own frame. */
static void walk(const struct ta_thread *thread, const uintptr_t *frame, struct ta_trace *trace)
{
	enum pc_class class = CLASS_CHAIN;
	uint32_t n = 0;

	trace->stop = TRACE_STOP_BAD_STACK;
	for (;;) {
		struct ta_frame *next = &trace->frame[n];

		next->address = (uintptr_t)frame;
		next->pc = frame[1];
		class = classify(thread, next);
		/* The first is what the hook returns to, whatever lies there. */
		if (n > 0 && class == CLASS_NOT_A_CALL)
			break;
		n++;
		if (class != CLASS_CHAIN) {
			trace->stop =
				class == CLASS_NOT_A_CALL ? TRACE_STOP_NO_RULE : class_stop[class];
			break;
		}
		if (n == ta_image.max_frames) {
			trace->stop = TRACE_STOP_DEPTH;
			break;
		}
		uintptr_t outer = frame[0];
		if (!in_stack(thread, (uintptr_t)frame) || !in_stack(thread, outer) ||
		    outer <= (uintptr_t)frame)
			break;
		frame = (const uintptr_t *)outer;
	}
	trace->n = n;
}

/* The id of a stack that is not in the table: of its nodes, those that are new are written. */
static uint32_t name_frames(struct ta_thread *thread, const struct ta_trace *trace)
{
	uint64_t hash = ta_hash_of_stop(trace->stop);
	uint32_t id;

	/* Names of modules that the walk has found come before the nodes. */
	if (ta_module_has_news())
		ta_chunk_announce(thread);
	if (!ta_stack_name_stop(thread, trace->stop, &id))
		return 0;
	for (uint32_t i = trace->n; i-- > 0;) {
		hash = ta_hash_inward(hash, trace->frame[i].pc);
		id = ta_stack_name(thread, id, trace->frame[i].pc, hash);
		if (!id)
			return 0;
	}
	return id;
}

static uint64_t hash_of(const struct ta_trace *trace)
{
	ta_hash_sum sum = 0;

	for (uint32_t i = 0; i < trace->n; i++)
		sum += ta_hash_term(trace->frame[i].pc, i);
	return ta_hash_join(sum, ta_hash_of_stop(trace->stop), trace->n);
}

static uint32_t capture_new(struct ta_thread *thread, const uintptr_t *frame)
{
	const struct ta_trace *last = thread->last;
	struct ta_trace *trace = &thread->traces[last == &thread->traces[0]];

	walk(thread, frame, trace);
	if (trace->stop == TRACE_STOP_DEPTH)
		atomic_fetch_add_explicit(&ta_image.process->n_truncated_stacks, 1,
					  memory_order_relaxed);
	thread->stack_id = 0;
	trace->id = ta_stack_find(thread, hash_of(trace), trace->frame[0].pc);
	if (!trace->id)
		trace->id = name_frames(thread, trace);
	if (!trace->id)
		return 0;
	ta_compiler_barrier();
	thread->last = trace;
	thread->stack_id = trace->id;
	return trace->id;
}

/*
 * Is it the stack of the last event? Then every frame lies where it lay, inside this thread's
 * stack, and returns to the same place; nothing else has to be checked again.
 */
static inline bool is_last(const struct ta_trace *last, const uintptr_t *frame)
{
	uint32_t n = last->n;

	for (uint32_t i = 0; i < n; i++) {
		if ((uintptr_t)frame != last->frame[i].address || frame[1] != last->frame[i].pc)
			return false;
		frame = (const uintptr_t *)frame[0];
	}
	return n > 0;
}

static __attribute__((noinline)) uint32_t capture_chain(struct ta_thread *thread,
							const uintptr_t *frame)
{
	const struct ta_trace *last = thread->last;

	if (ta_likely(is_last(last, frame)))
		return last->id;
	if (ta_likely(!ta_image.is_measured))
		return capture_new(thread, frame);
	uint64_t since = ta_own_now(thread);
	uint32_t id = capture_new(thread, frame);

	ta_own_add(thread, since);
	return id;
}

/* Both ways are calls in the end, so that this one saves no registers. */
uint32_t ta_stack_capture(struct ta_thread *thread, const uintptr_t *frame)
{
	if (ta_likely(ta_image.stacks == RING_STACKS_DWARF))
		return ta_unwind_capture(thread, frame);
	if (ta_unlikely(ta_image.stacks == RING_STACKS_NONE))
		return 0;
	if (ta_image.stacks == TA_STACKS_MEASURED)
		return ta_unwind_measured(thread, frame, ta_unwind_capture);
	return capture_chain(thread, frame);
}

bool ta_stack_recall(struct ta_thread *thread, const uintptr_t *frame, uint32_t *ret_id)
{
	if (ta_likely(ta_image.stacks == RING_STACKS_DWARF))
		*ret_id = ta_unwind_recall(thread, frame);
	else if (ta_image.stacks == TA_STACKS_MEASURED)
		*ret_id = ta_unwind_measured(thread, frame, ta_unwind_recall);
	else if (ta_image.stacks == RING_STACKS_NONE)
		*ret_id = 0;
	else
		*ret_id = is_last(thread->last, frame) ? thread->last->id : 0;
	return *ret_id || ta_image.stacks == RING_STACKS_NONE;
}
