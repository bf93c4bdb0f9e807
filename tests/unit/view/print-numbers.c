/*
 * Prints numbers as the terminal and print have them, for numbers.py: a line "KIND VALUE..." of
 * stdin becomes a line. A value of nan is one that is not known.
 */
#include <err.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/human-number.h"
#include "report/chart/axis.h"

static struct format_text number_of(const char *kind, const double *values)
{
	if (strcmp(kind, "count") == 0)
		return format_count((int64_t)values[0]);
	if (strcmp(kind, "bytes") == 0)
		return format_bytes((int64_t)values[0]);
	if (strcmp(kind, "duration") == 0)
		return format_duration((int64_t)values[0]);
	if (strcmp(kind, "interval") == 0)
		return format_interval((int64_t)values[0], (int64_t)values[1]);
	if (strcmp(kind, "percent") == 0)
		return format_percent(isnan(values[0]) ? -1 : values[0]);
	if (strcmp(kind, "share") == 0)
		return format_share(isnan(values[0]) ? -1 : values[0], values[1], values[2]);
	errx(2, "no such kind: %s", kind);
}

/* Moments of an axis of time, as whole ns. */
static void print_ticks(double values[3])
{
	struct axis axis;

	axis_make(AXIS_TIME, values, (unsigned)values[2] + 1, &axis);
	for (size_t i = 0; i < axis.n_ticks; i++)
		printf("%s%.0f", i ? " " : "", axis.ticks[i].value);
	putchar('\n');
}

int main(void)
{
	char kind[16];
	double values[3];

	while (scanf("%15s %lf %lf %lf", kind, &values[0], &values[1], &values[2]) == 4) {
		if (strcmp(kind, "ticks") == 0)
			print_ticks(values);
		else
			puts(number_of(kind, values).text);
	}
	return 0;
}
