#include "analyze/code-store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/grow.h"
#include "analyze/key-map.h"
#include "schemas/ring.h"

#define PAGE_BITS    12
#define PAGE_BYTES   (UINT64_C(1) << PAGE_BITS)
#define BEYOND_BYTES 16u /* an instruction that begins on a page ends in these */

/* Bytes of one page of an image at one moment. Those of the same page form a chain, newest first. */
struct snapshot {
	struct snapshot *older;
	struct snapshot *next; /* of all, to free them */
	uint64_t address;
	uint64_t n_bytes;
	int64_t time_ns;
	uint8_t bytes[];
};

/* When code of an image was renewed. */
struct renewal {
	uint32_t process;
	int64_t time_ns;
};

struct space {
	uint32_t process;
	uint32_t epoch;
};

struct code_store {
	struct tasks *tasks;
	struct modules *modules;
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

int code_store_create(struct tasks *tasks, struct modules *modules, struct code_store **ret_store)
{
	struct code_store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	store->tasks = tasks;
	store->modules = modules;
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
	free(store->renewals);
	free(store->items);
	free(store);
	return NULL;
}

static struct snapshot *newest(const struct key_map *map, uint32_t process, uint64_t page)
{
	return (struct snapshot *)(uintptr_t)key_map_get(map, process, page);
}

static int note_renewal(struct code_store *store, uint32_t process, int64_t time_ns)
{
	if (grow_array(&store->renewals, store->n_renewals, &store->n_renewals_allocated,
		       sizeof(*store->renewals)) < 0)
		return -ENOMEM;
	store->renewals[store->n_renewals++] = (struct renewal){ process, time_ns };
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
		int r = note_renewal(store, process, snapshot->time_ns);
		if (r < 0)
			return r;
	}
	return key_map_put(map, process, page, (uintptr_t)snapshot);
}

int code_store_add(struct code_store *store, uint32_t process, const struct trace_code *head,
		   const void *bytes, int64_t time_ns)
{
	const uint8_t *from = bytes;
	uint64_t end = head->address + head->n_bytes;

	if (end < head->address)
		return 0;
	for (uint64_t start = head->address; start < end;) {
		uint64_t page_end = (start | (PAGE_BYTES - 1)) + 1;
		uint64_t part_end = page_end + BEYOND_BYTES < end ? page_end + BEYOND_BYTES : end;
		struct snapshot *snapshot = malloc(sizeof(*snapshot) + (part_end - start));

		if (!snapshot)
			return -ENOMEM;
		*snapshot = (struct snapshot){ .address = start,
					       .n_bytes = part_end - start,
					       .time_ns = time_ns };
		memcpy(snapshot->bytes, from + (start - head->address), part_end - start);
		int r = add_snapshot(store, process, head->is_data, snapshot);
		/* What lies behind the page only ends its last instruction: not a page of its own. */
		if (r < 0 || part_end == end)
			return r;
		start = page_end;
	}
	return 0;
}

static void count_again(struct code_store *store, uint32_t process, int64_t time_ns)
{
	store->last.process = process;
	store->last.count = 0;
	store->last.from_ns = INT64_MIN;
	store->last.until_ns = INT64_MAX;
	store->last.n_renewals = store->n_renewals;
	for (size_t i = 0; i < store->n_renewals; i++) {
		const struct renewal *renewal = &store->renewals[i];

		if (renewal->process != process)
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

/*
 * Of several snapshots of a page that of the module that was there: the last one before the time,
 * else the first behind it (a page is read after the first sample on it).
 */
static const struct snapshot *choose(const struct snapshot *snapshot, const struct module *module,
				     int64_t time_ns)
{
	const struct snapshot *best = NULL;

	for (; snapshot; snapshot = snapshot->older) {
		if (module &&
		    (snapshot->time_ns < module->load_ns || snapshot->time_ns >= module->unload_ns))
			continue;
		best = snapshot;
		if (snapshot->time_ns <= time_ns)
			break;
	}
	return best;
}

/* What the decoder wants, and where it is put. */
struct request {
	uint64_t address;
	int64_t time_ns;
	const struct module *module; /* around the address, or NULL */
	void *bytes;
	size_t n_bytes;
};

static size_t read_snapshot(const struct key_map *map, uint32_t process,
			    const struct request *request)
{
	const struct snapshot *snapshot =
		choose(newest(map, process, request->address >> PAGE_BITS), request->module,
		       request->time_ns);

	if (!snapshot || request->address - snapshot->address >= snapshot->n_bytes)
		return 0;

	size_t within = request->address - snapshot->address;
	size_t n = snapshot->n_bytes - within;
	n = n < request->n_bytes ? n : request->n_bytes;
	memcpy(request->bytes, snapshot->bytes + within, n);
	return n;
}

/* Of the image itself, or of the images that forked it and had the same code. */
static size_t read_inherited(struct code_store *store, const struct key_map *map, uint32_t number,
			     const struct request *request)
{
	const struct task_process *process = tasks_process(store->tasks, number);
	bool is_own = request->module && !request->module->is_inherited;

	while (process) {
		size_t n = read_snapshot(map, process->number, request);

		if (n || process->birth != RING_BIRTH_FORK || is_own)
			return n;
		process = tasks_process(store->tasks, process->parent);
	}
	return 0;
}

static size_t read_file(const struct request *request, bool is_data)
{
	const struct module *module = request->module;
	uint64_t address = module ? request->address - module->bias : 0;

	if (!module || (is_data && !object_is_constant(module->object, address)))
		return 0;
	return object_read(module->object, address, request->bytes, request->n_bytes);
}

static size_t read_bytes(struct code_store *store, uint32_t space, struct request *request,
			 bool is_data)
{
	const struct key_map *map = is_data ? &store->data : &store->code;

	if (space == 0 || space > store->n_items)
		return 0;

	uint32_t process = store->items[space - 1].process;
	request->module = modules_find(store->modules, process, request->address, request->time_ns);
	size_t n = read_inherited(store, map, process, request);
	return n ? n : read_file(request, is_data);
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
