#include "view/answers/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "report/text/json.h"
#include "schemas/trace-format.h"
#include "store/columns/column.h"
#include "store/compact/compact.h"
#include "store/database.h"
#include "store/heatmap/lookup.h"
#include "store/library-frames.h"
#include "store/row-scan.h"
#include "store/statement.h"
#include "store/touch.h"
#include "view/answers/object-sql.h"
#include "view/answers/object-totals.h"
#include "view/context.h"

#define MAX_LISTED_BLOCKS 1000000 /* 48 bytes each */
#define MAX_LISTED_SAMPLES                                                                         \
	1000 /* of more all rows are read as fast: a chunk for each, or each once */
#define SLACK_BYTES 4096 /* around a block: its header is the block's, too */

/*
 * The blocks of a call site, or one of them, and the samples that touched them, found in stored
 * pictures, whose columns are read a hundred times faster than rows: rows have no index by site,
 * and those of a compact database none by block.
 */

#define BIT(column) (1u << (column))

struct list {
	struct picture_store *store;
	sqlite3_stmt *add; /* a sample */
	int64_t site;
	int64_t block; /* 0: all of the site */
	struct object_block *blocks;
	size_t n_blocks, n_allocated;
	struct key_map index_of; /* of allocation.id, + 1 */
	size_t n_samples; /* above MAX_LISTED_SAMPLES: they are not listed */
	int64_t from_ns, to_ns; /* not included */
};

static void free_list(struct list *list)
{
	sqlite3_finalize(list->add);
	free(list->blocks);
	key_map_finish(&list->index_of);
}
#define auto_list __attribute__((cleanup(free_list)))

static int add_block(struct list *list, const struct object_block *block)
{
	if (grow_array(&list->blocks, list->n_blocks, &list->n_allocated, sizeof(*list->blocks)) <
		    0 ||
	    key_map_put(&list->index_of, (uint64_t)block->id, 0, list->n_blocks + 1) < 0)
		return -ENOMEM;
	list->blocks[list->n_blocks++] = *block;
	return 1;
}

/* Returns 1; 0: there are too many; -ENOMEM. */
static int add_blocks(struct list *list)
{
	const struct picture_columns *columns = &list->store->columns;
	int64_t *const *values = columns->values;
	int r = 1;

	for (uint32_t i = 0; i < columns->n && r > 0; i++) {
		int64_t life_ns = values[PICTURE_BLOCK_LIFE][i];
		const struct object_block block = {
			.id = values[PICTURE_BLOCK_ID][i],
			.address = values[PICTURE_BLOCK_ADDRESS][i],
			.size = values[PICTURE_BLOCK_SIZE][i],
			.allocated_ns = values[PICTURE_BLOCK_ALLOCATED][i],
			.freed_ns = life_ns == CHUNK_NULL
					    ? INT64_MAX
					    : values[PICTURE_BLOCK_ALLOCATED][i] + life_ns,
		};
		if (values[PICTURE_BLOCK_SITE][i] != list->site ||
		    (list->block && list->block != block.id) || block.allocated_ns >= list->to_ns ||
		    block.freed_ns < list->from_ns)
			continue;
		r = list->n_blocks < MAX_LISTED_BLOCKS ? add_block(list, &block) : 0;
	}
	return r;
}

/* Of one block what lies at it; which touches are the block's, their rows say. */
static bool may_be_meant(const struct list *list, int64_t address)
{
	const struct object_block *block = &list->blocks[0];

	return !list->block || (address >= block->address - SLACK_BYTES &&
				address - SLACK_BYTES < block->address + block->size);
}

static int add_samples(struct list *list)
{
	const struct picture_columns *columns = &list->store->columns;
	const int64_t *sites = columns->values[PICTURE_TOUCH_SITE];
	const int64_t *addresses = columns->values[PICTURE_TOUCH_ADDRESS];

	for (uint32_t i = 0; i < columns->n && list->n_samples <= MAX_LISTED_SAMPLES; i++) {
		if (sites[i] != list->site || !may_be_meant(list, addresses[i]))
			continue;
		list->n_samples++;
		statement_integer(list->add, 1, columns->values[PICTURE_TOUCH_SAMPLE][i]);
		int r = statement_run(list->add);
		if (r < 0)
			return r;
	}
	return 1;
}

/* A block may live on behind the part's end, as nobody freed it. */
static bool may_meet(const struct list *list, const struct picture_part *part)
{
	return part->from < picture_time(list->to_ns) &&
	       (part->is_blocks || part->to > picture_time(list->from_ns));
}

static int add_part(struct list *list, const struct picture_part *part)
{
	struct picture_look look = {
		.stride = 1,
		.wanted = part->is_blocks ? BIT(PICTURE_BLOCK_COLUMNS) - 1
					  : BIT(PICTURE_TOUCH_SITE) | BIT(PICTURE_TOUCH_SAMPLE) |
						    BIT(PICTURE_TOUCH_ADDRESS),
	};
	int r;

	while ((r = picture_store_next(list->store, part, &look)) > 0) {
		r = part->is_blocks ? add_blocks(list) : add_samples(list);
		if (r <= 0)
			return r;
	}
	return r < 0 ? r : 1;
}

static int add_parts(struct list *list, int64_t run_id, bool is_blocks)
{
	int r = 1;

	for (size_t i = 0; i < list->store->n_processes && r > 0; i++) {
		const struct picture_process *process = &list->store->processes[i];
		for (size_t j = 0; j < process->n_parts && process->run_id == run_id && r > 0;
		     j++) {
			const struct picture_part *part = &process->parts[j];
			if (part->is_blocks == is_blocks && may_meet(list, part))
				r = add_part(list, part);
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

/* In a picture a block has a byte at least. */
static int correct_sizes(struct view_question *question, struct list *list)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = view_prepare(question, "SELECT size FROM allocation WHERE id = :its_block", &row);

	for (size_t i = 0; i < list->n_blocks && r == 0; i++) {
		if (list->blocks[i].size > 1)
			continue;
		sqlite3_reset(row);
		view_bind(row, ":its_block", list->blocks[i].id);
		r = statement_step(row) == 1 ? 0 : -EPROTO;
		list->blocks[i].size = sqlite3_column_int64(row, 0);
	}
	return r;
}

static int prepare_list(struct view_question *question, struct list *list)
{
	/*
	 * Emptied, not dropped: SQLite refuses that while whoever asks for many sites reads it.
	 */
	static const char tables[] =
		"CREATE TEMP TABLE IF NOT EXISTS its_sample(id INTEGER PRIMARY KEY);"
		"DELETE FROM temp.its_sample";
	int r = view_context_pictures(question->context, &list->store);

	int result = r == 0 ? sqlite3_exec(question->db, tables, NULL, NULL, NULL) : SQLITE_OK;
	if (result != SQLITE_OK) {
		statement_keep(question->db, result);
		r = -EPROTO;
	}
	if (r == 0)
		r = statement_prepare(question->db,
				      "INSERT OR IGNORE INTO temp.its_sample VALUES (?)",
				      &list->add);
	return r == 0 || r == -ENOMEM || r == -ENODATA ? r : -EPROTO;
}

/*
 * Fill the list, and put the samples into the temporary table its_sample(id) of question->db; with
 * a span of time at least those that may lie in it. Returns 1; 0: there are too many blocks, or no
 * pictures that tell; or a negative errno.
 */
static int make_list(struct view_question *question, int64_t site, struct list *list)
{
	list->site = site;
	list->block = view_value(question, VIEW_BLOCK, 0);
	list->from_ns = view_value(question, VIEW_FROM, INT64_MIN);
	list->to_ns = view_value(question, VIEW_TO, INT64_MAX);
	if (site == 0 || !do_pictures_tell(question))
		return 0;
	int r = prepare_list(question, list);
	if (r < 0)
		return r == -ENODATA ? 0 : r;
	r = add_parts(list, question->run, true);
	if (r <= 0)
		return r;
	if (list->block && list->n_blocks == 0)
		return 0; /* it did not live in the span: its rows say so, too */
	if (list->block) {
		const struct object_block *block = &list->blocks[0];
		list->from_ns =
			block->allocated_ns > list->from_ns ? block->allocated_ns : list->from_ns;
		list->to_ns = block->freed_ns < list->to_ns ? block->freed_ns + 1 : list->to_ns;
	}
	r = add_parts(list, question->run, false);
	if (r < 0)
		return r;
	r = correct_sizes(question, list);
	return r < 0 ? r : 1;
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

/* Of listed blocks the address; what is not of a listed block is left out by who reads them. */
#define LISTED(touches)                                                                            \
	"SELECT touch.owner_id, sample.time_ns, coalesce(touch.address, -1)," OF_TOUCH touches     \
		ITS_SAMPLE " AND touch.run_id = :run"

/* Ways to the same rows. */
#define EACH_BLOCK "allocation"
#define THEIR_TOUCH                                                                                \
	EACH_BLOCK " CROSS JOIN touch ON touch.owner_kind = 1 AND touch.owner_id = allocation.id"
#define EACH_TOUCH   "touch CROSS JOIN allocation ON allocation.id = touch.owner_id"
#define LISTED_TOUCH "temp.its_sample CROSS JOIN touch ON touch.sample_id = its_sample.id"

static const char bounds_sql[] = BOUNDS(EACH_BLOCK);
static const char blocks_sql[] = BLOCKS(EACH_BLOCK);
static const char by_block_sql[] = TOUCHES(THEIR_TOUCH);
/* A compact database has no index of touches by their blocks. */
static const char by_touch_sql[] = TOUCHES(EACH_TOUCH);
static const char by_list_sql[] = LISTED(LISTED_TOUCH);

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

/* list: NULL, or where the block is found. */
static int take_touch(struct object_tally *tally, sqlite3_stmt *row, const struct list *list)
{
	int is_write = sqlite3_column_int(row, 9);
	struct object_touch touch = {
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

	if (list) {
		uint64_t number = key_map_get(&list->index_of, (uint64_t)touch.block, 0);
		if (!number)
			return 0;
		if (touch.offset >= 0)
			touch.offset -= list->blocks[number - 1].address;
	}
	return object_tally_touch(tally, &touch);
}

static int count_touches(struct view_question *question, const struct object *object,
			 const char *sql, const struct list *list)
{
	auto_statement sqlite3_stmt *rows = NULL;
	int r = prepare(question, object, sql, &rows);

	while (r == 0 && (r = statement_step(rows)) == 1)
		r = take_touch(object->tally, rows, list);
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

/* ---- All touches read once, for those of a list ---- */

/* What is known of a source, or a data source, by its id. */
struct named {
	int64_t id;
	char *level; /* owned; NULL: none */
	bool is_time;
};

struct reading {
	struct view_question *question;
	const struct list *list;
	struct object_tally *tally;
	struct named *levels, *sources;
	size_t n_levels, n_sources;
	int64_t from_ns, to_ns;
	unsigned n_read;
};

static void free_reading(struct reading *reading)
{
	for (size_t i = 0; i < reading->n_levels; i++)
		free(reading->levels[i].level);
	free(reading->levels);
	free(reading->sources);
}
#define auto_reading __attribute__((cleanup(free_reading)))

/* Rows of id, level, is_time. */
static int read_named(struct view_question *question, const char *sql, struct named **ret_items,
		      size_t *ret_n)
{
	auto_statement sqlite3_stmt *row = NULL;
	size_t n_allocated = 0;
	int r = view_prepare(question, sql, &row);

	while (r == 0 && (r = statement_step(row)) == 1) {
		const char *level = statement_string_or_null(row, 1);
		struct named named = { sqlite3_column_int64(row, 0), NULL,
				       sqlite3_column_int(row, 2) };
		if (grow_array(ret_items, *ret_n, &n_allocated, sizeof(**ret_items)) < 0 ||
		    (level && !(named.level = strdup(level))))
			return -ENOMEM;
		(*ret_items)[(*ret_n)++] = named;
		r = 0;
	}
	return r < 0 ? -EPROTO : 0;
}

static const struct named *find_named(const struct named *items, size_t n, int64_t id)
{
	static const struct named none;

	for (size_t i = 0; i < n; i++) {
		if (items[i].id == id)
			return &items[i];
	}
	return &none;
}

static int read_touch(void *user, const struct picture_row_touch *row)
{
	struct reading *reading = user;
	const struct view_patience *patience = &reading->question->context->patience;
	const struct picture_row_sample *sample = row->sample;

	if (++reading->n_read % 65536 == 0 && patience->is_over &&
	    patience->is_over(patience->waiter))
		return -EINTR;
	if (row->owner_kind != OWNER_heap || row->role < TRACE_ROLE_EXACT ||
	    row->role > TRACE_ROLE_FAULT || sample->time_ns < reading->from_ns ||
	    sample->time_ns >= reading->to_ns)
		return 0;
	uint64_t number = key_map_get(&reading->list->index_of, (uint64_t)row->owner_id, 0);
	if (!number)
		return 0;
	bool is_window = row->role == TRACE_ROLE_WINDOW;
	bool is_time = find_named(reading->sources, reading->n_sources, sample->source_id)->is_time;
	const struct object_touch touch = {
		.block = row->owner_id,
		.time_ns = sample->time_ns,
		.offset = row->has_address ? (int64_t)row->address -
						     reading->list->blocks[number - 1].address
					   : -1,
		.thread = sample->thread_id,
		.frame = row->frame_id,
		.level = find_named(reading->levels, reading->n_levels, row->data_src)->level,
		.time_share_ns = is_time && is_window ? row->share * (double)sample->weight : 0,
		.part = !is_time    ? 1
			: is_window ? row->share
				    : 0,
		.latency = row->role == TRACE_ROLE_EXACT && sample->latency ? sample->latency : -1,
		.role = row->role,
		.is_write = row->is_write,
	};
	return object_tally_touch(reading->tally, &touch);
}

static int read_all(struct view_question *question, struct object_tally *tally,
		    const struct list *list)
{
	auto_reading struct reading reading = {
		.question = question,
		.list = list,
		.tally = tally,
		.from_ns = view_value(question, VIEW_FROM, 0),
		.to_ns = view_value(question, VIEW_TO, INT64_MAX),
	};
	const struct picture_touch_visitor visitor = {
		.touch = read_touch,
		.context = &reading,
		.from_ns = reading.from_ns,
		.to_ns = reading.to_ns,
	};
	int r = read_named(question, "SELECT data_src, level, 0 FROM data_source", &reading.levels,
			   &reading.n_levels);

	if (r == 0)
		r = read_named(question,
			       "SELECT id, NULL, measures = 'time' FROM source WHERE run_id = :run",
			       &reading.sources, &reading.n_sources);
	return r < 0 ? r : picture_scan_touches(question->db, question->run, &visitor);
}

/* ---- Blocks and bounds ---- */

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

static void find_bounds_of_list(struct view_question *question, struct object_tally *tally,
				const struct list *list)
{
	int64_t end_ns = view_number(question, "SELECT duration_ns FROM run WHERE id = :run");

	for (size_t i = 0; i < list->n_blocks; i++) {
		const struct object_block *block = &list->blocks[i];
		int64_t to_ns = block->freed_ns == INT64_MAX ? end_ns : block->freed_ns;
		tally->size = i && tally->size > block->size ? tally->size : block->size;
		tally->from_ns = i && tally->from_ns < block->allocated_ns ? tally->from_ns
									   : block->allocated_ns;
		tally->to_ns = i && tally->to_ns > to_ns ? tally->to_ns : to_ns;
	}
	set_bounds(question, tally);
}

static int count_list(struct view_question *question, const struct object *object,
		      const struct list *list)
{
	find_bounds_of_list(question, object->tally, list);
	int r = list->n_samples > MAX_LISTED_SAMPLES
			? read_all(question, object->tally, list)
			: count_touches(question, object, by_list_sql, list);
	for (size_t i = 0; i < list->n_blocks && r == 0; i++)
		object_tally_block(object->tally, &list->blocks[i]);
	return r;
}

static int count(struct view_question *question, struct object *object)
{
	auto_list struct list list = { 0 };
	bool is_block = question->values->is_given[VIEW_BLOCK];
	bool has_index = !compact_is_database(question->db);
	int r = is_block && has_index ? 0 : make_list(question, object->site, &list);

	if (r < 0)
		return r;
	if (r > 0)
		return count_list(question, object, &list);
	r = find_bounds(question, object);
	if (r == 0)
		r = count_touches(question, object,
				  is_block || has_index ? by_block_sql : by_touch_sql, NULL);
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
		r = view_take_part(question, false);
	if (r == 0 && !is_short(question))
		r = count(question, &object);
	return r < 0 ? r : write_object(question, &object);
}
