/* What the records of the pool say about threads, modules and execs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/clock.h"
#include "runner/attach/heap-walk.h"
#include "runner/control/live-totals.h"
#include "runner/processes/image-proc.h"
#include "runner/processes/tracker.h"
#include "runner/run.h"
#include "runner/sampling/sampling.h"
#include "runner/trace-records-write.h"
#include "runner/watch/watch.h"
#include "schemas/trace-contents.h"

static uint32_t start_thread(void *user, void *image_pointer, const struct ring_thread_start *start)
{
	struct tracker *tracker = user;
	struct image *image = image_pointer;
	uint32_t tid = start ? start->tid : 0;

	tracker_announce(tracker, image);
	/* The first thread has the number of its process in every namespace. */
	if (start && image->pid != image->ns_pid)
		tid = (pid_t)start->tid == image->ns_pid ? (uint32_t)image->pid : 0;
	if (store_thread(tracker->writer, ++tracker->next_thread_id, image, tid, start) < 0)
		return 0;
	if (tracker->totals)
		live_totals_thread(tracker->totals, &(struct live_thread_name){
							    .process_id = image->id,
							    .pid = (uint32_t)image->pid,
							    .thread_id = tracker->next_thread_id,
							    .tid = tid,
							    .name = start ? start->name : NULL,
						    });
	if (start)
		image_add_thread(image, &(struct image_thread){
						.id = tracker->next_thread_id,
						.tid = tid,
						.ns_tid = start->tid,
						.fs_base = start->fs_base,
					});
	return tracker->next_thread_id;
}

static void name_thread(void *user, void *image, uint32_t tid, const char *name, uint64_t ticks)
{
	struct tracker *tracker = user;
	uint32_t thread_id = image_thread_id(image, tid);

	if (!thread_id)
		return;
	store_thread_name(tracker->writer, thread_id, name, ticks);
	if (tracker->totals)
		live_totals_rename(tracker->totals, thread_id, name);
}

static void end_thread(void *user, void *image, uint32_t thread_id, uint64_t ticks)
{
	struct tracker *tracker = user;

	image_end_thread(image, thread_id);
	store_thread_end(tracker->writer, thread_id, ticks);
	if (tracker->totals)
		live_totals_thread_end(tracker->totals, thread_id);
}

/* Whoever keeps files, and whoever looks for symbols in them. */
static void tell_module(struct tracker *tracker, struct image *image,
			const struct drain_module *module)
{
	char *path;

	if (tracker->loaded && image->pid > 0) {
		const struct run_file file = {
			.pid = image->pid,
			.path = module->path,
			.path_bytes = module->head.path_bytes,
			.build_id = module->build_id,
			.build_id_bytes = module->head.build_id_bytes,
		};
		tracker->loaded(tracker->files, &file);
	}
	if (!tracker->watches)
		return;
	path = strndup(module->path, module->head.path_bytes);
	if (path)
		watches_module(tracker->watches, image, path, module->head.bias);
	free(path);
}

static void take_module(void *user, void *image_pointer, const struct drain_module *module)
{
	struct tracker *tracker = user;
	struct image *image = image_pointer;

	tracker_announce(tracker, image);
	store_module(tracker->writer, image->id, module);
	if (!module->is_unload)
		tell_module(tracker, image, module);
}

static void take_sample(void *user, void *image, uint32_t thread_id,
			const struct ring_sample *sample)
{
	struct tracker *tracker = user;

	samples_take_signal(tracker->samples, image, thread_id, sample);
}

static void take_node(void *user, void *image, uint32_t thread_id, const struct trace_node *node)
{
	struct tracker *tracker = user;

	if (tracker->watches)
		watches_node(tracker->watches, image, thread_id, node);
	if (tracker->totals)
		live_totals_node(tracker->totals, thread_id, node);
}

static void take_event(void *user, void *image, uint32_t thread_id, const struct trace_event *event)
{
	struct tracker *tracker = user;

	if (tracker->watches)
		watches_event(tracker->watches, image, thread_id, event);
	if (tracker->totals)
		live_totals_event(tracker->totals, thread_id, event);
}

static void take_text(void *user, void *image_pointer, uint64_t id, const char *text,
		      size_t n_bytes)
{
	struct tracker *tracker = user;
	struct image *image = image_pointer;

	tracker_announce(tracker, image);
	store_text(tracker->writer, image->id, id, text, n_bytes);
}

static void take_heap_range(void *user, void *image_pointer, const struct drain_heap_range *range)
{
	struct tracker *tracker = user;
	struct image *image = image_pointer;

	tracker_announce(tracker, image);
	store_heap_range(tracker->writer, image->id, range);
}

/* A row of its own; nothing more will be heard of it, and its process has an image that lives. */
static void add_untraced(struct tracker *tracker, struct image *parent, bool is_spawn)
{
	if (parent->n_spawned_static) {
		parent->n_spawned_static--;
		return;
	}
	struct image *image = images_add(&tracker->images, is_spawn ? 0 : parent->pid);
	if (!image)
		return;
	image->birth = RING_BIRTH_EXEC;
	image->parent_id = parent->id;
	image->exec_seq = is_spawn ? 0 : parent->exec_seq + 1;
	image->start_ticks = clock_ticks(tracker->clock);
	snprintf(image->exe, sizeof(image->exe), "%s", parent->last_exec);
	tracker_announce(tracker, image);
	tracker_count(tracker, image);
	uint32_t image_id = image->id;
	images_remove(&tracker->images, image);
	parent->is_counted = !is_spawn;
	parent->untraced_id = image_id;
}

/*
 * perf tells of every exec; without it this is the only trace of a program that will say nothing.
 * The exec may still fail, but a file that can be run and cannot be traced is rare enough.
 */
static void take_exec(void *user, void *image_pointer, const struct drain_exec *exec)
{
	struct tracker *tracker = user;
	struct image *image = image_pointer;

	free(image->last_exec);
	image->last_exec = exec->n_bytes > 0 && exec->n_bytes < PATH_MAX
				   ? strndup(exec->path, exec->n_bytes)
				   : NULL;
	image->last_exec_ticks = exec->ticks;
	if (!image->last_exec)
		return;
	if (tracker->has_task_records) {
		if (exec->is_spawn)
			tracker_name_spawned(tracker, image);
		return;
	}
	if (access(image->last_exec, X_OK) == 0 && image_file_why_not(image->last_exec))
		add_untraced(tracker, image, exec->is_spawn);
}

struct drain_handler tracker_drain_handler(struct tracker *tracker)
{
	return (struct drain_handler){
		.user = tracker,
		.thread_start = start_thread,
		.thread_end = end_thread,
		.thread_name = name_thread,
		.module = take_module,
		.text = take_text,
		.heap_range = take_heap_range,
		.exec = take_exec,
		.sample = tracker->samples ? take_sample : NULL,
		.node = tracker->watches || tracker->totals ? take_node : NULL,
		.event = tracker->watches || tracker->totals ? take_event : NULL,
	};
}

#define BEFORE_NAME "before attach" /* of the thread that these events are given to */

void tracker_store_before(struct tracker *tracker, pid_t pid, const struct heap_block *blocks,
			  size_t n)
{
	struct image *image = images_find(&tracker->images, pid);
	const struct ring_thread_start start = { .ticks = tracker->hello_ticks + 1,
						 .name = BEFORE_NAME };
	const struct trace_node node = { .id = 1, .pc = TRACE_STOP_BEFORE };
	uint64_t least = tracker->pool->control->min_bytes;

	if (!image)
		return;
	tracker_announce(tracker, image);
	uint32_t thread_id = ++tracker->next_thread_id;
	if (store_thread(tracker->writer, thread_id, image, 0, &start) < 0 ||
	    trace_writer_node(tracker->writer, thread_id, &node) < 0)
		return;
	if (tracker->totals) {
		live_totals_thread(tracker->totals, &(struct live_thread_name){
							    .process_id = image->id,
							    .pid = (uint32_t)image->pid,
							    .thread_id = thread_id,
							    .name = BEFORE_NAME,
						    });
		live_totals_node(tracker->totals, thread_id, &node);
	}
	for (size_t i = 0; i < n; i++) {
		const struct trace_event event = {
			.op = TRACE_OP_ALLOC,
			.call = TRACE_CALL_BEFORE,
			.stack_id = 1,
			.ticks = start.ticks,
			.begin_ticks = start.ticks,
			.address = blocks[i].address,
			.size = blocks[i].size,
		};

		if (blocks[i].size < least)
			tracker->n_below_min++;
		else if (trace_writer_event(tracker->writer, thread_id, &event) < 0)
			break;
		else if (tracker->totals)
			live_totals_event(tracker->totals, thread_id, &event);
	}
	store_thread_end(tracker->writer, thread_id, start.ticks + 1);
}

void tracker_store_contents(struct tracker *tracker, pid_t pid, const struct trace_content *blocks,
			    size_t n, uint32_t n_th)
{
	const struct image *image = images_find(&tracker->images, pid);
	size_t most = TRACE_PAGES_PART_BYTES / sizeof(*blocks);
	struct trace_contents record = {
		.head.type = TRACE_RECORD_CONTENTS,
		.ticks = clock_ticks(tracker->clock),
		.process_id = image ? image->id : 0,
		.n = n_th,
	};

	for (size_t i = 0; image && i < n; i += most) {
		size_t n_part = n - i < most ? n - i : most;

		if (trace_writer_add(tracker->writer, &record,
				     trace_bytes(blocks + i, n_part * sizeof(*blocks))) < 0)
			break;
	}
}

static void lose(struct tracker *tracker, pid_t pid, uint64_t n, const char *what, const char *why)
{
	const struct image *image = images_find(&tracker->images, pid);
	char reason[HEAP_WHY_BYTES + 160];
	const struct store_loss loss = {
		.process_id = image ? image->id : 0,
		.count = n,
		.source = "attach",
		.reason = reason,
	};

	snprintf(reason, sizeof(reason), "%s: %s", what, why);
	store_loss(tracker->writer, &loss);
	tracker->n_losses += n;
}

void tracker_lose_before(struct tracker *tracker, pid_t pid, const char *why)
{
	lose(tracker, pid, 1, "blocks from before the attach are not all known", why);
}

void tracker_lose_pointers(struct tracker *tracker, pid_t pid, const char *why)
{
	lose(tracker, pid, 1,
	     "calls of malloc and free through pointers from before the attach, and within one "
	     "file, are not seen",
	     why);
}

void tracker_lose_functions(struct tracker *tracker, pid_t pid, uint64_t n)
{
	if (n > 0)
		lose(tracker, pid, n, "functions left as they were",
		     "their code has changed, or cannot be written: --function-method uprobe needs "
		     "no change");
}
