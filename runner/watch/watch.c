#include "runner/watch/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/array.h"
#include "common/clock.h"
#include "runner/trace-records-write.h"
#include "runner/watch/arming.h"
#include "runner/watch/symbol.h"

#define HOT_TEXT "--watch-hot"

int watches_init(struct watches *watches, const char *const *texts, char *ret_message,
		 size_t n_bytes)
{
	for (; texts && *texts; texts++) {
		struct watch_item *item = &watches->items[watches->n_items];

		if (watches->n_items == WATCH_MAX_TARGETS) {
			snprintf(ret_message, n_bytes,
				 "--watch: a processor has %u debug registers; more targets cannot "
				 "be watched",
				 WATCH_MAX_TARGETS);
			return -EINVAL;
		}
		int err = watch_target_parse(*texts, &item->target, ret_message, n_bytes);
		if (err < 0)
			return err;
		watches->n_items++;
	}
	return 0;
}

int watches_init_hot(struct watches *watches)
{
	for (unsigned i = WATCH_MAX_TARGETS; i < WATCH_MAX_ITEMS; i++) {
		watches->items[i].is_hot = true;
		watches->items[i].target.text = HOT_TEXT;
	}
	return watch_hot_create(&watches->hot);
}

bool watches_wanted(const struct watches *watches)
{
	return watches->n_items > 0 || watches->hot;
}

void watches_sample(struct watches *watches, const struct pmu_record *record,
		    const struct image *image)
{
	if (watches->hot && watches->stream)
		watch_hot_sample(watches->hot, record, image);
}

void watches_open(struct watches *watches, struct access_stream *stream)
{
	watches->stream = stream;
	watches->n_registers = stream ? pmu_watch_registers(stream) : 0;
	watches->hit_ns = stream ? pmu_watch_hit_ns(stream) : 0;
	watches->ring_hits = stream ? pmu_watch_ring_hits(stream) : 0;
}

void watches_finish(struct watches *watches)
{
	watches->hot = watch_hot_destroy(watches->hot);
	free(watches->functions);
	watches->functions = NULL;
	watches->n_functions = 0;
	key_map_finish(&watches->nodes);
}

static void add_function(struct watches *watches, unsigned item, const struct image *image,
			 uint64_t start, uint64_t n_bytes)
{
	for (size_t i = 0; i < watches->n_functions; i++) {
		if (watches->functions[i].process_id == image->id &&
		    watches->functions[i].item == item && watches->functions[i].start == start)
			return;
	}
	if (grow_array_of(&watches->functions, watches->n_functions, 1,
			  sizeof(*watches->functions)) < 0)
		return;
	watches->functions[watches->n_functions++] = (struct watch_function){
		.process_id = image->id, .item = item, .start = start, .end = start + n_bytes
	};
}

static void take_symbol(struct watches *watches, unsigned i, const struct image *image,
			const struct watch_symbol *symbol, uint64_t bias)
{
	struct watch_item *item = &watches->items[i];
	uint64_t plus = item->target.plus;
	struct watch_found found = {
		.image = image,
		.address = symbol->value + bias + plus,
		.n_bytes = symbol->n_bytes > plus ? symbol->n_bytes - plus : symbol->n_bytes,
	};

	switch (symbol->kind) {
	case WATCH_SYMBOL_THREAD_LOCAL:
		watches_refuse(watches, item,
			       "it is thread-local: another variable in each thread");
		return;
	case WATCH_SYMBOL_FUNCTION:
		item->is_function = true;
		add_function(watches, i, image, symbol->value + bias, symbol->n_bytes);
		return;
	case WATCH_SYMBOL_VARIABLE:
		break;
	}
	if (plus && symbol->n_bytes && plus >= symbol->n_bytes)
		watches_refuse(watches, item, "+N is behind its end");
	else if (symbol->n_same > 1)
		watches_refuse(watches, item, "its file has several static variables of that name");
	else
		watches_arm(watches, item, &found);
}

static bool wants_file(const struct watch_item *item, const char *path)
{
	return !item->is_over && watch_target_takes(&item->target, path);
}

static void take_file(struct watches *watches, const struct image *image, struct watch_file *file,
		      const char *path, uint64_t bias)
{
	for (unsigned i = 0; i < watches->n_items; i++) {
		struct watch_symbol symbol;

		if (wants_file(&watches->items[i], path) &&
		    watch_file_find(file, watches->items[i].target.name, &symbol))
			take_symbol(watches, i, image, &symbol, bias);
	}
}

static bool wants_any(const struct watches *watches, const char *path)
{
	for (unsigned i = 0; watches->stream && i < watches->n_items; i++) {
		if (wants_file(&watches->items[i], path))
			return true;
	}
	return false;
}

void watches_module(struct watches *watches, const struct image *image, const char *path,
		    uint64_t bias)
{
	auto_watch_file struct watch_file *file = NULL;

	if (wants_any(watches, path) && watch_file_open(path, &file) == 0)
		take_file(watches, image, file, path, bias);
}

/* An address is that of the first image that we see: the command. */
static void take_addresses(struct watches *watches, const struct image *image)
{
	for (unsigned i = 0; i < watches->n_items; i++) {
		struct watch_item *item = &watches->items[i];
		struct watch_found found = { .image = image, .address = item->target.address };

		if (item->target.has_address && !item->is_armed && image->birth == RING_BIRTH_EXEC)
			watches_arm(watches, item, &found);
	}
}

void watches_map(struct watches *watches, const struct image *image, const struct pmu_map *map)
{
	auto_watch_file struct watch_file *file = NULL;
	uint64_t bias;

	if (!watches->stream || !(map->prot & PROT_EXEC) || map->path[0] != '/')
		return;
	take_addresses(watches, image);
	if (!wants_any(watches, map->path) || watch_file_open(map->path, &file) < 0)
		return;
	if (watch_file_bias(file, map->address, map->file_offset, &bias))
		take_file(watches, image, file, map->path, bias);
}

void watches_node(struct watches *watches, const struct image *image, uint32_t thread_id,
		  const struct trace_node *node)
{
	for (size_t i = 0; i < watches->n_functions; i++) {
		const struct watch_function *function = &watches->functions[i];

		if (function->process_id == image->id && node->pc - 1 >= function->start &&
		    node->pc - 1 < function->end)
			watch_nodes_add(&watches->nodes, thread_id, node->id, function->item);
	}
}

/* A block was born to one of the functions; the first counts as 1. */
static void take_block(struct watches *watches, const struct image *image, unsigned items,
		       const struct trace_event *event)
{
	const struct watch_found found = {
		.image = image,
		.address = event->address,
		.n_bytes = event->size,
		.object = event->address,
		.born_ticks = event->ticks,
	};

	for (unsigned i = 0; i < watches->n_items; i++) {
		struct watch_item *item = &watches->items[i];
		uint64_t wanted = item->target.plus ? item->target.plus : 1;

		if ((items >> i & 1) && ++item->n_blocks == wanted)
			watches_arm(watches, item, &found);
	}
}

static void take_name(struct watches *watches, const struct image *image,
		      const struct trace_event *event)
{
	for (unsigned i = 0; i < watches->n_items; i++) {
		struct watch_item *item = &watches->items[i];
		uint64_t plus = item->target.plus;
		const struct watch_found found = {
			.image = image,
			.address = event->address + plus,
			.n_bytes = event->size ? event->size - plus : 0,
			.object = event->address,
			.born_ticks = event->ticks,
		};

		if (item->target.has_address || item->target.library[0] ||
		    item->target.name_id != event->detail)
			continue;
		if (plus && event->size && plus >= event->size)
			watches_refuse(watches, item, "+N is behind its end");
		else
			watches_arm(watches, item, &found);
	}
}

/* A free that was stamped before the object was born is that of the block before it. */
static void take_end(struct watches *watches, const struct image *image, uint64_t address,
		     uint64_t ticks)
{
	for (unsigned i = 0; i < watches->n_items; i++) {
		struct watch_item *item = &watches->items[i];

		if (item->is_armed && item->object == address && address &&
		    item->process_id == image->id && ticks >= item->born_ticks)
			watches_end_item(watches, item, ticks);
	}
}

void watches_event(struct watches *watches, const struct image *image, uint32_t thread_id,
		   const struct trace_event *event)
{
	if (event->op == TRACE_OP_FREE)
		take_end(watches, image, event->address, event->begin_ticks);
	else if (event->op == TRACE_OP_REALLOC)
		take_end(watches, image, event->old_address, event->begin_ticks);
	else if (event->op == TRACE_OP_NOTE && event->call == TRACE_CALL_NAME_OBJECT)
		take_name(watches, image, event);
	if ((event->op == TRACE_OP_ALLOC || event->op == TRACE_OP_REALLOC) && watches->nodes.n > 0)
		take_block(watches, image,
			   watch_nodes_find(&watches->nodes, thread_id, event->stack_id), event);
}

void watches_forget(struct watches *watches, uint32_t process_id)
{
	size_t n = 0;

	for (unsigned i = 0; i < WATCH_MAX_ITEMS; i++) {
		if (watches->items[i].is_armed && watches->items[i].process_id == process_id)
			watches_end_item(watches, &watches->items[i], clock_ticks(watches->clock));
	}
	for (size_t i = 0; i < watches->n_functions; i++) {
		if (watches->functions[i].process_id != process_id)
			watches->functions[n++] = watches->functions[i];
	}
	watches->n_functions = n;
}

static void store_losses(struct watches *watches, const struct watch_item *item)
{
	const struct store_loss all[] = {
		{ .count = item->off_ticks * 1000 / (watches->ticks_per_second + 1),
		  .from_ticks = item->first_off_ticks,
		  .to_ticks = item->last_off_ticks,
		  .reason = "ms switched off: more accesses than "
			    "--watch-rate or a fifth of the time allow" },
		{ .count = item->n_elsewhere,
		  .reason = "others of the same name while one was watched" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct store_loss loss = all[i];

		loss.source = "watch";
		store_loss(watches->writer, &loss);
	}
}

static const char *why_never(const struct watch_item *item)
{
	if (item->is_function)
		return "its function allocated no such block";
	return "never seen: no file that was loaded has such a symbol (are they stripped?), and "
	       "the program named nothing so";
}

void watches_end(struct watches *watches, uint64_t ticks)
{
	for (unsigned i = 0; watches->stream && i < WATCH_MAX_ITEMS; i++) {
		struct watch_item *item = &watches->items[i];

		if (item->is_armed)
			watches_end_item(watches, item, ticks);
		if (!item->was_armed && i < watches->n_items)
			watches_refuse(watches, item, why_never(item));
		store_losses(watches, item);
	}
	watches->stream = NULL;
}
