#include "tracealloc/cfi.h"

#include <errno.h>
#include <string.h>

#define REMEMBER_DEPTH 4u
#define OP_BREG_RBP    (0x70 + TA_DWARF_FRAME) /* DW_OP_breg6 on x86: rbp + sleb */

/* Pointer encodings: low half the format, then what it is relative to. */
enum encoding {
	ENCODING_ABSOLUTE = 0x00,
	ENCODING_UDATA4 = 0x03,
	ENCODING_SDATA4 = 0x0b,
	ENCODING_SDATA8 = 0x0c,
	ENCODING_UDATA8 = 0x04,
	ENCODING_PCREL = 0x10,
	ENCODING_TABLE = 0x3b, /* of the binary search table: sdata4, relative to its start */
};

/* Bytes that are read in order; reading past the end gives zeros and sets failed. */
struct cursor {
	const uint8_t *at;
	const uint8_t *end;
	bool failed;
};

struct cie {
	uint64_t code_factor;
	int64_t data_factor;
	uint8_t encoding; /* of addresses in its FDEs */
	bool has_augmentation;
	bool is_signal_frame;
	struct cursor instructions;
};

struct state {
	struct ta_cfi_rule rule;
	struct ta_cfi_rule initial; /* after the CIE: what restore goes back to */
	struct ta_cfi_rule remembered[REMEMBER_DEPTH];
	unsigned n_remembered;
	uintptr_t location;
};

static uint64_t read_bytes(struct cursor *cursor, unsigned n_bytes)
{
	uint64_t value = 0;

	if ((size_t)(cursor->end - cursor->at) < n_bytes) {
		cursor->failed = true;
		cursor->at = cursor->end;
		return 0;
	}
	memcpy(&value, cursor->at, n_bytes);
	cursor->at += n_bytes;
	return value;
}

static uint64_t read_uleb(struct cursor *cursor)
{
	uint64_t value = 0;
	uint64_t byte;
	unsigned shift = 0;

	do {
		byte = read_bytes(cursor, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return value;
}

static int64_t read_sleb(struct cursor *cursor)
{
	uint64_t value = 0;
	uint64_t byte;
	unsigned shift = 0;

	do {
		byte = read_bytes(cursor, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (shift < 64 && (byte & 0x40))
		value |= ~UINT64_C(0) << shift;
	return (int64_t)value;
}

static void skip(struct cursor *cursor, uint64_t n_bytes)
{
	if (n_bytes > (size_t)(cursor->end - cursor->at)) {
		cursor->failed = true;
		cursor->at = cursor->end;
		return;
	}
	cursor->at += n_bytes;
}

/* A number in the format of an encoding; without what it is relative to. */
static uint64_t read_format(struct cursor *cursor, uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case ENCODING_UDATA4:
		return read_bytes(cursor, 4);
	case ENCODING_SDATA4:
		return (uint64_t)(int64_t)(int32_t)read_bytes(cursor, 4);
	case ENCODING_ABSOLUTE:
	case ENCODING_UDATA8:
	case ENCODING_SDATA8:
		return read_bytes(cursor, 8);
	default:
		cursor->failed = true;
		return 0;
	}
}

static uint64_t read_pointer(struct cursor *cursor, uint8_t encoding)
{
	uint64_t here = (uintptr_t)cursor->at;
	uint64_t value = read_format(cursor, encoding);

	switch (encoding & 0x70) {
	case 0:
		return value;
	case ENCODING_PCREL:
		return value + here;
	default:
		cursor->failed = true;
		return 0;
	}
}

/* The body of the entry (CIE or FDE) at address; false when it does not lie inside the module. */
static bool open_entry(const struct ta_module *module, uintptr_t address, struct cursor *ret_body)
{
	struct cursor cursor = { (const uint8_t *)address, (const uint8_t *)module->end, false };
	uint64_t length;

	if (address < module->start || address >= module->end)
		return false;
	length = read_bytes(&cursor, 4);
	if (length < 4 || length > (size_t)(cursor.end - cursor.at))
		return false;
	cursor.end = cursor.at + length;
	*ret_body = cursor;
	return true;
}

/* The letters of the augmentation behind 'z' say what its data hold. */
static void read_augmentation(struct cursor *body, const char *letters, struct cie *cie)
{
	for (; *letters; letters++) {
		uint8_t encoding;

		switch (*letters) {
		case 'R':
			cie->encoding = (uint8_t)read_bytes(body, 1);
			break;
		case 'L':
			read_bytes(body, 1);
			break;
		case 'P':
			encoding = (uint8_t)read_bytes(body, 1);
			read_format(body, encoding);
			break;
		case 'S':
			cie->is_signal_frame = true;
			break;
		default: /* 'B': no data */
			break;
		}
	}
}

static bool read_cie(const struct ta_module *module, uintptr_t address, struct cie *ret_cie)
{
	struct cie cie = { .encoding = ENCODING_ABSOLUTE };
	struct cursor body;
	const char *letters;
	uint64_t version;

	if (!open_entry(module, address, &body) || read_bytes(&body, 4) != 0)
		return false;
	version = read_bytes(&body, 1);
	letters = (const char *)body.at;
	while (read_bytes(&body, 1))
		;
	cie.code_factor = read_uleb(&body);
	cie.data_factor = read_sleb(&body);
	if (version == 1)
		read_bytes(&body, 1);
	else
		read_uleb(&body);
	if (!body.failed && letters[0] == 'z') {
		uint64_t n_bytes = read_uleb(&body);
		struct cursor data = body;

		cie.has_augmentation = true;
		read_augmentation(&data, letters + 1, &cie);
		skip(&body, n_bytes);
	}
	cie.instructions = body;
	*ret_cie = cie;
	return !body.failed;
}

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

static void set_cfa_expression(struct state *state, struct cursor *code)
{
	uint64_t n_bytes = read_uleb(code);

	state->rule.cfa_is_other = true;
	state->rule.cfa_expression = code->at;
	state->rule.cfa_expression_bytes = (uint32_t)n_bytes;
	skip(code, n_bytes);
}

/* A register at the address that an expression gives; understood is rbp + offset alone. */
static void set_expression(struct state *state, struct cursor *code)
{
	uint64_t number = read_uleb(code);
	uint64_t n_bytes = read_uleb(code);
	struct cursor expression = *code;

	set_place(state, number, TA_CFI_OTHER, 0);
	skip(code, n_bytes);
	if (read_bytes(&expression, 1) == OP_BREG_RBP) {
		int64_t offset = read_sleb(&expression);

		if (expression.at == code->at && !code->failed)
			set_place(state, number, TA_CFI_AT_RBP, offset);
	}
}

static void remember(struct state *state, struct cursor *code)
{
	if (state->n_remembered == REMEMBER_DEPTH)
		code->failed = true;
	else
		state->remembered[state->n_remembered++] = state->rule;
}

static void go_back(struct state *state, struct cursor *code)
{
	if (state->n_remembered == 0)
		code->failed = true;
	else
		state->rule = state->remembered[--state->n_remembered];
}

/* In units of the CIE; what overflows is no offset that a frame has. */
static int64_t scaled(uint64_t number, const struct cie *cie)
{
	return (int64_t)(number * (uint64_t)cie->data_factor);
}

/* The instructions about the CFA, 0x0c to 0x0f, 0x12 and 0x13. */
static void run_cfa(struct state *state, struct cursor *code, const struct cie *cie, uint8_t op)
{
	uint64_t number;

	switch (op) {
	case 0x0c: /* def_cfa */
		number = read_uleb(code);
		set_cfa(state, number, (int64_t)read_uleb(code));
		break;
	case 0x0d: /* def_cfa_register */
		set_cfa(state, read_uleb(code), state->rule.cfa_offset);
		break;
	case 0x0e: /* def_cfa_offset */
		state->rule.cfa_offset = (int64_t)read_uleb(code);
		break;
	case 0x0f: /* def_cfa_expression */
		set_cfa_expression(state, code);
		break;
	case 0x12: /* def_cfa_sf */
		number = read_uleb(code);
		set_cfa(state, number, scaled((uint64_t)read_sleb(code), cie));
		break;
	default: /* 0x13: def_cfa_offset_sf */
		state->rule.cfa_offset = scaled((uint64_t)read_sleb(code), cie);
		break;
	}
}

/* The instructions about one register. False: op is none of them. */
static bool run_register(struct state *state, struct cursor *code, const struct cie *cie,
			 uint8_t op)
{
	uint64_t number;

	switch (op) {
	case 0x05: /* offset_extended */
		number = read_uleb(code);
		set_place(state, number, TA_CFI_AT_CFA, scaled(read_uleb(code), cie));
		return true;
	case 0x11: /* offset_extended_sf */
		number = read_uleb(code);
		set_place(state, number, TA_CFI_AT_CFA, scaled((uint64_t)read_sleb(code), cie));
		return true;
	case 0x06: /* restore_extended */
		restore(state, read_uleb(code));
		return true;
	case 0x07: /* undefined */
		set_place(state, read_uleb(code), TA_CFI_UNDEFINED, 0);
		return true;
	case 0x08: /* same_value */
		set_place(state, read_uleb(code), TA_CFI_SAME, 0);
		return true;
	case 0x09: /* register */
	case 0x14: /* val_offset */
		set_place(state, read_uleb(code), TA_CFI_OTHER, 0);
		read_uleb(code);
		return true;
	case 0x10: /* expression */
		set_expression(state, code);
		return true;
	case 0x16: /* val_expression */
		set_place(state, read_uleb(code), TA_CFI_OTHER, 0);
		skip(code, read_uleb(code));
		return true;
	default:
		return false;
	}
}

/* The other instructions with their operand behind the opcode. */
static void run_extended(struct state *state, struct cursor *code, const struct cie *cie,
			 uint8_t op)
{
	switch (op) {
	case 0x00: /* nop */
		break;
	case 0x01: /* set_loc */
		state->location = read_pointer(code, cie->encoding);
		break;
	case 0x02: /* advance_loc1, 2, 4 */
	case 0x03:
	case 0x04:
		state->location += read_bytes(code, 1u << (op - 2)) * cie->code_factor;
		break;
	case 0x0a:
		remember(state, code);
		break;
	case 0x0b:
		go_back(state, code);
		break;
	case 0x0c ... 0x0f:
	case 0x12:
	case 0x13:
		run_cfa(state, code, cie, op);
		break;
	case 0x2d: /* AARCH64_negate_ra_state: a return address is signed; its upper bits are dropped anyway */
		break;
	case 0x2e: /* GNU_args_size */
		read_uleb(code);
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
static void run_usual(struct state *state, struct cursor *code, const struct cie *cie, uintptr_t pc)
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
static bool run(struct state *state, struct cursor code, const struct cie *cie, uintptr_t pc)
{
	for (;;) {
		uint8_t op;
		uint8_t low;

		run_usual(state, &code, cie, pc);
		if (code.at >= code.end || code.failed || state->location > pc)
			break;
		op = (uint8_t)read_bytes(&code, 1);
		low = op & 0x3f;

		switch (op >> 6) {
		case 1: /* advance_loc */
			state->location += low * cie->code_factor;
			break;
		case 2: /* offset */
			set_place(state, low, TA_CFI_AT_CFA, scaled(read_uleb(&code), cie));
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

/* The address of the FDE that begins last at or below pc; 0: none. By the search table. */
static uintptr_t search(const struct ta_module *module, uintptr_t pc)
{
	uintptr_t base = module->eh_frame_hdr;
	struct cursor cursor = { (const uint8_t *)base, (const uint8_t *)module->end, false };
	uint64_t head;
	uint64_t n;
	uint64_t low = 0;

	if (base < module->start || base >= module->end)
		return 0;
	head = read_bytes(&cursor, 4);
	/* Version 1; .eh_frame's address (not needed), udata4 count, the usual table. */
	if ((head & 0xff) != 1 || (head >> 16 & 0xff) != ENCODING_UDATA4 ||
	    head >> 24 != ENCODING_TABLE)
		return 0;
	read_format(&cursor, (uint8_t)(head >> 8));
	n = read_bytes(&cursor, 4);
	if (cursor.failed || n > (size_t)(cursor.end - cursor.at) / 8)
		return 0;
	for (uint64_t high = n; low < high;) {
		uint64_t middle = (low + high) / 2;
		int32_t start;

		memcpy(&start, cursor.at + middle * 8, sizeof(start));
		if (base + (uintptr_t)(intptr_t)start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return 0;
	skip(&cursor, (low - 1) * 8 + 4);
	return base + (uintptr_t)(intptr_t)(int32_t)read_bytes(&cursor, 4);
}

int ta_cfi_find(const struct ta_module *module, uintptr_t pc, struct ta_cfi_rule *ret_rule)
{
	uintptr_t fde = search(module, pc);
	struct state state = { .n_remembered = 0 };
	struct cursor body;
	struct cie cie;
	uintptr_t cie_address;
	uintptr_t start;
	uint64_t range;

	if (!fde)
		return -ENOENT;
	if (!open_entry(module, fde, &body))
		return -EBADMSG;
	cie_address = (uintptr_t)body.at;
	cie_address -= read_bytes(&body, 4);
	if (!read_cie(module, cie_address, &cie))
		return -EBADMSG;
	state.location = read_pointer(&body, cie.encoding);
	start = state.location;
	range = read_format(&body, cie.encoding & 0x0f);
	if (pc < state.location || pc - state.location >= range)
		return -ENOENT;
	if (cie.has_augmentation)
		skip(&body, read_uleb(&body));
	if (body.failed || !run(&state, cie.instructions, &cie, UINTPTR_MAX))
		return -EBADMSG;
	state.initial = state.rule;
	if (!run(&state, body, &cie, pc))
		return -EBADMSG;
	state.rule.start = start;
	state.rule.is_signal_frame = cie.is_signal_frame;
	*ret_rule = state.rule;
	return 0;
}
