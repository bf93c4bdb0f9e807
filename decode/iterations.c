/* Registers that count a loop: changed by the same constant in every iteration. */
#include "decode/decoder.h"
#include "decode/execute.h"

#define NEVER_WRITTEN (1u << DECODE_IP | 1u << DECODE_FLAGS | 1u << DECODE_SP)

/* One iteration, as the emulator saw it. */
struct turn {
	unsigned n_instructions;
	uint32_t written; /* registers, mask */
	uint32_t replaced; /* by other instructions than those that add a constant */
	uint32_t halves; /* by some that write 32 bits */
	unsigned position; /* of the later sample's ip */
	bool has_position;
	struct value there[DECODE_N_REGS]; /* registers at that position */
};

/* add, sub with a constant; inc, dec; lea of itself. */
static bool adds_constant(const struct instruction *instruction)
{
	const struct operand *to = &instruction->operands[0];
	execute_function execute = instruction->execute;

	if (to->kind != OPERAND_REG || to->bits < 32)
		return false;
	if (execute == decode_execute_add || execute == decode_execute_sub)
		return instruction->operands[1].kind == OPERAND_IMMEDIATE;
	if (execute == decode_execute_lea)
		return instruction->memory[0].base == to->reg &&
		       instruction->memory[0].index == REG_ZERO;
	return execute == decode_execute_inc || execute == decode_execute_dec;
}

static void note(struct turn *turn, const struct instruction *instruction)
{
	turn->written |= instruction->regs_written;
	if (!adds_constant(instruction))
		turn->replaced |= instruction->regs_written;
	else if (instruction->operands[0].bits == 32)
		turn->halves |= instruction->regs_written;
}

/* Go round once. False: it does not close. */
static bool go_round(struct decoder *decoder, struct machine *machine,
		     const struct decode_sample *to, struct turn *turn)
{
	*turn = (struct turn){ 0 };
	while (turn->n_instructions < DECODE_MAX_INSTRUCTIONS) {
		const struct instruction *instruction =
			decode_find_instruction(decoder, machine->sample, machine->next);

		if (!instruction || instruction->bytes == 0)
			return false;
		if (machine->next == to->ip && !turn->has_position) {
			turn->has_position = true;
			turn->position = turn->n_instructions;
			for (unsigned i = 0; i < DECODE_N_REGS; i++)
				turn->there[i] = machine->regs[i];
		}
		decode_machine_prepare(machine, instruction);
		machine->next += instruction->bytes;
		instruction->execute(machine, instruction);
		note(turn, instruction);
		turn->n_instructions++;
		if (machine->end != MACHINE_GOES_ON)
			return false;
		if (decode_is_loop_closed(machine, machine->sample))
			return true;
	}
	return false;
}

/* What one register says: *iterations < 0 as long as none has said anything. */
static enum decode_count ask(uint64_t from, uint64_t to, uint64_t step, bool is_half,
			     int64_t *iterations)
{
	int64_t distance = is_half ? (int32_t)(to - from) : (int64_t)(to - from);
	int64_t by = is_half ? (int32_t)step : (int64_t)step;

	if (by == 0)
		return distance == 0 ? DECODE_COUNT_NONE : DECODE_COUNT_REFUTED;
	if (by == -1 ? distance == INT64_MIN : distance % by != 0)
		return DECODE_COUNT_REFUTED;
	int64_t n = distance / by;
	if (n < 0 || (*iterations >= 0 && n != *iterations))
		return DECODE_COUNT_REFUTED;
	*iterations = n;
	return DECODE_COUNT_EXACT;
}

/* Two rounds that agree, and what the sample at their start and the later one say. */
struct rounds {
	const struct decode_sample *from;
	const struct decode_sample *to;
	struct turn turn;
	struct value once[DECODE_N_REGS];
	struct value twice[DECODE_N_REGS];
};

static enum decode_count ask_register(const struct rounds *rounds, unsigned reg,
				      int64_t *iterations)
{
	const struct turn *turn = &rounds->turn;
	uint32_t bit = 1u << reg;

	if (reg == DECODE_SP)
		return value_is_exact(turn->there[reg]) &&
				       turn->there[reg].bits != rounds->to->regs[reg]
			       ? DECODE_COUNT_REFUTED
			       : DECODE_COUNT_NONE;
	if (NEVER_WRITTEN & bit)
		return DECODE_COUNT_NONE;
	if (!(turn->written & bit))
		return rounds->from->regs[reg] == rounds->to->regs[reg] ? DECODE_COUNT_NONE
									: DECODE_COUNT_REFUTED;
	if (turn->replaced & bit || !value_is_exact(rounds->once[reg]) ||
	    !value_is_exact(rounds->twice[reg]) || !value_is_exact(turn->there[reg]))
		return DECODE_COUNT_NONE;

	bool is_half = turn->halves & bit;
	uint64_t step = rounds->once[reg].bits - rounds->from->regs[reg];
	uint64_t again = rounds->twice[reg].bits - rounds->once[reg].bits;
	if (is_half ? (uint32_t)step != (uint32_t)again : step != again)
		return DECODE_COUNT_NONE;
	return ask(turn->there[reg].bits, rounds->to->regs[reg], step, is_half, iterations);
}

static enum decode_count ask_all(const struct rounds *rounds, int64_t *ret_iterations)
{
	int64_t iterations = -1;

	for (unsigned reg = 0; reg < DECODE_N_REGS; reg++) {
		if (ask_register(rounds, reg, &iterations) == DECODE_COUNT_REFUTED)
			return DECODE_COUNT_REFUTED;
	}
	*ret_iterations = iterations;
	return iterations >= 0 ? DECODE_COUNT_EXACT : DECODE_COUNT_NONE;
}

static void copy_registers(const struct machine *machine, struct value *ret_regs)
{
	for (unsigned i = 0; i < DECODE_N_REGS; i++)
		ret_regs[i] = machine->regs[i];
}

/* Go round twice: what changes by the same both times counts. */
static bool find_rounds(struct decoder *decoder, struct rounds *rounds)
{
	struct machine machine;
	struct turn again;

	decode_machine_init(&machine, &decoder->memory, rounds->from);
	if (!go_round(decoder, &machine, rounds->to, &rounds->turn) || !rounds->turn.has_position)
		return false;
	copy_registers(&machine, rounds->once);
	if (!go_round(decoder, &machine, rounds->to, &again) ||
	    again.n_instructions != rounds->turn.n_instructions)
		return false;
	copy_registers(&machine, rounds->twice);
	return true;
}

enum decode_count decode_iterations(struct decoder *decoder, const struct decode_sample *from,
				    const struct decode_sample *to, double *ret_iterations)
{
	const struct instruction *first = decode_find_instruction(decoder, from, from->ip);
	struct rounds rounds = { .from = from, .to = to };
	int64_t iterations;

	/* Within a repeated instruction rcx counts its rest. */
	if (!first || first->repeat != REPEAT_NONE || !find_rounds(decoder, &rounds))
		return DECODE_COUNT_NONE;
	enum decode_count count = ask_all(&rounds, &iterations);
	if (count == DECODE_COUNT_EXACT)
		*ret_iterations = (double)iterations +
				  (double)rounds.turn.position / rounds.turn.n_instructions;
	return count;
}
