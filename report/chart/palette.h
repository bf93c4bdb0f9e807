#pragma once
/* Colours of schemas/palette.def: 0xRRGGBB in print, TERMINAL_ one of a terminal's 256. */
#include <stdint.h>

enum palette_kind {
#define PALETTE_KIND(name, colour, terminal) PALETTE_##name = colour, TERMINAL_##name = terminal,
#include "schemas/palette.def"
#undef PALETTE_KIND
	PALETTE_BLACK = 0x000000,
	PALETTE_GREY = 0x707070,
	PALETTE_LIGHT = 0xd9d9d9,
	PALETTE_LIGHT_BLUE = 0xa9d3ee,
};

#define PALETTE_LEVELS	32u
#define TERMINAL_LEVELS 7u

/* 0xRRGGBB of an amount on paper, below PALETTE_LEVELS: 0 the lightest, so that more is darker. */
uint32_t palette_level(unsigned level);

/* Of a terminal's 256 colours, one of an amount below TERMINAL_LEVELS: 0 the darkest. */
unsigned palette_terminal(unsigned level);

/* Grey of what lies in blocks by 255ths; 0: white. */
uint32_t palette_occupied(unsigned part);
