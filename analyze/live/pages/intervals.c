#include "analyze/live/pages/intervals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/live/live-memory-internal.h"
#include "analyze/live/pages/gather.h"
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

int pages_gather(void *bytes, size_t *n, const char *more, size_t n_more)
{
	char **at = bytes;
	char *larger;

	if (*n + n_more > MAX_LOOK_BYTES)
		return -EBADMSG;
	larger = realloc(*at, *n + n_more + TRACE_VARINT_SLACK);
	if (!larger)
		return -ENOMEM;
	memcpy(larger + *n, more, n_more);
	*n += n_more;
	memset(larger + *n, 0, TRACE_VARINT_SLACK);
	*at = larger;
	return 0;
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

static void free_held(struct held *held)
{
	free(held->touches.runs);
	free(held->writes.runs);
	page_sites_finish(&held->touched);
	page_sites_finish(&held->written);
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

static int write_touch_run(struct touches *touches, const struct held *held,
			   const struct touch_run *run)
{
	return rows_put(touches->rows[TOUCHES_RUNS], CELL(touches->run_id), CELL(held->process_row),
			CELL(run->address), CELL(run->size), CELL(kind_of(run->bits)),
			CELL((run->bits & TRACE_TOUCH_HUGE) != 0), CELL(run->span.begin_ns),
			CELL(run->span.end_ns), CELL(run->span.n_intervals), CELL(run->resident),
			CELL(run->touched), CELL(run->nodes));
}

static int replace_touchs(struct touches *touches, struct held *held, struct touch_runs *runs)
{
	const struct touch_runs *old = &held->touches;
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; i < old->n && r == 0; i++) {
		const struct touch_run *run = &old->runs[i];

		while (at < runs->n && runs->runs[at].address < run->address)
			at++;
		if (at < runs->n && runs->runs[at].address == run->address &&
		    runs->runs[at].size == run->size && runs->runs[at].bits == run->bits &&
		    runs->runs[at].resident == run->resident &&
		    runs->runs[at].touched == run->touched && runs->runs[at].nodes == run->nodes &&
		    span_is_next(&runs->runs[at].span, &run->span))
			span_extend(&runs->runs[at].span, &run->span);
		else
			r = write_touch_run(touches, held, run);
	}
	free(held->touches.runs);
	held->touches = *runs;
	*runs = (struct touch_runs){ 0 };
	return r;
}

int touches_replace(struct touches *touches, struct held *held, struct touch_runs *runs,
		    struct page_sites *sites)
{
	const int64_t ids[] = { touches->run_id, held->process_row };
	int r = replace_touchs(touches, held, runs);
	int of_sites =
		page_sites_replace(&held->touched, sites, touches->rows[TOUCHES_SITES], ids, true);

	return r < 0 ? r : of_sites;
}

static const char *state_of(unsigned bits)
{
	return bits & TRACE_WRITE_HUGE	    ? "huge"
	       : bits & TRACE_WRITE_NEW	    ? "new"
	       : bits & TRACE_WRITE_WRITTEN ? "written"
					    : "clean";
}

static int write_write_run(struct touches *touches, const struct held *held,
			   const struct write_run *run)
{
	return rows_put(touches->rows[WRITES_RUNS], CELL(touches->run_id), CELL(held->process_row),
			CELL(run->address), CELL(run->size), CELL(state_of(run->bits)),
			CELL(run->span.begin_ns), CELL(run->span.end_ns),
			CELL(run->span.n_intervals));
}

static int replace_writes(struct touches *touches, struct held *held, struct write_runs *runs)
{
	const struct write_runs *old = &held->writes;
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; i < old->n && r == 0; i++) {
		const struct write_run *run = &old->runs[i];

		while (at < runs->n && runs->runs[at].address < run->address)
			at++;
		if (at < runs->n && runs->runs[at].address == run->address &&
		    runs->runs[at].size == run->size && runs->runs[at].bits == run->bits &&
		    span_is_next(&runs->runs[at].span, &run->span))
			span_extend(&runs->runs[at].span, &run->span);
		else
			r = write_write_run(touches, held, run);
	}
	free(held->writes.runs);
	held->writes = *runs;
	*runs = (struct write_runs){ 0 };
	return r;
}

int writes_replace(struct touches *touches, struct held *held, struct write_runs *runs,
		   struct page_sites *sites)
{
	const int64_t ids[] = { touches->run_id, held->process_row };
	int r = replace_writes(touches, held, runs);
	int of_sites =
		page_sites_replace(&held->written, sites, touches->rows[WRITES_SITES], ids, false);

	return r < 0 ? r : of_sites;
}

/* ---- All of an image ---- */

static int end_held(struct touches *touches, struct held *held)
{
	struct touch_runs no_touches = { 0 };
	struct write_runs no_writes = { 0 };
	struct page_sites no_sites = { 0 };
	int r = touches_replace(touches, held, &no_touches, &no_sites);

	if (r == 0)
		r = writes_replace(touches, held, &no_writes, &no_sites);
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
