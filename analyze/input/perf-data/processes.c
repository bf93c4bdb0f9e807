#include "analyze/input/perf-data/processes.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "schemas/ring.h"

struct perf_task_event {
	uint64_t time_ns;
	size_t order; /* as read */
	uint32_t type; /* PERF_RECORD_* */
	uint32_t pid;
	uint32_t parent_pid;
	bool is_exec;
	char *text; /* COMM: name; MMAP2 of a file's code: its path; else NULL */
};

struct perf_image {
	uint32_t pid;
	uint32_t parent; /* process id; 0: none */
	uint32_t exec_seq;
	uint16_t birth; /* enum ring_birth */
	uint64_t start_ns;
	char *name; /* as the kernel calls it; NULL: not told */
	char *exe; /* first file with code that it mapped; NULL: not told */
};

void perf_tasks_finish(struct perf_tasks *tasks)
{
	for (size_t i = 0; i < tasks->n_events; i++)
		free(tasks->events[i].text);
	for (size_t i = 0; i < tasks->n_images; i++) {
		free_all(tasks->images[i].name, tasks->images[i].exe);
	}
	free_all(tasks->events, tasks->images, tasks->first_program);
	key_map_finish(&tasks->by_pid);
	*tasks = (struct perf_tasks){ 0 };
}

/* What tells of an image. False: nothing of it matters. */
static bool read_event(const struct pmu_record *record, struct perf_task_event *event,
		       const char **ret_text)
{
	*ret_text = NULL;
	switch (record->type) {
	case PERF_RECORD_COMM:
		event->pid = record->comm.pid;
		event->is_exec = record->comm.is_exec;
		*ret_text = record->comm.pid == record->comm.tid ? record->comm.name : NULL;
		return true;
	case PERF_RECORD_FORK:
		event->pid = record->task.pid;
		event->parent_pid = record->task.parent_pid;
		return event->pid != event->parent_pid;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		event->pid = record->map.pid;
		if (record->map.prot & PROT_EXEC && record->map.path[0] == '/' &&
		    record->map.path[1] != '/')
			*ret_text = record->map.path;
		return true;
	default:
		return false;
	}
}

int perf_tasks_add(struct perf_tasks *tasks, const struct pmu_record *record, uint64_t time_ns)
{
	struct perf_task_event event = { .time_ns = time_ns, .type = record->type };
	const char *text;

	event.order = tasks->n_events;
	/* The kernel maps its own code as process -1. */
	if (!read_event(record, &event, &text) || event.pid == UINT32_MAX)
		return 0;
	if (grow_one(&tasks->events, tasks->n_events, &tasks->n_events_allocated) < 0)
		return -ENOMEM;
	if (text && !(event.text = strdup(text)))
		return -ENOMEM;
	tasks->events[tasks->n_events++] = event;
	return 0;
}

DEFINE_ORDER(compare_events, struct perf_task_event, BY(time_ns) ?: BY(order));

/* The newest image of a pid, as process id; 0: none. */
static uint32_t image_of(const struct perf_tasks *tasks, uint32_t pid)
{
	return (uint32_t)key_map_get(&tasks->by_pid, pid, 0);
}

static int add_image(struct perf_tasks *tasks, const struct perf_task_event *event, uint16_t birth,
		     uint32_t parent)
{
	uint32_t before = image_of(tasks, event->pid);

	if (grow_one(&tasks->images, tasks->n_images, &tasks->n_images_allocated) < 0)
		return -ENOMEM;
	tasks->images[tasks->n_images++] = (struct perf_image){
		.pid = event->pid,
		.parent = parent,
		.exec_seq = birth == RING_BIRTH_EXEC && before
				    ? tasks->images[before - 1].exec_seq + 1
				    : 0,
		.birth = birth,
		.start_ns = event->time_ns,
	};
	return key_map_put(&tasks->by_pid, event->pid, 0, tasks->n_images) < 0 ? -ENOMEM : 0;
}

static int keep(char **text, const char *value)
{
	if (*text || !value)
		return 0;
	*text = strdup(value);
	return *text ? 0 : -ENOMEM;
}

/* A forked image is called as the one that forked it. */
static int inherit(struct perf_tasks *tasks, uint32_t parent)
{
	struct perf_image *image = &tasks->images[tasks->n_images - 1];

	if (!parent)
		return 0;
	int r = keep(&image->name, tasks->images[parent - 1].name);
	return r < 0 ? r : keep(&image->exe, tasks->images[parent - 1].exe);
}

static int begin_image(struct perf_tasks *tasks, const struct perf_task_event *event)
{
	uint32_t before = image_of(tasks, event->pid);

	if (event->type == PERF_RECORD_FORK) {
		uint32_t parent = image_of(tasks, event->parent_pid);
		int r = add_image(tasks, event, RING_BIRTH_FORK, parent);
		return r < 0 ? r : inherit(tasks, parent);
	}
	/*
	 * perf tells the exec of what it starts by a COMM; of one that was there already, first of
	 * all.
	 */
	return !before || event->is_exec ? add_image(tasks, event, RING_BIRTH_EXEC, before) : 0;
}

static int take_event(struct perf_tasks *tasks, const struct perf_task_event *event)
{
	int r = begin_image(tasks, event);
	struct perf_image *image = r == 0 ? &tasks->images[image_of(tasks, event->pid) - 1] : NULL;

	if (!image)
		return r;
	if (event->type == PERF_RECORD_COMM)
		r = keep(&image->name, event->text);
	else if (event->type != PERF_RECORD_FORK)
		r = keep(&image->exe, event->text);
	if (r == 0 && event->is_exec)
		r = keep(&tasks->first_program, event->text);
	return r;
}

static int tell_image(const struct perf_tasks *tasks, size_t index, struct record_list *list)
{
	const struct perf_image *image = &tasks->images[index];
	const char *exe = image->exe ? image->exe : image->name ? image->name : "";
	const char *name = image->name ? image->name : exe;
	const struct trace_process record = {
		.head.type = TRACE_RECORD_PROCESS,
		.process_id = (uint32_t)index + 1,
		.parent_id = image->parent,
		.pid = image->pid,
		.ns_pid = image->pid,
		.exec_seq = image->exec_seq,
		.birth = image->birth,
		.why_not = TRACE_NOT_PERF_DATA,
		.start_ticks = image->start_ns,
	};

	return record_list_add(list, &record, trace_text(exe), trace_text(name));
}

int perf_tasks_tell(struct perf_tasks *tasks, struct record_list *list)
{
	int r = 0;

	if (tasks->n_events > 1)
		qsort(tasks->events, tasks->n_events, sizeof(*tasks->events), compare_events);
	for (size_t i = 0; i < tasks->n_events; i++) {
		r = r ?: take_event(tasks, &tasks->events[i]);
		free(tasks->events[i].text);
	}
	tasks->n_events = 0;
	for (; r == 0 && tasks->n_told < tasks->n_images; tasks->n_told++)
		r = tell_image(tasks, tasks->n_told, list);
	return r;
}
