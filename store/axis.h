#pragma once
/* Times and addresses as pictures have them: what is computed from them fits into 64 bits. */
#include <stdint.h>

/* The last byte of something, within what addresses there are; its page is not the very last. */
static inline uint64_t picture_last_byte(uint64_t address, uint64_t size)
{
	const uint64_t most = UINT64_MAX - 4096;
	uint64_t last = address + (size ? size - 1 : 0);

	return last < address || last > most ? most : last;
}

/* Times on the axis: 73 years to both sides. */
#define PICTURE_MOST_NS (INT64_C(1) << 61)
static inline int64_t picture_held_ns(int64_t time_ns)
{
	if (time_ns > PICTURE_MOST_NS)
		return PICTURE_MOST_NS;
	return time_ns < -PICTURE_MOST_NS ? -PICTURE_MOST_NS : time_ns;
}

/* How long a block lived, from its allocation to its end. */
static inline int64_t picture_life_ns(int64_t allocated_ns, int64_t freed_ns)
{
	int64_t from_ns = picture_held_ns(allocated_ns), to_ns = picture_held_ns(freed_ns);

	return to_ns > from_ns ? to_ns - from_ns : 0;
}
