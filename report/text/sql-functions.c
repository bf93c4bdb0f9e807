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

#define DEFAULT_FRAMES 3
#define MAX_DEPTH      300 /* a damaged database must not make a loop */

/* A stack row's frame with its inlined functions, innermost first. */
static const char frames_sql[] =
	"SELECT stack.parent_id, stack.stop, frame.path, frame.offset,"
	"  coalesce(frame_line.function, frame.function), frame_line.file, frame_line.line,"
	"  frame_line.call"
	" FROM stack LEFT JOIN frame ON frame.id = stack.frame_id"
	" LEFT JOIN frame_line ON frame_line.frame_id = frame.id"
	" WHERE stack.id = ? ORDER BY frame_line.depth";

enum {
	COLUMN_PARENT,
	COLUMN_STOP,
	COLUMN_PATH,
	COLUMN_OFFSET,
	COLUMN_FUNCTION,
	COLUMN_FILE,
	COLUMN_LINE,
	COLUMN_CALL
};

struct walk {
	sqlite3_stmt *stmt;
	FILE *out;
	int n_shown;
	int max_shown;
	bool has_skipped; /* operator new: who called it is meant */
	bool is_cut;
	int code; /* of SQLite: what failed */
};

static const char *column_text(struct walk *walk, int column)
{
	const char *text = statement_string_or_null(walk->stmt, column);

	if (!text && sqlite3_errcode(sqlite3_db_handle(walk->stmt)) == SQLITE_NOMEM)
		walk->code = SQLITE_NOMEM;
	return text;
}

static bool is_operator_new(const char *function)
{
	static const char prefix[] = "operator new";

	return function && strncmp(function, prefix, sizeof(prefix) - 1) == 0;
}

static void write_place(struct walk *walk)
{
	const char *function = column_text(walk, COLUMN_FUNCTION);
	const char *file = column_text(walk, COLUMN_FILE);
	const char *path = column_text(walk, COLUMN_PATH);
	const char *call = column_text(walk, COLUMN_CALL);

	if (function)
		fputs(function, walk->out);
	if (file)
		fprintf(walk->out, " %s:%d%s%s", text_base_name(file),
			sqlite3_column_int(walk->stmt, COLUMN_LINE),
			call && *call != ':' ? " " : "", call ? call : "");
	else if (function && path) /* the offset tells two places in one function apart */
		fprintf(walk->out, " (%s+0x%llx)", text_base_name(path),
			sqlite3_column_int64(walk->stmt, COLUMN_OFFSET));
	else if (path)
		fprintf(walk->out, "%s+0x%llx", text_base_name(path),
			sqlite3_column_int64(walk->stmt, COLUMN_OFFSET));
}

static void write_frame(struct walk *walk)
{
	const char *stop = column_text(walk, COLUMN_STOP);

	if (walk->n_shown == 0 && is_operator_new(column_text(walk, COLUMN_FUNCTION))) {
		walk->has_skipped = true;
		return;
	}
	if (walk->n_shown == 0 && walk->has_skipped && stop) {
		fputs("operator new", walk->out);
		walk->n_shown++;
	}
	if (walk->n_shown == walk->max_shown) {
		walk->is_cut = true;
		return;
	}
	if (walk->n_shown++)
		fputs(" < ", walk->out);
	if (stop)
		fprintf(walk->out, "(%s)", stop);
	else
		write_place(walk);
}

/* Write one stack row; returns its parent, or 0 at the outer end. */
static int64_t write_row(struct walk *walk, int64_t stack_id)
{
	int64_t parent = 0;
	int code = SQLITE_DONE;

	sqlite3_reset(walk->stmt);
	sqlite3_bind_int64(walk->stmt, 1, stack_id);
	while (!walk->is_cut && (code = statement_advance(walk->stmt)) == SQLITE_ROW) {
		parent = sqlite3_column_int64(walk->stmt, COLUMN_PARENT);
		write_frame(walk);
	}
	if (code != SQLITE_ROW && code != SQLITE_DONE)
		walk->code = code;
	return walk->code == SQLITE_OK ? parent : 0;
}

static void write_stack(struct walk *walk, int64_t stack_id)
{
	for (int depth = 0; stack_id != 0 && !walk->is_cut && depth < MAX_DEPTH; depth++)
		stack_id = write_row(walk, stack_id);
	if (walk->is_cut)
		fputs(" < \u2026", walk->out);
}

char *stack_text_make(sqlite3 *db, int64_t stack_id, int n_frames, int *ret_code)
{
	struct walk walk = { .max_shown = n_frames };
	auto_free char *text = NULL;
	auto_statement sqlite3_stmt *stmt = NULL;
	size_t n_bytes = 0;

	if (stack_id == 0)
		text = strdup("(no stack recorded)");
	else
		walk.code = sqlite3_prepare_v2(db, frames_sql, -1, &stmt, NULL);
	walk.stmt = stmt;
	if (stmt)
		walk.out = text_stream_open(&text, &n_bytes);
	if (walk.out)
		write_stack(&walk, stack_id);
	if (walk.out && text_stream_close(walk.out, &text) < 0)
		walk.code = SQLITE_NOMEM;
	*ret_code = walk.code == SQLITE_OK && !text ? SQLITE_NOMEM : walk.code;
	return *ret_code == SQLITE_OK ? steal_ptr(&text) : NULL;
}

static void stack_text(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	int code = SQLITE_OK;
	auto_free char *text =
		stack_text_make(sqlite3_context_db_handle(context), sqlite3_value_int64(args[0]),
				n_args > 1 ? sqlite3_value_int(args[1]) : DEFAULT_FRAMES, &code);

	if (text)
		sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
	else
		sqlite3_result_error_code(context, code);
}

int stack_text_register(sqlite3 *db)
{
	int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
	int code =
		sqlite3_create_function(db, "stack_text", 1, flags, NULL, stack_text, NULL, NULL);

	if (code != SQLITE_OK)
		return code;
	return sqlite3_create_function(db, "stack_text", 2, flags, NULL, stack_text, NULL, NULL);
}

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
