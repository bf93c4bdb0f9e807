#include "tracealloc/stack/unwind-walk.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#include "schemas/trace-format.h"
#include "tracealloc/arch/arch.h"
#include "tracealloc/stack/cfi.h"
#include "tracealloc/thread.h"

#define MAX_SWITCHES   8u
#define MAX_SCAN_WORDS 512u
#define NEAR_BYTES     (UINT64_C(16) << 20) /* generated code that may call each other */

static bool end_walk(struct ta_walk *walk, enum trace_stop reason)
{
	walk->stop = reason;
	return false;
}

/* The same, and it may go on from here another time: not for a reason that lies in the rule. */
static bool end_for_now(struct ta_walk *walk, enum trace_stop reason)
{
	walk->n_odd = walk->n_fresh;
	return end_walk(walk, reason);
}

/*
 * The last address is not one that a call returns to. The hook's own caller is kept all the same.
 */
static bool end_before(struct ta_walk *walk, uintptr_t pc)
{
	if (walk->n_fresh > 1) {
		walk->n_fresh--;
		walk->hash_sum -= ta_hash_term(pc, walk->n_fresh);
	}
	return end_for_now(walk, TRACE_STOP_BAD_STACK);
}

/*
 * Code that says nothing about its frames: generated, or assembly. When it keeps a frame pointer,
 * its return address lies behind what rbp points to, and nothing that looks like a return address
 * lies before that; when it does not, rbp is some caller's, and the return address is in between.
 */
static bool has_frame_pointer(struct ta_walk *walk, const struct ta_registers *registers)
{
	uintptr_t rbp = registers->rbp;

	if (!walk->has_rbp || rbp < registers->rsp || rbp % sizeof(rbp) != 0 ||
	    rbp - registers->rsp > MAX_SCAN_WORDS * sizeof(rbp) ||
	    !ta_walk_reach(walk, rbp + 2 * sizeof(rbp)))
		return false;
	for (uintptr_t at = registers->rsp; at < rbp; at += sizeof(at)) {
		uintptr_t word = *(const uintptr_t *)at;

		if (word - registers->pc + NEAR_BYTES < 2 * NEAR_BYTES || ta_rule_is_return(word))
			return false;
	}
	return true;
}

static bool step_frame_pointer(struct ta_walk *walk, struct ta_registers *registers)
{
	const uintptr_t *frame = (const uintptr_t *)registers->rbp;

	if (!walk->is_exact && !ta_walk_is_return(registers->pc))
		return end_before(walk, registers->pc);
	if (!has_frame_pointer(walk, registers) || !ta_walk_is_return(frame[1]))
		return end_for_now(walk, TRACE_STOP_NO_RULE);
	walk->n_odd = walk->n_fresh;
	*registers = (struct ta_registers){
		.slot = (uintptr_t)&frame[1],
		.pc = frame[1],
		.rsp = (uintptr_t)&frame[2],
		.rbp = frame[0],
	};
	return true;
}

/* The trampoline is entered with rsp at what the kernel has saved (arch/x86/kernel/signal_64.c). */
static bool step_signal(struct ta_walk *walk, struct ta_registers *registers)
{
	const ucontext_t *context = (const ucontext_t *)registers->rsp;
	const greg_t *saved = context->uc_mcontext.gregs;

	if (!ta_walk_reach(walk, (uintptr_t)&saved[REG_RIP + 1]))
		return end_for_now(walk, TRACE_STOP_BAD_STACK);
	uintptr_t rsp = (uintptr_t)saved[REG_RSP];
	if (rsp % sizeof(rsp) != 0 || walk->n_switches++ == MAX_SWITCHES)
		return end_for_now(walk, TRACE_STOP_BAD_STACK);
	walk->n_odd =
		walk->n_fresh + 1; /* the interrupted frame too: its rule is that of no call */
	registers->slot = (uintptr_t)&saved[REG_RIP];
	registers->pc = (uintptr_t)saved[REG_RIP] + 1;
	registers->rbp = (uintptr_t)saved[REG_RBP];
	registers->rsp = rsp;
	walk->has_rbp = true;
	walk->is_exact = true;
	walk->saved = saved;
	ta_walk_enter(walk, rsp);
	return true;
}

/* The register from which the CFA is found. False: it is not known. */
static bool read_base(const struct ta_walk *walk, const struct ta_rule *rule,
		      const struct ta_registers *registers, uintptr_t *ret_base)
{
	/* By DWARF's numbers (psABI, figure 3.36). */
	static const uint8_t places[] = {
		REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
		REG_R8,	 REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
	};
	bool is_rsp = rule->kind == TA_RULE_RSP ||
		      (rule->kind == TA_RULE_SAVED && rule->base == TA_CFI_RSP);

	if (rule->kind == TA_RULE_INTERRUPTED) {
		if (!walk->is_exact || rule->base >= sizeof(places))
			return false;
		*ret_base = (uintptr_t)walk->saved[places[rule->base]];
		return true;
	}
	*ret_base = is_rsp ? registers->rsp : registers->rbp;
	return is_rsp || walk->has_rbp;
}

/* By a rule in its long form. */
static bool step_rule(struct ta_walk *walk, const struct ta_rule *rule,
		      struct ta_registers *registers)
{
	uintptr_t rsp = registers->rsp;
	uintptr_t rbp = registers->rbp;
	uintptr_t cfa;

	if (!read_base(walk, rule, registers, &cfa))
		return end_for_now(walk, TRACE_STOP_NO_RULE);
	cfa += (uintptr_t)rule->offset;
	if (rule->kind == TA_RULE_DEREF || rule->kind == TA_RULE_SAVED) {
		if (cfa < rsp || cfa % sizeof(cfa) != 0 || !ta_walk_reach(walk, cfa + sizeof(cfa)))
			return end_for_now(walk, TRACE_STOP_BAD_STACK);
		cfa = *(const uintptr_t *)cfa + (uintptr_t)rule->plus;
	}
	if (cfa <= rsp || cfa % sizeof(cfa) != 0 || !ta_walk_reach(walk, cfa))
		return end_for_now(walk, TRACE_STOP_BAD_STACK);
	uintptr_t saved = rule->rbp == TA_RULE_RBP_AT_RBP ? rbp : cfa - rule->rbp * sizeof(cfa);
	if (rule->rbp == TA_RULE_RBP_LOST) {
		walk->has_rbp = false;
		walk->n_odd = walk->n_fresh;
	} else if (rule->rbp != TA_RULE_RBP_SAME) {
		if (saved < rsp || saved > cfa - sizeof(saved))
			return end_for_now(walk, TRACE_STOP_BAD_STACK);
		registers->rbp = *(const uintptr_t *)saved;
		walk->has_rbp = true;
	}
	registers->slot = cfa - sizeof(cfa);
	registers->pc = *(const uintptr_t *)registers->slot;
	registers->rsp = cfa;
	return true;
}

static bool step(struct ta_walk *walk, const struct ta_rule *rule, struct ta_registers *registers)
{
	switch (rule->kind) {
	case TA_RULE_OUTERMOST:
		return end_walk(walk, TRACE_STOP_NONE);
	case TA_RULE_SIGNAL:
		return step_signal(walk, registers);
	case TA_RULE_NONE:
		return step_frame_pointer(walk, registers);
	case TA_RULE_STOP:
		return rule->offset == TRACE_STOP_BAD_STACK
			       ? end_before(walk, registers->pc)
			       : end_walk(walk, (enum trace_stop)rule->offset);
	default:
		return step_rule(walk, rule, registers);
	}
}

bool ta_walk_step_rare(struct ta_walk *walk, uint64_t word, struct ta_registers *registers)
{
	bool is_exact = walk->is_exact;
	struct ta_rule rule = {
		.kind = ta_rule_kind(word),
		.rbp = ta_rule_any_rbp(word),
		.offset = ta_rule_offset(word),
	};

	if (is_exact || rule.kind == TA_RULE_LARGE) {
		rule = ta_rule_work_out(registers->pc, is_exact);
		walk->n_odd = walk->n_fresh;
	} else if (rule.kind <= TA_RULE_DEREF) {
		rule.offset *= (int64_t)sizeof(uintptr_t);
	}
	bool ok = step(walk, &rule, registers);
	if (is_exact)
		walk->is_exact = false;
	return ok;
}
