#include "tracealloc/stack/unwind-rule.h"

#include <string.h>

#include "schemas/trace-format.h"
#include "tracealloc/arch/arch.h"
#include "tracealloc/stack/cfi.h"
#include "tracealloc/stack/module.h"
#include "tracealloc/stack/thunk.h"

#define CALL_FRAME_BYTES 8

/* DWARF 5 section 7.7.1. */
enum op {
	OP_DEREF = 0x06,
	OP_AND = 0x1a,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_GE = 0x2a,
	OP_LIT0 = 0x30,
	OP_LIT31 = 0x4f,
	OP_BREG_RBP = 0x76,
	OP_BREG_RSP = 0x77,
	OP_BREG_RIP = 0x80,
};

static struct ta_rule stop(enum trace_stop reason)
{
	return (struct ta_rule){ .kind = TA_RULE_STOP, .offset = reason };
}

/* One byte of sleb128, as all small offsets are. */
static int64_t small_sleb(uint8_t byte)
{
	return byte & 0x40 ? (int64_t)byte - 0x80 : byte;
}

/* A number of one or two bytes, signed or not; 0 bytes: it is longer, or does not end. */
static unsigned read_number(const uint8_t *at, const uint8_t *end, bool is_signed,
			    int64_t *ret_number)
{
	unsigned n_bytes = at < end && (at[0] & 0x80) ? 2 : 1;

	if (end - at < (ptrdiff_t)n_bytes || (at[n_bytes - 1] & 0x80))
		return 0;
	int64_t number = n_bytes == 2 ? (at[0] & 0x7f) | (int64_t)at[1] << 7 : at[0];
	if (is_signed && (at[n_bytes - 1] & 0x40))
		number -= INT64_C(1) << (7 * n_bytes);
	*ret_number = number;
	return n_bytes;
}

static bool is_literal(uint8_t op)
{
	return op >= OP_LIT0 && op <= OP_LIT31;
}

/*
 * Assembly that aligns its frame saves rsp in it: what lies at rsp + n, or rbp + n, and perhaps +
 * m. False: it is another expression.
 */
static bool read_saved(const struct ta_cfi_rule *cfi, struct ta_rule *rule)
{
	const uint8_t *at = cfi->cfa_expression;
	const uint8_t *end = at + cfi->cfa_expression_bytes;
	struct ta_rule saved = { .kind = TA_RULE_SAVED };

	if (at == end || (*at != OP_BREG_RSP && *at != OP_BREG_RBP))
		return false;
	saved.base = *at++ - OP_BREG_RBP + TA_CFI_RBP;
	unsigned n = read_number(at, end, true, &saved.offset);
	at += n;
	if (n == 0 || at == end || *at++ != OP_DEREF)
		return false;
	if (at < end) {
		n = *at++ == OP_PLUS_UCONST ? read_number(at, end, false, &saved.plus) : 0;
		if (n == 0 || at + n != end)
			return false;
	}
	*rule = saved;
	return true;
}

/*
 * The two expressions that compilers and linkers write for a CFA. A .plt entry: rsp + n +
 * ((rip & 15) >= a) << b, a number once rip is known. An aligned frame: what lies at rbp + n.
 */
static struct ta_rule read_expression(const struct ta_cfi_rule *cfi, uintptr_t pc)
{
	const uint8_t *code = cfi->cfa_expression;
	struct ta_rule rule = { .rbp = TA_RULE_RBP_SAME };

	if (cfi->cfa_expression_bytes == 3 && code[0] == OP_BREG_RBP && !(code[1] & 0x80) &&
	    code[2] == OP_DEREF) {
		rule.kind = TA_RULE_DEREF;
		rule.offset = small_sleb(code[1]);
		return rule;
	}
	if (cfi->cfa_expression_bytes == 11 && code[0] == OP_BREG_RSP && !(code[1] & 0x80) &&
	    code[2] == OP_BREG_RIP && code[3] == 0 && is_literal(code[4]) && code[5] == OP_AND &&
	    is_literal(code[6]) && code[7] == OP_GE && is_literal(code[8]) && code[9] == OP_SHL &&
	    code[10] == OP_PLUS) {
		uint64_t low = pc & (code[4] - (uint64_t)OP_LIT0);

		rule.kind = TA_RULE_RSP;
		rule.offset = small_sleb(code[1]) + ((int64_t)(low >= code[6] - (uint64_t)OP_LIT0)
						     << (code[8] - OP_LIT0));
		return rule;
	}
	return read_saved(cfi, &rule) ? rule : stop(TRACE_STOP_NO_RULE);
}

static uint32_t place_of_rbp(const struct ta_cfi_rule *cfi, const struct ta_rule *rule)
{
	int64_t below = -cfi->rbp_offset;

	switch (cfi->rbp_place) {
	case TA_CFI_SAME:
		return TA_RULE_RBP_SAME;
	case TA_CFI_AT_RBP:
		return cfi->rbp_offset == 0 && rule->kind != TA_RULE_RSP ? TA_RULE_RBP_AT_RBP
									 : TA_RULE_RBP_LOST;
	case TA_CFI_AT_CFA:
		return below % 8 == 0 && below > 0 && below / 8 <= TA_RULE_RBP_MOST
			       ? (uint32_t)(below / 8)
			       : TA_RULE_RBP_LOST;
	default:
		return TA_RULE_RBP_LOST;
	}
}

/*
 * What .eh_frame says, as a rule. pc: the instruction that it is about, which was interrupted or
 * not.
 */
static struct ta_rule condense(const struct ta_cfi_rule *cfi, uintptr_t pc, bool is_interrupted)
{
	struct ta_rule rule = { .offset = cfi->cfa_offset };

	if (cfi->return_place != TA_CFI_AT_CFA || cfi->return_offset != -CALL_FRAME_BYTES)
		return stop(TRACE_STOP_NO_RULE);
	if (cfi->cfa_is_other)
		rule = read_expression(cfi, pc);
	else if (cfi->cfa_register == TA_CFI_RBP)
		rule.kind = TA_RULE_RBP;
	else if (cfi->cfa_register == TA_CFI_RSP)
		rule.kind = TA_RULE_RSP;
	else if (is_interrupted && cfi->cfa_register < TA_CFI_RETURN)
		rule = (struct ta_rule){ .kind = TA_RULE_INTERRUPTED,
					 .offset = cfi->cfa_offset,
					 .base = (uint32_t)cfi->cfa_register };
	else
		return stop(TRACE_STOP_NO_RULE);
	if (rule.kind != TA_RULE_STOP && rule.offset % 8 != 0)
		return stop(TRACE_STOP_NO_RULE);
	rule.rbp = place_of_rbp(cfi, &rule);
	return rule;
}

/* Is this the code that a signal handler returns to: rax = 15 (rt_sigreturn), syscall? */
static bool is_trampoline(const struct ta_module *module, uintptr_t pc)
{
	static const uint8_t rax[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	static const uint8_t eax[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	uintptr_t start;
	uintptr_t end;

	if (!ta_rule_find_code(module, pc, &start, &end) || end - pc < sizeof(rax))
		return false;
	return memcmp((const void *)pc, rax, sizeof(rax)) == 0 ||
	       memcmp((const void *)pc, eax, sizeof(eax)) == 0;
}

struct ta_rule ta_rule_work_out(uintptr_t pc, bool is_exact)
{
	struct ta_cfi_rule cfi;

	pc = ta_thunk_return(pc);
	const struct ta_module *module = ta_module_find(pc - 1);
	if (!module)
		return (struct ta_rule){ .kind = TA_RULE_NONE };
	if (!is_exact && is_trampoline(module, pc))
		return (struct ta_rule){ .kind = TA_RULE_SIGNAL };
	bool is_call = is_exact || ta_rule_follows_call(module, pc);
	if (!is_call && ta_rule_is_context_end(module, pc))
		return (struct ta_rule){ .kind = TA_RULE_OUTERMOST };
	/* The loader's one piece of code without rules is where the program starts. */
	if (ta_cfi_find(module, pc - 1, &cfi) < 0)
		return !is_call		   ? stop(TRACE_STOP_BAD_STACK)
		       : module->is_loader ? (struct ta_rule){ .kind = TA_RULE_OUTERMOST }
					   : (struct ta_rule){ .kind = TA_RULE_NONE };
	if (cfi.return_place == TA_CFI_UNDEFINED)
		return (struct ta_rule){ .kind = TA_RULE_OUTERMOST };
	return is_call ? condense(&cfi, pc - 1, is_exact) : stop(TRACE_STOP_BAD_STACK);
}
