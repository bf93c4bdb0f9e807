/* Vector instructions that only move: loads and stores, elements from one place to another. */
#include "decode/x86/execute.h"

/* Instructions of one source that can give anything but unknown bits. */
static bool reads(struct machine *machine, const struct instruction *instruction, unsigned n,
		  struct vector *ret_source)
{
	if (!machine->vectors || !decode_vector_may_know(machine, instruction, n)) {
		decode_machine_skip(machine, instruction);
		return false;
	}
	*ret_source = decode_vector_read(machine, instruction, n);
	return true;
}

/* Two sources: the first two of VEX, or the destination and the only one. */
static bool reads_two(struct machine *machine, const struct instruction *instruction,
		      struct vector *ret_a, struct vector *ret_b)
{
	unsigned first = instruction->is_vex ? 1 : 0;

	if (!machine->vectors || (!decode_vector_may_know(machine, instruction, first) &&
				  !decode_vector_may_know(machine, instruction, first + 1))) {
		decode_machine_skip(machine, instruction);
		return false;
	}
	*ret_a = decode_vector_read(machine, instruction, first);
	*ret_b = decode_vector_read(machine, instruction, first + 1);
	return true;
}

void decode_execute_vmov(struct machine *machine, const struct instruction *instruction)
{
	struct vector source;

	if (reads(machine, instruction, 1, &source))
		decode_vector_write(machine, instruction, &source);
}

/* movd, movq, movss and movsd from and to memory: one element, the rest of the register is 0. */
static void move_low(struct machine *machine, const struct instruction *instruction)
{
	struct vector source, low = vector_zero();

	if (!reads(machine, instruction, 1, &source))
		return;
	if (!(source.words[0].known & value_mask(instruction->element))) {
		decode_machine_skip(machine, instruction);
		return;
	}
	low.words[0] = value_truncate(source.words[0], instruction->element);
	decode_vector_write(machine, instruction, &low);
}

void decode_execute_vmovd(struct machine *machine, const struct instruction *instruction)
{
	move_low(machine, instruction);
}

/* Between registers the rest is the first source's. */
void decode_execute_vmovs(struct machine *machine, const struct instruction *instruction)
{
	unsigned last = instruction->is_vex ? 2 : 1;
	struct vector a, b;

	if (instruction->mask) {
		decode_machine_skip(machine, instruction);
	} else if (instruction->operands[0].kind == OPERAND_MEMORY ||
		   instruction->operands[1].kind == OPERAND_MEMORY) {
		move_low(machine, instruction);
	} else if (instruction->operands[last].kind == OPERAND_VECTOR &&
		   reads_two(machine, instruction, &a, &b)) {
		vector_set_lane(&a, 0, instruction->element,
				vector_lane(&b, 0, instruction->element));
		decode_vector_write(machine, instruction, &a);
	} else {
		decode_machine_skip(machine, instruction);
	}
}

/* movlps, movhps and theirs: a half of 64 bits from or to memory; `half`: which of the register. */
static void move_half(struct machine *machine, const struct instruction *instruction, unsigned half)
{
	struct vector a, b;

	if (instruction->operands[0].kind == OPERAND_MEMORY) {
		if (!reads(machine, instruction, 1, &a))
			return;
		a.words[0] = a.words[half];
	} else {
		if (!reads_two(machine, instruction, &a, &b))
			return;
		a.words[half] = b.words[0];
	}
	decode_vector_write(machine, instruction, &a);
}

void decode_execute_vmovl(struct machine *machine, const struct instruction *instruction)
{
	move_half(machine, instruction, 0);
}

void decode_execute_vmovh(struct machine *machine, const struct instruction *instruction)
{
	move_half(machine, instruction, 1);
}

void decode_execute_vmovhl(struct machine *machine, const struct instruction *instruction)
{
	struct vector a, b;

	if (!reads_two(machine, instruction, &a, &b))
		return;
	a.words[0] = b.words[1];
	decode_vector_write(machine, instruction, &a);
}

/* movsx, movzx: elements of `width` bits to those of `element`. */
static void extend(struct machine *machine, const struct instruction *instruction, bool is_signed)
{
	struct vector source, result = { 0 };

	if (!reads(machine, instruction, 1, &source))
		return;
	for (unsigned i = 0; i < instruction->vector_words * 64u / instruction->element; i++) {
		struct value lane = vector_lane(&source, i, instruction->width);

		if (is_signed)
			lane = value_sign_extend(lane, instruction->width);
		vector_set_lane(&result, i, instruction->element, lane);
	}
	decode_vector_write(machine, instruction, &result);
}

void decode_execute_vmovsx(struct machine *machine, const struct instruction *instruction)
{
	extend(machine, instruction, true);
}

void decode_execute_vmovzx(struct machine *machine, const struct instruction *instruction)
{
	extend(machine, instruction, false);
}

/* `width` bits over and over: an element, or 128 or 256 bits (width 0 and 1). */
void decode_execute_vbroadcast(struct machine *machine, const struct instruction *instruction)
{
	unsigned n_words = instruction->width == 1 ? 4 : 2;
	struct vector source, result = { 0 };

	if (!reads(machine, instruction, 1, &source))
		return;
	for (unsigned i = 0; instruction->width <= 1 && i < VECTOR_WORDS; i++)
		result.words[i] = source.words[i % n_words];
	for (unsigned i = 0; instruction->width > 1 && i < 512u / instruction->width; i++)
		vector_set_lane(&result, i, instruction->width,
				vector_lane(&source, 0, instruction->width));
	decode_vector_write(machine, instruction, &result);
}

/* Parts of 128 or 256 bits: `width` is their words. With a mask its elements are not known here. */
void decode_execute_vextract(struct machine *machine, const struct instruction *instruction)
{
	unsigned n = instruction->width, n_from = instruction->source_words;
	unsigned part = n_from > n ? instruction->immediate % (n_from / n) : 0;
	struct vector source, result = vector_zero();

	if (instruction->mask || n_from == 0) {
		decode_machine_skip(machine, instruction);
		return;
	}
	if (!reads(machine, instruction, 1, &source))
		return;
	for (unsigned i = 0; i < n; i++)
		result.words[i] = source.words[part * n + i];
	decode_vector_write(machine, instruction, &result);
}

void decode_execute_vinsert(struct machine *machine, const struct instruction *instruction)
{
	unsigned n = instruction->width;
	struct vector a, b;

	if (instruction->mask) {
		decode_machine_skip(machine, instruction);
		return;
	}
	if (!reads_two(machine, instruction, &a, &b))
		return;
	unsigned part = instruction->immediate % (instruction->vector_words / n);
	for (unsigned i = 0; i < n; i++)
		a.words[part * n + i] = b.words[i];
	decode_vector_write(machine, instruction, &a);
}

void decode_execute_pextr(struct machine *machine, const struct instruction *instruction)
{
	unsigned n_lanes = 128u / instruction->element;
	struct vector source, result = vector_zero();

	if (!reads(machine, instruction, 1, &source))
		return;
	result.words[0] = vector_lane(&source, (unsigned)(instruction->immediate % n_lanes),
				      instruction->element);
	decode_vector_write(machine, instruction, &result);
}

void decode_execute_pinsr(struct machine *machine, const struct instruction *instruction)
{
	unsigned n_lanes = 128u / instruction->element;
	struct vector a, b;

	if (!reads_two(machine, instruction, &a, &b))
		return;
	vector_set_lane(&a, (unsigned)(instruction->immediate % n_lanes), instruction->element,
			vector_lane(&b, 0, instruction->element));
	decode_vector_write(machine, instruction, &a);
}

/* The lane of 128 bits that word number i belongs to, as its first word. */
static unsigned lane_start(unsigned word)
{
	return word & ~1u;
}

/* Interleave the low or high halves of each 128 bits. */
static void unpack(struct machine *machine, const struct instruction *instruction, unsigned half)
{
	unsigned n_bits = instruction->element, n = 64 / n_bits;
	struct vector a, b, result = { 0 };

	if (!reads_two(machine, instruction, &a, &b))
		return;
	for (unsigned start = 0; start < instruction->vector_words; start += 2) {
		for (unsigned i = 0; i < n; i++) {
			unsigned from = start * n + half * n + i;

			vector_set_lane(&result, start * n + 2 * i, n_bits,
					vector_lane(&a, from, n_bits));
			vector_set_lane(&result, start * n + 2 * i + 1, n_bits,
					vector_lane(&b, from, n_bits));
		}
	}
	decode_vector_write(machine, instruction, &result);
}

void decode_execute_unpackl(struct machine *machine, const struct instruction *instruction)
{
	unpack(machine, instruction, 0);
}

void decode_execute_unpackh(struct machine *machine, const struct instruction *instruction)
{
	unpack(machine, instruction, 1);
}

/* pshufd, vpermilps: each element of a lane by two bits; pshuflw, pshufhw: those of a half. */
static void shuffle(struct machine *machine, const struct instruction *instruction, unsigned first,
		    unsigned n, unsigned n_bits)
{
	unsigned in_lane = 128 / n_bits;
	struct vector source, result;

	if (!reads(machine, instruction, 1, &source))
		return;
	result = source;
	for (unsigned lane = 0; lane < instruction->vector_words / 2u; lane++) {
		for (unsigned i = 0; i < n; i++) {
			unsigned from = instruction->immediate >> 2 * i & 3;

			vector_set_lane(
				&result, lane * in_lane + first + i, n_bits,
				vector_lane(&source, lane * in_lane + first + from, n_bits));
		}
	}
	decode_vector_write(machine, instruction, &result);
}

void decode_execute_pshufd(struct machine *machine, const struct instruction *instruction)
{
	if (instruction->operands[2].kind == OPERAND_IMMEDIATE)
		shuffle(machine, instruction, 0, 4, 32);
	else
		decode_machine_skip(machine, instruction); /* vpermilps by a register */
}

void decode_execute_pshuflw(struct machine *machine, const struct instruction *instruction)
{
	shuffle(machine, instruction, 0, 4, 16);
}

void decode_execute_pshufhw(struct machine *machine, const struct instruction *instruction)
{
	shuffle(machine, instruction, 4, 4, 16);
}

/* Half of each lane is of the first source, half of the second. */
void decode_execute_shufps(struct machine *machine, const struct instruction *instruction)
{
	struct vector a, b, result = { 0 };

	if (!reads_two(machine, instruction, &a, &b))
		return;
	for (unsigned i = 0; i < instruction->vector_words * 2u; i++) {
		unsigned from = (i & ~3u) + (instruction->immediate >> 2 * (i % 4) & 3);

		vector_set_lane(&result, i, 32, vector_lane(i % 4 < 2 ? &a : &b, from, 32));
	}
	decode_vector_write(machine, instruction, &result);
}

void decode_execute_shufpd(struct machine *machine, const struct instruction *instruction)
{
	struct vector a, b, result = { 0 };

	if (!reads_two(machine, instruction, &a, &b))
		return;
	for (unsigned i = 0; i < instruction->vector_words; i++)
		result.words[i] =
			(i % 2 ? b : a).words[lane_start(i) + (instruction->immediate >> i & 1)];
	decode_vector_write(machine, instruction, &result);
}

/* Each byte by the byte of the second source: its high bit gives 0. */
void decode_execute_pshufb(struct machine *machine, const struct instruction *instruction)
{
	struct vector a, b, result = { 0 };

	if (!reads_two(machine, instruction, &a, &b))
		return;
	for (unsigned i = 0; i < instruction->vector_words * 8u; i++) {
		struct value by = vector_lane(&b, i, 8);
		struct value byte = value_unknown();

		if (by.bits & 0x80)
			byte = value_exact(0);
		else if ((by.known & 0x8f) == 0x8f)
			byte = vector_lane(&a, (i & ~15u) + (by.bits & 15), 8);
		vector_set_lane(&result, i, 8, byte);
	}
	decode_vector_write(machine, instruction, &result);
}

/* The 16 bytes from `immediate` on of each lane's 32: the second source is the lower half. */
void decode_execute_palignr(struct machine *machine, const struct instruction *instruction)
{
	unsigned by = instruction->immediate & 0xff;
	struct vector a, b, result = { 0 };

	if (!reads_two(machine, instruction, &a, &b))
		return;
	for (unsigned i = 0; i < instruction->vector_words * 8u; i++) {
		unsigned from = i % 16 + by, lane = i & ~15u;
		struct value byte = value_exact(0);

		if (from < 16)
			byte = vector_lane(&b, lane + from, 8);
		else if (from < 32)
			byte = vector_lane(&a, lane + from - 16, 8);
		vector_set_lane(&result, i, 8, byte);
	}
	decode_vector_write(machine, instruction, &result);
}

/* Bytes of each lane up (by > 0) or down. */
static void shift_bytes(struct machine *machine, const struct instruction *instruction, int by)
{
	struct vector a, result = { 0 };

	if (!reads(machine, instruction, instruction->is_vex ? 1 : 0, &a))
		return;
	for (unsigned i = 0; i < instruction->vector_words * 8u; i++) {
		int from = (int)(i % 16) - by;

		vector_set_lane(&result, i, 8,
				from >= 0 && from < 16
					? vector_lane(&a, (i & ~15u) + (unsigned)from, 8)
					: value_exact(0));
	}
	decode_vector_write(machine, instruction, &result);
}

void decode_execute_pslldq(struct machine *machine, const struct instruction *instruction)
{
	shift_bytes(machine, instruction, (int)(instruction->immediate & 0xff));
}

void decode_execute_psrldq(struct machine *machine, const struct instruction *instruction)
{
	shift_bytes(machine, instruction, -(int)(instruction->immediate & 0xff));
}

/* Elements of the second source where the immediate has a bit (of its 8, again and again). */
void decode_execute_pblend(struct machine *machine, const struct instruction *instruction)
{
	struct vector a, b;

	if (!reads_two(machine, instruction, &a, &b))
		return;
	for (unsigned i = 0; i < instruction->vector_words * 64u / instruction->element; i++)
		if (instruction->immediate >> i % 8 & 1)
			vector_set_lane(&a, i, instruction->element,
					vector_lane(&b, i, instruction->element));
	decode_vector_write(machine, instruction, &a);
}

/* Each half of 128 bits by 4 bits of the immediate. */
void decode_execute_vperm2i128(struct machine *machine, const struct instruction *instruction)
{
	struct vector a, b, result = vector_zero();

	if (!reads_two(machine, instruction, &a, &b))
		return;
	for (unsigned half = 0; half < 2; half++) {
		unsigned by = instruction->immediate >> 4 * half & 15;

		for (unsigned i = 0; !(by & 8) && i < 2; i++)
			result.words[2 * half + i] = (by & 2 ? b : a).words[2 * (by & 1) + i];
	}
	decode_vector_write(machine, instruction, &result);
}

/* vpermd, vpermps, vpermq: elements of the whole register by those of the first source. */
void decode_execute_vperm(struct machine *machine, const struct instruction *instruction)
{
	unsigned n_bits = instruction->element;
	unsigned n = instruction->vector_words * 64u / n_bits;
	struct vector by, source, result = { 0 };

	if (instruction->operands[2].kind == OPERAND_IMMEDIATE) {
		if (!reads(machine, instruction, 1, &source))
			return;
		for (unsigned i = 0; i < n; i++)
			vector_set_lane(
				&result, i, n_bits,
				vector_lane(&source,
					    (i & ~3u) + (instruction->immediate >> 2 * (i % 4) & 3),
					    n_bits));
	} else {
		if (!reads_two(machine, instruction, &by, &source))
			return;
		for (unsigned i = 0; i < n; i++) {
			struct value from = vector_lane(&by, i, n_bits);

			if ((from.known & (n - 1)) == n - 1)
				vector_set_lane(&result, i, n_bits,
						vector_lane(&source,
							    (unsigned)(from.bits & (n - 1)),
							    n_bits));
		}
	}
	decode_vector_write(machine, instruction, &result);
}

/* pmovmskb, movmskps, movmskpd: sign bits to a general register. */
void decode_execute_movmsk(struct machine *machine, const struct instruction *instruction)
{
	struct vector source;

	if (!reads(machine, instruction, 1, &source))
		return;
	unsigned n = instruction->source_words * 64u / instruction->element;
	decode_machine_write(machine, instruction, 0,
			     decode_vector_signs(&source, instruction->element, n));
}

/* vpmovd2m and theirs: sign bits to a mask; vpmovm2d: back. */
void decode_execute_vmov2m(struct machine *machine, const struct instruction *instruction)
{
	struct vector source;

	if (reads(machine, instruction, 1, &source))
		decode_mask_write(machine, instruction->operands[0].reg,
				  decode_vector_signs(&source, instruction->element,
						      instruction->source_words * 64u /
							      instruction->element));
}

void decode_execute_vmovm2(struct machine *machine, const struct instruction *instruction)
{
	struct vector source, result = { 0 };

	if (!reads(machine, instruction, 1, &source))
		return;
	for (unsigned i = 0; i < instruction->vector_words * 64u / instruction->element; i++)
		vector_set_lane(&result, i, instruction->element,
				value_sign_extend(value_move_bit(source.words[0], i, 0), 1));
	decode_vector_write(machine, instruction, &result);
}

void decode_execute_kmov(struct machine *machine, const struct instruction *instruction)
{
	struct vector source;

	if (!reads(machine, instruction, 1, &source))
		return;
	source.words[0] = value_truncate(source.words[0], instruction->element);
	if (instruction->operands[0].kind == OPERAND_MASK)
		decode_mask_write(machine, instruction->operands[0].reg, source.words[0]);
	else
		decode_machine_write(machine, instruction, 0, source.words[0]);
}

static void combine_masks(struct machine *machine, const struct instruction *instruction,
			  struct value (*function)(struct value a, struct value b), bool inverts)
{
	const struct operand *operands = instruction->operands;

	if (!machine->vectors) {
		decode_machine_skip(machine, instruction);
		return;
	}
	struct value a = decode_mask_read(machine, operands[1].reg);
	struct value b = decode_mask_read(machine, operands[2].reg);
	struct value result = function == value_xor && operands[1].reg == operands[2].reg
				      ? value_exact(0)
				      : function(a, b);
	if (inverts)
		result = value_not(result);
	decode_mask_write(machine, operands[0].reg, value_truncate(result, instruction->element));
}

static struct value and_not(struct value a, struct value b)
{
	return value_and(value_not(a), b);
}

static struct value first_of(struct value a, struct value b)
{
	(void)b;
	return a;
}

void decode_execute_kand(struct machine *machine, const struct instruction *instruction)
{
	combine_masks(machine, instruction, value_and, false);
}

void decode_execute_kandn(struct machine *machine, const struct instruction *instruction)
{
	combine_masks(machine, instruction, and_not, false);
}

void decode_execute_kor(struct machine *machine, const struct instruction *instruction)
{
	combine_masks(machine, instruction, value_or, false);
}

void decode_execute_kxor(struct machine *machine, const struct instruction *instruction)
{
	combine_masks(machine, instruction, value_xor, false);
}

void decode_execute_kxnor(struct machine *machine, const struct instruction *instruction)
{
	combine_masks(machine, instruction, value_xor, true);
}

void decode_execute_knot(struct machine *machine, const struct instruction *instruction)
{
	combine_masks(machine, instruction, first_of, true);
}

static void shift_mask(struct machine *machine, const struct instruction *instruction, bool is_left)
{
	unsigned by = instruction->immediate & 0xff;
	struct vector source;

	if (!reads(machine, instruction, 1, &source))
		return;
	struct value a = value_truncate(source.words[0], instruction->element);
	if (by >= instruction->element)
		a = value_exact(0);
	else
		a = is_left ? value_shift_left(a, by) : value_shift_right(a, by);
	decode_mask_write(machine, instruction->operands[0].reg,
			  value_truncate(a, instruction->element));
}

void decode_execute_kshiftl(struct machine *machine, const struct instruction *instruction)
{
	shift_mask(machine, instruction, true);
}

void decode_execute_kshiftr(struct machine *machine, const struct instruction *instruction)
{
	shift_mask(machine, instruction, false);
}

/* Of registers of which nothing is known the zeros are not worth the work. */
void decode_execute_vzeroupper(struct machine *machine, const struct instruction *instruction)
{
	uint32_t known = machine->vectors ? machine->vectors->known & 0xffff : 0;

	(void)instruction;
	for (; known; known &= known - 1)
		for (unsigned i = 2; i < VECTOR_WORDS; i++)
			machine->vectors->regs[__builtin_ctz(known)].words[i] = value_exact(0);
}

void decode_execute_vzeroall(struct machine *machine, const struct instruction *instruction)
{
	struct vector zero = vector_zero();

	(void)instruction;
	for (unsigned reg = 0; machine->vectors && reg < 16; reg++)
		decode_vector_set(machine, reg, &zero);
}

/* fxrstor, xrstor: all of them come from memory. */
void decode_execute_restore(struct machine *machine, const struct instruction *instruction)
{
	decode_machine_skip(machine, instruction);
	if (machine->vectors) {
		machine->vectors->known = 0;
		machine->vectors->masks_known = 0;
	}
}

/* The lane's bytes as they are in memory. */
static struct value load_lane(struct machine *machine, const struct memory_operand *operand,
			      struct value address)
{
	if (!value_is_exact(address))
		return value_unknown();
	return decode_machine_load(machine, address.bits, operand->size, MACHINE_READER_DATA);
}

/* Lanes that the mask leaves out stay; the mask ends as 0, whichever register it is. */
void decode_execute_gather(struct machine *machine, const struct instruction *instruction)
{
	const struct memory_operand *operand = &instruction->memory[0];
	const struct operand *to = &instruction->operands[0];
	unsigned n_bits = operand->size * 8u;

	if (!machine->vectors || to->kind != OPERAND_VECTOR) {
		decode_machine_skip(machine, instruction);
		return;
	}
	struct value mask = decode_lanes_mask(machine, operand);
	struct vector old = decode_vector_read(machine, instruction, 0), result = vector_zero();
	for (unsigned i = 0; i < operand->count; i++) {
		struct value bit = value_move_bit(mask, i, 0), kept = vector_lane(&old, i, n_bits);
		struct value loaded =
			load_lane(machine, operand,
				  decode_lane_address(machine, operand, machine->addresses[0], i));

		if (!(bit.known & 1))
			loaded = value_join(loaded, kept);
		else if (!(bit.bits & 1))
			loaded = kept;
		vector_set_lane(&result, i, n_bits, loaded);
	}
	decode_vector_set(machine, to->reg, &result);
	if (operand->mask == MASK_K) {
		decode_mask_write(machine, operand->mask_reg, value_exact(0));
	} else if (operand->mask_reg < VECTOR_REGS) {
		struct vector zero = vector_zero();

		decode_vector_set(machine, operand->mask_reg, &zero);
	}
}

/*
 * Lane by lane: what is stored, or that it is not known; anything where the address is not known.
 */
static void store_lane(struct machine *machine, struct value bit, struct value address,
		       unsigned n_bytes, struct value value)
{
	if (bit.known & 1 && !(bit.bits & 1))
		return;
	if (!value_is_exact(address))
		decode_machine_forget_all(machine);
	else if (bit.known & 1)
		decode_machine_store(machine, address.bits, n_bytes, value);
	else
		decode_machine_forget(machine, address.bits, n_bytes);
}

/* vpscatter, vpmaskmov and maskmovdqu to memory; `last` operand is what they store. */
void decode_execute_scatter(struct machine *machine, const struct instruction *instruction)
{
	const struct memory_operand *operand = &instruction->memory[0];
	bool is_scatter = operand->flags & MEMORY_GATHER;
	unsigned n_bytes = is_scatter ? operand->size : operand->element;
	unsigned n = is_scatter ? operand->count : operand->lanes;

	if (!machine->vectors || n_bytes == 0 || n_bytes > 8) {
		decode_machine_skip(machine, instruction);
		return;
	}
	struct value mask = decode_lanes_mask(machine, operand);
	struct vector source = decode_vector_read(machine, instruction, instruction->width);
	for (unsigned i = 0; i < n; i++) {
		struct value address = machine->addresses[0];

		if (is_scatter)
			address = decode_lane_address(machine, operand, address, i);
		else if (value_is_exact(address))
			address.bits += (uint64_t)i * n_bytes;
		store_lane(machine, value_move_bit(mask, i, 0), address, n_bytes,
			   vector_lane(&source, i, n_bytes * 8));
	}
	if (operand->mask == MASK_K)
		decode_mask_write(machine, operand->mask_reg, value_exact(0));
}

/* vmaskmov: to memory, or from it with 0 in the lanes that are left out. */
void decode_execute_vmaskmov(struct machine *machine, const struct instruction *instruction)
{
	unsigned n_bits = instruction->element;
	struct vector source, result = { 0 };

	if (instruction->operands[0].kind == OPERAND_MEMORY) {
		decode_execute_scatter(machine, instruction);
		return;
	}
	if (!machine->vectors) {
		decode_machine_skip(machine, instruction);
		return;
	}
	struct value mask = decode_lanes_mask(machine, &instruction->memory[0]);
	source = decode_vector_read(machine, instruction, 2);
	for (unsigned i = 0; i < instruction->vector_words * 64u / n_bits; i++) {
		struct value bit = value_move_bit(mask, i, 0);
		struct value lane = vector_lane(&source, i, n_bits);

		if (!(bit.known & 1))
			lane = value_join(lane, value_exact(0));
		else if (!(bit.bits & 1))
			lane = value_exact(0);
		vector_set_lane(&result, i, n_bits, lane);
	}
	decode_vector_write(machine, instruction, &result);
}
