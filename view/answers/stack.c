/* Call stacks as lists of places. */
#include "view/answers/internal.h"

#include <errno.h>

#include "store/statement.h"

/* Innermost first, with inlined functions; one that could not be followed ends in its reason. */
static const char stack_sql[] =
	"WITH RECURSIVE walk(n, id, parent_id, frame_id, stop) AS ("
	"  SELECT 1, id, parent_id, frame_id, stop FROM stack WHERE id = :its_stack"
	"  UNION ALL SELECT n + 1, stack.id, stack.parent_id, stack.frame_id, stack.stop"
	"  FROM walk JOIN stack ON stack.id = walk.parent_id WHERE n < 300)"
	" SELECT coalesce('(' || walk.stop || ')', " VIEW_FUNCTION ") AS function,"
	" path AS module, file, line FROM walk LEFT JOIN frame ON frame.id = walk.frame_id"
	" LEFT JOIN frame_line ON frame_line.frame_id = frame.id ORDER BY n, depth";

int view_stack(struct view_question *question, int64_t stack_id)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = view_prepare(question, stack_sql, &row);

	json_name(&question->json, "stack");
	json_open(&question->json, '[');
	if (r == 0)
		view_bind(row, ":its_stack", stack_id);
	while (r == 0 && (r = statement_step(row)) == 1) {
		json_open(&question->json, '{');
		for (int i = 0; i < sqlite3_column_count(row); i++) {
			json_name(&question->json, sqlite3_column_name(row, i));
			json_column(&question->json, row, i);
		}
		json_close(&question->json, '}');
		r = 0;
	}
	json_close(&question->json, ']');
	return r < 0 ? -EPROTO : 0;
}
