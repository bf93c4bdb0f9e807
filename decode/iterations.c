/* Registers that count a loop: changed by the same constant in every iteration. */
#include "decode/decoder.h"
#include "decode/x86/execute.h"

#define NEVER_WRITTEN (1u << DECODE_IP | 1u << DECODE_FLAGS | 1u << DECODE_SP)

#define MAX_BRANCHES 16u

/* A conditional branch: it compares a with b. */
struct comparison {
	uint64_t a, b;
	uint8_t bits; /* 0: not known what it depends on */
	uint8_t condition;
	bool has_carry; /* the carry is that of a - b, too */
};

/* One iteration, as the emulator saw it. */
struct turn {
	unsigned n_instructions;
	uint32_t written; /* registers, mask */
	uint32_t replaced; /* by other instructions than those that add a constant */
	uint32_t halves; /* by some that write 32 bits */
	unsigned position; /* of the later sample's ip */
	bool has_position;
	unsigned n_branches;
	struct comparison branches[MAX_BRANCHES];
	struct comparison flags; /* what they were last set by */
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

/* What the flags will be set by. Sums are differences, too, but for the carry. */
static struct comparison compare(struct machine *machine, const struct instruction *instruction)
{
	execute_function execute = instruction->execute;
	struct value a = decode_machine_read(machine, instruction, 0);
	struct value b = value_exact(execute == decode_execute_inc ? UINT64_MAX : 1);
	bool is_sum = execute == decode_execute_add;

	if (execute == decode_execute_cmp || execute == decode_execute_sub || is_sum ||
	    execute == decode_execute_test)
		b = decode_machine_read(machine, instruction, 1);
	else if (execute != decode_execute_inc && execute != decode_execute_dec)
		return (struct comparison){ 0 };
	if (!value_is_exact(a) || !value_is_exact(b))
		return (struct comparison){ 0 };
	if (execute == decode_execute_test) {
		const struct operand *operands = instruction->operands;

		if (operands[0].kind != OPERAND_REG || operands[1].kind != OPERAND_REG ||
		    operands[0].reg != operands[1].reg)
			return (struct comparison){ 0 };
		b = value_exact(0);
	}
	return (struct comparison){
		.a = a.bits,
		.b = is_sum ? -b.bits : b.bits,
		.bits = instruction->width,
		.has_carry = execute == decode_execute_cmp || execute == decode_execute_sub,
	};
}

/* Conditions on the carry (unsigned order), on zero, on sign. */
static bool is_carry(unsigned condition)
{
	return condition >> 1 == 1 || condition >> 1 == 3;
}

static void note_branch(struct turn *turn, struct machine *machine,
			const struct instruction *instruction)
{
	if (instruction->flags_written & FLAGS_STATUS)
		turn->flags = compare(machine, instruction);
	if (!decode_execute_is_flow(instruction->execute) ||
	    instruction->execute == decode_execute_jump ||
	    instruction->execute == decode_execute_call ||
	    instruction->execute == decode_execute_ret)
		return;
	if (turn->n_branches < MAX_BRANCHES) {
		struct comparison *branch = &turn->branches[turn->n_branches];

		*branch = turn->flags;
		branch->condition = instruction->condition;
		if (instruction->execute != decode_execute_jcc ||
		    (is_carry(instruction->condition) && !branch->has_carry))
			branch->bits = 0;
	}
	turn->n_branches++;
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
		note_branch(turn, machine, instruction);
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
	struct turn turn, again;
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

	decode_machine_init(&machine, &decoder->memory, rounds->from);
	decode_machine_lose_data(&machine);
	if (!go_round(decoder, &machine, rounds->to, &rounds->turn) || !rounds->turn.has_position)
		return false;
	copy_registers(&machine, rounds->once);
	if (!go_round(decoder, &machine, rounds->to, &rounds->again) ||
	    rounds->again.n_instructions != rounds->turn.n_instructions)
		return false;
	copy_registers(&machine, rounds->twice);
	return true;
}

/* A value that changes by the same in each turn. */
struct line {
	__int128 first, step;
};

static struct line line_of(uint64_t once, uint64_t twice, unsigned bits, bool is_signed)
{
	unsigned shift = 64 - bits;
	int64_t step = (int64_t)((twice - once) << shift) >> shift;

	return (struct line){ is_signed ? (int64_t)(once << shift) >> shift
					: (__int128)(once << shift >> shift),
			      step };
}

/* Whether it stays within its width for n turns: then no sum has wrapped. */
static bool stays(struct line line, unsigned bits, bool is_signed, int64_t n)
{
	__int128 last = line.first + line.step * n;
	__int128 low = is_signed ? -((__int128)1 << (bits - 1)) : 0;
	__int128 high = low + ((__int128)1 << bits);

	return last >= low && last < high;
}

static bool has_zero(struct line line, int64_t n)
{
	if (line.step == 0)
		return line.first == 0;
	return line.first % line.step == 0 && -line.first / line.step >= 0 &&
	       -line.first / line.step <= n;
}

static bool is_below(__int128 difference, bool or_equal)
{
	return difference < 0 || (or_equal && difference == 0);
}

/* Whether a branch goes the same way for n turns more: EXACT, REFUTED, or NONE: not to be told. */
static enum decode_count keeps_way(const struct comparison *once, const struct comparison *twice,
				   int64_t n)
{
	unsigned pair = once->condition >> 1, bits = once->bits;
	bool is_signed = !is_carry(once->condition), goes_on;

	if (bits == 0 || twice->bits != bits || pair == 0 || pair == 5)
		return DECODE_COUNT_NONE;
	struct line a = line_of(once->a, twice->a, bits, is_signed);
	struct line b = line_of(once->b, twice->b, bits, is_signed);
	struct line distance = { a.first - b.first, a.step - b.step };
	if (!stays(a, bits, is_signed, n) || !stays(b, bits, is_signed, n) ||
	    (pair == 4 && !(stays(distance, bits, true, 0) && stays(distance, bits, true, n))))
		return DECODE_COUNT_NONE;
	if (pair == 2)
		goes_on =
			distance.first == 0 ? distance.step == 0 || n == 0 : !has_zero(distance, n);
	else
		goes_on = is_below(distance.first, pair == 3 || pair == 7) ==
			  is_below(distance.first + distance.step * n, pair == 3 || pair == 7);
	return goes_on ? DECODE_COUNT_EXACT : DECODE_COUNT_REFUTED;
}

/*
 * Whether the loop was not left in so many turns: each of its branches must have gone on as it does
 * now. A pointer that skips something between two runs of a loop would else count what is skipped.
 */
static enum decode_count stays_inside(const struct rounds *rounds, int64_t iterations)
{
	const struct turn *turn = &rounds->turn;

	if (turn->n_branches > MAX_BRANCHES || rounds->again.n_branches != turn->n_branches)
		return DECODE_COUNT_NONE;
	for (unsigned i = 0; i < turn->n_branches && iterations > 0; i++) {
		enum decode_count count =
			keeps_way(&turn->branches[i], &rounds->again.branches[i], iterations - 1);

		if (count != DECODE_COUNT_EXACT)
			return count;
	}
	return DECODE_COUNT_EXACT;
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
		count = stays_inside(&rounds, iterations);
	if (count == DECODE_COUNT_EXACT)
		*ret_iterations = (double)iterations +
				  (double)rounds.turn.position / rounds.turn.n_instructions;
	return count;
}
