#include "tests/unit/decode/random-code.h"

/* Opcodes of one byte, all with or without ModRM as the processor defines it. */
static const uint8_t one_byte[] = {
	0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x10, 0x11, 0x12,
	0x13, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x28, 0x29,
	0x2a, 0x2b, 0x2c, 0x2d, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x38, 0x39, 0x3a, 0x3b, 0x3c,
	0x3d, 0x50, 0x51, 0x54, 0x55, 0x58, 0x5a, 0x5c, 0x5d, 0x63, 0x68, 0x69, 0x6a, 0x6b, 0x70,
	0x72, 0x75, 0x76, 0x78, 0x7b, 0x7c, 0x7f, 0x80, 0x81, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88,
	0x89, 0x8a, 0x8b, 0x8d, 0x8f, 0x90, 0x91, 0x95, 0x98, 0x99, 0x9c, 0x9d, 0x9e, 0x9f, 0xa4,
	0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0xb0, 0xb4, 0xb8, 0xbd,
	0xc0, 0xc1, 0xc2, 0xc3, 0xc6, 0xc7, 0xc8, 0xc9, 0xd0, 0xd1, 0xd2, 0xd3, 0xd7, 0xe0, 0xe1,
	0xe2, 0xe3, 0xe8, 0xe9, 0xeb, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfc, 0xfd, 0xfe, 0xff,
};

static const uint8_t two_bytes[] = {
	0x10, 0x11, 0x1f, 0x28, 0x29, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49,
	0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f, 0x57, 0x6e, 0x7e, 0x6f, 0x7f, 0x82, 0x84, 0x8f, 0x90,
	0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f,
	0xa2, 0xa3, 0xa4, 0xa5, 0xab, 0xac, 0xad, 0xaf, 0xb0, 0xb1, 0xb3, 0xb6, 0xb7, 0xb8, 0xba,
	0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0, 0xc1, 0xc7, 0xc8, 0xcb, 0xcf, 0xd6, 0xd7, 0xe7, 0xef,
};

/* VEX-encoded ones of BMI1 and BMI2: map, pp, opcode. */
static const uint8_t vex[][3] = {
	{ 2, 0, 0xf2 }, { 2, 0, 0xf3 }, { 2, 0, 0xf5 }, { 2, 0, 0xf7 },
	{ 2, 1, 0xf7 }, { 2, 2, 0xf7 }, { 2, 3, 0xf7 }, { 2, 3, 0xf6 },
	{ 2, 2, 0xf5 }, { 2, 3, 0xf5 }, { 3, 3, 0xf0 },
};

static unsigned put_prefixes(struct random *random, uint8_t *code)
{
	static const uint8_t prefixes[] = { 0x66, 0x66, 0x66, 0xf2, 0xf3, 0xf3, 0xf0, 0x67 };
	unsigned n = 0;

	if (random_below(random, 4) == 0)
		code[n++] = prefixes[random_below(random, sizeof(prefixes))];
	if (random_below(random, 5) < 3)
		code[n++] = (uint8_t)(0x40 | random_below(random, 16));
	return n;
}

static unsigned put_opcode(struct random *random, uint8_t *code)
{
	unsigned kind = random_below(random, 16);

	if (kind == 0) {
		const uint8_t *row = vex[random_below(random, sizeof(vex) / sizeof(vex[0]))];

		code[0] = 0xc4;
		code[1] = (uint8_t)(random_below(random, 8) << 5 | row[0]);
		code[2] = (uint8_t)(random_below(random, 32) << 3 | row[1]);
		code[2] &= (uint8_t)~4u; /* VEX.L = 0 */
		code[3] = row[2];
		return 4;
	}
	if (kind < 7) {
		code[0] = 0x0f;
		code[1] = two_bytes[random_below(random, sizeof(two_bytes))];
		return 2;
	}
	code[0] = one_byte[random_below(random, sizeof(one_byte))];
	return 1;
}

/* Registers as often as memory; displacements short, so that addresses stay near the registers. */
static void put_operands(struct random *random, uint8_t *code)
{
	unsigned mod = random_below(random, 2) ? 3 : random_below(random, 3);
	unsigned n = 1;

	code[0] = (uint8_t)(mod << 6 | random_below(random, 64));
	if (mod != 3 && (code[0] & 7) == 4)
		n++;
	if (mod == 2) {
		code[n + 1] = code[n + 2] = code[n + 3] = 0;
		n += 4;
	}
}

void random_instruction(struct random *random, uint8_t code[RANDOM_CODE_BYTES])
{
	unsigned n;

	for (n = 0; n < RANDOM_CODE_BYTES; n++)
		code[n] = (uint8_t)(random_next(random) >> 56);
	if (random_below(random, 10) == 0)
		return;
	n = put_prefixes(random, code);
	n += put_opcode(random, code + n);
	put_operands(random, code + n);
}

static unsigned put_legacy(struct random *random, uint8_t *code)
{
	static const uint8_t prefixes[] = { 0x66, 0x66, 0xf2, 0xf3 };
	unsigned n = 0;

	if (random_below(random, 5))
		code[n++] = prefixes[random_below(random, sizeof(prefixes))];
	if (random_below(random, 3))
		code[n++] = (uint8_t)(0x40 | random_below(random, 16));
	code[n++] = 0x0f;
	if (random_below(random, 3) == 0)
		code[n++] = random_below(random, 2) ? 0x38 : 0x3a;
	code[n++] = (uint8_t)random_below(random, 256);
	return n;
}

/* The second source is none (1111) as often as it is one. */
static unsigned put_vex(struct random *random, uint8_t *code)
{
	unsigned second = random_below(random, 2) ? 15 : random_below(random, 16);

	code[0] = 0xc4;
	code[1] = (uint8_t)(random_below(random, 8) << 5 | (1 + random_below(random, 3)));
	code[2] = (uint8_t)(random_below(random, 2) << 7 | second << 3 | random_below(random, 8));
	code[3] = (uint8_t)random_below(random, 256);
	return 4;
}

void random_vector_instruction(struct random *random, uint8_t code[RANDOM_CODE_BYTES])
{
	unsigned n;

	for (n = 0; n < RANDOM_CODE_BYTES; n++)
		code[n] = (uint8_t)(random_next(random) >> 56);
	n = random_below(random, 2) ? put_legacy(random, code) : put_vex(random, code);
	put_operands(random, code + n);
	if (code[n] < 0xc0 && random_below(random, 4) == 0)
		code[n] = (uint8_t)((code[n] & ~7u) |
				    4); /* with an index: gathers have nothing else */
}

uint64_t random_reg(struct random *random, uint64_t start, unsigned n_bytes)
{
	static const uint64_t edges[] = {
		0,	    1,		0x7f,	    0x80,	0xff,	   0x7fff,
		0x8000,	    0x7fffffff, 0x80000000, UINT32_MAX, INT64_MAX, (uint64_t)INT64_MIN,
		UINT64_MAX,
	};

	switch (random_below(random, 8)) {
	case 0:
		return edges[random_below(random, sizeof(edges) / sizeof(edges[0]))];
	case 1:
	case 2:
		return random_below(random, 64);
	case 3:
		return random_next(random);
	default:
		return start + random_below(random, n_bytes);
	}
}
