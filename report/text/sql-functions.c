#include "report/text/sql-functions.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/human-number.h"
#include "common/text-stream.h"
#include "common/text.h"
#include "perf/data-source.h"
#include "store/block-weight.h"
#include "store/statement.h"

/* See format_half_width(); NULL without samples. */
static void half_width(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	int64_t n = sqlite3_value_int64(args[2]);

	(void)n_args;
	if (n <= 0)
		return;
	sqlite3_result_double(context, format_half_width(sqlite3_value_double(args[0]),
							 sqlite3_value_double(args[1]), n));
}

/*
 * A number with the digits that its half interval allows: two of that one's. 1628.66 +-1193.98 is
 * 1600 +-1200. NULL without numbers.
 */
static void of_interval(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	double value = sqlite3_value_double(args[0]);
	double half = fabs(sqlite3_value_double(args[1]));
	int digits = half > 0 && half < 1e15 ? 1 - (int)floor(log10(half)) : 0;
	double scale = pow(10, abs(digits));

	(void)n_args;
	if (sqlite3_value_type(args[0]) == SQLITE_NULL ||
	    sqlite3_value_type(args[1]) == SQLITE_NULL)
		return;
	if (half > 0 && digits > 0)
		sqlite3_result_double(context, round(value * scale) / scale);
	else if (half > 0 && fabs(value) < 1e15)
		sqlite3_result_int64(context, (int64_t)(round(value / scale) * scale));
	else
		sqlite3_result_double(context, value);
}

static void give_text(sqlite3_context *context, const char *text)
{
	sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void bytes_text(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	(void)n_args;
	give_text(context, format_bytes(sqlite3_value_int64(args[0])).text);
}

/* An end of the 95 % interval of an estimate from picked blocks, of its variance and the least. */
static void give_estimate(sqlite3_context *context, sqlite3_value **args, bool is_high)
{
	double ends[2];

	if (sqlite3_value_type(args[0]) == SQLITE_NULL)
		return;
	block_weight_interval(sqlite3_value_double(args[0]), sqlite3_value_double(args[1]),
			      sqlite3_value_double(args[2]), &ends[0], &ends[1]);
	sqlite3_result_int64(context, llround(ends[is_high]));
}

static void estimate_low(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	(void)n_args;
	give_estimate(context, args, false);
}

static void estimate_high(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	(void)n_args;
	give_estimate(context, args, true);
}

static void estimate_least(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	(void)n_args;
	sqlite3_result_double(context, block_weight_least(sqlite3_value_double(args[0]),
							  sqlite3_value_double(args[1]),
							  sqlite3_value_double(args[2])));
}

static void duration_text(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	(void)n_args;
	give_text(context, format_duration(sqlite3_value_int64(args[0])).text);
}

/* A share from .. to, of 1: "36-48 %", "≥36 %" up to 1, one number where both round to it. */
static void percent_text(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	long low = lround(100 * sqlite3_value_double(args[0]));
	long high = lround(100 * sqlite3_value_double(args[1]));
	char text[64];

	(void)n_args;
	if (low == high)
		snprintf(text, sizeof(text), "%ld %%", low);
	else if (high >= 100)
		snprintf(text, sizeof(text), "\u2265%ld %%", low);
	else
		snprintf(text, sizeof(text), "%ld-%ld %%", low, high);
	give_text(context, text);
}

/* Where the data of an access was, by perf's word. */
static void data_source_text(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	struct data_source source;
	char text[96];

	(void)n_args;
	data_source_decode((uint64_t)sqlite3_value_int64(args[0]), &source);
	snprintf(text, sizeof(text), "%s%s", source.level[0] ? source.level : "level not known",
		 strcmp(source.hit, "miss") == 0 ? " miss" : "");
	give_text(context, text);
}

static const struct {
	const char *name;
	int n_args;
	void (*call)(sqlite3_context *, int, sqlite3_value **);
} functions[] = {
	{ "half_width", 3, half_width },	 { "of_interval", 2, of_interval },
	{ "bytes_text", 1, bytes_text },	 { "duration_text", 1, duration_text },
	{ "percent_text", 2, percent_text },	 { "data_source_text", 1, data_source_text },
	{ "estimate_low", 3, estimate_low },	 { "estimate_high", 3, estimate_high },
	{ "estimate_least", 3, estimate_least },
};

int report_functions_add(sqlite3 *db)
{
	int code = SQLITE_OK;

	for (size_t i = 0; code == SQLITE_OK && i < sizeof(functions) / sizeof(functions[0]); i++)
		code = sqlite3_create_function(db, functions[i].name, functions[i].n_args,
					       SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
					       functions[i].call, NULL, NULL);
	return code;
}
