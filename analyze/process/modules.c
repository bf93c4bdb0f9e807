#include "analyze/process/modules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/process/modules-internal.h"
#include "common/array.h"
#include "common/text.h"
#include "schemas/ring.h"
#include "trace/reader.h"

/*
 * An image announces the modules of its start one right behind the other when it attaches. What
 * comes later came by dlopen, which takes longer than this.
 */
#define ATTACH_GAP_NS INT64_C(50000)

int modules_create(struct tasks *tasks, struct objects *objects, struct modules **ret_modules)
{
	struct modules *modules = calloc(1, sizeof(*modules));

	if (!modules)
		return -ENOMEM;
	modules->tasks = tasks;
	modules->objects = objects;
	*ret_modules = modules;
	return 0;
}

struct modules *modules_destroy(struct modules *modules)
{
	if (!modules)
		return NULL;
	for (size_t i = 0; i < modules->n_lists; i++)
		module_list_destroy(modules->lists[i]);
	free(modules->lists);
	free(modules);
	return NULL;
}

/* The list of an image, made when it is new; NULL without memory or for an unknown image. */
static struct module_list *list_of(struct modules *modules, struct task_process *process)
{
	if (!process || process->modules)
		return process ? process->modules : NULL;
	if (grow_array(&modules->lists, modules->n_lists, &modules->n_lists_allocated,
		       sizeof(*modules->lists)) < 0)
		return NULL;

	struct module_list *list = module_list_create();
	if (list)
		modules->lists[modules->n_lists++] = list;
	process->modules = list;
	return list;
}

/* What the parent had at the fork. Late: by now all that was told of that time is there. */
static void inherit(struct modules *modules, struct task_process *process)
{
	struct module_list *list = process->modules;
	struct task_process *parent = tasks_process(modules->tasks, process->parent);
	struct module_list *from = NULL;

	list->has_inherited = true;
	if (process->birth != RING_BIRTH_FORK || !parent || parent == process)
		return;
	from = list_of(modules, parent);
	if (from && !from->has_inherited)
		inherit(modules, parent);
	for (size_t i = 0; from && i < from->n; i++) {
		struct module module = from->items[i];

		if (module.load_ns > process->begin_ns || module.unload_ns <= process->begin_ns)
			continue;
		module.is_inherited = true;
		if (from->first_announce_ns < list->first_announce_ns)
			list->first_announce_ns = from->first_announce_ns;
		module.unload_ns = INT64_MAX;
		for (size_t k = 0; k < list->n_ends; k++) {
			if (list->ends[k].start == module.start)
				module.unload_ns = list->ends[k].time_ns;
		}
		if (!module_list_add(list, &module))
			list->is_broken = true;
	}
}

struct module_list *modules_list(struct modules *modules, uint32_t number)
{
	struct task_process *process = tasks_process(modules->tasks, number);
	struct module_list *list = list_of(modules, process);

	if (list && !list->has_inherited)
		inherit(modules, process);
	return list && !list->is_broken ? list : NULL;
}

/*
 * Announce a module that an executable map told before, or that is announced again. A map that
 * begins elsewhere (of a file that could not be read) is void.
 */
static bool announce_known(struct modules *modules, struct module_list *list,
			   const struct trace_module *record, struct object *object,
			   int64_t time_ns)
{
	for (size_t i = 0; i < list->n; i++) {
		struct module *known = &list->items[i];

		if (known->start >= record->end || record->start >= known->end ||
		    known->unload_ns <= time_ns || known->load_ns > time_ns ||
		    (known->object != object && strcmp(text_base_name(known->object->path),
						       text_base_name(object->path)) != 0))
			continue;
		if (known->start != record->start) {
			known->unload_ns = known->load_ns;
			modules->n_changes++;
			continue;
		}
		modules->n_changes += known->object != object || known->bias != record->bias;
		known->object = object;
		known->bias = record->bias;
		known->end = record->end;
		known->is_announced = true;
		known->order = list->n_told++;
		list->tls_bytes = 0;
		known->announce_ns = time_ns < known->announce_ns ? time_ns : known->announce_ns;
		module_list_settle(list);
		return true;
	}
	return false;
}

/* Whether an announcement is one of the image's start; in the order of the records. */
static bool is_of_start(struct module_list *list, int64_t announce_ns)
{
	if (list->first_announce_ns == INT64_MAX) {
		list->first_announce_ns = announce_ns;
		list->last_start_ns = announce_ns;
	}
	if (announce_ns - list->last_start_ns > ATTACH_GAP_NS)
		return false;
	list->last_start_ns = announce_ns;
	return true;
}

int modules_load(struct modules *modules, const struct trace_module *record, int64_t time_ns)
{
	struct task_process *process = tasks_process(modules->tasks, record->process_id);
	struct module_list *list = list_of(modules, process);
	size_t n_build_id;
	size_t n_path;
	const char *build_id = trace_record_string(&record->head, 0, &n_build_id);
	const char *path = trace_record_string(&record->head, 1, &n_path);

	if (!process)
		return -EBADMSG;
	if (record->end <= record->start)
		return 0;

	struct object *object =
		objects_get(modules->objects, (const uint8_t *)build_id, n_build_id, path, n_path);
	if (!list || !object)
		return -ENOMEM;

	bool is_start = is_of_start(list, time_ns);
	if (announce_known(modules, list, record, object, time_ns))
		return 0;

	const struct module module = {
		.object = object,
		.bias = record->bias,
		.start = record->start,
		.end = record->end,
		/* The modules of its start were there before the image could announce them. */
		.load_ns = is_start ? process->begin_ns : time_ns,
		.unload_ns = INT64_MAX,
		.announce_ns = time_ns,
		.is_announced = true,
	};
	return module_list_add(list, &module) ? 0 : -ENOMEM;
}

int modules_unload(struct modules *modules, const struct trace_module *record, int64_t time_ns)
{
	struct module_list *list =
		list_of(modules, tasks_process(modules->tasks, record->process_id));

	if (!list)
		return -EBADMSG;

	struct module *module = module_list_find(list, record->start, time_ns);
	if (module && module->start == record->start) {
		module->unload_ns = time_ns;
		modules->n_changes++;
		return 0;
	}
	if (list->has_inherited)
		return 0;
	if (grow_array(&list->ends, list->n_ends, &list->n_ends_allocated, sizeof(*list->ends)) < 0)
		return -ENOMEM;
	list->ends[list->n_ends++] = (struct module_end){ record->start, time_ns };
	return 0;
}

const struct module *modules_find(struct modules *modules, uint32_t process, uint64_t address,
				  int64_t time_ns)
{
	struct module_list *list = modules_list(modules, process);

	return list ? module_list_find(list, address, time_ns) : NULL;
}

const uint64_t *modules_n_changes(const struct modules *modules)
{
	return &modules->n_changes;
}

static void count_change(struct module_list *list, int64_t change_ns, int64_t time_ns)
{
	if (change_ns > time_ns) {
		if (change_ns < list->last_epoch.until_ns)
			list->last_epoch.until_ns = change_ns;
		return;
	}
	list->last_epoch.epoch++;
	if (change_ns > list->last_epoch.from_ns)
		list->last_epoch.from_ns = change_ns;
}

static void count_changes(struct module_list *list, int64_t time_ns)
{
	list->last_epoch.epoch = 0;
	list->last_epoch.from_ns = INT64_MIN;
	list->last_epoch.until_ns = INT64_MAX;
	for (size_t i = 0; i < list->n; i++) {
		count_change(list, list->items[i].load_ns, time_ns);
		count_change(list, list->items[i].unload_ns, time_ns);
	}
}

uint32_t modules_epoch(struct modules *modules, uint32_t process, int64_t time_ns)
{
	struct module_list *list = modules_list(modules, process);

	if (!list)
		return 0;
	if (list->last_epoch.until_ns == 0 || list->last_epoch.n_changes != modules->n_changes ||
	    time_ns < list->last_epoch.from_ns || time_ns >= list->last_epoch.until_ns) {
		count_changes(list, time_ns);
		list->last_epoch.n_changes = modules->n_changes;
	}
	return list->last_epoch.epoch;
}

uint64_t modules_static_tls_bytes(struct modules *modules, uint32_t process)
{
	struct module_list *list = modules_list(modules, process);

	if (!list || list->n == 0 || list->tls_bytes)
		return list ? list->tls_bytes : 0;
	list->tls_bytes = module_tls_bytes(list);
	return list->tls_bytes;
}

int modules_write(struct modules *modules, sqlite3 *db, int64_t run_id)
{
	return modules_write_all(modules->tasks, db, run_id);
}
