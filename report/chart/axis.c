#include "report/chart/axis.h"

#include <math.h>
#include <stdio.h>

struct scale {
	double size;
	const char *name;
};

static const struct scale times[] = {
	{ 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" }, { 1, "ns" }, { 0, NULL }
};
static const struct scale bytes[] = { { 0x1p60, "EiB" }, { 0x1p50, "PiB" }, { 0x1p40, "TiB" },
				      { 0x1p30, "GiB" }, { 0x1p20, "MiB" }, { 0x1p10, "KiB" },
				      { 1, "B" },	 { 0, NULL } };
static const struct scale counts[] = { { 1e12, "10¹²" }, { 1e9, "10⁹" }, { 1e6, "10⁶" },
				       { 1e4, "10³" },	 { 1, "" },	 { 0, NULL } };
static const struct scale ratios[] = { { 1e-300, "" }, { 0, NULL } };

static const struct scale *const scales[] = {
	[AXIS_TIME] = times,
	[AXIS_BYTES] = bytes,
	[AXIS_COUNT] = counts,
	[AXIS_RATIO] = ratios,
};

/* The biggest unit of which the axis has at least one. */
static struct scale scale_of(enum axis_unit unit, double most)
{
	const struct scale *scale = scales[unit];

	while (scale[1].name && most < scale->size)
		scale++;
	if (unit == AXIS_COUNT && scale->size == 1e4)
		return (struct scale){ 1e3, scale->name };
	return unit == AXIS_RATIO ? (struct scale){ 1, "" } : *scale;
}

/* 1, 2 or 5 times a power of ten; a power of two. */
static double step_of(enum axis_unit unit, double span, unsigned most)
{
	double least = span / (most > 1 ? most - 1 : 1);

	if (unit == AXIS_BYTES)
		return exp2(ceil(log2(least) - 1e-9));
	double power = pow(10, floor(log10(least) + 1e-9));
	double lead = least / power;
	double step = power * (lead <= 1.0000001 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
	return unit == AXIS_RATIO ? step : fmax(step, 1);
}

/* As many decimals as tell one tick from the next. */
static int decimals_of(double step)
{
	int decimals = 0;

	for (; decimals < 9 && fabs(step - round(step)) > 1e-6 * step; decimals++)
		step *= 10;
	return decimals;
}

void axis_make(enum axis_unit unit, double ends[2], unsigned most, struct axis *ret_axis)
{
	struct axis axis = { .low = ends[0], .high = ends[1] };
	double span = axis.high - axis.low;
	struct scale scale = scale_of(unit, fmax(fabs(axis.low), fabs(axis.high)));

	/* A part far from the start is told in the unit of its span, if the numbers stay short. */
	struct scale small = scale_of(unit, span);
	if (fabs(axis.high) / small.size < 1e6)
		scale = small;
	axis.unit = scale.name;
	if (most > AXIS_MAX_TICKS)
		most = AXIS_MAX_TICKS;
	double step = span > 0 ? step_of(unit, span, most) : 0;
	double first = step > 0 ? ceil(axis.low / step - 1e-9) : 0;
	for (size_t i = 0; step > 0 && i < most; i++) {
		double value = (first + (double)i) * step;
		struct axis_tick *tick = &axis.ticks[axis.n_ticks];
		if (value > axis.high + 1e-9 * span)
			break;
		/* Far from 0 a small step may not change a double. */
		if (axis.n_ticks && value <= tick[-1].value)
			continue;
		tick->value = value;
		snprintf(tick->text, sizeof(tick->text), "%.*f", decimals_of(step / scale.size),
			 value / scale.size);
		axis.n_ticks++;
	}
	*ret_axis = axis;
}
