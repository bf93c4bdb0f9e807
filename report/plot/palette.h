#pragma once
/*
 * Colours that everybody tells apart, also on a grey printer. Numbers: viridis (van der Walt and
 * Smith, 2015), light to dark, so that more is darker on paper. Kinds: Okabe and Ito (2008).
 */
#include <stdint.h>

#define PALETTE_LEVELS 32u

/* 0xRRGGBB of a level below PALETTE_LEVELS: 0 the lightest. */
uint32_t palette_level(unsigned level);

/* Grey of what lies in blocks by 255ths; 0: white. */
uint32_t palette_occupied(unsigned part);

#define PALETTE_BLACK  0x000000u
#define PALETTE_GREY   0x707070u
#define PALETTE_LIGHT  0xd9d9d9u
#define PALETTE_BLUE   0x0072b2u
#define PALETTE_ORANGE 0xd55e00u
#define PALETTE_SKY    0xa9d3eeu
#define PALETTE_GREEN  0x009e73u
#define PALETTE_PURPLE 0xcc79a7u
