/* What perf reports of maps, names, births and ends, in order of time with the samples. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analyze/samples/samples-internal.h"
#include "common/array.h"
#include "schemas/trace-format.h"

/* ---- Maps of processes that the trace names later: an exec that is not followed ---- */

/* Those of a thousand programs at once: beyond, a trace is damaged or of no program. */
#define MAX_MAPS  65536u
#define MAX_BYTES (8u << 20) /* of paths */

static void drop(struct early_maps *early, struct early_map *map)
{
	early->n_bytes -= strlen(map->mapping.path) + 1;
	free((char *)map->mapping.path);
}

void early_maps_finish(struct early_maps *early)
{
	array_free(early->items, early->n, it, drop(early, it));
	*early = (struct early_maps){ 0 };
}

/* Keep a copy. When there are very many, those that wait are forgotten. Returns 0 or -ENOMEM. */
static int early_maps_keep(struct early_maps *early, const struct early_map *map)
{
	size_t n_bytes = strlen(map->mapping.path) + 1;

	if (early->n == MAX_MAPS || early->n_bytes + n_bytes > MAX_BYTES)
		early_maps_finish(early);
	int r = grow_array(&early->items, early->n, &early->n_allocated, sizeof(*early->items));
	char *path = r == 0 ? strdup(map->mapping.path) : NULL;
	if (!path)
		return -ENOMEM;
	early->n_bytes += n_bytes;
	early->items[early->n] = *map;
	early->items[early->n++].mapping.path = path;
	return 0;
}

static int report_map(struct samples *samples, struct early_map *map,
		      const struct task_process *process)
{
	const struct sample_sink *sink = &samples->context.sink;
	const struct task_thread *thread = tasks_thread_at(samples->context.tasks, map->pid,
							   map->tid, map->mapping.allocated_ns);

	map->mapping.thread = thread ? thread->number : 0;
	return sink->map(sink->user, process->number, &map->mapping);
}

/* In the order in which they came. Traced processes report their own: theirs are dropped. */
int sample_report_early_maps(struct samples *samples)
{
	struct early_maps *early = &samples->early_maps;
	struct tasks *tasks = samples->context.tasks;
	size_t n_left = 0;
	int r = 0;

	if (early->n == 0 || early->n_defined == tasks_n_defined(tasks))
		return 0;
	early->n_defined = tasks_n_defined(tasks);
	for (size_t i = 0; i < early->n; i++) {
		struct early_map *map = &early->items[i];
		const struct task_process *process =
			tasks_process_at(tasks, map->pid, map->mapping.allocated_ns);
		if (r == 0 && process && !process->is_defined) {
			early->items[n_left++] = *map;
			continue;
		}
		if (r == 0 && process && process->why_not != TRACE_TRACED)
			r = report_map(samples, map, process);
		drop(early, map);
	}
	early->n = n_left;
	return r;
}

/* ---- Records ---- */

/* What a map is to the owners of addresses; OWNER_REGION_COUNT: nothing ([stack], [vdso]). */
static enum owner_region region_of(const char *path)
{
	if (strncmp(path, "/memfd:memsight-pool", 20) == 0 || strstr(path, "/memsight-pool-"))
		return OWNER_REGION_TOOL;
	if (path[0] == '\0' || strcmp(path, "//anon") == 0 || strcmp(path, "[heap]") == 0 ||
	    strncmp(path, "[anon", 5) == 0)
		return OWNER_REGION_ANONYMOUS;
	return path[0] == '/' ? OWNER_REGION_FILE : OWNER_REGION_COUNT;
}

static int take_mapping(struct samples *samples, const struct task_process *process,
			const struct pmu_record *record, int64_t time_ns)
{
	const struct pmu_map *map = &record->map;
	struct early_map early = {
		.mapping = {
			.address = map->address,
			.size = map->size,
			.allocated_ns = time_ns,
			.detail = map->prot | (uint64_t)map->flags << 32,
			.path = map->path,
		},
		.pid = record->origin.pid,
		.tid = record->origin.tid,
	};

	if (!samples->context.sink.map || record->type != PERF_RECORD_MMAP2)
		return 0;
	return process->is_defined ? report_map(samples, &early, process)
				   : early_maps_keep(&samples->early_maps, &early);
}

static int take_map(struct samples *samples, const struct pmu_record *record, int64_t time_ns)
{
	const struct pmu_map *map = &record->map;
	struct task_process *process =
		tasks_process_at(samples->context.tasks, record->origin.pid, time_ns);

	if (!process)
		return 0;
	if (strcmp(map->path, "[stack]") == 0)
		process->stack_top = map->address + map->size;
	if (region_of(map->path) != OWNER_REGION_COUNT) {
		int r = owners_add_region(samples->context.owners, process->number,
					  region_of(map->path), map->address, map->size);
		if (r < 0)
			return r;
	}
	int r = take_mapping(samples, process, record, time_ns);
	if (r < 0 || !(map->prot & PROT_EXEC))
		return r;

	const struct module_map module = {
		.process = process->number,
		.start = map->address,
		.size = map->size,
		.file_offset = map->file_offset,
		.path = map->path,
		.path_bytes = strlen(map->path),
		.build_id = map->build_id,
		.build_id_bytes = map->build_id_bytes,
		.time_ns = time_ns,
	};
	return modules_map(samples->context.modules, &module);
}

static int take_comm(struct tasks *tasks, const struct pmu_record *record, int64_t time_ns)
{
	int r = 0;

	if (record->comm.is_exec)
		r = tasks_saw_exec(tasks, record->comm.pid, time_ns, record->comm.name);
	return r < 0 ? r
		     : tasks_saw_name(tasks, record->comm.pid, record->comm.tid, time_ns,
				      record->comm.name);
}

static int take_fork(struct tasks *tasks, const struct pmu_task *task, int64_t time_ns)
{
	if (task->pid == task->parent_pid)
		return tasks_saw_thread(tasks, task->pid, task->tid, task->parent_tid, time_ns);
	return tasks_saw_fork(tasks, task->pid, task->parent_pid, time_ns);
}

static int take_exit(struct tasks *tasks, const struct pmu_task *task, int64_t time_ns)
{
	if (task->pid == task->tid)
		tasks_saw_end(tasks, task->pid, time_ns);
	return tasks_saw_thread_end(tasks, task->tid, time_ns);
}

int sample_task(struct samples *samples, const struct pmu_record *record, int64_t time_ns)
{
	struct tasks *tasks = samples->context.tasks;

	switch (record->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return take_map(samples, record, time_ns);
	case PERF_RECORD_COMM:
		return take_comm(tasks, record, time_ns);
	case PERF_RECORD_FORK:
		return take_fork(tasks, &record->task, time_ns);
	case PERF_RECORD_EXIT:
		return take_exit(tasks, &record->task, time_ns);
	default:
		return 0;
	}
}
