#pragma once
/*
 * Numbers of a trace file's columns: LEB128 varints and zigzag. Without branches for nearly all
 * values, because the lengths of real columns are not predictable: a loop over the bytes costs a
 * mispredicted branch for each number. Little-endian hosts only, as the file.
 */
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is little endian");

#define TRACE_VARINT_MAX_BYTES 10
#define TRACE_VARINT_SLACK     16 /* bytes behind a buffer that put and get may touch */

/* Map signed to unsigned so that small magnitudes stay small. */
static inline uint64_t trace_zigzag(int64_t value)
{
	return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

/* The inverse of trace_zigzag(). */
static inline int64_t trace_unzigzag(uint64_t value)
{
	return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* Any value, one byte at a time. Returns the byte behind the last one written (at most 10). */
static inline uint8_t *trace_varint_put_slow(uint8_t *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*out++ = (uint8_t)(value | 0x80);
	*out++ = (uint8_t)value;
	return out;
}

/*
 * Write value at out, which has room for 10 bytes (8 are always stored). Returns the byte behind
 * the varint. With present = 0 nothing counts as written: out itself is returned.
 */
static inline uint8_t *trace_varint_put_if(uint8_t *out, uint64_t value, unsigned present)
{
	if (__builtin_expect(value >> 56 != 0, 0))
		return present ? trace_varint_put_slow(out, value) : out;

	/* ceil(bits / 7) for 1..56 bits */
	unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
	unsigned n_bytes = (bits * 9 + 64) >> 6;

	/* Spread groups of 7 bits to bytes: halves, quarters, bytes. */
	uint64_t x = (value & 0x000000000fffffff) | (value & 0x00fffffff0000000) << 4;
	x = (x & 0x00003fff00003fff) | (x & 0x0fffc0000fffc000) << 2;
	x = (x & 0x007f007f007f007f) | (x & 0x3f803f803f803f80) << 1;
	x |= 0x8080808080808080 & ((UINT64_C(1) << (8 * n_bytes - 8)) - 1);
	memcpy(out, &x, sizeof(x));
	return out + (present ? n_bytes : 0);
}

/* Four values below 2^28 beside each other, as processors with 128-bit vectors take them. */
typedef uint32_t trace_varint_four __attribute__((vector_size(16)));

/*
 * The varints of four values below 2^28, each in the low bytes of its element, and in ret_n_bytes
 * the bytes that each has: 1 to 4, and none for a 0 where keeps_zero has 0 (else all bits).
 */
static inline trace_varint_four trace_varint_encode_four(trace_varint_four values,
							 trace_varint_four keeps_zero,
							 trace_varint_four *ret_n_bytes)
{
	/* All bits where a byte follows the first, second and third one: lengths without a scan. */
	trace_varint_four second = (trace_varint_four)((values >> 7) != 0);
	trace_varint_four third = (trace_varint_four)((values >> 14) != 0);
	trace_varint_four fourth = (trace_varint_four)((values >> 21) != 0);
	trace_varint_four is_there = (trace_varint_four)(values != 0) | keeps_zero;
	/* Spread groups of 7 bits to bytes: halves, then bytes. */
	trace_varint_four x = (values & 0x3fff) | (values << 2 & 0x3fff0000);

	x = (x & 0x007f007f) | (x << 1 & 0x7f007f00);
	*ret_n_bytes = (1 - second - third - fourth) & is_there;
	return x | (second & 0x80) | (third & 0x8000) | (fourth & 0x800000);
}

/* Write value at out, which has room for 10 bytes. Returns the byte behind the varint. */
static inline uint8_t *trace_varint_put(uint8_t *out, uint64_t value)
{
	return trace_varint_put_if(out, value, 1);
}

/* Any varint, one byte at a time. Returns the byte behind it, or NULL if it has no good end. */
static inline const uint8_t *trace_varint_get_slow(const uint8_t *in, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < TRACE_VARINT_MAX_BYTES; i++) {
		value |= (uint64_t)(in[i] & 0x7f) << (7 * i);
		if (in[i] < 0x80) {
			if (i == TRACE_VARINT_MAX_BYTES - 1 && in[i] > 1)
				return NULL; /* more than 64 bits */
			*ret_value = value;
			return in + i + 1;
		}
	}
	return NULL;
}

/*
 * Read a varint at in; 10 bytes from there must be readable, the caller checks the result against
 * the end of its column. Returns the byte behind it, or NULL if it has no good end.
 */
static inline const uint8_t *trace_varint_get(const uint8_t *in, uint64_t *ret_value)
{
	uint64_t x;

	memcpy(&x, in, sizeof(x));
	uint64_t stop = ~x & 0x8080808080808080;
	if (__builtin_expect(stop == 0, 0))
		return trace_varint_get_slow(in, ret_value);

	x &= stop ^ (stop - 1); /* up to and with the first byte that has no continuation bit */
	x &= 0x7f7f7f7f7f7f7f7f;
	x = (x & 0x007f007f007f007f) | (x & 0x7f007f007f007f00) >> 1;
	x = (x & 0x00003fff00003fff) | (x & 0x3fff00003fff0000) >> 2;
	x = (x & 0x000000000fffffff) | (x & 0x0fffffff00000000) >> 4;
	*ret_value = x;
	return in + ((unsigned)__builtin_ctzll(stop) >> 3) + 1;
}
