#include "report/plot/palette.h"

#include <stddef.h>

/* Viridis at 0.9, 0.8 ... 0: its lightest tenth is too near to paper. */
static const unsigned char viridis[][3] = {
	{ 189, 223, 38 }, { 122, 209, 81 }, { 68, 191, 112 }, { 34, 168, 132 }, { 33, 145, 140 },
	{ 42, 120, 142 }, { 53, 95, 141 },  { 65, 68, 135 },  { 72, 36, 117 },	{ 68, 1, 84 },
};
#define N_STOPS (sizeof(viridis) / sizeof(viridis[0]))

uint32_t palette_level(unsigned level)
{
	double at = (double)level / (PALETTE_LEVELS - 1) * (N_STOPS - 1);
	size_t i = (size_t)at < N_STOPS - 1 ? (size_t)at : N_STOPS - 2;
	double part = at - (double)i;
	uint32_t colour = 0;

	for (int c = 0; c < 3; c++) {
		double value = viridis[i][c] * (1 - part) + viridis[i + 1][c] * part;
		colour = colour << 8 | (uint32_t)(value + 0.5);
	}
	return colour;
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
