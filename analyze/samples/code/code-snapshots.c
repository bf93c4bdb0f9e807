#include "analyze/samples/code/code-snapshots.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/samples/code/code-history.h"
#include "analyze/samples/code/data-history.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "schemas/ring.h"

#define PAGE_BITS    12
#define PAGE_BYTES   (UINT64_C(1) << PAGE_BITS)
#define BEYOND_BYTES 16u /* an instruction that begins on a page ends in these */

/*
 * Bytes of one page of an image at one moment. Those of the same page form a chain, newest first.
 */
struct snapshot {
	struct snapshot *older;
	struct snapshot *next; /* of all, to free them */
	uint64_t address;
	uint64_t n_bytes;
	int64_t begin_ns; /* of its reading */
	int64_t end_ns;
	uint8_t bytes[];
};

/* Records of maps are stamped some us from when the clock of the readings says. */
#define MARGIN_NS 20000

/* When code of an image was renewed: of all images of a pid where process is 0. */
struct renewal {
	uint32_t process;
	uint32_t pid;
	int64_t time_ns;
};

struct space {
	uint32_t process;
	uint32_t epoch;
};

struct code_store {
	struct tasks *tasks;
	struct modules *modules;
	struct sample_clock clock;
	const char *trace_path;
	struct code_history *history; /* NULL: no code changes, as far as was read */
	struct data_history *data_history; /* NULL: nothing was read of data that may change */
	bool is_damaged; /* the trace is, as far as was read */
	uint64_t sample_ip;
	struct code_map *maps;
	size_t n_maps;
	size_t n_maps_allocated;
	struct key_map code; /* (process, page) -> newest struct snapshot */
	struct key_map data;
	struct snapshot *all;
	struct renewal *renewals;
	size_t n_renewals;
	size_t n_renewals_allocated;
	struct {
		uint32_t process; /* the last answer of count_renewals(), and when it is right */
		uint32_t count;
		int64_t from_ns;
		int64_t until_ns;
		size_t n_renewals;
	} last;
	struct key_map spaces; /* (process, epoch) -> index + 1 */
	struct space *items;
	size_t n_items;
	size_t n_items_allocated;
};

int code_store_create(const struct sample_context *context, struct code_store **ret_store)
{
	struct code_store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	store->tasks = context->tasks;
	store->modules = context->modules;
	store->clock = context->clock;
	store->trace_path = context->trace_path;
	*ret_store = store;
	return 0;
}

struct code_store *code_store_destroy(struct code_store *store)
{
	if (!store)
		return NULL;
	for (struct snapshot *snapshot = store->all; snapshot;) {
		struct snapshot *next = snapshot->next;

		free(snapshot);
		snapshot = next;
	}
	key_map_finish(&store->code);
	key_map_finish(&store->data);
	key_map_finish(&store->spaces);
	code_history_destroy(store->history);
	data_history_destroy(store->data_history);
	free_all(store->maps, store->renewals, store->items, store);
	return NULL;
}

static struct snapshot *newest(const struct key_map *map, uint32_t process, uint64_t page)
{
	return (struct snapshot *)(uintptr_t)key_map_get(map, process, page);
}

static int note_renewal(struct code_store *store, struct renewal renewal)
{
	if (grow_array(&store->renewals, store->n_renewals, &store->n_renewals_allocated,
		       sizeof(*store->renewals)) < 0)
		return -ENOMEM;
	store->renewals[store->n_renewals++] = renewal;
	return 0;
}

/* Put a snapshot into the chain of its page; the store owns it. */
static int add_snapshot(struct code_store *store, uint32_t process, bool is_data,
			struct snapshot *snapshot)
{
	struct key_map *map = is_data ? &store->data : &store->code;
	uint64_t page = snapshot->address >> PAGE_BITS;

	snapshot->next = store->all;
	store->all = snapshot;
	snapshot->older = newest(map, process, page);
	if (snapshot->older && !is_data) {
		int r = note_renewal(store, (struct renewal){ .process = process,
							      .time_ns = snapshot->begin_ns });
		if (r < 0)
			return r;
	}
	return key_map_put(map, process, page, (uintptr_t)snapshot);
}

static int add_held(struct code_store *store, uint32_t process, const struct trace_code *head,
		    const void *bytes)
{
	if (store->is_damaged)
		return 0;
	if (!store->data_history)
		store->data_history = data_history_create();
	return store->data_history
		       ? data_history_add(store->data_history, &store->clock, process, head, bytes)
		       : -ENOMEM;
}

void code_store_damaged(struct code_store *store)
{
	store->is_damaged = true;
	if (store->data_history)
		data_history_end(store->data_history);
}

int64_t code_store_wait_ns(const struct code_store *store, int64_t read_ns)
{
	if (!store->data_history || store->is_damaged)
		return 0;
	return read_ns < DATA_HISTORY_BEGIN_NS ? DATA_HISTORY_BEGIN_NS : 2 * DATA_HISTORY_NS;
}

int code_store_add(struct code_store *store, uint32_t process, const struct trace_code *head,
		   const void *bytes)
{
	const struct sample_clock *clock = &store->clock;
	int64_t begin_ns = clock->from_ticks(clock->user, head->ticks), end_ns = begin_ns;
	const uint8_t *from = bytes;
	uint64_t end = head->address + head->n_bytes;

	if (head->begin_raw_ns) {
		begin_ns = clock->from_raw(clock->user, head->begin_raw_ns) - MARGIN_NS;
		end_ns = clock->from_raw(clock->user, head->end_raw_ns) + MARGIN_NS;
	}

	if (head->kind == TRACE_CODE_CHANGING && !store->history)
		return store->trace_path ? code_history_read(store->trace_path, &store->clock,
							     &store->history)
					 : -EOPNOTSUPP;
	if (head->kind == TRACE_CODE_HELD)
		return add_held(store, process, head, bytes);
	if (end < head->address || head->kind > TRACE_CODE_DATA)
		return 0;
	for (uint64_t start = head->address; start < end;) {
		uint64_t page_end = (start | (PAGE_BYTES - 1)) + 1;
		uint64_t part_end = page_end + BEYOND_BYTES < end ? page_end + BEYOND_BYTES : end;
		struct snapshot *snapshot = malloc(sizeof(*snapshot) + (part_end - start));

		if (!snapshot)
			return -ENOMEM;
		*snapshot = (struct snapshot){ .address = start,
					       .n_bytes = part_end - start,
					       .begin_ns = begin_ns,
					       .end_ns = end_ns };
		memcpy(snapshot->bytes, from + (start - head->address), part_end - start);
		int r = add_snapshot(store, process, head->kind == TRACE_CODE_DATA, snapshot);
		/*
		 * What lies behind the page only ends its last instruction: not a page of its own.
		 */
		if (r < 0 || part_end == end)
			return r;
		start = page_end;
	}
	return 0;
}

static bool is_over(const struct code_map *map, uint64_t start, uint64_t size)
{
	return start >= map->start ? start - map->start < map->size : map->start - start < size;
}

/*
 * Files and what is mapped over them. A JIT that has its memory protected in turns is left out:
 * that code is read again and again.
 */
int code_store_map(struct code_store *store, const struct code_map *map)
{
	bool is_again = false;

	for (size_t i = 0; i < store->n_maps && !is_again; i++)
		is_again = store->maps[i].pid == map->pid &&
			   is_over(&store->maps[i], map->start, map->size);
	if (!is_again && !map->is_file)
		return 0;
	if (grow_array(&store->maps, store->n_maps, &store->n_maps_allocated,
		       sizeof(*store->maps)) < 0)
		return -ENOMEM;
	store->maps[store->n_maps++] = *map;
	if (!is_again)
		return 0;
	return note_renewal(store, (struct renewal){ .pid = map->pid, .time_ns = map->time_ns });
}

static void count_again(struct code_store *store, uint32_t process, int64_t time_ns)
{
	const struct task_process *task = tasks_process(store->tasks, process);

	store->last.process = process;
	store->last.count = 0;
	store->last.from_ns = INT64_MIN;
	store->last.until_ns = INT64_MAX;
	store->last.n_renewals = store->n_renewals;
	for (size_t i = 0; i < store->n_renewals; i++) {
		const struct renewal *renewal = &store->renewals[i];

		if (renewal->process ? renewal->process != process
				     : !task || renewal->pid != task->pid)
			continue;
		if (renewal->time_ns > time_ns) {
			if (renewal->time_ns < store->last.until_ns)
				store->last.until_ns = renewal->time_ns;
			continue;
		}
		store->last.count++;
		if (renewal->time_ns > store->last.from_ns)
			store->last.from_ns = renewal->time_ns;
	}
}

/* Renewals of an image up to a time. */
static uint32_t count_renewals(struct code_store *store, uint32_t process, int64_t time_ns)
{
	if (store->last.process != process || store->last.n_renewals != store->n_renewals ||
	    time_ns < store->last.from_ns || time_ns >= store->last.until_ns)
		count_again(store, process, time_ns);
	return store->last.count;
}

uint32_t code_store_space(struct code_store *store, uint32_t process, int64_t time_ns)
{
	uint32_t epoch = modules_epoch(store->modules, process, time_ns) +
			 count_renewals(store, process, time_ns);
	uint64_t index = key_map_get(&store->spaces, process, epoch);

	if (index)
		return (uint32_t)index;
	if (grow_array(&store->items, store->n_items, &store->n_items_allocated,
		       sizeof(*store->items)) < 0 ||
	    key_map_put(&store->spaces, process, epoch, store->n_items + 1) < 0)
		return 0;
	store->items[store->n_items++] = (struct space){ process, epoch };
	return (uint32_t)store->n_items;
}

/* What the decoder wants, and where it is put. */
struct request {
	uint64_t address;
	int64_t time_ns;
	const struct module *module; /* around the address, or NULL */
	void *bytes;
	size_t n_bytes;
};

/* Whether something came over the page between the time and the snapshot, or while it was read. */
static bool is_mapped_over(const struct code_store *store, uint32_t pid,
			   const struct request *request, const struct snapshot *snapshot)
{
	uint64_t address = request->address;
	int64_t time_ns = request->time_ns;
	int64_t low = time_ns < snapshot->begin_ns ? time_ns : snapshot->begin_ns;
	int64_t high = time_ns > snapshot->end_ns ? time_ns : snapshot->end_ns;

	return array_find(store->maps, store->n_maps, it,
			  it->pid == pid && it->time_ns > low && it->time_ns <= high &&
				  is_over(it, address & ~(PAGE_BYTES - 1), PAGE_BYTES));
}

/*
 * Of several snapshots of a page that of the module that was there: the last one before the time,
 * else the first behind it (a page is read after the first sample on it). None when something else
 * was mapped, or the code made writable, in between.
 */
static const struct snapshot *choose(const struct code_store *store, uint32_t process,
				     const struct snapshot *snapshot, const struct request *request)
{
	const struct task_process *task = tasks_process(store->tasks, process);
	const struct module *module = request->module;
	const struct snapshot *best = NULL;

	for (; snapshot; snapshot = snapshot->older) {
		if (module &&
		    (snapshot->begin_ns < module->load_ns || snapshot->end_ns >= module->unload_ns))
			continue;
		if (task && is_mapped_over(store, task->pid, request, snapshot))
			continue;
		best = snapshot;
		if (snapshot->begin_ns <= request->time_ns)
			break;
	}
	return best;
}

static size_t read_snapshot(const struct code_store *store, bool is_data, uint32_t process,
			    const struct request *request)
{
	const struct snapshot *snapshot = choose(store, process,
						 newest(is_data ? &store->data : &store->code,
							process, request->address >> PAGE_BITS),
						 request);

	if (!snapshot || request->address - snapshot->address >= snapshot->n_bytes)
		return 0;

	size_t within = request->address - snapshot->address;
	size_t n = snapshot->n_bytes - within;
	n = n < request->n_bytes ? n : request->n_bytes;
	memcpy(request->bytes, snapshot->bytes + within, n);
	return n;
}

/* Of the image itself, or of the images that forked it and had the same code then. */
static size_t read_inherited(struct code_store *store, bool is_data, uint32_t number,
			     struct request request)
{
	const struct task_process *process = tasks_process(store->tasks, number);
	bool is_own = request.module && !request.module->is_inherited;

	while (process) {
		size_t n = read_snapshot(store, is_data, process->number, &request);

		if (n || process->birth != RING_BIRTH_FORK || is_own)
			return n;
		if (process->start_ns < request.time_ns)
			request.time_ns = process->start_ns;
		process = tasks_process(store->tasks, process->parent);
	}
	return 0;
}

/* Code that changes where it lies. */
static size_t read_history(const struct code_store *store, uint32_t number,
			   const struct request *request)
{
	const struct task_process *process = tasks_process(store->tasks, number);
	const struct code_question question = { request->address, request->time_ns, request->bytes,
						request->n_bytes };
	size_t n = code_history_bytes(store->history, number, &question);

	if (n || !process || process->birth != RING_BIRTH_FORK)
		return n;

	const struct code_fork fork = { number, process->parent, process->start_ns };
	return code_history_inherited(store->history, &fork, &question);
}

/*
 * Whether code in memory is as in its file: nobody may write to it, or could in this image's life.
 */
static bool is_as_in_file(const struct code_store *store, uint32_t number,
			  const struct request *request)
{
	const struct task_process *process = tasks_process(store->tasks, number);
	unsigned n = 0;

	for (size_t i = 0; process && i < store->n_maps; i++) {
		const struct code_map *map = &store->maps[i];

		if (map->pid != process->pid || map->time_ns < process->begin_ns ||
		    map->time_ns > request->time_ns ||
		    !is_over(map, request->address & ~(PAGE_BYTES - 1), PAGE_BYTES))
			continue;
		if (!map->is_fixed || process->birth == RING_BIRTH_FORK || ++n > 1)
			return false;
	}
	/* Without these records nothing tells when it was written to. */
	return store->n_maps || !store->history ||
	       !code_history_has(store->history, number, request->address);
}

static size_t read_file(const struct request *request, bool is_data)
{
	const struct module *module = request->module;
	uint64_t address = module ? request->address - module->bias : 0;

	if (!module || (is_data && !object_is_constant(module->object, address)))
		return 0;
	return object_read(module->object, address, request->bytes, request->n_bytes);
}

/* The page behind a file's code is of data that may read as branches, and nobody runs it. */
static bool is_in_data(const struct request *request)
{
	const struct module *module = request->module;
	const struct object_segment *segment =
		module ? object_segment_at(module->object, request->address - module->bias) : NULL;

	return segment && !segment->is_executable;
}

static uint32_t process_of(const struct code_store *store, uint32_t space)
{
	return space == 0 || space > store->n_items ? 0 : store->items[space - 1].process;
}

static size_t read_bytes(struct code_store *store, uint32_t space, struct request *request,
			 bool is_data)
{
	uint32_t process = process_of(store, space);
	bool is_changing = store->history && !is_data;
	size_t n = 0;

	if (!process)
		return 0;
	if (is_changing)
		n = read_history(store, process, request);
	if (n > 0)
		return n;
	request->module = modules_find(store->modules, process, request->address, request->time_ns);
	if (!is_data && is_in_data(request))
		return 0;
	/* Where no map is told of, what was stored of a page that changes may be of any time. */
	if (!is_changing || store->n_maps ||
	    !code_history_has(store->history, process, request->address))
		n = read_inherited(store, is_data, process, *request);
	if (n || (!is_data && !is_as_in_file(store, process, request)))
		return n;
	return read_file(request, is_data);
}

bool code_store_is_changing(const struct code_store *store, uint32_t space, uint64_t address)
{
	uint32_t process = process_of(store, space);

	return process && store->history && code_history_has(store->history, process, address);
}

uint32_t code_store_version(void *user, uint32_t space, uint64_t address, uint64_t time)
{
	const struct code_store *store = user;

	if (!store->history)
		return 0;
	return code_history_version(store->history, process_of(store, space), address,
				    (int64_t)time);
}

size_t code_store_code(void *user, uint32_t space, uint64_t address, uint64_t time, void *bytes,
		       size_t n_bytes)
{
	struct request request = { address, (int64_t)time, NULL, bytes, n_bytes };

	return read_bytes(user, space, &request, false);
}

size_t code_store_constant(void *user, uint32_t space, uint64_t address, uint64_t time, void *bytes,
			   size_t n_bytes)
{
	struct request request = { address, (int64_t)time, NULL, bytes, n_bytes };

	return read_bytes(user, space, &request, true);
}

uint64_t code_store_begin(void *user, uint32_t space, uint64_t address, uint64_t time)
{
	struct code_store *store = user;
	uint32_t process = process_of(store, space);
	const struct module *module =
		process ? modules_find(store->modules, process, address, (int64_t)time) : NULL;
	uint64_t begin = module ? object_function_begin(module->object, address - module->bias) : 0;

	return begin ? begin + module->bias : 0;
}

void code_store_sample(struct code_store *store, uint64_t ip)
{
	store->sample_ip = ip;
}

size_t code_store_data(void *user, uint32_t space, uint64_t address, uint64_t time, void *bytes,
		       size_t n_bytes)
{
	const struct code_store *store = user;
	const struct data_question question = { process_of(store, space), store->sample_ip,
						(int64_t)time, address };

	return store->data_history
		       ? data_history_bytes(store->data_history, &question, bytes, n_bytes)
		       : 0;
}
