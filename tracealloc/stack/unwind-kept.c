/* The frames of earlier walks that are still there, and the words by which that is seen. */
#include "tracealloc/stack/unwind.h"

#include "schemas/trace-format.h"
#include "tracealloc/stack/stack-hash.h"
#include "tracealloc/stack/unwind-rule.h"
#include "tracealloc/state.h"

#define WORD sizeof(uintptr_t)

/* Where the function of this frame has saved its caller's rbp; NULL: it has not. */
static const uintptr_t *saved_rbp(const struct ta_unwind_fresh *fresh, uintptr_t outer_slot)
{
	uint32_t n_words = ta_rule_any_rbp(fresh->rule);

	if (n_words == TA_RULE_RBP_SAME)
		return NULL;
	if (n_words == TA_RULE_RBP_AT_RBP)
		return (const uintptr_t *)fresh->rbp;
	return (const uintptr_t *)(outer_slot + WORD - n_words * WORD);
}

/*
 * The words that led to this frame and out of it, from checks[n_checks] on. Returns where they end;
 * sets frame->needs_rbp. outer: NULL for the outermost.
 */
static uint32_t make_checks(struct ta_unwind *unwind, const struct ta_unwind_fresh *fresh,
			    struct ta_unwind_frame *frame, const struct ta_unwind_frame *outer)
{
	uint32_t c = outer ? outer->end_check : 0;
	enum ta_rule_kind kind = ta_rule_kind(fresh->rule);

	unwind->checks[c++] = (struct ta_unwind_check){ (const uintptr_t *)fresh->slot, fresh->pc };
	frame->needs_rbp = false;
	if (!outer)
		return c;
	const uintptr_t *saved = saved_rbp(fresh, outer->slot);
	if (kind == TA_RULE_DEREF)
		unwind->checks[c++] = (struct ta_unwind_check){
			(const uintptr_t *)fresh->rbp + ta_rule_offset(fresh->rule),
			outer->slot + WORD,
		};
	if (saved && outer->needs_rbp)
		unwind->checks[c++] = (struct ta_unwind_check){ saved, outer->rbp };
	frame->needs_rbp = kind != TA_RULE_RSP || (!saved && outer->needs_rbp);
	return c;
}

/* Keep a fresh frame whose callers are kept, when its words have not changed. */
static bool keep_frame(struct ta_unwind *unwind, const struct ta_unwind_fresh *fresh)
{
	struct ta_unwind_frame *frame = &unwind->frames[unwind->n];
	const struct ta_unwind_frame *outer = unwind->n ? &frame[-1] : NULL;

	if (*(const uintptr_t *)fresh->slot != fresh->pc)
		return false;
	uint32_t end = make_checks(unwind, fresh, frame, outer);
	for (uint32_t i = outer ? outer->end_check : 0; i < end; i++)
		if (*unwind->checks[i].word != unwind->checks[i].value)
			return false;
	frame->slot = fresh->slot;
	frame->rbp = fresh->rbp;
	frame->hash =
		ta_hash_inward(outer ? outer->hash : ta_hash_of_stop(unwind->stop), fresh->pc);
	frame->end_check = (uint16_t)end;
	ta_compiler_barrier();
	unwind->n++;
	return true;
}

/* The kept frames with their words as they were. */
static uint32_t count_kept(const struct ta_unwind *unwind, uintptr_t slot)
{
	uint32_t n = unwind->n;
	uint32_t i = 0;

	while (n > 0 && unwind->frames[n - 1].slot < slot)
		n--;
	uint32_t end = n ? unwind->frames[n - 1].end_check : 0;
	while (i < end && *unwind->checks[i].word == unwind->checks[i].value)
		i++;
	if (ta_likely(i == end))
		return n;
	while (n > 0 && unwind->frames[n - 1].end_check > i)
		n--;
	return n;
}

uint32_t ta_unwind_keep(struct ta_unwind *unwind, uintptr_t slot)
{
	uint32_t i = unwind->n_fresh;
	uint32_t most = unwind->n + unwind->n_ahead;

	unwind->n_fresh = 0; /* should a signal handler jump out */
	ta_compiler_barrier();
	/* Which frames a cut-off stack has depends on where it begins. */
	if (unwind->stop == TRACE_STOP_DEPTH)
		return 0;
	uint32_t n = count_kept(unwind, slot);
	if (n < unwind->n)
		return n;
	while (i-- > unwind->first_fresh && unwind->n < most)
		if (unwind->fresh[i].slot < slot || !keep_frame(unwind, &unwind->fresh[i]))
			break;
	return unwind->n;
}
