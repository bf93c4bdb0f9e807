/* The tables frame, frame_line and stack; the only place where frames are given names. */
#include <errno.h>
#include <stdlib.h>

#include "analyze/process/stacks-internal.h"
#include "analyze/symbols/symbols.h"
#include "common/array.h"
#include "store/statement.h"

static const char add_line_sql[] =
	"INSERT INTO frame_line(frame_id, depth, function, file, line) VALUES(?, ?, ?, ?, ?)";

static int write_lines(sqlite3_stmt *statement, int64_t row, const struct symbol_line *lines,
		       size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		statement_integer(statement, 1, row);
		statement_integer(statement, 2, (int64_t)i);
		statement_text(statement, 3, lines[i].function);
		statement_text(statement, 4, lines[i].file);
		statement_integer_or_null(statement, 5, lines[i].line, lines[i].line > 0);
		r = statement_run(statement);
	}
	return r;
}

static int write_frame(const struct stack_frame *frame, int64_t row, sqlite3_stmt *frames,
		       sqlite3_stmt *frame_lines)
{
	struct symbol_line lines[SYMBOLS_MAX_DEPTH];
	size_t n = symbols_lines(frame->object, frame->offset, lines, SYMBOLS_MAX_DEPTH);
	const char *function =
		n ? lines[0].function : symbols_function(frame->object, frame->offset);

	symbols_debug(frame->object); /* for module.debug_info */
	statement_integer(frames, 1, row);
	statement_text(frames, 2, frame->object->name);
	statement_text(frames, 3, frame->object->path);
	statement_integer(frames, 4, (int64_t)frame->offset);
	statement_text(frames, 5, function);

	int r = statement_run(frames);
	return r < 0 ? r : write_lines(frame_lines, row, lines, n);
}

struct order {
	uint32_t object;
	uint32_t frame;
};

static int compare_order(const void *a, const void *b)
{
	const struct order *left = a;
	const struct order *right = b;

	if (left->object != right->object)
		return left->object < right->object ? -1 : 1;
	return left->frame < right->frame ? -1 : left->frame > right->frame;
}

/* Object by object: so that only one file's debug information is in memory at a time. */
static struct order *order_frames(const struct stacks *stacks)
{
	struct order *order = calloc(stacks->n_frames + 1, sizeof(*order));

	if (!order)
		return NULL;
	for (size_t i = 0; i < stacks->n_frames; i++)
		order[i] = (struct order){ stacks->frames[i].object->number, (uint32_t)i };
	qsort(order, stacks->n_frames, sizeof(*order), compare_order);
	return order;
}

static int write_frames(struct stacks *stacks, sqlite3 *db)
{
	auto_statement sqlite3_stmt *frames = NULL;
	auto_statement sqlite3_stmt *lines = NULL;
	struct order *order = order_frames(stacks);
	int r = order ? 0 : -ENOMEM;

	if (r == 0)
		r = statement_prepare(
			db,
			"INSERT INTO frame(id, object, path, offset, function) VALUES(?, ?, ?, ?,"
			" ?)",
			&frames);
	if (r == 0)
		r = statement_prepare(db, add_line_sql, &lines);
	for (size_t i = 0; r == 0 && i < stacks->n_frames; i++) {
		const struct stack_frame *frame = &stacks->frames[order[i].frame];

		if (i > 0 && order[i].object != order[i - 1].object)
			object_forget(stacks->frames[order[i - 1].frame].object);
		r = write_frame(frame, stacks->first_frame + order[i].frame, frames, lines);
	}
	free(order);
	return r;
}

/* A row that the database had. */
struct old_frame {
	int64_t row;
	struct stack_frame frame;
};

struct old_frames {
	struct old_frame *items; /* owned; object by object */
	size_t n;
	size_t n_allocated;
};

static int read_old(const struct stacks *stacks, sqlite3 *db, struct old_frames *old)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(
		db, "SELECT id, object, path, offset FROM frame WHERE id < ? ORDER BY object",
		&statement);

	if (r == 0)
		statement_integer(statement, 1, stacks->first_frame);
	while (r == 0 && (r = statement_step(statement)) > 0) {
		const struct old_frame frame = {
			.row = sqlite3_column_int64(statement, 0),
			.frame = {
				objects_get_named(stacks->objects,
						  statement_string(statement, 1),
						  statement_string(statement, 2)),
				(uint64_t)sqlite3_column_int64(statement, 3),
			},
		};

		r = frame.frame.object ? grow_array(&old->items, old->n, &old->n_allocated,
						    sizeof(*old->items))
				       : -ENOMEM;
		if (r == 0)
			old->items[old->n++] = frame;
	}
	return r;
}

static int run_with(sqlite3_stmt *statement, const char *text, int64_t row)
{
	statement_integer(statement, 1, row);
	if (text)
		statement_text(statement, 2, text);
	return statement_run(statement);
}

struct rename {
	sqlite3_stmt *name; /* frame.function, by id */
	sqlite3_stmt *forget; /* lines of a frame */
	sqlite3_stmt *lines;
};

/* What is found now takes the place of what was there; what is not found any more stays. */
static int rename_frame(const struct rename *statements, const struct old_frame *old)
{
	struct symbol_line lines[SYMBOLS_MAX_DEPTH];
	struct object *object = old->frame.object;
	size_t n = symbols_lines(object, old->frame.offset, lines, SYMBOLS_MAX_DEPTH);
	const char *function = n ? lines[0].function : symbols_function(object, old->frame.offset);
	int r = function ? run_with(statements->name, function, old->row) : 0;

	if (r < 0 || n == 0)
		return r;
	r = run_with(statements->forget, NULL, old->row);
	return r < 0 ? r : write_lines(statements->lines, old->row, lines, n);
}

static int rename_all(const struct old_frames *old, sqlite3 *db)
{
	auto_statement sqlite3_stmt *name = NULL;
	auto_statement sqlite3_stmt *forget = NULL;
	auto_statement sqlite3_stmt *lines = NULL;
	int r = statement_prepare(db, "UPDATE frame SET function = ?2 WHERE id = ?1", &name);

	if (r == 0)
		r = statement_prepare(db, "DELETE FROM frame_line WHERE frame_id = ?", &forget);
	if (r == 0)
		r = statement_prepare(db, add_line_sql, &lines);
	const struct rename statements = { name, forget, lines };
	for (size_t i = 0; r == 0 && i < old->n; i++) {
		if (i > 0 && old->items[i].frame.object != old->items[i - 1].frame.object)
			object_forget(old->items[i - 1].frame.object);
		r = rename_frame(&statements, &old->items[i]);
	}
	return r;
}

int stacks_rename(struct stacks *stacks, sqlite3 *db)
{
	struct old_frames old = { 0 };
	int r = read_old(stacks, db, &old);

	if (r == 0)
		r = rename_all(&old, db);
	free(old.items);
	return r;
}

static int write_stacks(const struct stacks *stacks, sqlite3 *db)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(
		db, "INSERT INTO stack(id, parent_id, frame_id, stop, depth) VALUES(?, ?, ?, ?, ?)",
		&statement);

	for (size_t i = 0; r == 0 && i < stacks->n_stacks; i++) {
		const struct stack_row *row = &stacks->stacks[i];

		statement_integer(statement, 1, stacks->first_stack + (int64_t)i);
		statement_integer_or_null(statement, 2, row->parent, row->parent);
		statement_integer_or_null(statement, 3, row->frame, row->frame);
		statement_text(statement, 4, row->frame ? NULL : stacks_stop_name(row->stop));
		statement_integer(statement, 5, row->depth);
		r = statement_run(statement);
	}
	return r;
}

int stacks_write(struct stacks *stacks, sqlite3 *db)
{
	int r = write_frames(stacks, db);

	return r < 0 ? r : write_stacks(stacks, db);
}
