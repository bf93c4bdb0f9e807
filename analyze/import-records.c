#include "analyze/import-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/shell-quote.h"
#include "schemas/trace-control.h"
#include "schemas/ring.h"
#include "store/database.h"
#include "trace/cut.h"

/* String number i of a record, allocated. */
static char *text_of(const struct trace_record *record, unsigned i)
{
	size_t n_bytes;
	const char *bytes = trace_record_string(record, i, &n_bytes);

	return strndup(bytes, n_bytes);
}

static int on_process(struct import *import, const struct trace_record *record)
{
	const struct trace_process *process = (const struct trace_process *)record;
	int64_t time_ns = import_time(import, process->start_ticks);
	struct import_moment moment = {
		.time = import_order(import, process->start_ticks),
		.kind = IMPORT_FORK,
		.process = process->process_id,
		.parent = process->parent_id,
	};

	int r = tasks_add_process(import->tasks, process, time_ns);
	return r < 0 || process->birth != RING_BIRTH_FORK ? r : import_add_moment(import, &moment);
}

static int on_rank(struct import *import, const struct trace_record *record)
{
	const struct trace_rank *rank = (const struct trace_rank *)record;

	return tasks_set_rank(import->tasks, rank->process_id, rank->rank);
}

static int on_process_end(struct import *import, const struct trace_record *record)
{
	const struct trace_process_end *end = (const struct trace_process_end *)record;
	int64_t time_ns = import_time(import, end->ticks);
	struct import_moment moment = {
		.time = import_order(import, end->ticks),
		.kind = IMPORT_END,
		.process = end->process_id,
		.status = end->status,
	};

	int r = tasks_end_process(import->tasks, end->process_id, time_ns, end->status);
	return r < 0 ? r : import_add_moment(import, &moment);
}

static int on_thread(struct import *import, const struct trace_record *record)
{
	const struct trace_thread *thread = (const struct trace_thread *)record;

	return tasks_add_thread(import->tasks, thread, import_time(import, thread->start_ticks));
}

static int on_thread_end(struct import *import, const struct trace_record *record)
{
	const struct trace_thread_end *end = (const struct trace_thread_end *)record;

	return tasks_end_thread(import->tasks, end->thread_id, import_time(import, end->ticks));
}

static int on_thread_name(struct import *import, const struct trace_record *record)
{
	const struct trace_thread_name *name = (const struct trace_thread_name *)record;
	size_t n_bytes;
	const char *bytes = trace_record_string(record, 0, &n_bytes);

	return tasks_name_thread(import->tasks, name->thread_id, import_time(import, name->ticks),
				 bytes, n_bytes);
}

static int on_module(struct import *import, const struct trace_record *record)
{
	const struct trace_module *module = (const struct trace_module *)record;

	return modules_load(import->modules, module, import_time(import, module->ticks));
}

static int on_module_unload(struct import *import, const struct trace_record *record)
{
	const struct trace_module *module = (const struct trace_module *)record;

	struct import_moment moment = {
		.time = import_order(import, module->ticks),
		.kind = IMPORT_UNLOAD,
		.process = module->process_id,
		.mapping = { .address = module->start, .size = module->end - module->start },
	};
	int r = modules_unload(import->modules, module, import_time(import, module->ticks));

	return r < 0 || module->end <= module->start ? r : import_add_moment(import, &moment);
}

static int on_mapping(struct import *import, const struct trace_record *record)
{
	const struct trace_mapping *map = (const struct trace_mapping *)record;
	int64_t time_ns = import_time(import, map->ticks);
	auto_free char *path = text_of(record, 0);
	if (!path)
		return -ENOMEM;

	struct import_moment moment = {
		.time = import_order(import, map->ticks),
		.kind = IMPORT_MAP,
		.process = map->process_id,
		.mapping = {
			.address = map->start,
			.size = map->size,
			.detail = map->prot | (uint64_t)map->flags << 32,
			.path = path,
		},
	};
	return modules_mapping(import->modules, map, time_ns) ?: import_add_moment(import, &moment);
}

static int on_heap_range(struct import *import, const struct trace_record *record)
{
	const struct trace_heap_range *range = (const struct trace_heap_range *)record;
	auto_free char *kind = text_of(record, 0);
	auto_free char *place = text_of(record, 1);
	auto_free char *both = NULL;
	struct import_moment moment = {
		.time = import_order(import, range->ticks),
		.kind = IMPORT_HEAP,
		.process = range->process_id,
		.mapping = { .address = range->start, .size = range->size },
	};

	if (!kind || !place || asprintf(&both, "%s\n%s", kind, place) < 0)
		return -ENOMEM;
	moment.mapping.path = both;
	import_time(import, range->ticks);
	return range->is_removed ? 0 : import_add_moment(import, &moment);
}

/* The row of a process or thread for a loss; ROWS_NULL when it is none's or not known. */
static int64_t process_row(const struct import *import, uint32_t number)
{
	const struct task_process *process = tasks_process(import->tasks, number);

	return number && process ? process->row : INT64_MIN;
}

static int64_t thread_row(const struct import *import, uint32_t number)
{
	const struct task_thread *thread = tasks_thread(import->tasks, number);

	return number && thread ? thread->row : INT64_MIN;
}

static int on_loss(struct import *import, const struct trace_record *record)
{
	const struct trace_loss *loss = (const struct trace_loss *)record;
	auto_free char *source = text_of(record, 0);
	auto_free char *reason = text_of(record, 1);
	if (!source || !reason)
		return -ENOMEM;

	struct losses_item item = {
		.process_row = process_row(import, loss->process_id),
		.thread_row = thread_row(import, loss->thread_id),
		.from_ns = loss->from_ticks ? import_time(import, loss->from_ticks) : INT64_MIN,
		.to_ns = loss->to_ticks ? import_time(import, loss->to_ticks) : INT64_MIN,
		.count = loss->count,
		.source = source,
		.reason = reason,
	};
	return losses_add(&import->losses, &item);
}

static int set_text(char **text, char *value)
{
	if (!value)
		return -ENOMEM;
	free(*text);
	*text = value;
	return 0;
}

static int name_run(struct import *import, const struct trace_record *record)
{
	const struct import_name *name = &import->options->name;
	struct import_run *out = &import->run;

	out->repetition =
		name->program ? name->repetition : ((const struct trace_run *)record)->repetition;
	int r = set_text(&out->program, name->program ? strdup(name->program) : text_of(record, 0));
	return r < 0 ? r
		     : set_text(&out->mode,
				name->program ? strdup(name->mode) : text_of(record, 1));
}

static int on_run(struct import *import, const struct trace_record *record)
{
	const struct trace_run *run = (const struct trace_run *)record;
	struct import_run *out = &import->run;
	size_t n_bytes;
	const char *arguments = trace_record_string(record, 2, &n_bytes);

	out->start_unix_ns = (int64_t)run->start_unix_ns;
	int r = name_run(import, record);
	r = r ?: set_text(&out->command, command_text(arguments, n_bytes));
	r = r ?: set_text(&out->directory, text_of(record, 3));
	return r ?: objects_set_directory(import->objects, out->directory);
}

static int on_fact(struct import *import, const struct trace_record *record)
{
	const struct trace_fact *fact = (const struct trace_fact *)record;
	auto_free char *key = text_of(record, 0);
	auto_free char *value = text_of(record, 1);
	if (!key || !value)
		return -ENOMEM;

	if (strcmp(key, "memsight.min_bytes") == 0)
		memory_set_minimum(import->memory, strtoull(value, NULL, 10));
	if (strcmp(key, "memsight.sample_bytes") == 0 && strtoull(value, NULL, 10) > 0)
		memory_set_picked(import->memory);
	if (strcmp(key, "memsight.heap_min_bytes") == 0)
		memory_set_heap_minimum(import->memory, strtoull(value, NULL, 10));
	if (strcmp(key, TRACE_CUT_FACT_SPAN) == 0)
		samples_note_cut(import->samples);
	if (strcmp(key, "memsight.heap_spill") == 0 && strcmp(value, "yes") == 0)
		memory_set_spill(import->memory);
	return db_run(import->db,
		      "INSERT OR REPLACE INTO fact(run_id, key, at_end, value)"
		      " VALUES(?1, ?2, ?3, ?4)",
		      "itit", import->run_id, key, (int64_t)(fact->at_end != 0), value);
}

static int on_clock(struct import *import, const struct trace_record *record)
{
	return merge_clock_add(&import->clock, (const struct trace_clock *)record);
}

/*
 * {"0": bytes, ...}; NULL where none were told, as on a host with one. The caller frees it by
 * sqlite3_free().
 */
static char *nodes_text(const struct trace_record *record)
{
	size_t n_bytes;
	const char *pairs = trace_record_string(record, 0, &n_bytes);
	sqlite3_str *text = sqlite3_str_new(NULL);

	for (size_t at = 0; at + 12 <= n_bytes; at += 12) {
		uint32_t node;
		uint64_t bytes;
		memcpy(&node, pairs + at, sizeof(node));
		memcpy(&bytes, pairs + at + 4, sizeof(bytes));
		sqlite3_str_appendf(text, "%s\"%u\": %llu", at ? ", " : "{", node,
				    (unsigned long long)bytes);
	}
	if (n_bytes >= 12)
		sqlite3_str_appendall(text, "}");
	return sqlite3_str_finish(text);
}

static int on_process_sample(struct import *import, const struct trace_record *record)
{
	const struct trace_process_sample *sample = (const struct trace_process_sample *)record;
	int64_t row = process_row(import, sample->process_id);
	if (row == INT64_MIN)
		return losses_count(&import->losses, "trace", "definition lost", 1);

	char *nodes = nodes_text(record);
	int r = db_insert(import->db,
			  "process_sample(run_id, process_id, time_ns, rss, anonymous, user_ns,"
			  " system_ns, node_bytes)",
			  "nnnnnnnt", import->run_id, row, import_time(import, sample->ticks),
			  (int64_t)sample->rss_bytes, (int64_t)sample->anonymous_bytes,
			  (int64_t)sample->user_ns, (int64_t)sample->system_ns, nodes);
	sqlite3_free(nodes);
	return r;
}

static int on_source(struct import *import, const struct trace_record *record)
{
	const struct trace_source *source = (const struct trace_source *)record;

	size_t n;
	const char *name = trace_record_string(record, 0, &n);

	if (source->error == 0)
		memory_keep_freed(import->memory);
	if (n == 5 && memcmp(name, "pages", n) == 0)
		memory_note_ends(import->memory);
	return samples_source(import->samples, source);
}

/* What is the samples' alone. */
#define TO_SAMPLES(name)                                                                           \
	static int on_##name(struct import *import, const struct trace_record *record)             \
	{                                                                                          \
		return samples_##name(import->samples, (const struct trace_##name *)record);       \
	}
TO_SAMPLES(source_detail)
TO_SAMPLES(source_ledger)
TO_SAMPLES(page_nodes)
TO_SAMPLES(perf_clock)
TO_SAMPLES(period)

static int on_watch(struct import *import, const struct trace_record *record)
{
	const struct trace_watch *watch = (const struct trace_watch *)record;

	import_time(import, watch->ticks);
	return samples_watched(import->samples, watch);
}

static int on_contents(struct import *import, const struct trace_record *record)
{
	return guesses_add(import->guesses, (const struct trace_contents *)record);
}

/*
 * Parts follow each other; what is damaged is lost, and the rest goes on. 1: that was the last, and
 * all of them are the moment's.
 */
static int add_part(struct import *import, const struct trace_record *record,
		    struct import_moment *moment)
{
	struct pages_look *look = &import->looks[moment->kind - IMPORT_PAGES];
	int r = pages_look_add(look, record);

	if (r == -EBADMSG) {
		pages_look_finish(look);
		return losses_count(&import->losses, "pages", pages_look_damage(record), 1);
	}
	if (r <= 0)
		return r;
	moment->look = malloc(sizeof(*moment->look));
	if (!moment->look)
		return -ENOMEM;
	*moment->look = *look;
	*look = (struct pages_look){ 0 };
	return 1;
}

static int on_pages(struct import *import, const struct trace_record *record)
{
	const struct trace_pages *pages = (const struct trace_pages *)record;
	struct import_moment moment = {
		.time = import_order(import, pages->ticks),
		.kind = IMPORT_PAGES,
		.process = pages->process_id,
	};
	int r = add_part(import, record, &moment);

	if (r <= 0)
		return r;
	import_time(import, pages->end_ticks);
	moment.look->is_passed =
		pages->reason == TRACE_PAGES_PEAK &&
		pages->ticks < key_map_get(&import->last_peaks, pages->process_id, 0);
	return import_add_moment(import, &moment);
}

static int on_touches(struct import *import, const struct trace_record *record)
{
	const struct trace_touches *touches = (const struct trace_touches *)record;
	struct import_moment moment = {
		.time = import_order(import, touches->ticks),
		.kind = IMPORT_TOUCHES,
		.process = touches->process_id,
	};
	int r = add_part(import, record, &moment);

	if (r <= 0)
		return r;
	import_time(import, touches->end_ticks);
	return import_add_moment(import, &moment);
}

static int on_writes(struct import *import, const struct trace_record *record)
{
	const struct trace_writes *writes = (const struct trace_writes *)record;
	struct import_moment moment = {
		.time = import_order(import, writes->ticks),
		.kind = IMPORT_WRITES,
		.process = writes->process_id,
	};
	int r = add_part(import, record, &moment);

	return r <= 0 ? r : import_add_moment(import, &moment);
}

static int on_run_exit(struct import *import, const struct trace_record *record)
{
	const struct trace_exit *end = (const struct trace_exit *)record;
	struct import_run *run = &import->run;

	/* Of a program that we attached to nobody hears how it ended. */
	run->exit_status = end->status < 0 ? INT64_MIN : end->status;
	run->user_ns = (int64_t)end->user_ns;
	run->system_ns = (int64_t)end->system_ns;
	run->max_rss = end->max_rss_bytes ? (int64_t)end->max_rss_bytes : INT64_MIN;
	run->collector_cpu_ns = (int64_t)end->collector_cpu_ns;
	run->minor_faults = (int64_t)end->minor_faults;
	run->major_faults = (int64_t)end->major_faults;
	run->exit_ns = import_time(import, end->ticks);
	return 0;
}

static int on_counter(struct import *import, const struct trace_record *record)
{
	const struct trace_counter *counter = (const struct trace_counter *)record;
	auto_free char *name = text_of(record, 0);
	auto_free char *unit = text_of(record, 1);
	if (!name || !unit)
		return -ENOMEM;

	if (strcmp(name, "blocks below --min-size") == 0)
		import->tally.total.below_min += counter->value;
	return db_insert(import->db,
			 "counter(run_id, process_id, name, value, unit, enabled_ns, running_ns)",
			 "nitntnn", import->run_id, process_row(import, counter->process_id), name,
			 (int64_t)counter->value, unit, (int64_t)counter->enabled_ns,
			 (int64_t)counter->running_ns);
}

static int on_trips(struct import *import, const struct trace_record *record)
{
	const struct trace_trips *trips = (const struct trace_trips *)record;
	int64_t text = trips->name_id ? texts_number(&import->texts, trips->name_id) : 0;

	if (text < 0)
		return (int)text;
	return text ? regions_count(import->regions, (uint32_t)text, trips->n) : 0;
}

static const struct {
	uint16_t type;
	int (*handle)(struct import *import, const struct trace_record *record);
} handlers[] = {
	{ TRACE_RECORD_PROCESS, on_process },
	{ TRACE_RECORD_PROCESS_END, on_process_end },
	{ TRACE_RECORD_RANK, on_rank },
	{ TRACE_RECORD_THREAD, on_thread },
	{ TRACE_RECORD_THREAD_END, on_thread_end },
	{ TRACE_RECORD_THREAD_NAME, on_thread_name },
	{ TRACE_RECORD_MODULE, on_module },
	{ TRACE_RECORD_MODULE_UNLOAD, on_module_unload },
	{ TRACE_RECORD_MAPPING, on_mapping },
	{ TRACE_RECORD_HEAP_RANGE, on_heap_range },
	{ TRACE_RECORD_LOSS, on_loss },
	{ TRACE_RECORD_SOURCE, on_source },
	{ TRACE_RECORD_SOURCE_DETAIL, on_source_detail },
	{ TRACE_RECORD_PERF_CLOCK, on_perf_clock },
	{ TRACE_RECORD_PERIOD, on_period },
	{ TRACE_RECORD_PAGE_NODES, on_page_nodes },
	{ TRACE_RECORD_PAGES, on_pages },
	{ TRACE_RECORD_TOUCHES, on_touches },
	{ TRACE_RECORD_WRITES, on_writes },
	{ TRACE_RECORD_CONTENTS, on_contents },
	{ TRACE_RECORD_WATCH, on_watch },
	{ TRACE_RECORD_SOURCE_LEDGER, on_source_ledger },
	{ TRACE_RECORD_RUN, on_run },
	{ TRACE_RECORD_FACT, on_fact },
	{ TRACE_RECORD_CLOCK, on_clock },
	{ TRACE_RECORD_PROCESS_SAMPLE, on_process_sample },
	{ TRACE_RECORD_EXIT, on_run_exit },
	{ TRACE_RECORD_COUNTER, on_counter },
	{ TRACE_RECORD_TRIPS, on_trips },
	{ TRACE_RECORD_TEXT, import_text_record },
	{ TRACE_RECORD_WINDOW, import_window_record },
	{ TRACE_RECORD_OUTSIDE_MARK, import_mark_record },
};

int import_record(struct import *import, const struct trace_record *record)
{
	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
		if (handlers[i].type == record->type)
			return handlers[i].handle(import, record);
	}
	return 0; /* from a newer writer: the reader counts it */
}
