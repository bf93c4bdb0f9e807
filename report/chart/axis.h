#pragma once
/* Axes: where the round values lie between two ends, and how they are written. */
#include <stddef.h>

enum axis_unit {
	AXIS_TIME, /* ns; written in s, ms, us or ns, all of an axis in the same */
	AXIS_BYTES, /* steps are powers of two */
	AXIS_COUNT,
	AXIS_RATIO, /* with decimals, without a unit */
};

#define AXIS_MAX_TICKS 32

struct axis_tick {
	double value;
	char text[24]; /* the number; "" for none */
};

struct axis {
	double low;
	double high;
	const char *unit; /* of the texts: "ms", "MiB", "" */
	size_t n_ticks;
	struct axis_tick ticks[AXIS_MAX_TICKS];
};

/* Round values from low to high, at most `most` of them (at least 2, at most AXIS_MAX_TICKS). */
void axis_make(enum axis_unit unit, double ends[2], unsigned most, struct axis *ret_axis);
