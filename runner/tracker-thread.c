/* What the records of the pool say about threads, modules and execs. */
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/clock.h"
#include "runner/image-proc.h"
#include "runner/store.h"
#include "runner/tracker.h"

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
	return tracker->next_thread_id;
}

static void end_thread(void *user, void *image, uint32_t thread_id, uint64_t ticks)
{
	struct tracker *tracker = user;

	(void)image;
	store_thread_end(tracker->writer, thread_id, ticks);
}

static void take_module(void *user, void *image_pointer, const struct drain_module *module)
{
	struct tracker *tracker = user;
	struct image *image = image_pointer;

	tracker_announce(tracker, image);
	store_module(tracker->writer, image->id, module);
}

/*
 * perf tells of every exec; without it this is the only trace of a program that will say nothing.
 * The exec may still fail, but a file that can be run and cannot be traced is rare enough.
 */
static void take_exec(void *user, void *image_pointer, const char *path, size_t n_bytes,
		      bool is_spawn)
{
	struct tracker *tracker = user;
	struct image *image = image_pointer;
	struct image *untraced;
	char file[PATH_MAX];

	if (tracker->has_task_records || n_bytes == 0 || n_bytes >= sizeof(file))
		return;
	memcpy(file, path, n_bytes);
	file[n_bytes] = '\0';
	if (access(file, X_OK) < 0 || image_file_why_not(file) == 0)
		return;
	untraced = images_add(&tracker->images, is_spawn ? 0 : image->pid);
	if (!untraced)
		return;
	untraced->birth = RING_BIRTH_EXEC;
	untraced->parent_id = image->id;
	untraced->exec_seq = is_spawn ? 0 : image->exec_seq + 1;
	untraced->start_ticks = clock_ticks(tracker->clock);
	snprintf(untraced->exe, sizeof(untraced->exe), "%s", file);
	/* Only its row is wanted: nothing more will be heard of it, and its process has one that lives. */
	tracker_announce(tracker, untraced);
	tracker_count(tracker, untraced);
	images_remove(&tracker->images, untraced);
}

struct drain_handler tracker_drain_handler(struct tracker *tracker)
{
	return (struct drain_handler){
		.user = tracker,
		.thread_start = start_thread,
		.thread_end = end_thread,
		.module = take_module,
		.exec = take_exec,
	};
}
