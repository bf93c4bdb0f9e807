#include "analyze/symbols/dwarf-expression.h"

#include <dwarf.h>

#define MAX_DEPTH 32

struct machine {
	const struct expression_frame *frame;
	uint64_t stack[MAX_DEPTH];
	size_t n;
	bool is_value;
};

static bool push(struct machine *machine, uint64_t value)
{
	if (machine->n == MAX_DEPTH)
		return false;
	machine->stack[machine->n++] = value;
	return true;
}

static bool push_register(struct machine *machine, unsigned number, uint64_t offset)
{
	return number < EXPRESSION_N_REGISTERS && machine->frame->known >> number & 1 &&
	       push(machine, machine->frame->registers[number] + offset);
}

/* Operations that push. Returns false when op is none of them, or cannot be done. */
static bool push_operand(struct machine *machine, const Dwarf_Op *op)
{
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return push(machine, op->atom - DW_OP_lit0);
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
		return push_register(machine, op->atom - DW_OP_breg0, op->number);
	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31) {
		machine->is_value = true;
		return push_register(machine, op->atom - DW_OP_reg0, 0);
	}
	if (op->atom >= DW_OP_const1u && op->atom <= DW_OP_consts)
		return push(machine, op->number);
	switch (op->atom) {
	case DW_OP_call_frame_cfa:
		return push(machine, machine->frame->cfa);
	case DW_OP_bregx:
		return push_register(machine, (unsigned)op->number, op->number2);
	case DW_OP_dup:
		return machine->n > 0 && push(machine, machine->stack[machine->n - 1]);
	case DW_OP_over:
		return machine->n > 1 && push(machine, machine->stack[machine->n - 2]);
	default:
		return false;
	}
}

/* Operations on the top of the stack alone. */
static bool change_top(struct machine *machine, const Dwarf_Op *op)
{
	uint64_t *top = machine->n ? &machine->stack[machine->n - 1] : NULL;

	if (!top)
		return false;
	switch (op->atom) {
	case DW_OP_plus_uconst:
		*top += op->number;
		return true;
	case DW_OP_deref:
		return machine->frame->read(machine->frame->user, *top, top);
	case DW_OP_neg:
		*top = -*top;
		return true;
	case DW_OP_not:
		*top = ~*top;
		return true;
	case DW_OP_drop:
		machine->n--;
		return true;
	case DW_OP_stack_value:
		machine->is_value = true;
		return true;
	default:
		return false;
	}
}

/* Comparisons are signed, the result 0 or 1. */
static bool combine(unsigned atom, uint64_t left, uint64_t right, uint64_t *ret_result)
{
	int64_t a = (int64_t)left, b = (int64_t)right;

	switch (atom) {
	case DW_OP_plus:
		return *ret_result = left + right, true;
	case DW_OP_minus:
		return *ret_result = left - right, true;
	case DW_OP_mul:
		return *ret_result = left * right, true;
	case DW_OP_and:
		return *ret_result = left & right, true;
	case DW_OP_or:
		return *ret_result = left | right, true;
	case DW_OP_xor:
		return *ret_result = left ^ right, true;
	case DW_OP_shl:
		return *ret_result = right < 64 ? left << right : 0, true;
	case DW_OP_shr:
		return *ret_result = right < 64 ? left >> right : 0, true;
	case DW_OP_eq:
		return *ret_result = a == b, true;
	case DW_OP_ne:
		return *ret_result = a != b, true;
	case DW_OP_ge:
		return *ret_result = a >= b, true;
	case DW_OP_gt:
		return *ret_result = a > b, true;
	case DW_OP_le:
		return *ret_result = a <= b, true;
	case DW_OP_lt:
		return *ret_result = a < b, true;
	default:
		return false;
	}
}

static bool combine_two(struct machine *machine, const Dwarf_Op *op)
{
	uint64_t result;

	if (machine->n < 2 || !combine(op->atom, machine->stack[machine->n - 2],
				       machine->stack[machine->n - 1], &result))
		return false;
	machine->n--;
	machine->stack[machine->n - 1] = result;
	return true;
}

bool expression_evaluate(const struct expression_frame *frame, const Dwarf_Op *ops, size_t n_ops,
			 uint64_t *ret_result, bool *ret_is_value)
{
	struct machine machine = { .frame = frame };

	for (size_t i = 0; i < n_ops; i++) {
		if (!push_operand(&machine, &ops[i]) && !change_top(&machine, &ops[i]) &&
		    !combine_two(&machine, &ops[i]))
			return false;
	}
	if (machine.n == 0)
		return false;
	*ret_result = machine.stack[machine.n - 1];
	*ret_is_value = machine.is_value;
	return true;
}
