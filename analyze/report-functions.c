#include "analyze/report-functions.h"

#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "analyze/format.h"

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

static void give_text(sqlite3_context *context, const char *text)
{
	sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void bytes_text(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	(void)n_args;
	give_text(context, format_bytes(sqlite3_value_int64(args[0])).text);
}

static void duration_text(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	(void)n_args;
	give_text(context, format_duration(sqlite3_value_int64(args[0])).text);
}

/* A bar: what is not nothing shows at least a dot. */
static void bar_text(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	char bar[101] = ".";
	double share = sqlite3_value_double(args[0]);
	double columns = share * sqlite3_value_int(args[1]) + 0.5;
	size_t n = columns > 100 ? 100 : columns > 0 ? (size_t)columns : 0;

	(void)n_args;
	if (n > 0)
		memset(bar, '#', n);
	bar[n ? n : share > 0] = '\0';
	give_text(context, bar);
}

/* linux/perf_event.h: PERF_MEM_LVLNUM_*, and PERF_MEM_LVL_* of processors that tell those only. */
static const struct {
	unsigned number;
	const char *name;
} level_numbers[] = { { 1, "L1" },     { 2, "L2" },    { 3, "L3" },	   { 4, "L4" },
		      { 0x9, "CXL" },  { 0xa, "I/O" }, { 0xb, "a cache" }, { 0xc, "fill buffer" },
		      { 0xd, "DRAM" }, { 0xe, "PMEM" } };

static const struct {
	unsigned bits;
	const char *name;
} level_bits[] = { { 0x08, "L1" },
		   { 0x10, "fill buffer" },
		   { 0x20, "L2" },
		   { 0x40, "L3" },
		   { 0x80, "DRAM" },
		   { 0x300, "DRAM of another node" },
		   { 0xc00, "cache of another node" },
		   { 0x1000, "I/O" },
		   { 0x2000, "uncached memory" } };

static const char *level_of(union perf_mem_data_src source)
{
	for (size_t i = 0; i < sizeof(level_numbers) / sizeof(level_numbers[0]); i++)
		if (level_numbers[i].number == source.mem_lvl_num)
			return level_numbers[i].name;
	for (size_t i = 0; i < sizeof(level_bits) / sizeof(level_bits[0]); i++)
		if (level_bits[i].bits & source.mem_lvl)
			return level_bits[i].name;
	return "not known where";
}

static void data_source_text(sqlite3_context *context, int n_args, sqlite3_value **args)
{
	union perf_mem_data_src source = { .val = (uint64_t)sqlite3_value_int64(args[0]) };
	const char *level = level_of(source);
	char text[96];

	(void)n_args;
	snprintf(text, sizeof(text), "%s%s", level,
		 source.mem_remote && !strstr(level, "another") ? " of another node" : "");
	give_text(context, text);
}

static const struct {
	const char *name;
	int n_args;
	void (*call)(sqlite3_context *, int, sqlite3_value **);
} functions[] = {
	{ "half_width", 3, half_width },
	{ "bytes_text", 1, bytes_text },
	{ "duration_text", 1, duration_text },
	{ "bar_text", 2, bar_text },
	{ "data_source_text", 1, data_source_text },
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
