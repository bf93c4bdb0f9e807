/*
 * Executable maps that perf or /proc told: modules that nobody announced, and ends of those under
 * them.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "analyze/process/modules-internal.h"
#include "common/text.h"
#include "trace/reader.h"

#define PAGE_BYTES UINT64_C(4096)

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
	const char *name = text_base_name(module->object->path);
	size_t n = strlen(name);

	if (module->object->build_id && map->build_id_bytes)
		return object_has_build_id(module->object, map->build_id, map->build_id_bytes);
	return n <= map->path_bytes && memcmp(name, map->path + map->path_bytes - n, n) == 0 &&
	       (n == map->path_bytes || map->path[map->path_bytes - n - 1] == '/');
}

/*
 * What lay under the map is gone: other files under a file, and what anonymous memory covers whole.
 */
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
	struct module_list *list = modules_list(modules, map->process);
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
