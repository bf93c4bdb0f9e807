#include "view/answers/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "report/text/json.h"
#include "schemas/trace-format.h"
#include "store/columns/column.h"
#include "store/compact/compact.h"
#include "store/database.h"
#include "store/heatmap/lookup.h"
#include "store/library-frames.h"
#include "store/statement.h"
#include "view/answers/object-sql.h"
#include "view/answers/object-totals.h"
#include "view/context.h"

/*
 * What is told of an object: its row of totals at once, and what is counted of its blocks and their
 * touches. Stored pictures have these by call site (store/heatmap/parts.h); without them, rows are
 * read.
 */

/* ---- One call site or one block: request "object" ---- */

#define MAX_INSTRUCTIONS 40u

#define auto_tally __attribute__((cleanup(free_tally)))

/* What is told of: a block, or the blocks of a site; of those that lived in the span. */
#define MEANT                                                                                      \
	" allocation.run_id = :run AND (:block IS NULL OR allocation.id = :block) AND"             \
	" (:block IS NOT NULL OR coalesce(allocation.stack_id, 0) = :its_site)"
#define LIVED                                                                                      \
	" allocated_ns < coalesce(:to, 9223372036854775807) AND"                                   \
	" coalesce(freed_ns, 9223372036854775807) >= coalesce(:from, 0)"

static const char block_sql[] = "SELECT * FROM allocation WHERE run_id = :run AND id = :block";

/* Those of the heat map's axes. */
static const char bounds_sql[] =
	"SELECT max(size), min(allocated_ns), max(coalesce(freed_ns, (SELECT duration_ns FROM run"
	" WHERE id = :run))) FROM allocation WHERE" MEANT " AND" LIVED;

static const char blocks_sql[] =
	"SELECT allocation.id, address, size, allocated_ns,"
	" coalesce(freed_ns, 9223372036854775807) FROM allocation WHERE" MEANT " AND" LIVED;

/* Behind what tells the block, and where in it. */
#define OF_TOUCH                                                                                   \
	" coalesce(sample.thread_id, 0), coalesce(touch.frame_id, 0), data_source.level,"          \
	" CASE WHEN role = 1 AND source.measures = 'time' THEN share * weight ELSE 0"              \
	" END, coalesce(CASE WHEN role = 0 THEN latency END, -1), role, coalesce(is_write, -1),"   \
	" CASE WHEN source.measures <> 'time' THEN 1 WHEN role = 1 THEN share"                     \
	" ELSE 0 END FROM "
#define ITS_SAMPLE                                                                                 \
	" CROSS JOIN sample ON sample.id = touch.sample_id JOIN source ON source.id = source_id"   \
	" LEFT JOIN data_source ON data_source.data_src = touch.data_src"                          \
	" LEFT JOIN access_detail ON access_detail.sample_id = touch.sample_id"                    \
	" WHERE role IN (0, 1, 2, 3) AND +touch.owner_kind = 1 AND sample.time_ns >="              \
	" coalesce(:from, 0) AND (:to IS NULL OR sample.time_ns < :to)"

#define TOUCHES(touches)                                                                           \
	"SELECT allocation.id, sample.time_ns,"                                                    \
	" coalesce(touch.address - allocation.address, -1)," OF_TOUCH touches ITS_SAMPLE           \
	" AND" MEANT

/* Ways to the same rows. */
#define EACH_BLOCK "allocation"
#define THEIR_TOUCH                                                                                \
	EACH_BLOCK " CROSS JOIN touch ON touch.owner_kind = 1 AND touch.owner_id = allocation.id"
#define EACH_TOUCH "touch CROSS JOIN allocation ON allocation.id = touch.owner_id"

static const char by_block_sql[] = TOUCHES(THEIR_TOUCH);
/* A compact database has no index of touches by their blocks. */
static const char by_touch_sql[] = TOUCHES(EACH_TOUCH);

static void free_tally(struct object_tally **tally)
{
	if (*tally)
		object_tally_finish(*tally);
	free(*tally);
}

struct object {
	int64_t site;
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

static int count_touches(struct view_question *question, const struct object *object,
			 const char *sql)
{
	auto_statement sqlite3_stmt *rows = NULL;
	int r = prepare(question, object, sql, &rows);

	while (r == 0 && (r = statement_step(rows)) == 1)
		r = take_touch(object->tally, rows);
	return r < 0 && r != -ENOMEM ? -EPROTO : r;
}

static int count_blocks(struct view_question *question, const struct object *object)
{
	auto_statement sqlite3_stmt *rows = NULL;
	int r = prepare(question, object, blocks_sql, &rows);

	while (r == 0 && (r = statement_step(rows)) == 1) {
		take_block(object->tally, rows);
		r = 0;
	}
	return r < 0 ? -EPROTO : r;
}

/* The heat map's axes: what the blocks reach over, within the span. */
static void set_bounds(struct view_question *question, struct object_tally *tally)
{
	int64_t from = view_value(question, VIEW_FROM, 0);
	int64_t to = view_value(question, VIEW_TO, INT64_MAX);

	tally->to_ns += tally->to_ns < INT64_MAX;
	tally->from_ns = tally->from_ns < from ? from : tally->from_ns;
	tally->to_ns = tally->to_ns > to ? to : tally->to_ns;
}

static int find_bounds(struct view_question *question, const struct object *object)
{
	auto_statement sqlite3_stmt *row = NULL;
	struct object_tally *tally = object->tally;
	int r = prepare(question, object, bounds_sql, &row);

	if (r < 0 || statement_step(row) != 1)
		return -EPROTO;
	tally->size = sqlite3_column_int64(row, 0);
	tally->from_ns = sqlite3_column_int64(row, 1);
	tally->to_ns = sqlite3_column_int64(row, 2);
	set_bounds(question, tally);
	return 0;
}

/* Rows have no index by site, and those of a compact database none of touches by block. */
static int count_rows(struct view_question *question, const struct object *object)
{
	bool has_index =
		question->values->is_given[VIEW_BLOCK] || !compact_is_database(question->db);
	int r = find_bounds(question, object);

	if (r == 0)
		r = count_touches(question, object, has_index ? by_block_sql : by_touch_sql);
	return r == 0 ? count_blocks(question, object) : r;
}

/* ---- Count by the parts of its site ---- */

#define BIT(column) (1u << (column))

/* The level of a data source. */
struct level {
	int64_t data_src;
	char *name; /* owned; NULL: none */
};

struct reading {
	struct view_question *question;
	struct picture_store *store;
	struct object_tally *tally;
	int64_t site;
	int64_t block; /* 0: all of the site */
	int64_t from_ns, to_ns; /* not included */
	int64_t end_ns; /* of the run */
	size_t n_met; /* blocks whose bounds were found */
	struct level *levels;
	size_t n_levels;
};

static void free_reading(struct reading *reading)
{
	for (size_t i = 0; i < reading->n_levels; i++)
		free(reading->levels[i].name);
	free(reading->levels);
}
#define auto_reading __attribute__((cleanup(free_reading)))

static int read_levels(struct reading *reading)
{
	auto_statement sqlite3_stmt *row = NULL;
	size_t n_allocated = 0;
	int r = view_prepare(reading->question, "SELECT data_src, level FROM data_source", &row);

	while (r == 0 && (r = statement_step(row)) == 1) {
		const char *name = statement_string_or_null(row, 1);
		struct level level = { sqlite3_column_int64(row, 0), NULL };
		if (grow_array(&reading->levels, reading->n_levels, &n_allocated,
			       sizeof(*reading->levels)) < 0 ||
		    (name && !(level.name = strdup(name))))
			return -ENOMEM;
		reading->levels[reading->n_levels++] = level;
		r = 0;
	}
	return r < 0 ? -EPROTO : 0;
}

static const char *level_of(const struct reading *reading, int64_t data_src)
{
	for (size_t i = 0; data_src && i < reading->n_levels; i++) {
		if (reading->levels[i].data_src == data_src)
			return reading->levels[i].name;
	}
	return NULL;
}

/* What is done with each item of the site, by its number in reading->store->columns. */
typedef int (*read_item)(struct reading *reading, uint32_t i);

static int read_part(struct reading *reading, const struct picture_part *part, read_item visit)
{
	const struct view_patience *patience = &reading->question->context->patience;
	const struct picture_columns *columns = &reading->store->columns;
	struct picture_look look = { .stride = 1, .wanted = BIT(PICTURE_COLUMNS) - 1 };
	int r;

	if (patience->is_over && patience->is_over(patience->waiter))
		return -EINTR;
	while ((r = picture_store_next(reading->store, part, &look)) > 0) {
		for (uint32_t i = 0; i < columns->n && r >= 0; i++) {
			if (columns->values[PICTURE_SITE_TOUCH_SITE][i] == reading->site)
				r = visit(reading, i);
		}
		if (r < 0)
			break;
	}
	return r;
}

/* A block may live on behind its part's end, as nobody freed it. */
static bool may_have(const struct reading *reading, const struct picture_part *part)
{
	return part->low <= (uint64_t)reading->site && part->high > (uint64_t)reading->site &&
	       part->from < picture_time(reading->to_ns) &&
	       (part->kind == PICTURE_KIND_SITE_BLOCKS ||
		part->to > picture_time(reading->from_ns));
}

static int read_parts(struct reading *reading, enum picture_kind kind, read_item visit)
{
	int r = 0;

	for (size_t i = 0; i < reading->store->n_processes && r == 0; i++) {
		const struct picture_process *process = &reading->store->processes[i];
		bool is_of_run = process->run_id == reading->question->run;
		for (size_t j = 0; j < process->n_parts && is_of_run && r == 0; j++) {
			const struct picture_part *part = &process->parts[j];
			if (part->kind == kind && may_have(reading, part))
				r = read_part(reading, part, visit);
		}
	}
	return r;
}

/* Whether a block is meant, and lived in the span. */
static bool get_block(const struct reading *reading, uint32_t i, struct object_block *ret_block)
{
	int64_t *const *values = reading->store->columns.values;
	int64_t life_ns = values[PICTURE_SITE_BLOCK_LIFE][i], freed_ns = INT64_MAX;
	int64_t allocated_ns = values[PICTURE_SITE_BLOCK_ALLOCATED][i];

	if (life_ns != CHUNK_NULL && __builtin_add_overflow(allocated_ns, life_ns, &freed_ns))
		freed_ns = INT64_MAX;
	*ret_block = (struct object_block){
		.id = values[PICTURE_SITE_BLOCK_ID][i],
		.address = values[PICTURE_SITE_BLOCK_ADDRESS][i],
		.size = values[PICTURE_SITE_BLOCK_SIZE][i],
		.allocated_ns = allocated_ns,
		.freed_ns = freed_ns,
	};
	return (!reading->block || reading->block == ret_block->id) &&
	       allocated_ns < reading->to_ns && freed_ns >= reading->from_ns;
}

static int read_bounds(struct reading *reading, uint32_t i)
{
	struct object_tally *tally = reading->tally;
	struct object_block block;

	if (!get_block(reading, i, &block))
		return 0;
	bool is_first = reading->n_met++ == 0;
	int64_t to_ns = block.freed_ns == INT64_MAX ? reading->end_ns : block.freed_ns;
	tally->size = is_first || tally->size < block.size ? block.size : tally->size;
	tally->from_ns = is_first || tally->from_ns > block.allocated_ns ? block.allocated_ns
									 : tally->from_ns;
	tally->to_ns = is_first || tally->to_ns < to_ns ? to_ns : tally->to_ns;
	return 0;
}

static int read_block(struct reading *reading, uint32_t i)
{
	struct object_block block;

	if (get_block(reading, i, &block))
		object_tally_block(reading->tally, &block);
	return 0;
}

static int read_touch(struct reading *reading, uint32_t i)
{
	int64_t *const *values = reading->store->columns.values;
	int64_t time_ns = values[PICTURE_SITE_TOUCH_TIME][i];
	int64_t block = values[PICTURE_SITE_TOUCH_BLOCK][i];
	int64_t offset = values[PICTURE_SITE_TOUCH_OFFSET][i];
	int64_t how = values[PICTURE_SITE_TOUCH_HOW][i];
	int64_t weight = values[PICTURE_SITE_TOUCH_WEIGHT][i];
	bool is_time = how & 16;
	int role = (int)(how & 3);
	double share;

	if ((reading->block && reading->block != block) || time_ns < reading->from_ns ||
	    time_ns >= reading->to_ns)
		return 0;
	memcpy(&share, &values[PICTURE_SITE_TOUCH_SHARE][i], sizeof(share));
	bool has_share = is_time && role == TRACE_ROLE_WINDOW;
	const struct object_touch touch = {
		.block = block,
		.time_ns = time_ns,
		.offset = offset == CHUNK_NULL ? -1 : offset,
		.thread = how >> 5,
		.frame = values[PICTURE_SITE_TOUCH_FRAME][i],
		.level = level_of(reading, values[PICTURE_SITE_TOUCH_SOURCE][i]),
		.time_share_ns = has_share ? share * (double)weight : 0,
		.part = has_share ? share : !is_time,
		.latency = role == TRACE_ROLE_EXACT && !is_time && weight ? weight : -1,
		.role = role,
		.is_write = (int)(how >> 2 & 3) - 1,
	};
	return object_tally_touch(reading->tally, &touch);
}

static int count_parts(struct view_question *question, const struct object *object)
{
	auto_reading struct reading reading = {
		.question = question,
		.tally = object->tally,
		.site = object->site,
		.block = view_value(question, VIEW_BLOCK, 0),
		.from_ns = view_value(question, VIEW_FROM, 0),
		.to_ns = view_value(question, VIEW_TO, INT64_MAX),
		.end_ns = view_number(question, "SELECT duration_ns FROM run WHERE id = :run"),
	};
	int r = view_context_pictures(question->context, &reading.store);

	if (r == 0)
		r = read_levels(&reading);
	if (r == 0)
		r = read_parts(&reading, PICTURE_KIND_SITE_BLOCKS, read_bounds);
	set_bounds(question, object->tally);
	if (r == 0)
		r = read_parts(&reading, PICTURE_KIND_SITE_TOUCHES, read_touch);
	return r < 0 ? r : read_parts(&reading, PICTURE_KIND_SITE_BLOCKS, read_block);
}

/* The database's, or those that were made for it. */
static bool has_parts(struct view_question *question)
{
	return question->context->pictures_db ||
	       view_number(question,
			   "SELECT EXISTS (SELECT 1 FROM picture_part WHERE run_id = :run)");
}

static int count(struct view_question *question, const struct object *object)
{
	return has_parts(question) ? count_parts(question, object) : count_rows(question, object);
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
			     " ORDER BY time_ns DESC LIMIT 1) || ' (' || tid || ')', 'thread ' ||"
			     " tid) FROM thread WHERE id = :its_id",
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
			      sqlite3_stmt *place, bool is_full)
{
	char name[FRAME_NAME_BYTES] = "";

	sqlite3_reset(place);
	view_bind(place, ":its_id", instruction->frame);
	bool is_known = statement_advance(place) == SQLITE_ROW;
	const char *function = is_known ? statement_string_or_null(place, 0) : NULL;
	if (function && !is_full)
		frame_plain_name(function, "<>", name);
	json_text(columns_at(columns, 0), function && !is_full ? name : function);
	for (int i = 1; i < 3; i++) {
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
		write_instruction(&columns, &tally->instructions[i], place,
				  view_value(question, VIEW_FULL, 0));
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

/* Only what totals tell. */
static bool is_short(struct view_question *question)
{
	return view_value(question, VIEW_LIMIT, 1) == 0;
}

static int write_object(struct view_question *question, const struct object *object)
{
	json_open(&question->json, '{');
	int r = write_row(question, object);
	if (r == 0)
		r = write_block(question);
	if (r == 0)
		r = view_stack(question, object->site);
	if (is_short(question)) {
		json_close(&question->json, '}');
		return r;
	}
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
		r = view_take_part(question, 0);
	if (r == 0 && !is_short(question))
		r = count(question, &object);
	return r < 0 ? r : write_object(question, &object);
}
