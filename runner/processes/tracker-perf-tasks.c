/* What perf's task records, or a look at /proc, say about forks, execs and ends. */
#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/text.h"
#include "runner/processes/image-proc.h"
#include "runner/processes/tracker.h"
#include "runner/run.h"
#include "runner/trace-records-write.h"
#include "runner/watch/watch.h"

/* A fork of a traced image is traced, even if it never comes to claim a slot. */
static void inherit(struct tracker *tracker, struct image *image, struct image *parent)
{
	if (parent->is_traced)
		tracker_announce(tracker, parent);
	image->parent_id = parent->id;
	image->is_traced = parent->is_traced;
	image->why_not = parent->why_not;
	image->ns_pid = parent->pid == parent->ns_pid ? image->pid : image->ns_pid;
	image->forker_id = parent->id;
	tracker_inspect_fork(image, parent);
	/* In another pid namespace its slot may still tell what it calls itself. */
	if (image->is_traced && (parent->pid == parent->ns_pid || image->ns_pid != image->pid))
		tracker_announce(tracker, image);
}

static void take_fork(struct tracker *tracker, const struct pmu_task *task, uint64_t ticks)
{
	struct image *parent = images_find(&tracker->images, (pid_t)task->parent_pid);
	struct image *image = images_find(&tracker->images, (pid_t)task->pid);

	if (task->pid == task->parent_pid)
		return; /* a thread */
	/* Its own words came first; or the number was given out again and the end went unseen. */
	if (image && image->start_ticks + tracker->ticks_per_second / 100 >= ticks)
		return;
	if (image)
		tracker_end_image(tracker, image, STORE_STATUS_UNKNOWN, ticks);
	image = tracker_open_image(tracker, (pid_t)task->pid, RING_BIRTH_FORK, ticks);
	if (image && parent)
		inherit(tracker, image, parent);
}

/*
 * The kernel calls a program by the last part of the path that it was asked to run, cut to 15
 * bytes.
 */
static bool is_called(const struct image *image, const char *path)
{
	return strncmp(text_base_name(path), image->comm, sizeof(image->comm) - 1) == 0;
}

/*
 * The program that an image said it would run, and nothing since. A shell tries one folder after
 * the other.
 */
static bool is_told(const struct image *image, const struct image *forker)
{
	return image->forker_id == forker->id && image->birth == RING_BIRTH_EXEC &&
	       !image->is_written && !image->exe[0] &&
	       image->start_ticks >= forker->last_exec_ticks &&
	       image->sibling_ticks < forker->last_exec_ticks &&
	       is_called(image, forker->last_exec);
}

void tracker_name_spawned(struct tracker *tracker, const struct image *forker)
{
	const char *path = forker->last_exec;

	for (struct image *image = tracker->images.first; path && image; image = image->next) {
		if (!is_told(image, forker) || (path[0] == '/' && access(path, X_OK) < 0))
			continue;
		snprintf(image->exe, sizeof(image->exe), "%s", path);
		image->is_exe_guessed = true;
	}
}

static void take_exec(struct tracker *tracker, const struct pmu_record *record, uint64_t ticks)
{
	pid_t pid = (pid_t)record->comm.pid;
	struct image *image = images_find(&tracker->images, pid);
	struct image *parent;

	if (image && image->awaits_exec_record) {
		image->awaits_exec_record = false;
		return;
	}
	if (image) {
		image = tracker_replace_image(tracker, image, ticks);
	} else {
		parent = tracker_parent(tracker, pid);
		image = tracker_open_image(tracker, pid, RING_BIRTH_EXEC, ticks);
		if (image && parent)
			image->parent_id = image->forker_id = parent->id;
	}
	if (!image)
		return;
	snprintf(image->comm, sizeof(image->comm), "%s", record->comm.name);
	parent = images_find_id(&tracker->images, image->forker_id);
	if (parent) {
		image->sibling_ticks = parent->spawned_ticks;
		parent->spawned_ticks = ticks;
		tracker_name_spawned(tracker, parent);
	}
	image->is_new = tracker->has_new = true;
}

static void tell_loaded(const struct tracker *tracker, const struct pmu_record *record)
{
	const struct run_file file = {
		.pid = (pid_t)record->origin.pid,
		.path = record->map.path,
		.path_bytes = strlen(record->map.path),
		.build_id = record->map.build_id,
		.build_id_bytes = record->map.build_id_bytes,
	};

	if (tracker->loaded && record->map.prot & PROT_EXEC && record->map.path[0] == '/')
		tracker->loaded(tracker->files, &file);
}

/* The first executable file map of a program that ended before it could be looked at. */
static void take_map(struct tracker *tracker, const struct pmu_record *record)
{
	struct image *image = images_find(&tracker->images, (pid_t)record->origin.pid);

	tell_loaded(tracker, record);
	if (image && tracker->watches)
		watches_map(tracker->watches, image, &record->map);
	if (!image || (image->exe[0] && !image->is_exe_guessed) ||
	    !(record->map.prot & PROT_EXEC) || record->map.path[0] != '/')
		return;
	snprintf(image->exe, sizeof(image->exe), "%s", record->map.path);
	image->is_exe_guessed = false;
}

void tracker_task(struct tracker *tracker, const struct pmu_record *record, uint64_t ticks)
{
	switch (record->type) {
	case PERF_RECORD_FORK:
		take_fork(tracker, &record->task, ticks);
		break;
	case PERF_RECORD_COMM:
		if (record->comm.is_exec)
			take_exec(tracker, record, ticks);
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		take_map(tracker, record);
		break;
	case PERF_RECORD_EXIT: {
		struct image *image = images_find(&tracker->images, (pid_t)record->task.pid);

		if (image && record->task.pid == record->task.tid)
			image->gone_ticks = ticks;
		break;
	}
	default:
		break;
	}
}

struct search {
	struct tracker *tracker;
	struct image *parent;
};

/*
 * One that is known only as a zombie was known when it lived, or has told nothing. One that still
 * has its parent's memory tells by a slot. What is left is a program that will say hello, or never
 * will.
 */
static void found_child(void *user, pid_t child)
{
	struct search *search = user;
	struct tracker *tracker = search->tracker;
	struct image *image;

	enum ring_birth birth = RING_BIRTH_EXEC;

	if (images_find(&tracker->images, child) || image_is_zombie(child))
		return;
	if (kill(child, 0) < 0 && errno == ESRCH)
		return; /* a zombie that was waited for just now */
	if (tracker_maps_pool(tracker, child)) {
		if (search->parent)
			return;
		birth = RING_BIRTH_FORK; /* all others have ended: its slot did not come */
	}
	image = tracker_open_image(tracker, child, birth, tracker->drain->round_ticks);
	if (!image)
		return;
	if (search->parent)
		image->parent_id = search->parent->id;
	image_inspect(image);
}

void tracker_find_strays(struct tracker *tracker, const char *socket_path)
{
	struct search search = { tracker, NULL };

	if (!tracker->has_task_records)
		image_each_recorded(socket_path, found_child, &search);
}

void tracker_find_children(struct tracker *tracker)
{
	struct image *next;

	if (tracker->has_task_records)
		return;
	for (struct image *image = tracker->images.first; image; image = next) {
		struct search search = { tracker, image };

		next = image->next;
		image_each_child(image->pid, found_child, &search);
	}
}
