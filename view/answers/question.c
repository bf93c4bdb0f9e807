/* Small questions to the database, and the part of a run that an answer is of. */
#include "view/answers/internal.h"

#include <errno.h>
#include <stdio.h>

#include "report/text/json.h"
#include "store/database.h"
#include "store/library-frames.h"
#include "store/statement.h"

/* ---- Parts of a run ---- */

struct view_span view_span_asked(struct view_question *question)
{
	struct view_span span = {
		.run_id = question->run,
		.from_ns = view_value(question, VIEW_FROM, 0),
		.to_ns = view_value(question, VIEW_TO, INT64_MAX),
	};

	if (span.to_ns > view_number(question, "SELECT duration_ns FROM run WHERE id = :run"))
		span.to_ns = INT64_MAX; /* all that the run has behind it */
	return span;
}

int view_take_part(struct view_question *question, unsigned wants)
{
	struct view_span span = view_span_asked(question);

	span.wants = wants;
	if (span.from_ns == 0 && span.to_ns == INT64_MAX)
		return 0;
	if (span.to_ns <= span.from_ns)
		return view_context_refuse(question->context, -EINVAL, "to lies before from");
	if (view_number(question, "SELECT detail = 'totals' FROM run WHERE id = :run"))
		return view_context_refuse(question->context, -ENODATA,
					   "of this run only the totals are in the database, not "
					   "its rows: a part of it cannot be counted");
	int r = view_part_take(question->context, &span);
	if (r == 0)
		question->db = db_handle(question->context->part->db);
	return r;
}

/* ---- Small questions ---- */

int view_prepare(struct view_question *question, const char *sql, sqlite3_stmt **ret_stmt)
{
	const struct view_values *values = question->values;
	sqlite3_stmt *stmt = NULL;
	char name[40];

	int result = sqlite3_prepare_v2(question->db, sql, -1, &stmt, NULL);
	if (result != SQLITE_OK) {
		statement_keep(question->db, result);
		return -EPROTO;
	}
	for (int i = 0; i < VIEW_PARAMETER_COUNT; i++) {
		snprintf(name, sizeof(name), ":%s", view_parameter_name((enum view_parameter)i));
		int at = sqlite3_bind_parameter_index(stmt, name);
		if (at == 0 || !values->is_given[i])
			continue;
		if (view_parameter_is_text((enum view_parameter)i))
			sqlite3_bind_text(stmt, at, values->texts[i], -1, SQLITE_STATIC);
		else
			sqlite3_bind_int64(stmt, at, values->numbers[i]);
	}
	int at = sqlite3_bind_parameter_index(stmt, ":run");
	if (at)
		sqlite3_bind_int64(stmt, at, question->run);
	*ret_stmt = stmt;
	return 0;
}

int view_columns(struct view_question *question, const char *name, const char *sql)
{
	auto_statement sqlite3_stmt *stmt = NULL;
	int r = view_prepare(question, sql, &stmt);

	if (name)
		json_name(&question->json, name);
	return r ?: columns_of(&question->json, stmt, NULL);
}

int view_pairs(struct view_question *question, const char *name, const char *sql)
{
	auto_statement sqlite3_stmt *stmt = NULL;
	int r = view_prepare(question, sql, &stmt);
	int code = SQLITE_DONE;

	json_set_open(&question->json, name, '{');
	while (r == 0 && (code = statement_advance(stmt)) == SQLITE_ROW) {
		json_name(&question->json, statement_string(stmt, 0));
		json_column(&question->json, stmt, 1);
	}
	json_close(&question->json, '}');
	return r == 0 && code != SQLITE_DONE ? -EPROTO : r;
}

int view_members(struct view_question *question, const char *sql)
{
	auto_statement sqlite3_stmt *stmt = NULL;
	int r = view_prepare(question, sql, &stmt);

	if (r < 0)
		return r;
	int code = statement_advance(stmt);
	for (int i = 0; i < sqlite3_column_count(stmt); i++) {
		json_name(&question->json, sqlite3_column_name(stmt, i));
		if (code == SQLITE_ROW)
			json_column(&question->json, stmt, i);
		else
			json_null(&question->json);
	}
	return code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : -EPROTO;
}

int64_t view_number(struct view_question *question, const char *sql)
{
	auto_statement sqlite3_stmt *stmt = NULL;
	int64_t number = 0;

	if (view_prepare(question, sql, &stmt) == 0 && statement_advance(stmt) == SQLITE_ROW)
		number = sqlite3_column_int64(stmt, 0);
	return number;
}

/* ---- Call stacks as lists of places ---- */

/*
 * Innermost first, with inlined functions; one that could not be followed ends in its reason.
 * Behind what is shown: what tells whether a call is folded.
 */
static const char stack_sql[] =
	"WITH RECURSIVE walk(n, id, parent_id, frame_id, stop) AS ("
	"  SELECT 1, id, parent_id, frame_id, stop FROM stack WHERE id = :its_stack"
	"  UNION ALL SELECT n + 1, stack.id, stack.parent_id, stack.frame_id, stack.stop"
	"  FROM walk JOIN stack ON stack.id = walk.parent_id WHERE n < 300),"
	" user(id) AS (SELECT user_id FROM stack WHERE id = :its_stack),"
	" place(n) AS (SELECT walk.n FROM walk JOIN user USING (id))"
	" SELECT coalesce('(' || walk.stop || ')', " VIEW_FUNCTION ") AS function,"
	" path AS module, file, line, coalesce(walk.n < (SELECT n FROM place), 0),"
	" (SELECT n FROM place) IS NULL OR walk.stop IS NOT NULL, coalesce(depth, 0),"
	" coalesce(user_depth, -1) FROM walk LEFT JOIN frame ON frame.id = walk.frame_id"
	" LEFT JOIN frame_line ON frame_line.frame_id = frame.id ORDER BY n, depth";

#define STACK_SHOWN 4 /* columns */

static bool is_folded(sqlite3_stmt *row)
{
	if (sqlite3_column_int(row, 4) || sqlite3_column_int(row, 5))
		return sqlite3_column_int(row, 4);
	return frame_is_library(sqlite3_column_int(row, 6), sqlite3_column_int(row, 7),
				statement_string_or_null(row, 0), statement_string_or_null(row, 2),
				statement_string_or_null(row, 1));
}

int view_stack(struct view_question *question, int64_t stack_id)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = view_prepare(question, stack_sql, &row);

	json_set_open(&question->json, "stack", '[');
	if (r == 0)
		view_bind(row, ":its_stack", stack_id);
	while (r == 0 && (r = statement_step(row)) == 1) {
		json_open(&question->json, '{');
		for (int i = 0; i < STACK_SHOWN; i++) {
			json_name(&question->json, sqlite3_column_name(row, i));
			json_column(&question->json, row, i);
		}
		json_set_integer(&question->json, "is_folded", is_folded(row));
		json_close(&question->json, '}');
		r = 0;
	}
	json_close(&question->json, ']');
	return r < 0 ? -EPROTO : 0;
}

int view_site_stack(struct view_question *question)
{
	json_open(&question->json, '{');
	int r = view_stack(question, view_value(question, VIEW_SITE, 0));
	json_close(&question->json, '}');
	return r;
}
