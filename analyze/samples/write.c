#include "analyze/samples/write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/database.h"
#include "store/row-writer.h"
#include "store/statement.h"
#include "trace/reader.h"

#define N_ROLES	 6u
#define N_OWNERS 16u
#define N_PHASES 4u
_Static_assert(OWNER_unknown < N_OWNERS, "all owners have a sum");
_Static_assert(OWNER_IN_KERNEL < N_PHASES, "all phases have a sum");
_Static_assert(TRACE_ROLE_MIX < N_ROLES, "all roles have a sum");

/* The sums of owner_share, and what the sample at hand adds to n. */
struct share_sum {
	double n;
	double n_sq;
	double weight;
	double current;
};

struct row_source {
	int64_t row;
	enum source_measures measures;
	char *unit;
	int64_t n_samples;
	int64_t weight;
	bool is_time;
	int64_t n_withheld;
	struct share_sum sums[N_ROLES][N_OWNERS][N_PHASES];
};

struct sample_rows {
	const struct sample_context *context;
	struct rows *touches;
	/* Of plain tables; else chunks of touches have them. */
	struct rows *samples;
	struct rows *details;
	int64_t next_sample;
	int64_t next_touch;
	struct row_source **sources;
	size_t n_sources;
	size_t n_sources_allocated;
};

/* Cells of touches. */
enum {
	TOUCH_SAMPLE,
	TOUCH_RUN,
	TOUCH_ROLE,
	TOUCH_SHARE,
	TOUCH_ADDRESS,
	TOUCH_SIZE,
	TOUCH_WRITE,
	TOUCH_OWNER_KIND,
	TOUCH_OWNER,
	TOUCH_PHASE,
	TOUCH_FRAME,
	TOUCH_DATA_SRC,
	TOUCH_ID,
	TOUCH_PROCESS,
	TOUCH_THREAD,
	TOUCH_SOURCE,
	TOUCH_TIME,
	TOUCH_WEIGHT,
	TOUCH_STACK,
	TOUCH_SITE,
	TOUCH_LATENCY,
	TOUCH_NODE,
	TOUCH_PICTURE,
	TOUCH_TABLES,
	TOUCH_SAMPLE_FRAME,
	TOUCH_KERNEL,
	TOUCH_LATENCY_2,
	TOUCH_LATENCY_3,
	TOUCH_PHYSICAL,
	TOUCH_PAGE,
	TOUCH_CELLS,
};

static const struct rows_table sample_table = {
	.name = "sample",
	.columns = "id, run_id, source_id, process_id, thread_id, time_ns, frame_id, stack_id,"
		   " weight, is_kernel",
	.types = "nnniiniinn",
};

static const struct rows_table touch_table = {
	.name = "touch",
	.columns = ROWS_TOUCH,
	.types = "nnnriiiniini"
		 "niinniiiiinniiiiii", /* COMPACT_HIDDEN_TOUCH */
	.tables = TOUCH_TABLES,
};

static const struct rows_table detail_table = {
	.name = "access_detail",
	.columns = "sample_id, run_id, latency, latency_2, latency_3, physical_address, page_bytes,"
		   " node",
	.types = "nniiiiii",
};

static int read_next(struct sample_rows *rows, sqlite3 *db)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(db,
				  "SELECT coalesce((SELECT max(id) FROM sample), 0) + 1,"
				  " coalesce((SELECT max(last_row) FROM touch_chunk), 0) + 1",
				  &statement);

	r = r ?: statement_step(statement);
	if (r > 0) {
		rows->next_sample = sqlite3_column_int64(statement, 0);
		rows->next_touch = sqlite3_column_int64(statement, 1);
	}
	return r < 0 ? r : 0;
}

int sample_rows_create(const struct sample_context *context, struct sample_rows **ret_rows)
{
	struct sample_rows *rows = calloc(1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	rows->context = context;

	int r = read_next(rows, db_handle(context->db));
	r = r ?: rows_open(context->db, &touch_table, &rows->touches);
	r = r ?: rows_open(context->db, &sample_table, &rows->samples);
	r = r ?: rows_open(context->db, &detail_table, &rows->details);
	if (r < 0)
		return sample_rows_destroy(rows), r;
	*ret_rows = rows;
	return 0;
}

struct sample_rows *sample_rows_destroy(struct sample_rows *rows)
{
	if (!rows)
		return NULL;
	rows_close(rows->samples);
	rows_close(rows->touches);
	rows_close(rows->details);
	array_free(rows->sources, rows->n_sources, it, free((*it)->unit), free(*it));
	free(rows);
	return NULL;
}

static char *copy_string(const struct trace_record *record, unsigned i)
{
	size_t n_bytes;
	const char *bytes = trace_record_string(record, i, &n_bytes);

	return strndup(bytes, n_bytes);
}

static int insert_source(struct sample_rows *rows, const struct trace_source *record,
			 struct row_source *source)
{
	sqlite3 *db = db_handle(rows->context->db);
	auto_statement sqlite3_stmt *statement = NULL;
	char *name = copy_string(&record->head, 0);
	char *remedy = copy_string(&record->head, 2);
	uint64_t period = record->period;
	int r = name && source->unit && remedy ? 0 : -ENOMEM;

	if (!period && record->frequency_hz)
		period = UINT64_C(1000000000) / record->frequency_hz;
	if (r == 0)
		r = statement_prepare(
			db,
			"INSERT INTO source(run_id, number, name, unit, period,"
			" exclude_kernel, error, remedy, perf_type, perf_config, passed_over,"
			" measures) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			&statement);
	if (r == 0) {
		source->measures = source_measures_of(name);
		statement_integer(statement, 1, rows->context->run_id);
		statement_integer(statement, 2, record->source_id);
		statement_text(statement, 3, name);
		statement_text(statement, 4, source->unit);
		statement_integer_or_null(statement, 5, (int64_t)period, period);
		statement_integer(statement, 6, record->exclude_kernel);
		statement_integer(statement, 7, record->error);
		statement_text(statement, 8, *remedy ? remedy : NULL);
		statement_integer(statement, 9, record->perf_type);
		statement_integer(statement, 10, (int64_t)record->perf_config);
		statement_integer(statement, 11, (record->flags & TRACE_SOURCE_PASSED_OVER) != 0);
		statement_text(statement, 12, source_measures_word(source->measures));
		r = statement_run(statement);
	}
	source->row = sqlite3_last_insert_rowid(db);
	source->is_time = source->unit && strncmp(source->unit, "ns of ", 6) == 0;
	free_all(name, remedy);
	return r;
}

int sample_rows_source(struct sample_rows *rows, const struct trace_source *record)
{
	struct row_source *source = calloc(1, sizeof(*source));

	if (!source || grow_array(&rows->sources, rows->n_sources, &rows->n_sources_allocated,
				  sizeof(struct row_source *)) < 0)
		return free(source), -ENOMEM;
	source->unit = copy_string(&record->head, 1);
	rows->sources[rows->n_sources++] = source;
	int r = insert_source(rows, record, source);
	return r < 0 ? r : (int)rows->n_sources - 1;
}

static int64_t or_null(int64_t value, bool is_known)
{
	return is_known ? value : ROWS_NULL;
}

int sample_rows_count(struct sample_rows *rows, const struct pending_sample *item)
{
	const struct sample_sink *sink = &rows->context->sink;
	const struct task_thread *thread = tasks_thread(rows->context->tasks, item->thread);
	struct row_source *source = rows->sources[item->source];

	source->n_samples++;
	if (__builtin_add_overflow(source->weight, item->weight, &source->weight))
		source->weight = INT64_MAX; /* periods that no kernel takes */

	const struct sample_event taken = {
		.measures = source->measures,
		.time_ns = item->time_ns,
		.weight = item->weight,
		.thread_row = thread ? thread->row : 0,
		.thread = item->thread,
		.stack = item->stack,
	};
	return sink->sample ? sink->sample(sink->user, &taken) : 0;
}

int64_t sample_rows_next(struct sample_rows *rows)
{
	return rows->next_sample++;
}

int sample_rows_detail(struct sample_rows *rows, uint32_t source,
		       const struct trace_source_detail *record)
{
	auto_statement sqlite3_stmt *statement = NULL;
	auto_free char *event = copy_string(&record->head, 0);
	auto_free char *note = copy_string(&record->head, 1);
	bool is_watch = record->kind == TRACE_SAMPLE_WATCH;
	int r = event && note ? 0 : -ENOMEM;

	if (r == 0)
		r = statement_prepare(
			db_handle(rows->context->db),
			"UPDATE source SET event = ?, kind = ?, direction = ?, precise = ?,"
			" min_latency = ?, perf_config1 = ?, watch_address = ?, watch_size = ?,"
			" note = ? WHERE id = ?",
			&statement);
	if (r < 0)
		return r;
	statement_text(statement, 1, *event ? event : NULL);
	statement_integer(statement, 2, record->kind);
	statement_integer(statement, 3, record->direction);
	statement_integer(statement, 4, record->precise);
	statement_integer(statement, 5, record->min_latency);
	statement_integer(statement, 6, (int64_t)record->perf_config1);
	statement_integer_or_null(statement, 7, (int64_t)record->watch_address, is_watch);
	statement_integer_or_null(statement, 8, record->watch_bytes, is_watch);
	statement_text(statement, 9, *note ? note : NULL);
	statement_integer(statement, 10, rows->sources[source]->row);
	return statement_run(statement);
}

struct sample_row_counts sample_rows_counts(const struct sample_rows *rows, uint32_t source)
{
	const struct row_source *own = rows->sources[source];

	return (struct sample_row_counts){
		.row = own->row,
		.n_samples = own->n_samples,
		.weight = own->weight,
		.n_withheld = own->n_withheld,
		.is_time = own->is_time,
		.unit = own->unit,
	};
}

void sample_rows_withhold(struct sample_rows *rows, uint32_t source)
{
	rows->sources[source]->n_withheld++;
}

/* before: of the shares of the sample's touches, for touch_is_drawn(). */
static enum picture_direction direction_of(const struct touch *touch, double *before)
{
	bool is_drawn = touch->measures != MEASURES_TIME ||
			(touch->role == TRACE_ROLE_WINDOW &&
			 touch_is_drawn(touch->sample, touch->share, before));

	if (!is_drawn || !touch->is_resolved || !touch->process_row)
		return PICTURE_NOWHERE;
	if (touch->role == TRACE_ROLE_FAULT)
		return PICTURE_FAULT;
	return touch->is_write < 0 ? PICTURE_UNKNOWN
	       : touch->is_write   ? PICTURE_WRITE
				   : PICTURE_READ;
}

/* What is the same in all rows of a sample; `touch` is of it. */
static void fill_sample(const struct sample_rows *rows, const struct pending_sample *item,
			const struct touch *touch, union rows_cell *cells)
{
	const struct sample_detail *detail = &item->detail;

	for (unsigned i = 0; i < TOUCH_CELLS; i++)
		cells[i].integer = ROWS_NULL;
	cells[TOUCH_SAMPLE].integer = touch->sample;
	cells[TOUCH_RUN].integer = rows->context->run_id;
	cells[TOUCH_PROCESS].integer = or_null(touch->process_row, touch->process_row);
	cells[TOUCH_THREAD].integer = or_null(touch->thread_row, touch->thread_row);
	cells[TOUCH_SOURCE].integer = touch->source_row;
	cells[TOUCH_TIME].integer = touch->time_ns;
	cells[TOUCH_WEIGHT].integer = touch->weight;
	cells[TOUCH_STACK].integer = or_null(item->stack, item->stack);
	cells[TOUCH_LATENCY].integer = or_null(detail->latency, detail->latency);
	cells[TOUCH_NODE].integer = or_null((int64_t)detail->node_number - 1, detail->node_number);
	cells[TOUCH_TABLES].integer = 0;
}

/* What only its first row has. */
static void fill_first(const struct pending_sample *item, union rows_cell *cells)
{
	const struct sample_detail *detail = &item->detail;
	const int64_t physical = (int64_t)detail->physical_address;
	bool has_detail = detail->latency | detail->latency_2 | detail->latency_3 |
			  detail->physical_address | detail->page_bytes | detail->node_number;

	cells[TOUCH_TABLES].integer = SHOWN_SAMPLE | (has_detail ? SHOWN_DETAIL : 0);
	cells[TOUCH_SAMPLE_FRAME].integer = or_null(item->frame, item->frame);
	cells[TOUCH_KERNEL].integer = item->is_kernel;
	cells[TOUCH_LATENCY_2].integer = or_null(detail->latency_2, detail->latency_2);
	cells[TOUCH_LATENCY_3].integer = or_null(detail->latency_3, detail->latency_3);
	cells[TOUCH_PHYSICAL].integer = or_null(physical, physical);
	cells[TOUCH_PAGE].integer =
		or_null((int64_t)detail->page_bytes, (int64_t)detail->page_bytes);
}

/* The first row of a sample into plain tables. */
static int write_plain(struct sample_rows *rows, const union rows_cell *cells)
{
	int r = rows_put(rows->samples, cells[TOUCH_SAMPLE], cells[TOUCH_RUN], cells[TOUCH_SOURCE],
			 cells[TOUCH_PROCESS], cells[TOUCH_THREAD], cells[TOUCH_TIME],
			 cells[TOUCH_SAMPLE_FRAME], cells[TOUCH_STACK], cells[TOUCH_WEIGHT],
			 cells[TOUCH_KERNEL]);

	if (r < 0 || !(cells[TOUCH_TABLES].integer & SHOWN_DETAIL))
		return r;
	return rows_put(rows->details, cells[TOUCH_SAMPLE], cells[TOUCH_RUN], cells[TOUCH_LATENCY],
			cells[TOUCH_LATENCY_2], cells[TOUCH_LATENCY_3], cells[TOUCH_PHYSICAL],
			cells[TOUCH_PAGE], cells[TOUCH_NODE]);
}

static void fill_touch(const struct sample_rows *rows, const struct touch *touch,
		       union rows_cell *cells)
{
	const struct sample_sink *sink = &rows->context->sink;
	int64_t site = touch->owner.site && sink->stack_of
			       ? sink->stack_of(sink->user, touch->owner.site)
			       : 0;

	cells[TOUCH_TABLES].integer |= SHOWN_TOUCH;
	cells[TOUCH_ROLE].integer = touch->role;
	cells[TOUCH_SHARE].real = touch->share;
	cells[TOUCH_ADDRESS].integer = or_null((int64_t)touch->address, touch->is_resolved);
	cells[TOUCH_SIZE].integer = or_null(touch->size, touch->size >= 0);
	cells[TOUCH_WRITE].integer = or_null(touch->is_write, touch->is_write >= 0);
	cells[TOUCH_OWNER_KIND].integer = touch->owner.kind;
	cells[TOUCH_OWNER].integer = or_null(touch->owner.id, touch->owner.id);
	cells[TOUCH_PHASE].integer = touch->owner.phase;
	cells[TOUCH_FRAME].integer = or_null(touch->frame, touch->frame);
	cells[TOUCH_DATA_SRC].integer = or_null(touch->data_src, touch->data_src);
	cells[TOUCH_SITE].integer = or_null(site, site);
	cells[TOUCH_PICTURE].integer = touch->picture;
}

/* A row that shows a sample without touches: never read but for that. */
static void fill_no_touch(union rows_cell *cells)
{
	cells[TOUCH_ROLE].integer = 0;
	cells[TOUCH_SHARE].real = 0;
	cells[TOUCH_OWNER_KIND].integer = OWNER_unknown;
	cells[TOUCH_PHASE].integer = 0;
	cells[TOUCH_PICTURE].integer = PICTURE_NOWHERE;
}

static struct share_sum *sum_of(struct row_source *source, const struct sample_access *access)
{
	return &source->sums[access->role][access->owner.kind][access->owner.phase];
}

/* Shares of one sample in the same sum are added before they are squared. */
static void add_up(struct row_source *source, const struct pending_sample *item)
{
	for (size_t i = 0; i < item->n; i++)
		sum_of(source, &item->accesses[i])->current += item->accesses[i].share;
	for (size_t i = 0; i < item->n; i++) {
		struct share_sum *sum = sum_of(source, &item->accesses[i]);

		sum->n += sum->current;
		sum->n_sq += sum->current * sum->current;
		sum->weight += sum->current * (double)item->weight;
		sum->current = 0;
	}
}

/* What all touches of a sample say. */
static struct touch touch_of(const struct sample_rows *rows, const struct pending_sample *item)
{
	const struct task_process *process = tasks_process(rows->context->tasks, item->process);
	const struct task_thread *thread = tasks_thread(rows->context->tasks, item->thread);
	const struct row_source *source = rows->sources[item->source];

	return (struct touch){
		.sample = item->row,
		.time_ns = item->time_ns,
		.weight = item->weight,
		.process_row = process ? process->row : 0,
		.thread_row = thread ? thread->row : 0,
		.measures = source->measures,
		.is_access = item->is_access,
		.source_row = source->row,
		.latency = item->detail.latency,
		.node_number = item->detail.node_number,
	};
}

static void take_access(struct touch *touch, const struct sample_access *access)
{
	touch->address = access->address;
	touch->size = access->size;
	touch->is_write = access->is_write;
	touch->is_resolved = access->is_resolved;
	touch->frame = access->frame;
	touch->role = access->role;
	touch->share = access->share;
	touch->owner = access->owner;
	touch->data_src = access->data_src;
}

/* The first row, which shows the sample, too. */
static int begin_rows(struct sample_rows *rows, const struct pending_sample *item,
		      const struct touch *touch, union rows_cell *cells)
{
	fill_sample(rows, item, touch, cells);
	fill_first(item, cells);
	if (item->n == 0)
		fill_no_touch(cells);
	return rows_are_stored(rows->samples) ? write_plain(rows, cells) : 0;
}

int sample_rows_write(struct sample_rows *rows, const struct pending_sample *item)
{
	const struct sample_sink *sink = &rows->context->sink;
	struct touch touch = touch_of(rows, item);
	union rows_cell *cells = rows_add(rows->touches);
	double before = 0;
	int r = cells ? begin_rows(rows, item, &touch, cells) : rows_error(rows->touches);

	for (size_t i = 0; r == 0 && i < item->n; i++) {
		if (i > 0 && !(cells = rows_add(rows->touches)))
			return rows_error(rows->touches);
		if (i > 0)
			fill_sample(rows, item, &touch, cells);
		cells[TOUCH_ID].integer = rows->next_touch++;
		take_access(&touch, &item->accesses[i]);
		touch.picture = direction_of(&touch, &before);
		fill_touch(rows, &touch, cells);
		r = sink->touch ? sink->touch(sink->user, &touch) : 0;
	}
	if (r == 0 && item->n == 0)
		cells[TOUCH_ID].integer = rows->next_touch++;
	add_up(rows->sources[item->source], item);
	return r;
}

static int write_sum(const struct sample_rows *rows, const struct row_source *source,
		     sqlite3_stmt *statement, const unsigned at[3])
{
	const struct share_sum *sum = &source->sums[at[0]][at[1]][at[2]];

	if (sum->n == 0)
		return 0;
	statement_integer(statement, 1, rows->context->run_id);
	statement_integer(statement, 2, source->row);
	for (int i = 0; i < 3; i++)
		statement_integer(statement, 3 + i, at[i]);
	statement_real(statement, 6, sum->n);
	statement_real(statement, 7, sum->n_sq);
	statement_real(statement, 8, sum->weight);
	return statement_run(statement);
}

static int write_sums(const struct sample_rows *rows, const struct row_source *source,
		      sqlite3_stmt *statement)
{
	unsigned at[3];
	int r = 0;

	for (at[0] = 0; at[0] < N_ROLES; at[0]++) {
		for (at[1] = 0; at[1] < N_OWNERS; at[1]++) {
			for (at[2] = 0; r == 0 && at[2] < N_PHASES; at[2]++)
				r = write_sum(rows, source, statement, at);
		}
	}
	return r;
}

static int write_counts(const struct sample_rows *rows, sqlite3 *db)
{
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_prepare(
		db, "UPDATE source SET n_samples = ?, n_withheld = ? WHERE id = ?", &statement);

	for (size_t i = 0; r == 0 && i < rows->n_sources; i++) {
		statement_integer(statement, 1, rows->sources[i]->n_samples);
		statement_integer(statement, 2, rows->sources[i]->n_withheld);
		statement_integer(statement, 3, rows->sources[i]->row);
		r = statement_run(statement);
	}
	return r;
}

int sample_rows_wait(struct sample_rows *rows)
{
	return rows_flush(rows->touches);
}

int sample_rows_finish(struct sample_rows *rows)
{
	sqlite3 *db = db_handle(rows->context->db);
	auto_statement sqlite3_stmt *statement = NULL;
	int r = rows_end(rows->touches) ?: rows_flush(rows->samples);
	r = r ?: rows_flush(rows->details);
	r = r ?: write_counts(rows, db);
	if (r == 0)
		r = statement_prepare(db,
				      "INSERT INTO owner_share(run_id, source_id, role, owner_kind,"
				      " phase, n, n_sq, weight) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
				      &statement);
	for (size_t i = 0; r == 0 && i < rows->n_sources; i++)
		r = write_sums(rows, rows->sources[i], statement);
	return r;
}
