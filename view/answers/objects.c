/* What was worked on: request "objects". */
#include "view/answers/internal.h"

#include <errno.h>
#include <string.h>

#include "report/text/json.h"
#include "store/statement.h"
#include "view/answers/object-sql.h"

#define DEFAULT_LIMIT 100

/* What rows may be sorted by. */
static const struct {
	const char *name;
	const char *order;
} sorts[] = {
	{ "bytes", "bytes" },
	{ "site", "site" },
	{ "owner", "kind" },
	{ "name", "coalesce(name, " OBJECT_FUNCTION ")" },
	{ "function", OBJECT_FUNCTION },
	{ "file", "coalesce(path, " OBJECT_PLACE("file") ")" },
	{ "line", OBJECT_PLACE("line") },
	{ "n_blocks", "n_blocks" },
	{ "live_bytes", "live_bytes" },
	{ "peak_bytes", "peak_bytes" },
	{ "n_temporary", "n_temporary" },
	{ "mean_life_ns", "mean_life_ns" },
	{ "n_samples", "n_samples" },
	{ "time_ns", "time_ns" },
	{ "time", "time_ns" },
	{ "share", "coalesce(share, (share_low + share_high) / 2)" },
	{ "share_low", "share_low" },
	{ "share_high", "share_high" },
	{ "n_faults", "n_faults" },
	{ "n_accesses", "n_accesses" },
	{ "latency", "latency" },
};

/*
 * The text is looked for in all functions and files of the call path, and in names of variables and
 * mappings.
 */
#define KEPT                                                                                       \
	"found_frame(id) AS (SELECT frame.id FROM frame LEFT JOIN frame_line ON frame_id ="        \
	"  frame.id WHERE :filter IS NOT NULL AND instr(lower(coalesce(frame_line.function,"       \
	"  frame.function, '') || ' ' || coalesce(file, path)), lower(:filter))),"                 \
	" found(id) AS (SELECT stack.id FROM stack JOIN found_frame ON frame_id = found_frame.id"  \
	"  UNION SELECT stack.id FROM found JOIN stack ON parent_id = found.id),"                  \
	" kept AS (SELECT * FROM item WHERE coalesce(:filter, '') = '' OR stack_id IN"             \
	"  (SELECT id FROM found) OR instr(lower(name), lower(:filter))"

static const char count_sql[] =
	"WITH RECURSIVE " OBJECT_ITEMS "," KEPT ") SELECT count(*) AS n_all FROM kept";

#define SPARK_NUMBERS 32u

/* site_curve.live_bytes as a list; NULL: null. */
static void write_spark(struct json *json, sqlite3_stmt *stmt, int column)
{
	const uint8_t *bytes = sqlite3_column_blob(stmt, column);
	size_t width = (size_t)sqlite3_column_bytes(stmt, column) / SPARK_NUMBERS;

	if (sqlite3_column_type(stmt, column) != SQLITE_BLOB) {
		json_null(json);
		return;
	}
	json_open(json, '[');
	for (size_t i = 0; i < SPARK_NUMBERS && width > 0; i++) {
		uint64_t value = 0;
		for (size_t k = 0; k < width && k < sizeof(value); k++)
			value |= (uint64_t)bytes[i * width + k] << (8 * k);
		json_integer(json, (int64_t)value);
	}
	json_close(json, ']');
}

/* Write the rows of a statement of object-sql.h as columns. */
static int view_object_rows(struct view_question *question, sqlite3_stmt *stmt)
{
	auto_columns struct columns columns = { 0 };
	int n = sqlite3_column_count(stmt);
	int code;

	columns.n_columns = (size_t)n;
	for (int i = 0; i < n; i++)
		columns.names[i] = sqlite3_column_name(stmt, i);
	while ((code = statement_advance(stmt)) == SQLITE_ROW) {
		for (int i = 0; i + 1 < n; i++)
			json_column(columns_at(&columns, (size_t)i), stmt, i);
		write_spark(columns_at(&columns, (size_t)n - 1), stmt, n - 1);
		columns_end_row(&columns);
	}
	columns_write(&columns, &question->json);
	return code == SQLITE_DONE ? 0 : -EPROTO;
}

void view_object_members(struct view_question *question, sqlite3_stmt *stmt, bool has_row)
{
	int n = sqlite3_column_count(stmt);

	for (int i = 0; i < n; i++) {
		json_name(&question->json, sqlite3_column_name(stmt, i));
		if (!has_row)
			json_null(&question->json);
		else if (i + 1 < n)
			json_column(&question->json, stmt, i);
		else
			write_spark(&question->json, stmt, i);
	}
}

static int find_sort(struct view_question *question, const char **ret_order)
{
	const char *name = question->values->texts[VIEW_SORT];

	for (size_t i = 0; i < sizeof(sorts) / sizeof(sorts[0]); i++) {
		if (name && strcmp(name, sorts[i].name) != 0)
			continue;
		*ret_order = sorts[i].order;
		return 0;
	}
	return view_context_refuse(question->context, -EINVAL, "objects cannot be sorted by that");
}

/* The order is one of ours; what was asked for is only ever bound. */
static int prepare_rows(struct view_question *question, const char *order, sqlite3_stmt **ret_stmt)
{
	static const char format[] =
		"WITH RECURSIVE " OBJECT_ITEMS "," KEPT " ORDER BY %s %s NULLS LAST, kind, id"
		" LIMIT coalesce(:limit, %d) OFFSET coalesce(:offset, 0)) " OBJECT_ROWS;
	bool is_descending = view_value(question, VIEW_DESCENDING, 1);
	char *sql = sqlite3_mprintf(format, order, is_descending ? "DESC" : "ASC", DEFAULT_LIMIT);
	int r = sql ? view_prepare(question, sql, ret_stmt) : -ENOMEM;

	sqlite3_free(sql);
	return r;
}

int view_objects(struct view_question *question)
{
	const char *order = NULL;
	auto_statement sqlite3_stmt *stmt = NULL;
	int r = find_sort(question, &order);

	r = r ?: view_take_part(question, 0);
	r = r ?: prepare_rows(question, order, &stmt);
	json_open(&question->json, '{');
	r = r ?: view_members(question, count_sql);
	json_name(&question->json, "rows");
	if (r >= 0)
		r = view_object_rows(question, stmt);
	json_close(&question->json, '}');
	return r;
}
