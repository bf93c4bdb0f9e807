#include "tracealloc/stack/cfi.h"

#include <errno.h>

#include "tracealloc/stack/cfi-entry.h"

#define REMEMBER_DEPTH 4u
#define OP_BREG_RBP    (0x70 + TA_DWARF_FRAME) /* DW_OP_breg6 on x86: rbp + sleb */

struct state {
	struct ta_cfi_rule rule;
	struct ta_cfi_rule initial; /* after the CIE: what restore goes back to */
	struct ta_cfi_rule remembered[REMEMBER_DEPTH];
	unsigned n_remembered;
	uintptr_t location;
};

/* Set the place of a register; of most registers nothing is kept. */
static void set_place(struct state *state, uint64_t number, enum ta_cfi_place place, int64_t offset)
{
	if (number == TA_CFI_RBP) {
		state->rule.rbp_place = (uint8_t)place;
		state->rule.rbp_offset = offset;
	} else if (number == TA_CFI_RETURN) {
		state->rule.return_place = (uint8_t)place;
		state->rule.return_offset = offset;
	}
}

static void restore(struct state *state, uint64_t number)
{
	const struct ta_cfi_rule *initial = &state->initial;

	if (number == TA_CFI_RBP)
		set_place(state, number, initial->rbp_place, initial->rbp_offset);
	else
		set_place(state, number, initial->return_place, initial->return_offset);
}

static void set_cfa(struct state *state, uint64_t number, int64_t offset)
{
	state->rule.cfa_register = number;
	state->rule.cfa_offset = offset;
	state->rule.cfa_is_other = false;
}

static void set_cfa_expression(struct state *state, struct ta_cfi_cursor *code)
{
	uint64_t n_bytes = ta_cfi_uleb(code);

	state->rule.cfa_is_other = true;
	state->rule.cfa_expression = code->at;
	state->rule.cfa_expression_bytes = (uint32_t)n_bytes;
	ta_cfi_skip(code, n_bytes);
}

/* A register at the address that an expression gives; understood is rbp + offset alone. */
static void set_expression(struct state *state, struct ta_cfi_cursor *code)
{
	uint64_t number = ta_cfi_uleb(code);
	uint64_t n_bytes = ta_cfi_uleb(code);
	struct ta_cfi_cursor expression = *code;

	set_place(state, number, TA_CFI_OTHER, 0);
	ta_cfi_skip(code, n_bytes);
	if (ta_cfi_bytes(&expression, 1) == OP_BREG_RBP) {
		int64_t offset = ta_cfi_sleb(&expression);

		if (expression.at == code->at && !code->failed)
			set_place(state, number, TA_CFI_AT_RBP, offset);
	}
}

static void go_back(struct state *state, struct ta_cfi_cursor *code)
{
	if (state->n_remembered == 0)
		code->failed = true;
	else
		state->rule = state->remembered[--state->n_remembered];
}

/* In units of the CIE; what overflows is no offset that a frame has. */
static int64_t scaled(uint64_t number, const struct ta_cfi_cie *cie)
{
	return (int64_t)(number * (uint64_t)cie->data_factor);
}

/* The instructions about the CFA, 0x0c to 0x0f, 0x12 and 0x13. */
static void run_cfa(struct state *state, struct ta_cfi_cursor *code, const struct ta_cfi_cie *cie,
		    uint8_t op)
{
	uint64_t number;

	switch (op) {
	case 0x0c: /* def_cfa */
		number = ta_cfi_uleb(code);
		set_cfa(state, number, (int64_t)ta_cfi_uleb(code));
		break;
	case 0x0d: /* def_cfa_register */
		set_cfa(state, ta_cfi_uleb(code), state->rule.cfa_offset);
		break;
	case 0x0e: /* def_cfa_offset */
		state->rule.cfa_offset = (int64_t)ta_cfi_uleb(code);
		break;
	case 0x0f: /* def_cfa_expression */
		set_cfa_expression(state, code);
		break;
	case 0x12: /* def_cfa_sf */
		number = ta_cfi_uleb(code);
		set_cfa(state, number, scaled((uint64_t)ta_cfi_sleb(code), cie));
		break;
	default: /* 0x13: def_cfa_offset_sf */
		state->rule.cfa_offset = scaled((uint64_t)ta_cfi_sleb(code), cie);
		break;
	}
}

/* The instructions about one register. False: op is none of them. */
static bool run_register(struct state *state, struct ta_cfi_cursor *code,
			 const struct ta_cfi_cie *cie, uint8_t op)
{
	uint64_t number;

	switch (op) {
	case 0x05: /* offset_extended */
		number = ta_cfi_uleb(code);
		set_place(state, number, TA_CFI_AT_CFA, scaled(ta_cfi_uleb(code), cie));
		return true;
	case 0x11: /* offset_extended_sf */
		number = ta_cfi_uleb(code);
		set_place(state, number, TA_CFI_AT_CFA, scaled((uint64_t)ta_cfi_sleb(code), cie));
		return true;
	case 0x06: /* restore_extended */
		restore(state, ta_cfi_uleb(code));
		return true;
	case 0x07: /* undefined */
		set_place(state, ta_cfi_uleb(code), TA_CFI_UNDEFINED, 0);
		return true;
	case 0x08: /* same_value */
		set_place(state, ta_cfi_uleb(code), TA_CFI_SAME, 0);
		return true;
	case 0x09: /* register */
	case 0x14: /* val_offset */
		set_place(state, ta_cfi_uleb(code), TA_CFI_OTHER, 0);
		ta_cfi_uleb(code);
		return true;
	case 0x10: /* expression */
		set_expression(state, code);
		return true;
	case 0x16: /* val_expression */
		set_place(state, ta_cfi_uleb(code), TA_CFI_OTHER, 0);
		ta_cfi_skip(code, ta_cfi_uleb(code));
		return true;
	default:
		return false;
	}
}

/* The other instructions with their operand behind the opcode. */
static void run_extended(struct state *state, struct ta_cfi_cursor *code,
			 const struct ta_cfi_cie *cie, uint8_t op)
{
	switch (op) {
	case 0x00: /* nop */
		break;
	case 0x01: /* set_loc */
		state->location = ta_cfi_pointer(code, cie->encoding);
		break;
	case 0x02: /* advance_loc1, 2, 4 */
	case 0x03:
	case 0x04:
		state->location += ta_cfi_bytes(code, 1u << (op - 2)) * cie->code_factor;
		break;
	case 0x0a:
		if (state->n_remembered == REMEMBER_DEPTH)
			code->failed = true;
		else
			state->remembered[state->n_remembered++] = state->rule;
		break;
	case 0x0b:
		go_back(state, code);
		break;
	case 0x0c ... 0x0f:
	case 0x12:
	case 0x13:
		run_cfa(state, code, cie, op);
		break;
	/* AARCH64_negate_ra_state: a return address is signed; its upper bits are dropped anyway */
	case 0x2d:
		break;
	case 0x2e: /* GNU_args_size */
		ta_cfi_uleb(code);
		break;
	default:
		if (!run_register(state, code, cie, op))
			code->failed = true;
		break;
	}
}

/*
 * Step over the instructions that make up most of the code: those that move the location a little,
 * push something, or save a register that does not matter. Leaves the first other one.
 */
static void run_usual(struct state *state, struct ta_cfi_cursor *code, const struct ta_cfi_cie *cie,
		      uintptr_t pc)
{
	const uint8_t *at = code->at;
	uintptr_t location = state->location;

	while (at + 1 < code->end && location <= pc) {
		uint8_t op = *at;
		uint8_t low = op & 0x3f;

		if (op >> 6 == 1) { /* advance_loc */
			location += low * cie->code_factor;
			at++;
		} else if (op == 0x0e && at[1] < 0x80) { /* def_cfa_offset */
			state->rule.cfa_offset = at[1];
			at += 2;
		} else if (op == 0x02) { /* advance_loc1 */
			location += at[1] * cie->code_factor;
			at += 2;
		} else if (op >> 6 == 2 && low != TA_CFI_RBP && low != TA_CFI_RETURN &&
			   at[1] < 0x80) { /* offset */
			at += 2;
		} else {
			break;
		}
	}
	code->at = at;
	state->location = location;
}

/* Run instructions until those for pc are done: one that moves beyond it changes no rule. */
static bool run(struct state *state, struct ta_cfi_cursor code, const struct ta_cfi_cie *cie,
		uintptr_t pc)
{
	for (;;) {
		uint8_t op;
		uint8_t low;

		run_usual(state, &code, cie, pc);
		if (code.at >= code.end || code.failed || state->location > pc)
			break;
		op = (uint8_t)ta_cfi_bytes(&code, 1);
		low = op & 0x3f;

		switch (op >> 6) {
		case 1: /* advance_loc */
			state->location += low * cie->code_factor;
			break;
		case 2: /* offset */
			set_place(state, low, TA_CFI_AT_CFA, scaled(ta_cfi_uleb(&code), cie));
			break;
		case 3: /* restore */
			restore(state, low);
			break;
		default:
			run_extended(state, &code, cie, op);
			break;
		}
	}
	return !code.failed;
}

int ta_cfi_find(const struct ta_module *module, uintptr_t pc, struct ta_cfi_rule *ret_rule)
{
	struct state state = { .n_remembered = 0 };
	struct ta_cfi_entry entry;
	int r = ta_cfi_entry_find(module, pc, &entry);

	if (r < 0)
		return r;
	state.location = entry.start;
	if (!run(&state, entry.cie.instructions, &entry.cie, UINTPTR_MAX))
		return -EBADMSG;
	state.initial = state.rule;
	if (!run(&state, entry.instructions, &entry.cie, pc))
		return -EBADMSG;
	state.rule.start = entry.start;
	state.rule.is_signal_frame = entry.cie.is_signal_frame;
	*ret_rule = state.rule;
	return 0;
}
