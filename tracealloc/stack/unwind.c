#include "tracealloc/stack/unwind.h"

#include <stddef.h>

#include "schemas/trace-format.h"
#include "tracealloc/own-time.h"
#include "tracealloc/ring/chunk.h"
#include "tracealloc/stack/module.h"
#include "tracealloc/stack/stack.h"
#include "tracealloc/stack/unwind-walk.h"
#include "tracealloc/state.h"
#include "tracealloc/thread.h"

#define WORD	  sizeof(uintptr_t)
#define FEW_AHEAD 2u

/* Take what is known to go on from the k innermost ones of the kept frames. */
static void set_known(struct ta_walk *walk, const struct ta_unwind *unwind, uint32_t k)
{
	walk->n_known = k;
	walk->known_slot = k ? unwind->frames[k - 1].slot : UINTPTR_MAX;
}

/*
 * Is the frame that the walk has come to known, with all outside of it? Drops those further in:
 * what lies at their place has been left standing by earlier calls.
 */
static bool is_known(const struct ta_unwind *unwind, struct ta_walk *walk,
		     const struct ta_registers *registers)
{
	while (walk->known_slot <= registers->slot) {
		const struct ta_unwind_frame *frame = &unwind->frames[walk->n_known - 1];

		if (frame->slot == registers->slot && !walk->is_exact &&
		    (!frame->needs_rbp || (walk->has_rbp && frame->rbp == registers->rbp)) &&
		    walk->n_fresh + walk->n_known <= ta_image.max_frames)
			return true;
		set_known(walk, unwind, walk->n_known - 1);
		walk->n_dropped++;
	}
	return false;
}

static void note_fresh(struct ta_unwind_fresh *fresh, const struct ta_registers *registers,
		       uint64_t rule)
{
	fresh->slot = registers->slot;
	fresh->rbp = registers->rbp;
	fresh->pc = registers->pc;
	fresh->rule = rule;
}

/*
 * Go out as far as frames have one of the two usual rules, lie inside the limit and are not known.
 * This is where the time goes when each stack is another one: the way from one return address to
 * the next is kept short, and free of branches that could be taken either way. (A function of its
 * own, so that all of it stays in registers.)
 */
static __attribute__((noinline)) void
walk_usual(struct ta_walk *walk, struct ta_unwind_fresh *fresh, struct ta_registers *registers)
{
	const uint64_t *power = &ta_hash_power[walk->n_fresh];
	const uint64_t *end = &ta_hash_power[ta_image.max_frames];
	ta_hash_sum sum = walk->hash_sum;
	uint32_t n_sets = ta_rule_n_sets();
	uintptr_t limit = walk->limit;
	uintptr_t pc = registers->pc;
	uintptr_t rsp = registers->rsp;
	uintptr_t rbp = registers->rbp;

	fresh += walk->n_fresh;
	while (rsp - WORD < walk->known_slot && power < end) {
		uint64_t rule = ta_rule_find_first(n_sets, pc);
		uintptr_t saved;

		if (ta_unlikely(!ta_rule_is_of(rule, pc))) {
			rule = ta_rule_find_second(n_sets, pc);
			if (!ta_rule_is_of(rule, pc))
				break;
		}
		uint32_t n_words = ta_rule_rbp(rule);
		uintptr_t cfa = ta_rule_kind(rule) & TA_RULE_RBP ? rbp : rsp;
		cfa += (uintptr_t)ta_rule_offset(rule) * WORD;
		if (ta_unlikely(!ta_rule_is_address(pc) || ta_rule_full_kind(rule) > TA_RULE_RBP ||
				cfa <= rsp || cfa >= limit || cfa % WORD != 0 ||
				n_words * WORD > cfa - rsp))
			break;
		fresh->slot = rsp - WORD;
		fresh->rbp = rbp;
		fresh->pc = pc;
		fresh->rule = rule;
		fresh++;
		sum += (ta_hash_sum)pc * *power++;
		/* Of a function that has not saved rbp this is the word behind its frame. */
		saved = *(const uintptr_t *)(cfa - n_words * WORD);
		rbp = n_words ? saved : rbp;
		pc = ((const uintptr_t *)cfa)[-1];
		rsp = cfa;
	}
	walk->hash_sum = sum;
	walk->n_fresh = (uint32_t)(power - ta_hash_power);
	*registers = (struct ta_registers){ rsp - WORD, pc, rsp, rbp };
}

/* The rule that the walk goes on by. False: it would have to be worked out, and may not be. */
static bool find_rule(struct ta_walk *walk, uintptr_t pc, uint64_t *ret_rule)
{
	if (ta_likely(!walk->is_quick)) {
		*ret_rule = ta_rule_find(pc);
		return true;
	}
	walk->has_failed =
		!ta_rule_recall(pc, ret_rule) || (ta_rule_kind(*ret_rule) > TA_RULE_DEREF &&
						  ta_rule_kind(*ret_rule) != TA_RULE_OUTERMOST);
	return !walk->has_failed;
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

	for (;;) {
		uint64_t rule;

		if (walk->has_rbp && !walk->is_exact)
			walk_usual(walk, unwind->fresh, &registers);
		if (registers.slot >= walk->known_slot) {
			if (is_known(unwind, walk, &registers))
				break;
			continue;
		}
		if (walk->n_fresh == ta_image.max_frames) {
			walk->stop = TRACE_STOP_DEPTH;
			walk->n_known = 0;
			break;
		}
		if (!find_rule(walk, registers.pc, &rule)) {
			walk->n_known = 0;
			break;
		}
		note_fresh(&unwind->fresh[walk->n_fresh], &registers, rule);
		walk->hash_sum += ta_hash_term(registers.pc, walk->n_fresh);
		walk->n_fresh++;
		if (!ta_walk_step_rare(walk, rule, &registers)) {
			walk->n_known = 0;
			break;
		}
	}
	if (!walk->is_own)
		walk->n_odd = walk->n_fresh;
}

static uintptr_t kept_pc(const struct ta_unwind *unwind, uint32_t i)
{
	return unwind->checks[i ? unwind->frames[i - 1].end_check : 0].value;
}

/* The id of the n outermost kept frames; what is not known any more is written again. */
static bool name_kept(struct ta_thread *thread, uint32_t n, uint32_t *ret_id)
{
	const struct ta_unwind *unwind = &thread->unwind;
	uint32_t k = n;
	uint32_t id = 0;

	while (k > 0 &&
	       !(id = ta_stack_find(thread, unwind->frames[k - 1].hash, kept_pc(unwind, k - 1))))
		k--;
	if (k == 0 && !ta_stack_name_stop(thread, unwind->stop, &id))
		return false;
	for (; k < n; k++) {
		id = ta_stack_write(thread, id, kept_pc(unwind, k), unwind->frames[k].hash);
		if (!id)
			return false;
	}
	*ret_id = id;
	return true;
}

/* The hash of the kept frames that the walk has come to. */
static uint64_t outer_hash(const struct ta_unwind *unwind, const struct ta_walk *walk)
{
	return walk->n_known ? unwind->frames[walk->n_known - 1].hash
			     : ta_hash_of_stop(unwind->stop);
}

/* Name a stack that is not in the table. 0: no room. */
static __attribute__((noinline)) uint32_t name_walk(struct ta_thread *thread,
						    const struct ta_walk *walk)
{
	uint64_t hash = outer_hash(&thread->unwind, walk);
	uint32_t id;

	/* Names of modules that the walk has found come before the nodes. */
	if (ta_module_has_news())
		ta_chunk_announce(thread);
	if (!name_kept(thread, walk->n_known, &id))
		return 0;
	return ta_stack_name_fresh(thread, walk->n_fresh, id, hash);
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

/* The id of the stack that the walk has found. 0: no room. */
static uint32_t take(struct ta_thread *thread, const struct ta_walk *walk, uintptr_t pc)
{
	struct ta_unwind *unwind = &thread->unwind;
	uint64_t hash = ta_hash_join(walk->hash_sum, outer_hash(unwind, walk), walk->n_fresh);
	uint32_t id = ta_stack_find(thread, hash, pc);

	if (!id && !walk->is_quick)
		id = name_walk(thread, walk);
	/* The second time in a row, all is kept: the third one will compare words only. */
	if (id && walk->n_fresh == 0)
		set_top(unwind, id);
	return id;
}

static __attribute__((noinline)) uint32_t capture_new(struct ta_thread *thread,
						      const uintptr_t *frame, bool is_quick)
{
	struct ta_unwind *unwind = &thread->unwind;
	struct ta_walk walk = {
		.thread = thread,
		.has_rbp = true,
		.is_quick = is_quick,
		.known_slot = UINTPTR_MAX,
	};

	unwind->top_slot = 0;
	ta_walk_enter(&walk, (uintptr_t)frame);
	if (walk.is_own)
		set_known(&walk, unwind, ta_unwind_keep(unwind, (uintptr_t)&frame[1]));
	unwind->n_fresh = 0;
	ta_compiler_barrier();
	walk_out(&walk, unwind, frame);
	unwind->n = walk.n_known;
	if (ta_unlikely(walk.has_failed))
		return 0;
	unwind->n_ahead = walk.n_dropped		       ? FEW_AHEAD
			  : unwind->n_ahead < TA_UNWIND_FRAMES ? 2 * unwind->n_ahead
							       : unwind->n_ahead;
	ta_compiler_barrier();
	if (walk.n_known == 0)
		unwind->stop = walk.stop;
	if (walk.n_known == 0 && walk.stop != TRACE_STOP_NONE)
		atomic_fetch_add_explicit(&ta_image.process->n_truncated_stacks, 1,
					  memory_order_relaxed);
	unwind->first_fresh = walk.n_odd;
	ta_compiler_barrier();
	unwind->n_fresh = walk.n_fresh;
	return take(thread, &walk, frame[1]);
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
	thread->stack_id = capture_new(thread, frame, false);
	return thread->stack_id;
}

uint32_t ta_unwind_recall(struct ta_thread *thread, const uintptr_t *frame)
{
	if (ta_likely(is_last(&thread->unwind, frame)))
		return thread->unwind.top_id;
	thread->stack_id = capture_new(thread, frame, true);
	return thread->stack_id;
}

uint32_t ta_unwind_measured(struct ta_thread *thread, const uintptr_t *frame,
			    uint32_t (*find)(struct ta_thread *thread, const uintptr_t *frame))
{
	if (ta_likely(is_last(&thread->unwind, frame)))
		return thread->unwind.top_id;
	uint64_t since = ta_own_now(thread);
	uint32_t id = find(thread, frame);
	ta_own_add(thread, since);
	return id;
}
