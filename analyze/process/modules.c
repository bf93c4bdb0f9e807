#include "analyze/process/modules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/text.h"
#include "schemas/ring.h"
#include "store/statement.h"
#include "trace/reader.h"

/* A module that ended before anything was known of it: a parent's. */
struct module_end {
	uint64_t start;
	int64_t time_ns;
};

struct module_list {
	struct module *items; /* by start, then load_ns */
	uint64_t *max_ends; /* of an item and all before it */
	size_t n;
	size_t n_allocated;
	size_t n_max_ends_allocated;
	size_t last; /* index of the last answer */
	uint32_t n_told;
	int64_t first_announce_ns; /* INT64_MAX: none yet */
	int64_t last_start_ns; /* the last announcement of those of the image's start */
	bool has_inherited; /* the parent's were taken over, or there are none to take */
	bool is_broken; /* no memory for them */
	struct module_end *ends;
	size_t n_ends;
	size_t n_ends_allocated;
	struct {
		int64_t from_ns; /* the last answer of modules_epoch(), and when it is right */
		int64_t until_ns;
		uint32_t epoch;
		uint64_t n_changes;
	} last_epoch;
	uint64_t tls_bytes; /* of modules_static_tls_bytes(); 0: not asked for yet */
};

struct modules {
	struct tasks *tasks;
	struct objects *objects;
	struct module_list **lists; /* to free them */
	size_t n_lists;
	size_t n_lists_allocated;
	uint64_t n_changes; /* modules that ended or became another */
};

/* ---- The modules of one image, sorted by address ---- */

static struct module_list *module_list_create(void)
{
	struct module_list *list = calloc(1, sizeof(*list));

	if (list)
		list->first_announce_ns = INT64_MAX;
	return list;
}

static struct module_list *module_list_destroy(struct module_list *list)
{
	if (!list)
		return NULL;
	free_all(list->items, list->max_ends, list->ends, list);
	return NULL;
}

/* A module's bounds have changed, not its start: find addresses in it again. */
static void module_list_settle(struct module_list *list)
{
	uint64_t max_end = 0;

	for (size_t i = 0; i < list->n; i++) {
		max_end = list->items[i].end > max_end ? list->items[i].end : max_end;
		list->max_ends[i] = max_end;
	}
}

/* Add a module. Returns it, valid until the next is added; NULL without memory. */
static struct module *module_list_add(struct module_list *list, const struct module *module)
{
	if (grow_one(&list->items, list->n, &list->n_allocated) < 0 ||
	    grow_one(&list->max_ends, list->n, &list->n_max_ends_allocated) < 0)
		return NULL;

	size_t at = array_n_until(list->items, list->n, start, module->start);
	while (at > 0 && list->items[at - 1].start == module->start &&
	       list->items[at - 1].load_ns > module->load_ns)
		at--;
	memmove(list->items + at + 1, list->items + at, (list->n - at) * sizeof(*list->items));
	list->items[at] = *module;
	list->items[at].order = list->n_told++;
	list->n++;
	list->tls_bytes = 0; /* to be found again */
	list->last_epoch.until_ns = 0;
	module_list_settle(list);
	return &list->items[at];
}

static bool holds(const struct module *module, uint64_t address, int64_t time_ns)
{
	return address - module->start < module->end - module->start &&
	       module->load_ns <= time_ns && time_ns < module->unload_ns;
}

/* The module that holds address at a time, or NULL. */
static struct module *module_list_find(struct module_list *list, uint64_t address, int64_t time_ns)
{
	if (list->last < list->n && holds(&list->items[list->last], address, time_ns))
		return &list->items[list->last];

	for (size_t i = array_n_until(list->items, list->n, start, address);
	     i > 0 && list->max_ends[i - 1] > address; i--) {
		if (holds(&list->items[i - 1], address, time_ns)) {
			list->last = i - 1;
			return &list->items[i - 1];
		}
	}
	return NULL;
}

/* ---- Static TLS below the thread pointer, by glibc's layout of its modules ---- */

/* glibc 2.36: rtld_static_tls_surplus with default tunables, for IE libraries loaded later. */
#define TLS_SURPLUS_BYTES 1664u

static uint64_t round_up(uint64_t value, uint64_t align)
{
	return align > 1 ? (value + align - 1) / align * align : value;
}

DEFINE_ORDER(compare_order, struct module *, ORDER((*a)->order, (*b)->order));

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
 * glibc's _dl_determine_tlsoffset for TLS_TCB_AT_TP (elf/dl-tls.c), without its reuse of gaps,
 * which can only make the block smaller.
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

/*
 * Bytes of static TLS of the modules that were there when the image attached; 0: no memory to find
 * out.
 */
static uint64_t module_tls_bytes(const struct module_list *list)
{
	size_t n;
	const struct module **ordered = tls_modules(list, &n);
	uint64_t n_bytes = ordered ? tls_layout(ordered, n) : 0;

	free(ordered);
	return n_bytes;
}

/* ---- The table module ---- */

static const char *debug_name(enum object_debug debug)
{
	switch (debug) {
	case OBJECT_LINES:
		return "lines";
	case OBJECT_SYMBOLS:
		return "symbols";
	case OBJECT_NONE:
		return "none";
	default:
		return NULL;
	}
}

static int write_module(const struct module *module, const struct task_process *process,
			sqlite3_stmt *statement, int64_t run_id)
{
	return statement_put(statement, "nnttnnnnit", run_id, process->row, module->object->path,
			     module->object->build_id, (int64_t)module->bias,
			     (int64_t)module->start, (int64_t)module->end, module->load_ns,
			     module->unload_ns == INT64_MAX ? INT64_MIN : module->unload_ns,
			     debug_name(module->object->debug));
}

static int write_image(const struct task_process *process, sqlite3_stmt *statement, int64_t run_id)
{
	const struct module_list *list = process ? process->modules : NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && list && i < list->n; i++) {
		/*
		 * Heimdallr does not tell where libraries lay: such addresses only stand for them.
		 */
		if (!list->items[i].is_inherited && list->items[i].start < TRACE_MADE_UP_ADDRESS &&
		    list->items[i].load_ns < list->items[i].unload_ns)
			r = write_module(&list->items[i], process, statement, run_id);
	}
	return r;
}

/* ---- Announcements ---- */

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
	array_free(modules->lists, modules->n_lists, it, module_list_destroy(*it));
	free(modules);
	return NULL;
}

/* The list of an image, made when it is new; NULL without memory or for an unknown image. */
static struct module_list *list_of(struct modules *modules, struct task_process *process)
{
	if (!process || process->modules)
		return process ? process->modules : NULL;
	if (grow_one(&modules->lists, modules->n_lists, &modules->n_lists_allocated) < 0)
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

/* The list of an image with what it inherited; NULL: unknown image, or no memory. */
static struct module_list *modules_list(struct modules *modules, uint32_t number)
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
	return array_add(list->ends, list->n_ends, list->n_ends_allocated,
			 (struct module_end){ record->start, time_ns });
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

uint32_t modules_epoch(struct modules *modules, uint32_t process, int64_t time_ns)
{
	struct module_list *list = modules_list(modules, process);

	if (!list)
		return 0;
	if (list->last_epoch.until_ns == 0 || list->last_epoch.n_changes != modules->n_changes ||
	    time_ns < list->last_epoch.from_ns || time_ns >= list->last_epoch.until_ns) {
		list->last_epoch.epoch = 0;
		list->last_epoch.from_ns = INT64_MIN;
		list->last_epoch.until_ns = INT64_MAX;
		for (size_t i = 0; i < list->n; i++) {
			count_change(list, list->items[i].load_ns, time_ns);
			count_change(list, list->items[i].unload_ns, time_ns);
		}
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
	/* Write the table module. Returns 0 or a negative errno. */
	auto_statement sqlite3_stmt *statement = NULL;
	int r = statement_insert(db,
				 "module(run_id, process_id, path, build_id, bias, start, end,"
				 " load_ns, unload_ns, debug_info)",
				 10, &statement);

	for (uint32_t i = 1; r == 0 && i <= tasks_n_processes(modules->tasks); i++)
		r = write_image(tasks_process(modules->tasks, i), statement, run_id);
	for (uint32_t i = TASKS_UNSEEN; r == 0 && tasks_process(modules->tasks, i); i++) {
		const struct task_process *process = tasks_process(modules->tasks, i);

		if (process->number == i && process->is_used)
			r = write_image(process, statement, run_id);
	}
	return r;
}

/* ---- Executable maps of perf and /proc: modules that nobody announced ---- */

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
