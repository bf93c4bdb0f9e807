#include "report/chart/palette.h"

#include <stddef.h>

static const uint32_t viridis[] = {
#define PALETTE_VIRIDIS(colour) colour,
#include "schemas/palette.def"
#undef PALETTE_VIRIDIS
};
#define N_STEPS (sizeof(viridis) / sizeof(viridis[0]) - 1)

/* Its lightest tenth is too near to paper. */
#define LIGHTEST 0.9

uint32_t palette_level(unsigned level)
{
	double at = LIGHTEST * (1 - (double)level / (PALETTE_LEVELS - 1)) * N_STEPS;
	size_t i = (size_t)at;
	double part = at - (double)i;
	uint32_t colour = 0;

	for (int shift = 16; shift >= 0; shift -= 8) {
		double value = (viridis[i] >> shift & 0xff) * (1 - part) +
			       (viridis[i + 1] >> shift & 0xff) * part;
		colour = colour << 8 | (uint32_t)(value + 0.5);
	}
	return colour;
}

unsigned palette_terminal(unsigned level)
{
	static const unsigned char colours[TERMINAL_LEVELS] = {
#define PALETTE_TERMINAL(colour) colour,
#include "schemas/palette.def"
#undef PALETTE_TERMINAL
	};

	return colours[level];
}

uint32_t palette_occupied(unsigned part)
{
	/*
	 * In 8 steps, so that a file has few colours; the darkest is lighter than the lightest
	 * level.
	 */
	unsigned step = (part + 31) / 32;
	uint32_t grey = step ? 0xf4 - 4 * step : 0xff;

	return grey << 16 | grey << 8 | grey;
}
