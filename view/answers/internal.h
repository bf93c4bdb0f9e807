#pragma once
/* For the answers: what each file has, and small questions to the database. */
#include <sqlite3.h>

#include "view/answers/answers.h"

/* Each returns 0 or a negative errno; -EPROTO: sqlite3_errmsg() of question->db tells. */
int view_runs(struct view_question *question);
int view_run(struct view_question *question);
int view_bands(struct view_question *question);
int view_picture(struct view_question *question);
int view_timeline(struct view_question *question);
int view_flame(struct view_question *question);
int view_at(struct view_question *question);
int view_objects(struct view_question *question);
int view_object(struct view_question *question);
int view_series(struct view_question *question);
int view_diff(struct view_question *question);
int view_source(struct view_question *question);
int view_report(struct view_question *question);
int view_site_stack(struct view_question *question);

/* The same row as members of the open object; nulls without one. */
void view_object_members(struct view_question *question, sqlite3_stmt *stmt, bool has_row);

/* The function of a frame (of frame, frame_line), or FILE+0xOFFSET as reports have it. */
#define VIEW_FUNCTION                                                                              \
	"coalesce(frame_line.function, frame.function, nullif(replace(frame.path, rtrim("          \
	"frame.path, replace(frame.path, '/', '')), ''), '') || printf('+0x%x', frame.offset))"

/*
 * Write "stack": [{function, module, file, line, is_folded}], innermost first; empty for a stack
 * that is not known.
 */
int view_stack(struct view_question *question, int64_t stack_id);

/*
 * Where a span of time was asked for (from, to) that is not the whole run, answer from that part of
 * it: the aggregates of question->db are those of the part; wants: as selection.wants. Returns 0 or
 * a negative errno.
 */
int view_take_part(struct view_question *question, unsigned wants);

/* The span of time that was asked for; of the whole run: from 0 to INT64_MAX. */
struct view_span view_span_asked(struct view_question *question);

/*
 * Prepare SQL of ours, with :run and every :parameter of schemas/view.def bound that stands in it;
 * what was not given is NULL. Returns 0 or -EPROTO; the caller finalizes.
 */
int view_prepare(struct view_question *question, const char *sql, sqlite3_stmt **ret_stmt);

/* Bind another number of a statement by its name; ":its_NAME" is none of schemas/view.def's. */
static inline void view_bind(sqlite3_stmt *stmt, const char *name, int64_t value)
{
	sqlite3_bind_int64(stmt, sqlite3_bind_parameter_index(stmt, name), value);
}

/* Write all rows of such a statement as columns, under a name. */
int view_columns(struct view_question *question, const char *name, const char *sql);

/* Write its first two columns as an object {first: second}, under a name. */
int view_pairs(struct view_question *question, const char *name, const char *sql);

/*
 * Write the columns of its first row as members of the open object; nulls without a row. Returns 1
 * with a row.
 */
int view_members(struct view_question *question, const char *sql);

/* The first column of the first row; 0 without one. */
int64_t view_number(struct view_question *question, const char *sql);

/* A value that was given, or another. */
static inline int64_t view_value(const struct view_question *question,
				 enum view_parameter parameter, int64_t otherwise)
{
	return question->values->is_given[parameter] ? question->values->numbers[parameter]
						     : otherwise;
}
