#pragma once
/*
 * A 64-bit word of which some bits may be unknown. Every operation gives only bits that hold for
 * all possible values of the unknown ones, so that nothing derived from a value is ever wrong.
 * Invariant: bits has 0 where known has 0.
 */
#include <stdbool.h>
#include <stdint.h>

struct value {
	uint64_t bits;
	uint64_t known; /* mask */
};

/* The mask of the n lowest bits; n may be 64. */
static inline uint64_t value_mask(unsigned n)
{
	return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

static inline struct value value_exact(uint64_t bits)
{
	return (struct value){ bits, UINT64_MAX };
}

static inline struct value value_unknown(void)
{
	return (struct value){ 0, 0 };
}

static inline bool value_is_exact(struct value value)
{
	return value.known == UINT64_MAX;
}

/* The n lowest bits; those above become 0. */
static inline struct value value_truncate(struct value value, unsigned n)
{
	return (struct value){ value.bits & value_mask(n), value.known | ~value_mask(n) };
}

/* The n lowest bits as a signed number. */
static inline struct value value_sign_extend(struct value value, unsigned n)
{
	uint64_t high = ~value_mask(n);
	struct value low = value_truncate(value, n);

	if (!(value.known >> (n - 1) & 1))
		return (struct value){ low.bits, low.known & ~high };
	return value.bits >> (n - 1) & 1 ? (struct value){ low.bits | high, low.known } : low;
}

static inline struct value value_and(struct value a, struct value b)
{
	uint64_t zeros = (a.known & ~a.bits) | (b.known & ~b.bits);

	return (struct value){ a.bits & b.bits, (a.known & b.known) | zeros };
}

static inline struct value value_or(struct value a, struct value b)
{
	return (struct value){ a.bits | b.bits, (a.known & b.known) | a.bits | b.bits };
}

static inline struct value value_xor(struct value a, struct value b)
{
	uint64_t known = a.known & b.known;

	return (struct value){ (a.bits ^ b.bits) & known, known };
}

static inline struct value value_not(struct value a)
{
	return (struct value){ ~a.bits & a.known, a.known };
}

/* Shift by n < 64; zeros come in. */
static inline struct value value_shift_left(struct value a, unsigned n)
{
	return (struct value){ a.bits << n, a.known << n | value_mask(n) };
}

static inline struct value value_shift_right(struct value a, unsigned n)
{
	return (struct value){ a.bits >> n, a.known >> n | ~(UINT64_MAX >> n) };
}

/* The bits of a where mask is set, those of b elsewhere. */
static inline struct value value_merge(struct value a, struct value b, uint64_t mask)
{
	return (struct value){ (a.bits & mask) | (b.bits & ~mask),
			       (a.known & mask) | (b.known & ~mask) };
}

/* What holds whether it is a or b. */
static inline struct value value_join(struct value a, struct value b)
{
	uint64_t known = a.known & b.known & ~(a.bits ^ b.bits);

	return (struct value){ a.bits & known, known };
}

/* The bits below the lowest one that is unknown in a or b: as far as a carry is certain. */
static inline uint64_t value_certain(struct value a, struct value b, struct value carry)
{
	uint64_t unknown = ~(a.known & b.known);

	if (!(carry.known & 1))
		return 0;
	return unknown ? value_mask((unsigned)__builtin_ctzll(unknown)) : UINT64_MAX;
}

/* a + b + bit 0 of carry. */
static inline struct value value_add(struct value a, struct value b, struct value carry)
{
	uint64_t known = value_certain(a, b, carry);

	return (struct value){ (a.bits + b.bits + (carry.bits & 1)) & known, known };
}

/* a - b - bit 0 of borrow. */
static inline struct value value_subtract(struct value a, struct value b, struct value borrow)
{
	uint64_t known = value_certain(a, b, borrow);

	return (struct value){ (a.bits - b.bits - (borrow.bits & 1)) & known, known };
}

/* Bit `from` of a, as bit `to`; all other bits unknown. */
static inline struct value value_move_bit(struct value a, unsigned from, unsigned to)
{
	return (struct value){ (a.bits >> from & 1) << to, (a.known >> from & 1) << to };
}

/* a and b, which know different bits, in one. */
static inline struct value value_unite(struct value a, struct value b)
{
	return (struct value){ a.bits | b.bits, a.known | b.known };
}
