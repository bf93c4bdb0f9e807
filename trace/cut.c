#include "trace/cut.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "schemas/trace-control.h"
#include "trace/cut-internal.h"

static int take_nodes(struct cut *cut, const struct trace_item *item)
{
	struct cut_thread *thread = cut_find_thread(cut, item->stream_id);

	if (!thread)
		return 0;
	if (grow_array_by(&thread->nodes, thread->n_nodes, item->n, &thread->n_nodes_allocated,
			  sizeof(*thread->nodes)) < 0)
		return -ENOMEM;
	memcpy(thread->nodes + thread->n_nodes, item->nodes, item->n * sizeof(*item->nodes));
	thread->n_nodes += item->n;
	return 0;
}

static int take_events(struct cut *cut, const struct trace_item *item)
{
	const struct cut_thread *thread = cut_find_thread(cut, item->stream_id);
	int r = 0;

	if (!thread) {
		cut->n_read_events += item->n;
		return 0;
	}
	for (size_t i = 0; r == 0 && i < item->n; i++)
		r = cut_event(cut, (uint32_t)(thread - cut->threads), &item->events[i]);
	return r;
}

static int take_item(struct cut *cut, const struct trace_item *item)
{
	switch (item->type) {
	case TRACE_FRAME_RECORDS:
		return cut_records(cut, item);
	case TRACE_FRAME_EVENTS:
		return take_events(cut, item);
	case TRACE_FRAME_NODES:
		return take_nodes(cut, item);
	case TRACE_FRAME_PERF:
		return cut_perf(cut, item);
	case TRACE_FRAME_ACCESSES:
		return cut_accesses(cut, item);
	case TRACE_FRAME_AUX:
		return cut_aux(cut, item);
	case TRACE_FRAME_CODE:
		return cut_code(cut, item);
	default:
		return 0;
	}
}

/* Threads that still run may come back to any of their stacks; of others only what is used. */
static void decide_threads(struct cut *cut)
{
	for (size_t i = 0; i < cut->n_threads; i++) {
		struct cut_thread *thread = &cut->threads[i];
		struct cut_process *process = &cut->processes[thread->process];

		thread->is_kept |= process->is_needed && !thread->has_ended;
		process->is_kept |= thread->is_kept;
	}
}

/* Mark a stack of a thread, whose nodes by id are in order. */
static void use_stack(const struct key_map *by_id, const struct trace_node *nodes, bool *is_used,
		      uint32_t id)
{
	uint64_t number;

	while (id && (number = key_map_get(by_id, id, 0)) && !is_used[number - 1]) {
		is_used[number - 1] = true;
		id = nodes[number - 1].parent_id;
	}
}

static int write_nodes(struct cut *cut, const struct cut_thread *thread, const bool *is_used)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < thread->n_nodes; i++)
		if (!is_used || is_used[i])
			r = trace_writer_node(cut->writer, thread->id, &thread->nodes[i]);
	return r;
}

/* What events of threads that have ended use of their nodes. The arrays are by thread. */
static void use_stacks(const struct cut *cut, const struct key_map *by_id, bool **is_used,
		       const struct cut_event *events, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct cut_event *event = &events[i];
		uint32_t at = event->thread - 1;

		if (event->thread && event->is_kept && is_used[at])
			use_stack(&by_id[at], cut->threads[at].nodes, is_used[at],
				  event->event.stack_id);
	}
}

static int write_used_nodes(struct cut *cut)
{
	struct key_map *by_id = calloc(cut->n_threads + 1, sizeof(*by_id));
	bool **is_used = calloc(cut->n_threads + 1, sizeof(*is_used));
	int r = by_id && is_used ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < cut->n_threads; i++) {
		const struct cut_thread *thread = &cut->threads[i];

		if (!thread->is_kept || !thread->has_ended)
			continue;
		is_used[i] = calloc(thread->n_nodes + 1, sizeof(**is_used));
		r = is_used[i] ? 0 : -ENOMEM;
		for (size_t k = 0; r == 0 && k < thread->n_nodes; k++)
			r = key_map_put(&by_id[i], thread->nodes[k].id, 0, k + 1);
	}
	if (r == 0) {
		use_stacks(cut, by_id, is_used, cut->events, cut->n_events);
		use_stacks(cut, by_id, is_used, cut->late, cut->n_late);
	}
	for (size_t i = 0; r == 0 && i < cut->n_threads; i++)
		if (is_used[i])
			r = write_nodes(cut, &cut->threads[i], is_used[i]);
	for (size_t i = 0; by_id && is_used && i < cut->n_threads; i++) {
		key_map_finish(&by_id[i]);
		free(is_used[i]);
	}
	free_all(by_id, is_used);
	return r;
}

static int write_all_nodes(struct cut *cut)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cut->n_threads; i++)
		if (cut->threads[i].is_kept && !cut->threads[i].has_ended)
			r = write_nodes(cut, &cut->threads[i], NULL);
	return r == 0 ? write_used_nodes(cut) : r;
}

/* ---- What the file says of the cut ---- */

static int write_fact(struct cut *cut, const char *key, const char *value)
{
	const struct trace_fact fact = {
		.head.type = TRACE_RECORD_FACT,
		.ticks = cut->options->commit.ticks,
	};

	return trace_writer_add(cut->writer, &fact, trace_text(key), trace_text(value));
}

static int write_count(struct cut *cut, const char *key, uint64_t n)
{
	char value[24];

	snprintf(value, sizeof(value), "%llu", (unsigned long long)n);
	return write_fact(cut, key, value);
}

static int write_window(struct cut *cut)
{
	char cause[64];

	snprintf(cause, sizeof(cause), TRACE_CUT_CAUSE "%s", cut->options->span);
	const struct trace_window window = {
		.head.type = TRACE_RECORD_WINDOW,
		.begin_ticks = cut->options->commit.ticks,
		.number = 1,
	};

	return trace_writer_add(cut->writer, &window, trace_text(cause));
}

static int write_cut(struct cut *cut)
{
	cut->n_dropped_samples += cut->n_read_samples;
	if (cut->n_read_events > cut->n_kept_events)
		cut->n_dropped_events += cut->n_read_events - cut->n_kept_events;
	int r = write_fact(cut, TRACE_CUT_FACT_SPAN, cut->options->span);
	r = r ?: write_count(cut, TRACE_CUT_FACT_EVENTS, cut->n_dropped_events);
	r = r ?: write_count(cut, TRACE_CUT_FACT_SAMPLES, cut->n_dropped_samples);
	return r == 0 && !cut->has_windows ? write_window(cut) : r;
}

/* ---- From one file to the other ---- */

static int read_all(struct cut *cut)
{
	struct trace_item item;
	int r = 1;

	while (r > 0 && trace_reader_offset(cut->reader) < cut->options->end_offset) {
		r = trace_reader_next(cut->reader, &item);
		if (r > 0) {
			int err = take_item(cut, &item);

			r = err < 0 ? err : 1;
		}
	}
	return r < 0 ? r : 0;
}

static int write_all(struct cut *cut)
{
	cut_decide_processes(cut);
	int r = cut_decide_perf(cut) ?: cut_decide_events(cut);
	if (r < 0)
		return r;
	decide_threads(cut);
	r = cut_write_records(cut) ?: write_all_nodes(cut);
	r = r ?: cut_write_code(cut);
	r = r ?: cut_write_perf(cut);
	r = r ?: cut_write_events(cut);
	r = r ?: write_cut(cut);
	return r == 0 ? trace_writer_commit(cut->writer, &cut->options->commit, NULL) : r;
}

static void finish(struct cut *cut)
{
	trace_reader_close(cut->reader);
	trace_writer_close(cut->writer);
	cut_finish_memory(cut);
	cut_finish_samples(cut);
	array_free(cut->records, cut->n_records, it, free(it->bytes));
	free_all(cut->clocks, cut->processes, cut->threads);
	key_map_finish(&cut->processes_by_id);
	key_map_finish(&cut->threads_by_id);
	key_map_finish(&cut->threads_by_tid);
	key_map_finish(&cut->last_records);
}

int trace_cut(const struct trace_cut *options, struct trace_cut_result *ret_result)
{
	struct cut cut = { .options = options };
	int r = trace_reader_open_fd(options->source_fd, &cut.reader);

	if (r < 0)
		return close(options->fd), r;
	r = trace_writer_open(options->fd, trace_reader_header(cut.reader), &cut.writer);
	r = r ?: read_all(&cut);
	r = r ?: write_all(&cut);
	if (r == 0) {
		const struct trace_writer_totals *totals = trace_writer_totals(cut.writer);

		*ret_result = (struct trace_cut_result){
			.n_bytes = trace_writer_file_bytes(cut.writer),
			.n_events = totals->n_events,
			.n_samples = totals->n_samples,
			.n_dropped_events = cut.n_dropped_events,
			.n_dropped_samples = cut.n_dropped_samples,
			.has_windows = cut.has_windows,
		};
	}
	finish(&cut);
	return r;
}
