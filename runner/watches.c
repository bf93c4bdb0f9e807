#include "runner/watches.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "runner/store.h"
#include "runner/watch-symbol.h"

#define SLICES_PER_SECOND 10u
#define TURNS_PER_SECOND  4u
#define HOT_TEXT	  "--watch-hot"
#define DEFAULT_BYTES	  8u

int watches_init(struct watches *watches, const char *const *texts, char *ret_message,
		 size_t n_bytes)
{
	for (; texts && *texts; texts++) {
		struct watch_item *item = &watches->items[watches->n_items];
		int err;

		if (watches->n_items == WATCH_MAX_TARGETS) {
			snprintf(ret_message, n_bytes,
				 "--watch: a processor has %u debug registers; more targets cannot "
				 "be watched",
				 WATCH_MAX_TARGETS);
			return -EINVAL;
		}
		err = watch_target_parse(*texts, &item->target, ret_message, n_bytes);
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
}

void watches_finish(struct watches *watches)
{
	watches->hot = watch_hot_destroy(watches->hot);
	free(watches->functions);
	watches->functions = NULL;
	watches->n_functions = 0;
	watch_nodes_finish(&watches->nodes);
}

/* ---- Records ---- */

static int store(struct watches *watches, const struct watch_item *item,
		 enum trace_watch_state state, uint64_t ticks, const char *note)
{
	struct trace_string strings[] = {
		{ item->target.text, (uint32_t)strlen(item->target.text) },
		{ note, (uint32_t)strlen(note) },
	};
	struct trace_watch record = {
		.head.type = TRACE_RECORD_WATCH,
		.ticks = ticks,
		.address = item->address,
		.n_bytes = item->n_bytes,
		.number = item->number,
		.process_id = item->process_id,
		.state = (uint16_t)state,
		.is_write_only = item->target.is_write_only,
		.is_hot = item->is_hot,
		.text_bytes = strings[0].n_bytes,
		.note_bytes = strings[1].n_bytes,
	};

	return trace_writer_record(watches->writer, &record, sizeof(record), strings, 2);
}

static void warn(const struct watches *watches, const char *line)
{
	if (watches->warn)
		watches->warn(watches->user, line);
}

/* What was asked for cannot be had; told once. */
static void refuse(struct watches *watches, struct watch_item *item, const char *why)
{
	char line[512];

	if (item->is_over)
		return;
	item->is_over = true;
	item->number = ++watches->last_number;
	store(watches, item, TRACE_WATCH_REFUSED, clock_ticks(watches->clock), why);
	snprintf(line, sizeof(line), "--watch %s: %s", item->target.text, why);
	warn(watches, line);
}

/* ---- Registers ---- */

/* Take free registers for the ranges of an item. False: they are not enough, none is taken. */
static bool take_registers(struct watches *watches, struct watch_item *item)
{
	unsigned n = 0, used = watches->used;

	for (unsigned i = 0; i < watches->n_registers && n < item->n_ranges; i++) {
		if (used >> i & 1)
			continue;
		item->registers[n++] = i;
		used |= 1u << i;
	}
	if (n < item->n_ranges || n == 0)
		return false;
	watches->used = used;
	return true;
}

static void disarm(struct watches *watches, const struct watch_item *item)
{
	for (unsigned i = 0; i < item->n_ranges; i++)
		pmu_watch_disarm(watches->stream, item->registers[i]);
}

static int arm_registers(struct watches *watches, const struct watch_item *item)
{
	int err = 0;

	for (unsigned i = 0; err == 0 && i < item->n_ranges; i++)
		err = pmu_watch_arm(watches->stream, item->registers[i], &item->ranges[i]);
	if (err < 0)
		disarm(watches, item);
	return err;
}

static void release(struct watches *watches, struct watch_item *item)
{
	for (unsigned i = 0; i < item->n_ranges; i++)
		watches->used &= ~(1u << item->registers[i]);
	item->n_ranges = 0;
	item->is_armed = false;
}

static void end_pause(struct watch_item *item, uint64_t ticks)
{
	if (!item->is_paused)
		return;
	item->is_paused = false;
	item->off_ticks += ticks - item->paused_ticks;
	item->last_off_ticks = ticks;
}

static void end(struct watches *watches, struct watch_item *item, uint64_t ticks)
{
	disarm(watches, item);
	end_pause(item, ticks);
	store(watches, item, TRACE_WATCH_ENDED, ticks, "");
	release(watches, item);
}

/* What a target turned out to be. */
struct found {
	const struct image *image;
	uint64_t address;
	uint64_t n_bytes; /* of the object; 0: not known */
	uint64_t object; /* see struct watch_item */
	uint64_t born_ticks;
};

/* How many bytes to watch: what was asked for, else the object, but no more than one register does. */
static uint64_t choose_bytes(const struct watch_item *item, const struct found *found)
{
	if (item->target.n_bytes)
		return item->target.n_bytes;
	if (found->n_bytes && found->n_bytes < DEFAULT_BYTES)
		return found->n_bytes;
	return DEFAULT_BYTES;
}

static bool is_same(const struct watch_item *item, const struct found *found)
{
	return item->is_armed && item->process_id == found->image->id &&
	       item->object == found->object && item->born_ticks == found->born_ticks &&
	       item->address == found->address;
}

/* The bytes are refused, or chosen and their ranges made. */
static bool choose_ranges(struct watches *watches, struct watch_item *item,
			  const struct found *found)
{
	uint64_t n_bytes = choose_bytes(item, found);
	char why[160];

	item->address = found->address;
	item->n_bytes = n_bytes;
	item->process_id = found->image->id;
	if (found->n_bytes && found->n_bytes < n_bytes) {
		snprintf(why, sizeof(why), "it has %llu bytes only",
			 (unsigned long long)found->n_bytes);
		refuse(watches, item, why);
		return false;
	}
	item->n_ranges = pmu_watch_cover(found->address, n_bytes, item->target.is_write_only,
					 item->ranges, PMU_WATCH_REGISTERS);
	if (item->n_ranges > 0 && take_registers(watches, item))
		return true;
	snprintf(why, sizeof(why),
		 "%llu bytes at 0x%llx need more debug registers than are free (each watches 1, 2, "
		 "4 or 8 bytes at a multiple of that)",
		 (unsigned long long)n_bytes, (unsigned long long)found->address);
	item->n_ranges = 0;
	refuse(watches, item, why);
	return false;
}

static void arm(struct watches *watches, struct watch_item *item, const struct found *found)
{
	char note[96] = "";
	int err;

	if (item->is_over || is_same(item, found))
		return;
	if (item->is_armed) {
		item->n_elsewhere++;
		return;
	}
	if (!choose_ranges(watches, item, found))
		return;
	err = arm_registers(watches, item);
	if (err < 0) {
		release(watches, item);
		refuse(watches, item, strerror(-err));
		return;
	}
	item->is_armed = item->was_armed = true;
	item->object = found->object;
	item->born_ticks = found->born_ticks;
	item->slice_hits = 0;
	item->number = ++watches->last_number;
	if (found->n_bytes > item->n_bytes)
		snprintf(note, sizeof(note), "%llu of its %llu bytes",
			 (unsigned long long)item->n_bytes, (unsigned long long)found->n_bytes);
	store(watches, item, TRACE_WATCH_ARMED, clock_ticks(watches->clock), note);
}

/* ---- What comes ---- */

static void add_function(struct watches *watches, unsigned item, const struct image *image,
			 uint64_t start, uint64_t n_bytes)
{
	struct watch_function *functions;

	for (size_t i = 0; i < watches->n_functions; i++) {
		if (watches->functions[i].process_id == image->id &&
		    watches->functions[i].item == item && watches->functions[i].start == start)
			return;
	}
	functions = realloc(watches->functions, (watches->n_functions + 1) * sizeof(*functions));
	if (!functions)
		return;
	watches->functions = functions;
	functions[watches->n_functions++] = (struct watch_function){
		.process_id = image->id, .item = item, .start = start, .end = start + n_bytes
	};
}

static void take_symbol(struct watches *watches, unsigned i, const struct image *image,
			const struct watch_symbol *symbol, uint64_t bias)
{
	struct watch_item *item = &watches->items[i];
	uint64_t plus = item->target.plus;
	struct found found = {
		.image = image,
		.address = symbol->value + bias + plus,
		.n_bytes = symbol->n_bytes > plus ? symbol->n_bytes - plus : symbol->n_bytes,
	};

	switch (symbol->kind) {
	case WATCH_SYMBOL_THREAD_LOCAL:
		refuse(watches, item, "it is thread-local: another variable in each thread");
		return;
	case WATCH_SYMBOL_FUNCTION:
		item->is_function = true;
		add_function(watches, i, image, symbol->value + bias, symbol->n_bytes);
		return;
	case WATCH_SYMBOL_VARIABLE:
		break;
	}
	if (plus && symbol->n_bytes && plus >= symbol->n_bytes)
		refuse(watches, item, "+N is behind its end");
	else if (symbol->n_same > 1)
		refuse(watches, item, "its file has several static variables of that name");
	else
		arm(watches, item, &found);
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
		struct found found = { .image = image, .address = item->target.address };

		if (item->target.has_address && !item->is_armed && image->birth == RING_BIRTH_EXEC)
			arm(watches, item, &found);
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
	const struct found found = {
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
			arm(watches, item, &found);
	}
}

static void take_name(struct watches *watches, const struct image *image,
		      const struct trace_event *event)
{
	for (unsigned i = 0; i < watches->n_items; i++) {
		struct watch_item *item = &watches->items[i];
		uint64_t plus = item->target.plus;
		const struct found found = {
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
			refuse(watches, item, "+N is behind its end");
		else
			arm(watches, item, &found);
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
			end(watches, item, ticks);
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
			end(watches, &watches->items[i], clock_ticks(watches->clock));
	}
	for (size_t i = 0; i < watches->n_functions; i++) {
		if (watches->functions[i].process_id != process_id)
			watches->functions[n++] = watches->functions[i];
	}
	watches->n_functions = n;
}

/* ---- The rate ---- */

void watches_hit(struct watches *watches, uint64_t address)
{
	for (unsigned i = 0; i < WATCH_MAX_ITEMS; i++) {
		struct watch_item *item = &watches->items[i];

		if (item->is_armed && address - item->address < item->n_bytes)
			item->slice_hits++;
	}
}

static void pause_item(struct watches *watches, struct watch_item *item)
{
	item->paused_ticks = clock_ticks(watches->clock);
	disarm(watches, item);
	item->is_paused = true;
	if (!item->first_off_ticks)
		item->first_off_ticks = item->paused_ticks;
	store(watches, item, TRACE_WATCH_PAUSED, item->paused_ticks, "");
}

static void resume_item(struct watches *watches, struct watch_item *item)
{
	uint64_t ticks;

	if (arm_registers(watches, item) < 0)
		return; /* again in the next slice */
	ticks = clock_ticks(watches->clock);
	end_pause(item, ticks);
	store(watches, item, TRACE_WATCH_RESUMED, ticks, "");
}

static void bound_rate(struct watches *watches, uint64_t now_ticks)
{
	bool is_new =
		now_ticks - watches->slice_ticks > watches->ticks_per_second / SLICES_PER_SECOND;

	if (watches->rate == 0)
		return;
	if (is_new)
		watches->slice_ticks = now_ticks;
	for (unsigned i = 0; i < WATCH_MAX_ITEMS; i++) {
		struct watch_item *item = &watches->items[i];

		if (!item->is_armed)
			continue;
		if (!item->is_paused && item->slice_hits > watches->rate / SLICES_PER_SECOND)
			pause_item(watches, item);
		else if (item->is_paused && is_new)
			resume_item(watches, item);
		if (is_new)
			item->slice_hits = 0;
	}
}

/* The registers that are free look at other lines now. */
static void turn_hot(struct watches *watches, const struct images *images)
{
	struct watch_hot_word words[PMU_WATCH_REGISTERS];
	unsigned n, i = WATCH_MAX_TARGETS;

	for (unsigned k = i; k < WATCH_MAX_ITEMS; k++) {
		if (watches->items[k].is_armed)
			end(watches, &watches->items[k], clock_ticks(watches->clock));
	}
	n = watch_hot_choose(watches->hot, words,
			     watches->n_registers - (unsigned)__builtin_popcount(watches->used));
	for (unsigned k = 0; k < n; k++) {
		const struct found found = {
			.image = images_find_id(images, words[k].process_id),
			.address = words[k].address,
		};

		if (found.image)
			arm(watches, &watches->items[i++], &found);
	}
}

void watches_round(struct watches *watches, const struct images *images, uint64_t now_ticks)
{
	if (!watches->stream)
		return;
	bound_rate(watches, now_ticks);
	if (watches->hot &&
	    now_ticks - watches->hot_ticks > watches->ticks_per_second / TURNS_PER_SECOND) {
		watches->hot_ticks = now_ticks;
		turn_hot(watches, images);
	}
}

/* ---- The end ---- */

static void store_losses(struct watches *watches, const struct watch_item *item)
{
	const struct store_loss all[] = {
		{ .count = item->off_ticks * 1000 / (watches->ticks_per_second + 1),
		  .from_ticks = item->first_off_ticks,
		  .to_ticks = item->last_off_ticks,
		  .reason = "ms switched off: more accesses than --watch-rate" },
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
	return "never seen: no file that was loaded has such a symbol (are they stripped?), and the "
	       "program named nothing so";
}

void watches_end(struct watches *watches, uint64_t ticks)
{
	for (unsigned i = 0; watches->stream && i < WATCH_MAX_ITEMS; i++) {
		struct watch_item *item = &watches->items[i];

		if (item->is_armed)
			end(watches, item, ticks);
		if (!item->was_armed && i < watches->n_items)
			refuse(watches, item, why_never(item));
		store_losses(watches, item);
	}
	watches->stream = NULL;
}
