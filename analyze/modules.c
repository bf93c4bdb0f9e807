#include "analyze/modules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analyze/grow.h"
#include "analyze/key-map.h"
#include "analyze/module-list.h"
#include "common/trace-reader.h"
#include "schemas/ring.h"

#define PAGE_BYTES UINT64_C(4096)

/* glibc 2.36: rtld_static_tls_surplus with default tunables, for IE libraries loaded later. */
#define TLS_SURPLUS_BYTES 1664u
/*
 * An image announces the modules of its start one right behind the other when it attaches. What
 * comes later came by dlopen, which takes longer than this.
 */
#define ATTACH_GAP_NS INT64_C(50000)

struct modules {
	struct tasks *tasks;
	struct objects *objects;
	struct module_list **lists; /* to free them */
	size_t n_lists;
	size_t n_lists_allocated;
	uint64_t n_changes; /* modules that ended or became another */
};

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

/* The list of an image with what it inherited; NULL: unknown image. */
static struct module_list *whole_list(struct modules *modules, uint32_t number)
{
	struct task_process *process = tasks_process(modules->tasks, number);
	struct module_list *list = list_of(modules, process);

	if (list && !list->has_inherited)
		inherit(modules, process);
	return list && !list->is_broken ? list : NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
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
		    (known->object != object &&
		     strcmp(base_name(known->object->path), base_name(object->path)) != 0))
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

int modules_mapping(struct modules *modules, const struct trace_mapping *record, int64_t time_ns)
{
	struct module_map map = {
		.process = record->process_id,
		.start = record->start,
		.size = record->size,
		.file_offset = record->file_offset,
		.time_ns = time_ns,
	};

	map.path = trace_record_string(&record->head, 0, &map.path_bytes);
	return record->prot & PROT_EXEC ? modules_map(modules, &map) : 0;
}

static bool is_file(const struct module_map *map)
{
	return map->path_bytes > 1 && map->path[0] == '/' && map->path[1] != '/';
}

/* By build-id where both tell it; else by base name: /lib may be a link to /usr/lib. */
static bool is_same_file(const struct module *module, const struct module_map *map)
{
	const char *name = base_name(module->object->path);
	size_t n = strlen(name);

	if (module->object->build_id && map->build_id_bytes)
		return object_has_build_id(module->object, map->build_id, map->build_id_bytes);
	return n <= map->path_bytes && memcmp(name, map->path + map->path_bytes - n, n) == 0 &&
	       (n == map->path_bytes || map->path[map->path_bytes - n - 1] == '/');
}

/* What lay under the map is gone: other files under a file, and what anonymous memory covers whole. */
static void end_covered(struct modules *modules, struct module_list *list,
			const struct module_map *map)
{
	uint64_t end = map->start + map->size;

	for (size_t i = 0; i < list->n; i++) {
		struct module *module = &list->items[i];
		bool is_covered = map->start <= module->start && module->end <= end;

		if (map->start >= module->end || module->start >= end ||
		    module->load_ns > map->time_ns || module->unload_ns <= map->time_ns)
			continue;
		if (is_file(map) ? is_same_file(module, map) : !is_covered)
			continue;
		module->unload_ns = map->time_ns;
		modules->n_changes++;
	}
}

/*
 * The segment of the file that the map shows gives the bias; its PT_LOADs give the bounds. A file
 * that cannot be read is taken to be mapped at its offsets, as position-independent ones are.
 */
static void place(struct module *module, const struct module_map *map)
{
	struct object *object = module->object;

	module->bias = map->start - map->file_offset;
	module->start = map->start;
	module->end = map->start + map->size;
	for (size_t i = 0; object_open(object) && i < object->n_segments; i++) {
		const struct object_segment *segment = &object->segments[i];
		uint64_t first = segment->file_offset & ~(PAGE_BYTES - 1);

		if (!segment->is_executable || map->file_offset < first ||
		    map->file_offset >= segment->file_offset + segment->file_bytes)
			continue;
		module->bias =
			map->start - (segment->address - segment->file_offset + map->file_offset);
		module->start = module->bias + (object->segments[0].address & ~(PAGE_BYTES - 1));
		const struct object_segment *highest = &object->segments[object->n_segments - 1];
		module->end = module->bias + highest->address + highest->memory_bytes;
		return;
	}
}

/* A module of the same file around the map: it was there at the time of the map already. */
static bool extend_known(struct module_list *list, const struct module_map *map)
{
	for (size_t i = 0; i < list->n; i++) {
		struct module *module = &list->items[i];

		if (map->start - module->start >= module->end - module->start ||
		    module->unload_ns <= map->time_ns || !is_same_file(module, map))
			continue;
		if (module->load_ns > map->time_ns) {
			module->load_ns = map->time_ns;
			list->last_epoch.until_ns = 0;
		}
		return true;
	}
	return false;
}

int modules_map(struct modules *modules, const struct module_map *map)
{
	struct module_list *list = whole_list(modules, map->process);
	bool has_name = map->path_bytes && map->path[0] != '/' ? map->path[0] == '[' : is_file(map);

	if (!list)
		return -EBADMSG;
	if (map->size == 0 || map->start + map->size < map->start)
		return 0;
	if (has_name && extend_known(list, map))
		return 0;
	end_covered(modules, list, map);
	if (!has_name || strncmp(map->path, "[heap]", map->path_bytes) == 0 ||
	    strncmp(map->path, "[stack]", map->path_bytes) == 0)
		return 0;

	struct module module = {
		.object = objects_get(modules->objects, map->build_id, map->build_id_bytes,
				      map->path, map->path_bytes),
		.load_ns = map->time_ns,
		.unload_ns = INT64_MAX,
		.announce_ns = INT64_MAX,
	};
	if (!module.object)
		return -ENOMEM;
	place(&module, map);
	return module_list_add(list, &module) ? 0 : -ENOMEM;
}

const struct module *modules_find(struct modules *modules, uint32_t process, uint64_t address,
				  int64_t time_ns)
{
	struct module_list *list = whole_list(modules, process);

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
	struct module_list *list = whole_list(modules, process);

	if (!list)
		return 0;
	if (list->last_epoch.until_ns == 0 || list->last_epoch.n_changes != modules->n_changes ||
	    time_ns < list->last_epoch.from_ns || time_ns >= list->last_epoch.until_ns) {
		count_changes(list, time_ns);
		list->last_epoch.n_changes = modules->n_changes;
	}
	return list->last_epoch.epoch;
}

static uint64_t round_up(uint64_t value, uint64_t align)
{
	return align > 1 ? (value + align - 1) / align * align : value;
}

static int compare_order(const void *a, const void *b)
{
	const struct module *left = *(const struct module *const *)a;
	const struct module *right = *(const struct module *const *)b;

	return left->order < right->order ? -1 : left->order > right->order;
}

/* The static TLS modules of an image in the order of its link map, allocated; n of them. */
static const struct module **tls_modules(const struct module_list *list, size_t *ret_n)
{
	const struct module **modules = calloc(list->n + 1, sizeof(*modules));
	size_t n = 0;

	for (size_t i = 0; modules && i < list->n; i++) {
		const struct module *module = &list->items[i];

		if (module->is_announced && module->load_ns <= list->first_announce_ns &&
		    object_open(module->object) && module->object->tls_bytes)
			modules[n++] = module;
	}
	if (modules)
		qsort(modules, n, sizeof(*modules), compare_order);
	*ret_n = n;
	return modules;
}

/*
 * glibc's _dl_determine_tlsoffset for TLS_TCB_AT_TP (elf/dl-tls.c), without its reuse of gaps, which
 * can only make the block smaller.
 */
static uint64_t tls_layout(const struct module **modules, size_t n)
{
	uint64_t offset = 0;
	uint64_t max_align = 64; /* TCB_ALIGNMENT */

	for (size_t i = 0; i < n; i++) {
		const struct object *object = modules[i]->object;
		uint64_t align = object->tls_align ? object->tls_align : 1;
		uint64_t first_byte = -object->tls_address & (align - 1);

		offset = round_up(offset + object->tls_bytes - first_byte, align) + first_byte;
		max_align = align > max_align ? align : max_align;
	}
	return round_up(offset + TLS_SURPLUS_BYTES, max_align);
}

uint64_t modules_static_tls_bytes(struct modules *modules, uint32_t process)
{
	struct module_list *list = whole_list(modules, process);
	size_t n;

	if (!list || list->n == 0 || list->tls_bytes)
		return list ? list->tls_bytes : 0;
	const struct module **ordered = tls_modules(list, &n);
	list->tls_bytes = ordered ? tls_layout(ordered, n) : 0;
	free(ordered);
	return list->tls_bytes;
}

int modules_write(struct modules *modules, sqlite3 *db, int64_t run_id)
{
	return modules_write_all(modules->tasks, db, run_id);
}
