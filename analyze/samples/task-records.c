/* What perf tells of maps, names, births and ends, in order of time with the samples. */
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>

#include "analyze/samples/samples-internal.h"

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

static int tell_map(struct samples *samples, const struct task_process *process,
		    const struct pmu_record *record, int64_t time_ns)
{
	const struct sample_sink *sink = &samples->context.sink;
	const struct pmu_map *map = &record->map;
	struct early_map told = {
		.mapping = {
			.address = map->address,
			.size = map->size,
			.birth_ns = time_ns,
			.detail = map->prot | (uint64_t)map->flags << 32,
			.path = map->path,
		},
		.pid = record->origin.pid,
		.tid = record->origin.tid,
	};

	if (!sink->map || record->type != PERF_RECORD_MMAP2)
		return 0;
	if (!process->is_defined)
		return early_maps_keep(&samples->early_maps, &told);
	const struct task_thread *thread =
		tasks_thread_at(samples->context.tasks, told.pid, told.tid, time_ns);
	told.mapping.thread = thread ? thread->number : 0;
	return sink->map(sink->user, process->number, &told.mapping);
}

int sample_tell_early_maps(struct samples *samples)
{
	const struct sample_sink *sink = &samples->context.sink;

	return early_maps_tell(&samples->early_maps, samples->context.tasks, sink->map, sink->user);
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
	int r = tell_map(samples, process, record, time_ns);
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
