#include "view/answers/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "report/text/json.h"
#include "store/compact/compact.h"
#include "store/database.h"
#include "store/heatmap/lookup.h"
#include "store/statement.h"
#include "view/answers/object-sql.h"
#include "view/answers/object-totals.h"
#include "view/context.h"

#define OBJECT_LIST_MAX                                                                            \
	200000 /* blocks, or samples: of more the rows themselves are read as fast */

/*
 * The blocks of a call site and the samples that touched them, found in stored pictures, whose
 * columns are read a hundred times faster than rows: for sites of few blocks among many, since rows
 * have no index by site.
 */

#define BIT(column) (1u << (column))

struct list {
	struct picture_store *store;
	sqlite3_stmt *add[2]; /* a sample, a block */
	int64_t site;
	int64_t n[2];
	uint64_t from, to; /* picture_time() */
};

static void cleanup(struct list *list)
{
	sqlite3_finalize(list->add[0]);
	sqlite3_finalize(list->add[1]);
}
#define auto_list __attribute__((cleanup(cleanup)))

/* What tells items of the site, and what is listed of them. */
static const struct {
	unsigned site, id;
} item_columns[2] = {
	{ PICTURE_TOUCH_SITE, PICTURE_TOUCH_SAMPLE },
	{ PICTURE_BLOCK_SITE, PICTURE_BLOCK_ID },
};

static int add_piece(struct list *list, bool is_blocks)
{
	const struct picture_columns *columns = &list->store->columns;
	const int64_t *sites = columns->values[item_columns[is_blocks].site];
	const int64_t *ids = columns->values[item_columns[is_blocks].id];

	for (uint32_t i = 0; i < columns->n; i++) {
		if (sites[i] != list->site)
			continue;
		if (++list->n[is_blocks] > OBJECT_LIST_MAX)
			return 0;
		statement_integer(list->add[is_blocks], 1, ids[i]);
		int r = statement_run(list->add[is_blocks]);
		if (r < 0)
			return r;
	}
	return 1;
}

/* A block may live on behind the part's end, as nobody freed it. */
static bool may_meet(const struct list *list, const struct picture_part *part)
{
	return part->from < list->to && (part->is_blocks || part->to > list->from);
}

static int add_part(struct list *list, const struct picture_part *part)
{
	struct picture_look look = {
		.stride = 1,
		.wanted = BIT(item_columns[part->is_blocks].site) |
			  BIT(item_columns[part->is_blocks].id),
	};
	int r;

	while ((r = picture_store_next(list->store, part, &look)) > 0) {
		r = add_piece(list, part->is_blocks);
		if (r <= 0)
			return r;
	}
	return r < 0 ? r : 1;
}

static int add_parts(struct list *list, int64_t run_id)
{
	int r = 1;

	for (size_t i = 0; i < list->store->n_processes && r > 0; i++) {
		const struct picture_process *process = &list->store->processes[i];
		for (size_t j = 0; j < process->n_parts && process->run_id == run_id && r > 0;
		     j++) {
			if (may_meet(list, &process->parts[j]))
				r = add_part(list, &process->parts[j]);
		}
	}
	return r;
}

/* The database's, or those that were made for it. */
static bool do_pictures_tell(struct view_question *question)
{
	return question->context->pictures_db ||
	       view_number(question,
			   "SELECT EXISTS (SELECT 1 FROM picture_part WHERE run_id = :run)");
}

static bool are_too_many(struct view_question *question, int64_t site)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = view_prepare(
		question,
		"SELECT n_blocks FROM main.site WHERE run_id = :run AND stack_id = :its_site",
		&row);

	if (r == 0) {
		view_bind(row, ":its_site", site);
		r = statement_step(row) > 0 && sqlite3_column_int64(row, 0) > OBJECT_LIST_MAX;
	}
	return r > 0;
}

static int prepare_list(struct view_question *question, struct list *list)
{
	/*
	 * Emptied, not dropped: SQLite refuses that while whoever asks for many sites reads them.
	 */
	static const char tables[] =
		"CREATE TEMP TABLE IF NOT EXISTS its_block(id INTEGER PRIMARY KEY);"
		"CREATE TEMP TABLE IF NOT EXISTS its_sample(id INTEGER PRIMARY KEY);"
		"DELETE FROM temp.its_block; DELETE FROM temp.its_sample";
	int r = view_context_pictures(question->context, &list->store);

	int result = r == 0 ? sqlite3_exec(question->db, tables, NULL, NULL, NULL) : SQLITE_OK;
	if (result != SQLITE_OK) {
		statement_keep(question->db, result);
		r = -EPROTO;
	}
	if (r == 0)
		r = statement_prepare(question->db,
				      "INSERT OR IGNORE INTO temp.its_sample VALUES (?)",
				      &list->add[0]);
	if (r == 0)
		r = statement_prepare(question->db,
				      "INSERT OR IGNORE INTO temp.its_block VALUES (?)",
				      &list->add[1]);
	return r == 0 || r == -ENOMEM || r == -ENODATA ? r : -EPROTO;
}

/*
 * Put them into the temporary tables its_block(id) and its_sample(id) of question->db; with a span
 * of time at least those that may lie in it. Returns 1; 0: there are too many, or no pictures that
 * tell; or a negative errno.
 */
static int object_list_make(struct view_question *question, int64_t site)
{
	auto_list struct list list = {
		.site = site,
		.from = picture_time(view_value(question, VIEW_FROM, INT64_MIN)),
		.to = picture_time(view_value(question, VIEW_TO, INT64_MAX)),
	};

	if (site == 0 || !do_pictures_tell(question) || are_too_many(question, site))
		return 0;
	int r = prepare_list(question, &list);
	return r == -ENODATA ? 0 : r < 0 ? r : add_parts(&list, question->run);
}

/* ---- One call site or one block: request "object" ---- */

#define MAX_INSTRUCTIONS 40u

#define auto_tally __attribute__((cleanup(free_tally)))

/* What is told of: a block, or the blocks of a site that lived in the span. */
#define MEANT                                                                                      \
	" allocation.run_id = :run AND (:block IS NULL OR allocation.id = :block) AND"             \
	" (:block IS NOT NULL OR coalesce(allocation.stack_id, 0) = :its_site) AND"                \
	" allocated_ns < coalesce(:to, 9223372036854775807) AND"                                   \
	" coalesce(freed_ns, 9223372036854775807) >= coalesce(:from, 0)"

static const char block_sql[] = "SELECT * FROM allocation WHERE run_id = :run AND id = :block";

/* Those of the heat map's axes. */
#define BOUNDS(blocks)                                                                             \
	"SELECT max(size), min(allocated_ns), max(coalesce(freed_ns, (SELECT duration_ns FROM run" \
	" WHERE id = :run))) FROM " blocks " WHERE" MEANT

#define BLOCKS(blocks)                                                                             \
	"SELECT allocation.id, address, size, allocated_ns,"                                       \
	" coalesce(freed_ns, 9223372036854775807) FROM " blocks " WHERE" MEANT

#define TOUCHES(touches)                                                                           \
	"SELECT allocation.id, sample.time_ns, coalesce(touch.address - allocation.address, -1),"  \
	" coalesce(sample.thread_id, 0), coalesce(touch.frame_id, 0), data_source.level,"          \
	" CASE WHEN role = 1 AND source.measures = 'time' THEN share * weight ELSE 0"              \
	" END, coalesce(CASE WHEN role = 0 THEN latency END, -1), role, coalesce(is_write, -1),"   \
	" CASE WHEN source.measures <> 'time' THEN 1 WHEN role = 1 THEN share"                     \
	" ELSE 0 END"                                                                              \
	" FROM " touches                                                                           \
	" CROSS JOIN sample ON sample.id = touch.sample_id JOIN source ON source.id = source_id"   \
	" LEFT JOIN data_source ON data_source.data_src = touch.data_src"                          \
	" LEFT JOIN access_detail ON access_detail.sample_id = touch.sample_id"                    \
	" WHERE role IN (0, 1, 2, 3) AND +touch.owner_kind = 1 AND sample.time_ns >="              \
	" coalesce(:from, 0) AND (:to IS NULL OR sample.time_ns < :to) AND" MEANT

/* Ways to the same rows. */
#define EACH_BLOCK "allocation"
#define THEIR_TOUCH                                                                                \
	EACH_BLOCK " CROSS JOIN touch ON touch.owner_kind = 1 AND touch.owner_id = allocation.id"
#define EACH_TOUCH "touch CROSS JOIN allocation ON allocation.id = touch.owner_id"
#define LISTED	   "temp.its_block CROSS JOIN allocation ON allocation.id = its_block.id"
#define OF_LISTED                                                                                  \
	"temp.its_sample CROSS JOIN touch ON touch.sample_id = its_sample.id"                      \
	" CROSS JOIN allocation ON allocation.id = touch.owner_id"

struct way {
	const char *bounds, *blocks, *touches;
};
static const struct way by_block = { BOUNDS(EACH_BLOCK), BLOCKS(EACH_BLOCK), TOUCHES(THEIR_TOUCH) };
/* A compact database has no index of touches by their blocks. */
static const struct way by_touch = { BOUNDS(EACH_BLOCK), BLOCKS(EACH_BLOCK), TOUCHES(EACH_TOUCH) };
static const struct way by_list = { BOUNDS(LISTED), BLOCKS(LISTED), TOUCHES(OF_LISTED) };

static void free_tally(struct object_tally **tally)
{
	if (*tally)
		object_tally_finish(*tally);
	free(*tally);
}

struct object {
	int64_t site;
	const struct way *way;
	struct object_tally *tally;
};

static int prepare(struct view_question *question, const struct object *object, const char *sql,
		   sqlite3_stmt **ret_stmt)
{
	int r = view_prepare(question, sql, ret_stmt);

	if (r == 0)
		view_bind(*ret_stmt, ":its_site", object->site);
	return r;
}

/* ---- Count ---- */

static void take_block(struct object_tally *tally, sqlite3_stmt *row)
{
	const struct object_block block = {
		.id = sqlite3_column_int64(row, 0),
		.address = sqlite3_column_int64(row, 1),
		.size = sqlite3_column_int64(row, 2),
		.allocated_ns = sqlite3_column_int64(row, 3),
		.freed_ns = sqlite3_column_int64(row, 4),
	};

	object_tally_block(tally, &block);
}

static int take_touch(struct object_tally *tally, sqlite3_stmt *row)
{
	int is_write = sqlite3_column_int(row, 9);
	const struct object_touch touch = {
		.block = sqlite3_column_int64(row, 0),
		.time_ns = sqlite3_column_int64(row, 1),
		.offset = sqlite3_column_int64(row, 2),
		.thread = sqlite3_column_int64(row, 3),
		.frame = sqlite3_column_int64(row, 4),
		.level = statement_string_or_null(row, 5),
		.time_share_ns = sqlite3_column_double(row, 6),
		.latency = sqlite3_column_int64(row, 7),
		.role = sqlite3_column_int(row, 8),
		.is_write = is_write < 0 ? -1 : is_write > 0,
		.part = sqlite3_column_double(row, 10),
	};

	return object_tally_touch(tally, &touch);
}

static int count_touches(struct view_question *question, const struct object *object)
{
	auto_statement sqlite3_stmt *rows = NULL;
	int r = prepare(question, object, object->way->touches, &rows);

	while (r == 0 && (r = statement_step(rows)) == 1)
		r = take_touch(object->tally, rows);
	return r < 0 && r != -ENOMEM ? -EPROTO : r;
}

static int count_blocks(struct view_question *question, const struct object *object)
{
	auto_statement sqlite3_stmt *rows = NULL;
	int r = prepare(question, object, object->way->blocks, &rows);

	while (r == 0 && (r = statement_step(rows)) == 1) {
		take_block(object->tally, rows);
		r = 0;
	}
	return r < 0 ? -EPROTO : r;
}

static int find_bounds(struct view_question *question, const struct object *object)
{
	auto_statement sqlite3_stmt *row = NULL;
	struct object_tally *tally = object->tally;
	int r = prepare(question, object, object->way->bounds, &row);

	if (r < 0 || statement_step(row) != 1)
		return -EPROTO;
	int64_t from = view_value(question, VIEW_FROM, 0);
	int64_t to = view_value(question, VIEW_TO, INT64_MAX);
	tally->size = sqlite3_column_int64(row, 0);
	tally->from_ns = sqlite3_column_int64(row, 1);
	tally->to_ns = sqlite3_column_int64(row, 2);
	tally->to_ns += tally->to_ns < INT64_MAX;
	tally->from_ns = tally->from_ns < from ? from : tally->from_ns;
	tally->to_ns = tally->to_ns > to ? to : tally->to_ns;
	return 0;
}

static int choose_way(struct view_question *question, struct object *object)
{
	bool is_block = question->values->is_given[VIEW_BLOCK];
	int r = is_block ? 0 : object_list_make(question, object->site);

	object->way = r > 0					       ? &by_list
		      : is_block || !compact_is_database(question->db) ? &by_block
								       : &by_touch;
	return r < 0 ? r : 0;
}

static int count(struct view_question *question, struct object *object)
{
	int r = choose_way(question, object);

	if (r == 0)
		r = find_bounds(question, object);
	if (r == 0)
		r = count_touches(question, object);
	return r == 0 ? count_blocks(question, object) : r;
}

/* ---- Write ---- */

static void write_thread(struct columns *columns, const struct object_thread *thread,
			 sqlite3_stmt *name)
{
	sqlite3_reset(name);
	view_bind(name, ":its_id", thread->id);
	bool is_known = statement_advance(name) == SQLITE_ROW;
	json_integer(columns_at(columns, 0), thread->id);
	json_text(columns_at(columns, 1), is_known ? statement_string_or_null(name, 0) : NULL);
	json_integer(columns_at(columns, 2), (int64_t)thread->n[1]);
	json_integer(columns_at(columns, 3), (int64_t)thread->n[2]);
	json_integer(columns_at(columns, 4), (int64_t)thread->n[0]);
	json_real(columns_at(columns, 5),
		  thread->time_ns[0] + thread->time_ns[1] + thread->time_ns[2]);
	json_real(columns_at(columns, 6), thread->time_ns[1]);
	json_real(columns_at(columns, 7), thread->time_ns[2]);
	json_integer(columns_at(columns, 8), (int64_t)thread->n_faults);
	columns_end_row(columns);
}

static int write_threads(struct view_question *question, const struct object_tally *tally)
{
	static const char *const names[] = { "thread",	     "name",	      "n_reads",
					     "n_writes",     "n_unknown",     "time_ns",
					     "time_read_ns", "time_write_ns", "n_faults" };
	auto_statement sqlite3_stmt *name = NULL;
	auto_columns struct columns columns;
	int r = view_prepare(question,
			     "SELECT coalesce((SELECT name FROM thread_name WHERE thread_id = id"
			     " ORDER BY time_ns DESC LIMIT 1), 'thread ' || tid) FROM thread"
			     " WHERE id = :its_id",
			     &name);

	columns_begin(&columns, names, 9);
	for (size_t i = 0; i < tally->n_threads && r == 0; i++)
		write_thread(&columns, &tally->threads[i], name);
	json_name(&question->json, "threads");
	columns_write(&columns, &question->json);
	return r;
}

static int compare_instructions(const void *left, const void *right)
{
	const struct object_instruction *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns > b->time_ns ? -1 : 1;
	return a->n > b->n ? -1 : a->n < b->n;
}

static void write_instruction(struct columns *columns, const struct object_instruction *instruction,
			      sqlite3_stmt *place)
{
	sqlite3_reset(place);
	view_bind(place, ":its_id", instruction->frame);
	bool is_known = statement_advance(place) == SQLITE_ROW;
	for (int i = 0; i < 3; i++) {
		if (is_known)
			json_column(columns_at(columns, (size_t)i), place, i);
		else
			json_null(columns_at(columns, (size_t)i));
	}
	json_integer(columns_at(columns, 3), (int64_t)instruction->n);
	if (instruction->is_write >= 0)
		json_integer(columns_at(columns, 4), instruction->is_write);
	else
		json_null(columns_at(columns, 4));
	json_real(columns_at(columns, 5), instruction->time_ns);
	columns_end_row(columns);
}

static int write_instructions(struct view_question *question, struct object_tally *tally)
{
	static const char *const names[] = {
		"function", "file", "line", "n", "is_write", "time_ns"
	};
	auto_statement sqlite3_stmt *place = NULL;
	auto_columns struct columns columns;
	int r = view_prepare(question,
			     "SELECT " VIEW_FUNCTION ","
			     " coalesce(file, path), line FROM frame LEFT JOIN frame_line"
			     " ON frame_id = frame.id AND depth = 0 WHERE frame.id = :its_id",
			     &place);

	if (tally->n_instructions)
		qsort(tally->instructions, tally->n_instructions, sizeof(*tally->instructions),
		      compare_instructions);
	columns_begin(&columns, names, 6);
	for (size_t i = 0; i < tally->n_instructions && i < MAX_INSTRUCTIONS && r == 0; i++)
		write_instruction(&columns, &tally->instructions[i], place);
	json_name(&question->json, "instructions");
	columns_write(&columns, &question->json);
	return r;
}

static int write_block(struct view_question *question)
{
	json_name(&question->json, "block");
	if (!question->values->is_given[VIEW_BLOCK]) {
		json_null(&question->json);
		return 0;
	}
	json_open(&question->json, '{');
	int r = view_members(question, block_sql);
	json_close(&question->json, '}');
	return r < 0 ? r : 0;
}

/* The row of objects, as members; a block whose site is not a row has none. */
static int write_row(struct view_question *question, const struct object *object)
{
	static const char row_sql[] =
		"WITH RECURSIVE " OBJECT_ITEMS
		", kept AS (SELECT * FROM item WHERE kind = 1 AND site = :its_site) " OBJECT_ROWS;
	auto_statement sqlite3_stmt *row = NULL;
	int r = prepare(question, object, row_sql, &row);

	if (r < 0)
		return r;
	int step = statement_step(row);
	view_object_members(question, row, step == 1);
	return step < 0 ? -EPROTO : 0;
}

static int write_object(struct view_question *question, const struct object *object)
{
	json_open(&question->json, '{');
	int r = write_row(question, object);
	if (r == 0)
		r = write_block(question);
	if (r == 0)
		r = view_stack(question, object->site);
	if (r == 0)
		r = write_threads(question, object->tally);
	if (r == 0)
		r = write_instructions(question, object->tally);
	object_tally_write(object->tally, &question->json, question->context->limits.is_short);
	json_close(&question->json, '}');
	return r;
}

/* The site that is meant: of a block it is where it was allocated. */
static int find_site(struct view_question *question, int64_t *ret_site)
{
	static const char there_sql[] =
		"SELECT EXISTS (SELECT 1 FROM site WHERE run_id = :run AND stack_id = :site)";

	if (question->values->is_given[VIEW_BLOCK]) {
		*ret_site = view_number(question, "SELECT coalesce(stack_id, 0) FROM allocation"
						  " WHERE run_id = :run AND id = :block");
		return view_number(question, "SELECT EXISTS (SELECT 1 FROM allocation WHERE"
					     " run_id = :run AND id = :block)")
			       ? 0
			       : view_context_refuse(question->context, -ENOENT,
						     "the run has no such block");
	}
	if (!question->values->is_given[VIEW_SITE])
		return view_context_refuse(question->context, -EINVAL,
					   "site or block says what is meant");
	*ret_site = question->values->numbers[VIEW_SITE];
	return view_number(question, there_sql) ? 0
						: view_context_refuse(question->context, -ENOENT,
								      "the run has no such site");
}

int view_object(struct view_question *question)
{
	auto_tally struct object_tally *tally = calloc(1, sizeof(*tally));
	struct object object = { .tally = tally };

	if (!tally)
		return -ENOMEM;
	int r = find_site(question, &object.site);
	if (r == 0)
		r = view_take_part(question);
	if (r == 0)
		r = count(question, &object);
	return r < 0 ? r : write_object(question, &object);
}
