/*
 * Vector instructions, as far as indices of gathers and values that go through vector registers
 * need them; floating point is not computed. Those of MMX registers are skipped.
 */
#include "decode/x86/execute.h"

/* The last one of n sources; the older forms have their destination as the first of two. */
static unsigned source_of(const struct instruction *instruction, unsigned n)
{
	return instruction->is_vex ? n : n - 1;
}

/* Whether nothing can come of it, so that it is not worth the work: then it is skipped. */
static bool skips(struct machine *machine, const struct instruction *instruction, unsigned a,
		  unsigned b)
{
	if (machine->vectors && (decode_vector_may_know(machine, instruction, a) ||
				 decode_vector_may_know(machine, instruction, b)))
		return false;
	decode_machine_skip(machine, instruction);
	return true;
}

static unsigned count_lanes(const struct instruction *instruction)
{
	return instruction->vector_words * 64u / instruction->element;
}

typedef struct value (*lane_function)(struct value a, struct value b, unsigned n_bits);

static void combine(struct machine *machine, const struct instruction *instruction,
		    lane_function function)
{
	unsigned first = source_of(instruction, 1), second = source_of(instruction, 2);
	struct vector result = { 0 };

	if (skips(machine, instruction, first, second))
		return;
	struct vector a = decode_vector_read(machine, instruction, first);
	struct vector b = decode_vector_read(machine, instruction, second);
	for (unsigned i = 0; i < count_lanes(instruction); i++)
		vector_set_lane(&result, i, instruction->element,
				function(vector_lane(&a, i, instruction->element),
					 vector_lane(&b, i, instruction->element),
					 instruction->element));
	decode_vector_write(machine, instruction, &result);
}

static bool is_itself(const struct instruction *instruction)
{
	const struct operand *a = &instruction->operands[source_of(instruction, 1)];
	const struct operand *b = &instruction->operands[source_of(instruction, 2)];

	return a->kind == OPERAND_VECTOR && b->kind == OPERAND_VECTOR && a->reg == b->reg;
}

/* A register with itself gives the same whatever it holds. */
static void combine_or(struct machine *machine, const struct instruction *instruction,
		       lane_function function, struct value of_itself)
{
	struct vector result;

	if (!machine->vectors || !is_itself(instruction)) {
		combine(machine, instruction, function);
		return;
	}
	for (unsigned i = 0; i < VECTOR_WORDS; i++)
		result.words[i] = of_itself;
	decode_vector_write(machine, instruction, &result);
}

static struct value lane_and(struct value a, struct value b, unsigned n_bits)
{
	(void)n_bits;
	return value_and(a, b);
}

static struct value lane_andn(struct value a, struct value b, unsigned n_bits)
{
	(void)n_bits;
	return value_and(value_not(a), b);
}

static struct value lane_or(struct value a, struct value b, unsigned n_bits)
{
	(void)n_bits;
	return value_or(a, b);
}

static struct value lane_xor(struct value a, struct value b, unsigned n_bits)
{
	(void)n_bits;
	return value_xor(a, b);
}

static struct value lane_add(struct value a, struct value b, unsigned n_bits)
{
	(void)n_bits;
	return value_add(a, b, value_exact(0));
}

static struct value lane_sub(struct value a, struct value b, unsigned n_bits)
{
	(void)n_bits;
	return value_subtract(a, b, value_exact(0));
}

static struct value lane_mull(struct value a, struct value b, unsigned n_bits)
{
	(void)n_bits;
	if (value_is_exact(a) && value_is_exact(b))
		return value_exact(a.bits * b.bits);
	return value_unknown();
}

static struct value lane_muludq(struct value a, struct value b, unsigned n_bits)
{
	return lane_mull(value_truncate(a, 32), value_truncate(b, 32), n_bits);
}

static struct value lane_muldq(struct value a, struct value b, unsigned n_bits)
{
	return lane_mull(value_sign_extend(a, 32), value_sign_extend(b, 32), n_bits);
}

static struct value all_ones(bool is_true)
{
	return value_exact(is_true ? UINT64_MAX : 0);
}

/* Equal: only where both are known; not: where one bit differs. */
static struct value lane_cmpeq(struct value a, struct value b, unsigned n_bits)
{
	(void)n_bits;
	if ((a.bits ^ b.bits) & a.known & b.known)
		return all_ones(false);
	return value_is_exact(a) && value_is_exact(b) ? all_ones(true) : value_unknown();
}

static struct value lane_cmpgt(struct value a, struct value b, unsigned n_bits)
{
	a = value_sign_extend(a, n_bits);
	b = value_sign_extend(b, n_bits);
	if (!value_is_exact(a) || !value_is_exact(b))
		return value_unknown();
	return all_ones((int64_t)a.bits > (int64_t)b.bits);
}

static struct value choose(struct value a, struct value b, struct value is_greater, bool wants)
{
	if (!value_is_exact(is_greater))
		return value_join(a, b);
	return (is_greater.bits != 0) == wants ? a : b;
}

static struct value lane_maxs(struct value a, struct value b, unsigned n_bits)
{
	return choose(a, b, lane_cmpgt(a, b, n_bits), true);
}

static struct value lane_mins(struct value a, struct value b, unsigned n_bits)
{
	return choose(a, b, lane_cmpgt(a, b, n_bits), false);
}

static struct value is_above(struct value a, struct value b)
{
	if (!value_is_exact(a) || !value_is_exact(b))
		return value_unknown();
	return all_ones(a.bits > b.bits);
}

static struct value lane_maxu(struct value a, struct value b, unsigned n_bits)
{
	(void)n_bits;
	return choose(a, b, is_above(a, b), true);
}

static struct value lane_minu(struct value a, struct value b, unsigned n_bits)
{
	(void)n_bits;
	return choose(a, b, is_above(a, b), false);
}

static struct value shift_left(struct value a, uint64_t count, unsigned n_bits)
{
	return count >= n_bits ? value_exact(0) : value_shift_left(a, (unsigned)count);
}

static struct value shift_right(struct value a, uint64_t count, unsigned n_bits)
{
	return count >= n_bits ? value_exact(0) : value_shift_right(a, (unsigned)count);
}

static struct value shift_arithmetic(struct value a, uint64_t count, unsigned n_bits)
{
	unsigned n = count >= n_bits ? n_bits - 1 : (unsigned)count;

	a = value_sign_extend(a, n_bits);
	return (struct value){ (uint64_t)((int64_t)a.bits >> n),
			       (uint64_t)((int64_t)a.known >> n) };
}

static struct value lane_sllv(struct value a, struct value b, unsigned n_bits)
{
	return value_is_exact(b) ? shift_left(a, b.bits, n_bits) : value_unknown();
}

static struct value lane_srlv(struct value a, struct value b, unsigned n_bits)
{
	return value_is_exact(b) ? shift_right(a, b.bits, n_bits) : value_unknown();
}

static struct value lane_srav(struct value a, struct value b, unsigned n_bits)
{
	return value_is_exact(b) ? shift_arithmetic(a, b.bits, n_bits) : value_unknown();
}

#define LANES(name)                                                                                \
	void decode_execute_v##name(struct machine *machine,                                       \
				    const struct instruction *instruction)                         \
	{                                                                                          \
		combine(machine, instruction, lane_##name);                                        \
	}
LANES(and)
LANES(or)
LANES(add)
LANES(mull)
LANES(muludq)
LANES(muldq)
LANES(mins)
LANES(maxs)
LANES(minu)
LANES(maxu)
LANES(sllv)
LANES(srlv)
LANES(srav)
#undef LANES

#define LANES_OF_ITSELF(name, value)                                                               \
	void decode_execute_v##name(struct machine *machine,                                       \
				    const struct instruction *instruction)                         \
	{                                                                                          \
		combine_or(machine, instruction, lane_##name, value_exact(value));                 \
	}
LANES_OF_ITSELF(xor, 0)
LANES_OF_ITSELF(andn, 0)
LANES_OF_ITSELF(sub, 0)
#undef LANES_OF_ITSELF

/* By an immediate, or by the low 64 bits of a register. */
static void shift_all(struct machine *machine, const struct instruction *instruction,
		      lane_function function)
{
	unsigned first = source_of(instruction, 1), second = source_of(instruction, 2);
	struct value count = value_exact(instruction->immediate & 0xff);
	struct vector result = { 0 };

	if (skips(machine, instruction, first, first))
		return;
	struct vector a = decode_vector_read(machine, instruction, first);
	if (instruction->operands[second].kind != OPERAND_IMMEDIATE)
		count = decode_vector_read(machine, instruction, second).words[0];
	for (unsigned i = 0; i < count_lanes(instruction); i++)
		vector_set_lane(&result, i, instruction->element,
				function(vector_lane(&a, i, instruction->element), count,
					 instruction->element));
	decode_vector_write(machine, instruction, &result);
}

void decode_execute_vsll(struct machine *machine, const struct instruction *instruction)
{
	shift_all(machine, instruction, lane_sllv);
}

void decode_execute_vsrl(struct machine *machine, const struct instruction *instruction)
{
	shift_all(machine, instruction, lane_srlv);
}

void decode_execute_vsra(struct machine *machine, const struct instruction *instruction)
{
	shift_all(machine, instruction, lane_srav);
}

/* What a truth table of three bits makes of each. */
void decode_execute_vternlog(struct machine *machine, const struct instruction *instruction)
{
	unsigned table = instruction->immediate & 0xff;
	struct vector result = vector_zero();

	if (!machine->vectors) {
		decode_machine_skip(machine, instruction);
		return;
	}
	struct vector a = decode_vector_read(machine, instruction, 0);
	struct vector b = decode_vector_read(machine, instruction, 1);
	struct vector c = decode_vector_read(machine, instruction, 2);
	for (unsigned word = 0; word < instruction->vector_words; word++) {
		struct value sum = value_exact(table == 0xff ? UINT64_MAX : 0);

		for (unsigned i = 0; table != 0xff && i < 8; i++) {
			struct value x = a.words[word], y = b.words[word], z = c.words[word];

			if (!(table >> i & 1))
				continue;
			x = value_and(i & 4 ? x : value_not(x), i & 2 ? y : value_not(y));
			sum = value_or(sum, value_and(x, i & 1 ? z : value_not(z)));
		}
		result.words[word] = sum;
	}
	decode_vector_write(machine, instruction, &result);
}

/* Compare: to all ones in the lane, or (EVEX) to a bit of a mask register. */
static void compare(struct machine *machine, const struct instruction *instruction,
		    lane_function function, struct value of_itself)
{
	struct value bits = value_exact(0);
	unsigned n_bits = instruction->element;

	if (instruction->operands[0].kind != OPERAND_MASK) {
		combine_or(machine, instruction, function, of_itself);
		return;
	}
	if (!machine->vectors) {
		decode_machine_skip(machine, instruction);
		return;
	}
	struct vector a = decode_vector_read(machine, instruction, 1);
	struct vector b = decode_vector_read(machine, instruction, 2);
	for (unsigned i = 0; i < count_lanes(instruction); i++) {
		struct value is = is_itself(instruction)
					  ? of_itself
					  : function(vector_lane(&a, i, n_bits),
						     vector_lane(&b, i, n_bits), n_bits);

		bits = value_merge(value_move_bit(is, 0, i), bits, UINT64_C(1) << i);
	}
	if (instruction->mask)
		bits = value_and(bits, decode_mask_read(machine, instruction->mask));
	decode_mask_write(machine, instruction->operands[0].reg, bits);
}

void decode_execute_vcmpeq(struct machine *machine, const struct instruction *instruction)
{
	compare(machine, instruction, lane_cmpeq, all_ones(true));
}

void decode_execute_vcmpgt(struct machine *machine, const struct instruction *instruction)
{
	compare(machine, instruction, lane_cmpgt, all_ones(false));
}

static struct value lane_below(struct value a, struct value b, unsigned n_bits)
{
	(void)n_bits;
	return is_above(b, a);
}

static struct value lane_less(struct value a, struct value b, unsigned n_bits)
{
	return lane_cmpgt(b, a, n_bits);
}

static struct value lane_above(struct value a, struct value b, unsigned n_bits)
{
	(void)n_bits;
	return is_above(a, b);
}

/* The low 3 bits of the immediate: eq lt le false ne ge gt true. */
#define COMPARISONS(name, less, more)                                                              \
	static struct value name##_le(struct value a, struct value b, unsigned n_bits)             \
	{                                                                                          \
		return value_not(more(a, b, n_bits));                                              \
	}                                                                                          \
	static struct value name##_ge(struct value a, struct value b, unsigned n_bits)             \
	{                                                                                          \
		return value_not(less(a, b, n_bits));                                              \
	}                                                                                          \
	static const lane_function name[8] = { lane_cmpeq, less,      name##_le, lane_false,       \
					       lane_ne,	   name##_ge, more,	 lane_true }

static struct value lane_false(struct value a, struct value b, unsigned n_bits)
{
	(void)a, (void)b, (void)n_bits;
	return all_ones(false);
}

static struct value lane_true(struct value a, struct value b, unsigned n_bits)
{
	(void)a, (void)b, (void)n_bits;
	return all_ones(true);
}

static struct value lane_ne(struct value a, struct value b, unsigned n_bits)
{
	return value_not(lane_cmpeq(a, b, n_bits));
}

COMPARISONS(signed_comparisons, lane_less, lane_cmpgt);
COMPARISONS(unsigned_comparisons, lane_below, lane_above);

void decode_execute_vcmp(struct machine *machine, const struct instruction *instruction)
{
	unsigned by = instruction->immediate & 7;
	bool holds_of_itself = by == 0 || by == 2 || by == 5 || by == 7;

	compare(machine, instruction, signed_comparisons[by], all_ones(holds_of_itself));
}

void decode_execute_vcmpu(struct machine *machine, const struct instruction *instruction)
{
	unsigned by = instruction->immediate & 7;
	bool holds_of_itself = by == 0 || by == 2 || by == 5 || by == 7;

	compare(machine, instruction, unsigned_comparisons[by], all_ones(holds_of_itself));
}
