#include "common/cleanup.h"
#include "view/answers/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "report/text/json.h"
#include "schemas/trace-format.h"
#include "store/compact/scan.h"
#include "store/library-frames.h"
#include "store/row-scan.h"
#include "store/statement.h"
#include "store/touch.h"
#include "view/answers/object-sql.h"
#include "view/answers/object-totals.h"
#include "view/context.h"

/*
 * What is told of an object: its row of totals at once, and what is counted of its blocks and their
 * touches. These are read from the chunks of all rows: first who its blocks are, then the touches
 * that are of one of them.
 */

/* ---- One call site or one block: request "object" ---- */

#define MAX_INSTRUCTIONS 40u
#define MAX_KEPT	 (1u << 20) /* blocks between the two looks at them: 48 MiB */

#define auto_tally __attribute__((cleanup(free_tally)))

static const char block_sql[] = "SELECT * FROM allocation WHERE run_id = :run AND id = :block";

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

/* The level of a data source. */
struct level {
	int64_t data_src;
	char *name; /* owned; NULL: none */
};

/* Blocks, among which millions of owners of touches are looked for. */
struct members {
	struct row_ids ids;
	uint64_t most; /* ids that there may be: of damaged ones those that lie too far go */
	uint32_t *before; /* members before each word */
};

/* Which one in the order of ids it is. */
static size_t place_of(const struct members *members, int64_t id)
{
	uint64_t at = (uint64_t)id - (uint64_t)members->ids.first;
	uint64_t lower = members->ids.bits[at / 64] & ((UINT64_C(1) << at % 64) - 1);

	return members->before[at / 64] + (size_t)__builtin_popcountll(lower);
}

/* The first one has the least id. Returns 1, 0: it is too far, or -ENOMEM. */
static int add_member(struct members *members, int64_t id)
{
	if (!members->ids.bits)
		members->ids.first = id;
	uint64_t at = (uint64_t)id - (uint64_t)members->ids.first;
	if (at >= members->most)
		return 0;
	int r = grow_array_to(&members->ids.bits, at / 64, &members->ids.n_words,
			      sizeof(*members->ids.bits));
	if (r == 0)
		members->ids.bits[at / 64] |= UINT64_C(1) << at % 64;
	return r < 0 ? r : 1;
}

static int number_members(struct members *members)
{
	uint32_t n = 0;

	members->before = calloc(members->ids.n_words + 1, sizeof(*members->before));
	for (size_t i = 0; members->before && i < members->ids.n_words; i++) {
		members->before[i] = n;
		n += (uint32_t)__builtin_popcountll(members->ids.bits[i]);
	}
	return members->before ? 0 : -ENOMEM;
}

struct reading {
	struct view_question *question;
	struct object_tally *tally;
	int64_t site;
	int64_t block; /* 0: all of the site */
	int64_t from_ns, to_ns; /* not included */
	int64_t end_ns; /* of the run */
	int64_t time_source; /* source.id whose samples are of CPU time; 0: none */
	struct members members; /* its blocks */
	uint64_t *addresses; /* of the members in their order */
	size_t n_blocks, n_blocks_allocated;
	struct object_block *lived; /* those of the span, unless they are more than MAX_KEPT */
	size_t n_lived, n_lived_allocated;
	struct level *levels;
	size_t n_levels;
	uint32_t n_looks; /* at whether somebody waits */
};

static void free_reading(struct reading *reading)
{
	array_free(reading->levels, reading->n_levels, it, free(it->name));
	free_all(reading->members.ids.bits, reading->members.before, reading->addresses,
		 reading->lived);
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
		if (grow_one(&reading->levels, reading->n_levels, &n_allocated) < 0 ||
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

static int look_at_waiter(struct reading *reading)
{
	const struct view_patience *patience = &reading->question->context->patience;
	bool is_over = patience->is_over && reading->n_looks++ % 1024 == 0 &&
		       patience->is_over(patience->waiter);

	return is_over ? -EINTR : 0;
}

/* ---- Blocks ---- */

enum { BLOCK_SITE, BLOCK_ID, BLOCK_ADDRESS, BLOCK_SIZE, BLOCK_ALLOCATED, BLOCK_FREED };

/* The blocks that are meant; both are from the first columns. */
static uint32_t choose_blocks(const void *context, const int64_t *const *columns, uint32_t n,
			      uint32_t *chosen)
{
	const struct reading *reading = context;
	const int64_t *values = columns[reading->block ? BLOCK_ID : BLOCK_SITE];
	int64_t wanted = reading->block ? reading->block : reading->site;
	int64_t or_this = reading->block || wanted ? wanted : SCAN_NULL; /* of no site */
	uint32_t n_chosen = 0;

	for (uint32_t i = 0; i < n; i++) {
		chosen[n_chosen] = i;
		n_chosen += values[i] == wanted || values[i] == or_this;
	}
	return n_chosen;
}

/* What is done with each block that is meant. */
typedef int (*visit_block)(struct reading *reading, const struct object_block *block);

static int read_blocks(struct reading *reading, visit_block visit)
{
	auto_scan struct scan *scan = NULL;
	const struct scan_query query = { "allocation",
					  "stack_id, id, address, size, allocated_ns, freed_ns",
					  reading->question->run };
	const struct scan_choice choice = { reading->block ? BLOCK_ID + 1 : BLOCK_SITE + 1,
					    choose_blocks, reading };
	const struct scan_bound only = { BLOCK_ID, reading->block, reading->block, false };
	const struct scan_rows *rows;
	int r = scan_open(reading->question->db, &query, &scan);

	if (r < 0)
		return r;
	reading->members.most = 64 * (scan_n_rows(scan) + 1024);
	if (reading->block)
		scan_bound(scan, &only);
	scan_choose(scan, &choice);
	while (r == 0 && (r = scan_next(scan, &rows)) == 1) {
		r = look_at_waiter(reading);
		for (uint32_t i = 0; i < rows->n && r == 0; i++) {
			int64_t freed_ns = rows->columns[BLOCK_FREED][i];
			const struct object_block block = {
				.id = rows->columns[BLOCK_ID][i],
				.address = rows->columns[BLOCK_ADDRESS][i],
				.size = rows->columns[BLOCK_SIZE][i],
				.allocated_ns = rows->columns[BLOCK_ALLOCATED][i],
				.freed_ns = freed_ns == SCAN_NULL ? INT64_MAX : freed_ns,
			};
			r = visit(reading, &block);
		}
	}
	return r;
}

static bool has_lived(const struct reading *reading, const struct object_block *block)
{
	return block->allocated_ns < reading->to_ns && block->freed_ns >= reading->from_ns;
}

static int add_address(struct reading *reading, const struct object_block *block)
{
	int r = grow_one(&reading->addresses, reading->n_blocks, &reading->n_blocks_allocated);

	r = r ?: add_member(&reading->members, block->id);
	if (r > 0)
		reading->addresses[reading->n_blocks++] = (uint64_t)block->address;
	return r < 0 ? r : 0;
}

static int meet_block(struct reading *reading, const struct object_block *block)
{
	struct object_tally *tally = reading->tally;
	int64_t to_ns = block->freed_ns == INT64_MAX ? reading->end_ns : block->freed_ns;
	bool is_first = reading->n_lived == 0;
	int r = add_address(reading, block);

	if (r < 0 || !has_lived(reading, block))
		return r;
	tally->size = is_first || tally->size < block->size ? block->size : tally->size;
	tally->from_ns = is_first || tally->from_ns > block->allocated_ns ? block->allocated_ns
									  : tally->from_ns;
	tally->to_ns = is_first || tally->to_ns < to_ns ? to_ns : tally->to_ns;
	if (reading->n_lived++ >= MAX_KEPT)
		return 0;
	r = grow_one(&reading->lived, reading->n_lived - 1, &reading->n_lived_allocated);
	if (r == 0)
		reading->lived[reading->n_lived - 1] = *block;
	return r;
}

static int count_block(struct reading *reading, const struct object_block *block)
{
	if (has_lived(reading, block))
		object_tally_block(reading->tally, block);
	return 0;
}

/* They are told with the touches of each. */
static int count_blocks(struct reading *reading)
{
	if (reading->n_lived > MAX_KEPT)
		return read_blocks(reading, count_block);
	for (size_t i = 0; i < reading->n_lived; i++)
		object_tally_block(reading->tally, &reading->lived[i]);
	return 0;
}

/* The heat map's axes: what the blocks reach over, within the span. */
static void set_bounds(const struct reading *reading)
{
	struct object_tally *tally = reading->tally;

	tally->to_ns += tally->to_ns < INT64_MAX;
	tally->from_ns = tally->from_ns < reading->from_ns ? reading->from_ns : tally->from_ns;
	tally->to_ns = tally->to_ns > reading->to_ns ? reading->to_ns : tally->to_ns;
}

/* ---- Touches ---- */

static int count_touch(void *context, const struct picture_row_touch *row)
{
	struct reading *reading = context;
	const struct picture_row_sample *sample = &row->sample;
	uint64_t address = reading->addresses[place_of(&reading->members, row->owner_id)];
	bool is_time = sample->source_id == reading->time_source;
	bool has_share = is_time && row->role == TRACE_ROLE_WINDOW;
	bool has_latency = row->role == TRACE_ROLE_EXACT && !is_time && row->latency;
	int r = look_at_waiter(reading);

	if (r < 0 || row->role < TRACE_ROLE_EXACT || row->role > TRACE_ROLE_FAULT ||
	    !sample->process_id || sample->time_ns < reading->from_ns ||
	    sample->time_ns >= reading->to_ns)
		return r;
	const struct object_touch touch = {
		.block = row->owner_id,
		.time_ns = sample->time_ns,
		/* What lies just below is of the block, too: its header. */
		.offset = row->has_address ? (int64_t)(row->address - address) : -1,
		.thread = sample->thread_id,
		.frame = row->frame_id,
		.level = level_of(reading, row->data_src),
		.time_share_ns = has_share ? row->share * (double)sample->weight : 0,
		.part = has_share ? row->share : !is_time,
		.latency = has_latency ? row->latency : -1,
		.role = row->role,
		.is_write = row->is_write < 0 ? -1 : row->is_write > 0,
	};
	return object_tally_touch(reading->tally, &touch);
}

static int count(struct view_question *question, const struct object *object)
{
	auto_reading struct reading reading = {
		.question = question,
		.tally = object->tally,
		.site = object->site,
		.block = view_value(question, VIEW_BLOCK, 0),
		.from_ns = view_value(question, VIEW_FROM, 0),
		.to_ns = view_value(question, VIEW_TO, INT64_MAX),
		.end_ns = view_number(question, "SELECT duration_ns FROM run WHERE id = :run"),
		.time_source = view_number(question, "SELECT id FROM source WHERE run_id = :run"
						     " AND measures = 'time' AND error = 0"),
	};
	const struct picture_touch_visitor visitor = {
		.blocks = &reading.members.ids,
		.touch = count_touch,
		.context = &reading,
		.from_ns = reading.from_ns,
		.to_ns = reading.to_ns,
	};
	int r = read_levels(&reading) ?: read_blocks(&reading, meet_block);
	r = r ?: number_members(&reading.members);
	set_bounds(&reading);
	r = r ?: picture_scan_touches(question->db, question->run, &visitor);
	r = r ?: count_blocks(&reading);
	return r < 0 && r != -ENOMEM && r != -EINTR ? -EPROTO : r;
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
	columns_set(&question->json, "threads", &columns);
	return r;
}

DEFINE_ORDER(compare_instructions, struct object_instruction,
	     ORDER(b->time_ns, a->time_ns) ?: ORDER(b->n, a->n));

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
	columns_set(&question->json, "instructions", &columns);
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
	int r = write_row(question, object) ?: write_block(question);
	r = r ?: view_stack(question, object->site);
	if (is_short(question)) {
		json_close(&question->json, '}');
		return r;
	}
	r = r ?: write_threads(question, object->tally);
	r = r ?: write_instructions(question, object->tally);
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
	int r = find_site(question, &object.site) ?: view_take_part(question, 0);
	if (r == 0 && !is_short(question))
		r = count(question, &object);
	return r < 0 ? r : write_object(question, &object);
}
