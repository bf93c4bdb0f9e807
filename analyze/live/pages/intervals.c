#include "analyze/live/pages/intervals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/live-memory-internal.h"
#include "common/cleanup.h"
#include "store/database.h"
#include "trace/varint.h"

#define MAX_LOOK_BYTES (128u << 20) /* more is damage */
/* Blocks are looked at in each interval: in a run at most so many times, at some 55 ns. */
#define MAX_VISITS (UINT64_C(1) << 27)

static const struct rows_table touch_interval_table = {
	.name = "page_interval",
	.columns = "id, run_id, process_id, begin_ns, end_ns, read_ns, page_bytes, resident,"
		   " touched, own_ns, program_ns, is_end",
	.types = "nnnnnnnnnnnn",
};

static const struct rows_table touch_run_table = {
	.name = "page_run",
	.columns = "run_id, process_id, address, size, kind, has_huge, begin_ns, end_ns,"
		   " n_intervals, resident, touched, node_bytes",
	.types = "nnnntnnnnnnt",
};

static const struct rows_table touch_site_table = {
	.name = "page_touch",
	.columns = "run_id, process_id, kind, stack_id, begin_ns, end_ns, n_intervals, size,"
		   " resident, least, most, has_ended, node_touched",
	.types = "nntnnnnnnnnnt",
};

static const struct rows_table write_interval_table = {
	.name = "write_interval",
	.columns = "run_id, process_id, begin_ns, end_ns, page_bytes, known, written, own_ns,"
		   " program_ns",
	.types = "nnnnnnnnn",
};

static const struct rows_table write_run_table = {
	.name = "page_write",
	.columns = "run_id, process_id, address, size, state, begin_ns, end_ns, n_intervals",
	.types = "nnnntnnn",
};

static const struct rows_table write_site_table = {
	.name = "site_write",
	.columns = "run_id, process_id, kind, stack_id, begin_ns, end_ns, n_intervals, size, known,"
		   " least, most",
	.types = "nntnnnnnnnn",
};

static const struct rows_table *const tables[TOUCHES_TABLES] = {
	[TOUCHES_INTERVALS] = &touch_interval_table,
	[TOUCHES_RUNS] = &touch_run_table,
	[TOUCHES_SITES] = &touch_site_table,
	[WRITES_INTERVALS] = &write_interval_table,
	[WRITES_RUNS] = &write_run_table,
	[WRITES_SITES] = &write_site_table,
	[TOUCHES_BLOCKS] = &block_touches_table,
};

/* ---- Looks ---- */

struct part {
	uint32_t process, number;
	bool is_last;
};

static struct part part_of(const struct trace_record *record)
{
	const struct trace_pages *pages = (const struct trace_pages *)record;
	const struct trace_touches *touches = (const struct trace_touches *)record;
	const struct trace_writes *writes = (const struct trace_writes *)record;

	if (record->type == TRACE_RECORD_PAGES)
		return (struct part){ pages->process_id, pages->number, pages->is_last };
	if (record->type == TRACE_RECORD_TOUCHES)
		return (struct part){ touches->process_id, touches->number, touches->is_last };
	return (struct part){ writes->process_id, writes->number, writes->is_last };
}

/* Behind n bytes, of an array whose pointer is at bytes. */
static int append(void *bytes, size_t *n, const struct trace_record *record, unsigned string)
{
	size_t n_more;
	const char *more = trace_record_string(record, string, &n_more);
	char **at = bytes;

	if (*n + n_more > MAX_LOOK_BYTES)
		return -EBADMSG;
	char *larger = realloc(*at, *n + n_more + TRACE_VARINT_SLACK);
	if (!larger)
		return -ENOMEM;
	memcpy(larger + *n, more, n_more);
	*n += n_more;
	memset(larger + *n, 0, TRACE_VARINT_SLACK);
	*at = larger;
	return 0;
}

int pages_look_add(struct pages_look *look, const struct trace_record *record)
{
	struct part part = part_of(record), before = part_of(&look->head.record);

	if (look->runs && (before.number != part.number || before.process != part.process))
		pages_look_finish(look);
	if (!look->runs && record->type == TRACE_RECORD_PAGES)
		look->head.pages = *(const struct trace_pages *)record;
	else if (!look->runs && record->type == TRACE_RECORD_TOUCHES)
		look->head.touches = *(const struct trace_touches *)record;
	else if (!look->runs)
		look->head.writes = *(const struct trace_writes *)record;
	int r = append(&look->runs, &look->n_run_bytes, record, 0);
	if (r == 0 && record->type == TRACE_RECORD_PAGES)
		r = append(&look->maps, &look->n_map_bytes, record, 1);
	return r < 0 ? r : part.is_last;
}

void pages_look_finish(struct pages_look *look)
{
	free_all(look->runs, look->maps);
	*look = (struct pages_look){ 0 };
}

const char *pages_look_damage(const struct trace_record *record)
{
	return record->type == TRACE_RECORD_PAGES     ? "look at the pages damaged"
	       : record->type == TRACE_RECORD_TOUCHES ? "interval of touches damaged"
						      : "interval of writes damaged";
}

const char *pages_node_text(struct memory *memory, const uint64_t bytes[PAGES_NODES])
{
	char text[PAGES_NODES * 28 + 3];
	size_t n = 0;

	for (unsigned i = 0; i < PAGES_NODES; i++)
		if (bytes[i])
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\"%u\": %llu",
					      n ? ", " : "{", i, (unsigned long long)bytes[i]);
	snprintf(text + n, sizeof(text) - n, n ? "}" : "{}");
	return memory_intern(memory, text);
}

int touches_open(struct db *db, int64_t run_id, struct touches **ret_touches)
{
	struct touches *touches = calloc(1, sizeof(*touches));
	int r = 0;

	if (!touches)
		return -ENOMEM;
	touches->run_id = run_id;
	touches->next_id = db_integer(db, "SELECT max(id) FROM page_interval", 0) + 1;
	for (size_t i = 0; i < TOUCHES_TABLES && r == 0; i++)
		r = rows_open(db, tables[i], &touches->rows[i]);
	if (r < 0)
		touches = touches_close(touches);
	*ret_touches = touches;
	return r;
}

void page_interval_finish(struct page_interval *interval)
{
	free_all(interval->runs.runs, interval->runs.parts);
	page_sites_finish(&interval->sites);
	*interval = (struct page_interval){ 0 };
}

static void free_held(struct held *held)
{
	for (size_t i = 0; i < PAGES_ACCESSES; i++)
		page_interval_finish(&held->of[i]);
	block_touches_finish(&held->blocks);
	free(held);
}

struct touches *touches_close(struct touches *touches)
{
	if (!touches)
		return NULL;
	while (touches->held) {
		struct held *next = touches->held->next;

		free_held(touches->held);
		touches->held = next;
	}
	for (size_t i = 0; i < TOUCHES_TABLES; i++)
		rows_close(touches->rows[i]);
	free(touches);
	return NULL;
}

struct held *touches_held(struct touches *touches, const struct memory_image *image)
{
	struct held *held = touches->held;

	while (held && held->process != image->number)
		held = held->next;
	if (held)
		return held;
	held = calloc(1, sizeof(*held));
	if (!held)
		return NULL;
	held->process = image->number;
	held->process_row = image->row;
	held->next = touches->held;
	touches->held = held;
	return held;
}

bool touches_may_visit(struct touches *touches, const struct memory_image *image)
{
	uint64_t n = live_blocks_count(&image->blocks);

	if (n > MAX_VISITS - touches->n_visits)
		return false;
	touches->n_visits += n;
	return true;
}

/* ---- Runs ---- */

static const char *kind_of(unsigned bits)
{
	return bits & TRACE_TOUCH_TOOL	    ? "tool"
	       : bits & TRACE_TOUCH_UNKNOWN ? "hugetlb"
	       : bits & TRACE_TOUCH_STACK   ? "stack"
	       : bits & TRACE_TOUCH_FILE    ? "file"
					    : "anonymous";
}

static const char *state_of(unsigned bits)
{
	return bits & TRACE_WRITE_HUGE	    ? "huge"
	       : bits & TRACE_WRITE_NEW	    ? "new"
	       : bits & TRACE_WRITE_WRITTEN ? "written"
					    : "clean";
}

static int write_run(struct touches *touches, const struct held *held, enum pages_access access,
		     const struct page_run *run)
{
	if (access == PAGES_WRITTEN)
		return rows_put(touches->rows[WRITES_RUNS], CELL(touches->run_id),
				CELL(held->process_row), CELL(run->address), CELL(run->size),
				CELL(state_of(run->bits)), CELL(run->span.begin_ns),
				CELL(run->span.end_ns), CELL(run->span.n_intervals));
	return rows_put(touches->rows[TOUCHES_RUNS], CELL(touches->run_id), CELL(held->process_row),
			CELL(run->address), CELL(run->size), CELL(kind_of(run->bits)),
			CELL((run->bits & TRACE_TOUCH_HUGE) != 0), CELL(run->span.begin_ns),
			CELL(run->span.end_ns), CELL(run->span.n_intervals), CELL(run->resident),
			CELL(run->touched), CELL(run->nodes));
}

/* Whether a run is as that of the interval before. */
static bool goes_on(const struct page_run *now, const struct page_run *before)
{
	return now->address == before->address && now->size == before->size &&
	       now->bits == before->bits && now->resident == before->resident &&
	       now->touched == before->touched && now->nodes == before->nodes &&
	       span_is_next(&now->span, &before->span);
}

static int replace_runs(struct touches *touches, struct held *held, enum pages_access access,
			struct page_runs *runs)
{
	struct page_runs *old = &held->of[access].runs;
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; i < old->n && r == 0; i++) {
		const struct page_run *run = &old->runs[i];

		while (at < runs->n && runs->runs[at].address < run->address)
			at++;
		if (at < runs->n && goes_on(&runs->runs[at], run))
			span_extend(&runs->runs[at].span, &run->span);
		else
			r = write_run(touches, held, access, run);
	}
	free(old->runs);
	*old = *runs;
	*runs = (struct page_runs){ 0 };
	return r;
}

static int replace(struct touches *touches, struct held *held, enum pages_access access,
		   struct page_interval *now)
{
	const int64_t ids[] = { touches->run_id, held->process_row };
	struct rows *rows = touches->rows[access == PAGES_TOUCHED ? TOUCHES_SITES : WRITES_SITES];
	int r = replace_runs(touches, held, access, &now->runs);
	int of_sites = page_sites_replace(&held->of[access].sites, &now->sites, rows, ids,
					  access == PAGES_TOUCHED);

	return r < 0 ? r : of_sites;
}

int page_interval_keep(struct touches *touches, struct held *held, enum pages_access access,
		       struct page_interval *now, int r)
{
	free(now->runs.parts);
	now->runs.parts = NULL;
	if (r == -EBADMSG) { /* what goes on behind it is another row */
		now->runs.n = 0;
		page_sites_finish(&now->sites);
	}
	if (r == 0 || r == -EBADMSG) {
		int replaced = replace(touches, held, access, now);

		r = replaced < 0 ? replaced : r;
	}
	page_interval_finish(now);
	return r;
}

/* ---- All of an image ---- */

static int end_held(struct touches *touches, struct held *held)
{
	struct page_interval nothing = { 0 };
	int r = replace(touches, held, PAGES_TOUCHED, &nothing)
			?: replace(touches, held, PAGES_WRITTEN, &nothing);

	if (r == 0)
		r = block_touches_write(&held->blocks, touches->rows[TOUCHES_BLOCKS],
					touches->run_id, held->process_row);
	block_touches_finish(&held->blocks);
	return r;
}

int touches_end(struct touches *touches, uint32_t process)
{
	for (struct held *held = touches->held; held; held = held->next)
		if (held->process == process)
			return end_held(touches, held);
	return 0;
}

int touches_flush(struct touches *touches)
{
	int r = 0;

	for (struct held *held = touches->held; held && r == 0; held = held->next)
		r = end_held(touches, held);
	for (size_t i = 0; i < TOUCHES_TABLES && r == 0; i++)
		r = rows_flush(touches->rows[i]);
	return r;
}
