#include "analyze/samples/pending-maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/process/processes.h"
#include "common/array.h"
#include "schemas/trace-format.h"

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
	for (size_t i = 0; i < early->n; i++)
		drop(early, &early->items[i]);
	free(early->items);
	*early = (struct early_maps){ 0 };
}

int early_maps_keep(struct early_maps *early, const struct early_map *map)
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

static int tell(struct tasks *tasks, struct early_map *map, const struct task_process *process,
		early_maps_visit visit, void *user)
{
	const struct task_thread *thread =
		tasks_thread_at(tasks, map->pid, map->tid, map->mapping.birth_ns);

	if (process->why_not == TRACE_TRACED)
		return 0;
	map->mapping.thread = thread ? thread->number : 0;
	return visit(user, process->number, &map->mapping);
}

int early_maps_tell(struct early_maps *early, struct tasks *tasks, early_maps_visit visit,
		    void *user)
{
	size_t n_left = 0;
	int r = 0;

	if (early->n == 0 || early->n_defined == tasks_n_defined(tasks))
		return 0;
	early->n_defined = tasks_n_defined(tasks);
	for (size_t i = 0; i < early->n; i++) {
		struct early_map *map = &early->items[i];
		const struct task_process *process =
			tasks_process_at(tasks, map->pid, map->mapping.birth_ns);
		if (r == 0 && process && !process->is_defined) {
			early->items[n_left++] = *map;
			continue;
		}
		if (r == 0 && process)
			r = tell(tasks, map, process, visit, user);
		drop(early, map);
	}
	early->n = n_left;
	return r;
}
