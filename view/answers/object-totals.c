#include "view/answers/object-totals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "report/text/json.h"
#include "schemas/trace-format.h"
#include "store/touch.h"

/* -1 of 0, else the power of two. */
static int log2_of(int64_t value)
{
	return value <= 0 ? -1 : 63 - __builtin_clzll((unsigned long long)value);
}

static size_t cell_of(double value, double whole, unsigned n)
{
	double cell = whole > 0 ? value * n / whole : 0;

	return cell < 0 ? 0 : cell >= n ? n - 1 : (size_t)cell;
}

/* ---- Touches ---- */

static struct object_thread *thread_at(struct object_tally *tally, int64_t id)
{
	return key_map_item(&tally->thread_of, id, 0, tally->threads, tally->n_threads,
			    tally->n_threads_allocated, (struct object_thread){ .id = id });
}

static struct object_instruction *instruction_at(struct object_tally *tally, int64_t frame,
						 int is_write)
{
	return key_map_item(&tally->instruction_of, frame, is_write + 1, tally->instructions,
			    tally->n_instructions, tally->n_instructions_allocated,
			    (struct object_instruction){ .frame = frame, .is_write = is_write });
}

/* Levels are few; those beyond the table join its last. */
static struct object_level *level_at(struct object_tally *tally, const char *name)
{
	size_t n_most = sizeof(tally->levels) / sizeof(tally->levels[0]);

	for (size_t i = 0; i < tally->n_levels; i++) {
		if (strcmp(tally->levels[i].name, name) == 0)
			return &tally->levels[i];
	}
	if (tally->n_levels == n_most)
		return &tally->levels[n_most - 1];
	struct object_level *level = &tally->levels[tally->n_levels++];
	snprintf(level->name, sizeof(level->name), "%s", name);
	return level;
}

static void add_level(struct object_tally *tally, const struct object_touch *touch)
{
	if (!touch->level && touch->latency < 0)
		return;
	struct object_level *level = level_at(tally, touch->level ? touch->level : "");
	level->n++;
	level->n_latencies += touch->latency >= 0;
	level->latency += touch->latency >= 0 ? (uint64_t)touch->latency : 0;
}

/* By what is touched when. */
static double draw_of(const struct object_touch *touch)
{
	uint64_t what = (uint64_t)touch->offset ^ (uint64_t)touch->frame << 32 ^
			(uint64_t)touch->block << 44;

	return touch_draw((uint64_t)touch->time_ns + what * UINT64_C(0x9e3779b97f4a7c15));
}

static void add_place(struct object_tally *tally, const struct object_touch *touch, bool counts)
{
	double from_ns = (double)tally->from_ns, size = (double)tally->size;
	size_t x = cell_of((double)touch->time_ns - from_ns, (double)tally->to_ns - from_ns,
			   OBJECT_HEAT_WIDTH);
	size_t y = cell_of((double)touch->offset, size, OBJECT_HEAT_HEIGHT);
	size_t offset = cell_of((double)touch->offset, size, OBJECT_OFFSETS);

	bool is_fault = touch->role == TRACE_ROLE_FAULT;
	uint32_t *heat = is_fault ? tally->heat_faults : tally->heat;
	heat[y * OBJECT_HEAT_WIDTH + x] += touch->part > draw_of(touch);
	tally->faults[offset] += is_fault;
	tally->offsets[offset] += counts && !is_fault;
	tally->written[offset] += counts && touch->is_write == 1;
	tally->times_ns[offset] += touch->time_share_ns;
}

static int count_block(struct object_tally *tally, int64_t id)
{
	uint64_t n = key_map_get(&tally->count_of, (uint64_t)id, 0);

	return key_map_put(&tally->count_of, (uint64_t)id, 0, n + 1);
}

int object_tally_touch(struct object_tally *tally, const struct object_touch *touch)
{
	bool counts = touch->role == 0 || touch->role == 3;

	if (touch->offset >= 0)
		add_place(tally, touch, counts);
	if (!counts && touch->time_share_ns <= 0)
		return 0;
	struct object_thread *thread = thread_at(tally, touch->thread);
	if (!thread)
		return -ENOMEM;
	struct object_instruction *instruction =
		instruction_at(tally, touch->frame, touch->is_write);
	if (!instruction)
		return -ENOMEM;
	thread->time_ns[touch->is_write + 1] += touch->time_share_ns;
	instruction->time_ns += touch->time_share_ns;
	if (!counts)
		return 0;
	if (touch->role == TRACE_ROLE_FAULT)
		thread->n_faults++;
	else
		thread->n[touch->is_write + 1]++;
	add_level(tally, touch);
	instruction->n++;
	return count_block(tally, touch->block);
}

/* ---- Blocks ---- */

static bool is_before(const struct object_block *a, const struct object_block *b)
{
	return a->n != b->n ? a->n > b->n : a->size > b->size;
}

static void keep_block(struct object_tally *tally, const struct object_block *block)
{
	size_t i = tally->n_blocks;

	if (i == OBJECT_MAX_BLOCKS && !is_before(block, &tally->blocks[i - 1]))
		return;
	if (i == OBJECT_MAX_BLOCKS)
		i--;
	else
		tally->n_blocks++;
	for (; i > 0 && is_before(block, &tally->blocks[i - 1]); i--)
		tally->blocks[i] = tally->blocks[i - 1];
	tally->blocks[i] = *block;
}

/* Of one that was freed. */
static int64_t life_of(const struct object_block *block)
{
	int64_t life_ns;

	return __builtin_sub_overflow(block->freed_ns, block->allocated_ns, &life_ns) ? INT64_MAX
										      : life_ns;
}

void object_tally_block(struct object_tally *tally, const struct object_block *block)
{
	struct object_block counted = *block;
	bool is_freed = block->freed_ns != INT64_MAX;

	counted.n = key_map_get(&tally->count_of, (uint64_t)block->id, 0);
	tally->sizes[log2_of(block->size) + 2]++;
	tally->lives[is_freed ? log2_of(life_of(block)) + 2 : 0]++;
	keep_block(tally, &counted);
}

/* ---- As JSON ---- */

static void write_heat(const struct object_tally *tally, struct json *json, bool is_short)
{
	json_set_open(json, "heat", '{');
	json_set_integer(json, "width", OBJECT_HEAT_WIDTH);
	json_set_integer(json, "height", OBJECT_HEAT_HEIGHT);
	json_set_integer(json, "size", tally->size);
	json_set_integer(json, "from", tally->from_ns);
	json_set_integer(json, "to", tally->to_ns);
	json_name(json, "packed");
	packed_write_u16(json, tally->heat, OBJECT_HEAT_WIDTH * OBJECT_HEAT_HEIGHT, is_short);
	json_name(json, "faults");
	packed_write_u16(json, tally->heat_faults, OBJECT_HEAT_WIDTH * OBJECT_HEAT_HEIGHT,
			 is_short);
	json_close(json, '}');
}

/* Steps of equal width, also those without a touch, where there is any. */
static void write_offsets(const struct object_tally *tally, struct json *json)
{
	static const char *const names[] = { "offset", "n", "n_writes", "n_faults", "time_ns" };
	auto_columns struct columns columns;
	double sum = 0;

	columns_begin(&columns, names, 5);
	for (size_t i = 0; i < OBJECT_OFFSETS; i++)
		sum += (double)(tally->offsets[i] + tally->faults[i]) + tally->times_ns[i];
	for (size_t i = 0; i < OBJECT_OFFSETS && sum > 0; i++) {
		json_integer(columns_at(&columns, 0),
			     tally->size / OBJECT_OFFSETS * (int64_t)i +
				     tally->size % OBJECT_OFFSETS * (int64_t)i / OBJECT_OFFSETS);
		json_integer(columns_at(&columns, 1), (int64_t)tally->offsets[i]);
		json_integer(columns_at(&columns, 2), (int64_t)tally->written[i]);
		json_integer(columns_at(&columns, 3), (int64_t)tally->faults[i]);
		json_real(columns_at(&columns, 4), tally->times_ns[i]);
		columns_end_row(&columns);
	}
	columns_set(json, "offsets", &columns);
}

static void write_log2(struct json *json, const char *const names[3], const uint64_t *counts)
{
	auto_columns struct columns columns;

	columns_begin(&columns, names + 1, 2);
	for (size_t i = 0; i < OBJECT_LOG2; i++) {
		if (counts[i] == 0)
			continue;
		json_integer(columns_at(&columns, 0), (int64_t)i - 2);
		json_integer(columns_at(&columns, 1), (int64_t)counts[i]);
		columns_end_row(&columns);
	}
	columns_set(json, names[0], &columns);
}

static void write_levels(const struct object_tally *tally, struct json *json)
{
	static const char *const names[] = { "level", "n", "latency" };
	auto_columns struct columns columns;

	columns_begin(&columns, names, 3);
	for (size_t i = 0; i < tally->n_levels; i++) {
		const struct object_level *level = &tally->levels[i];
		json_text(columns_at(&columns, 0), level->name);
		json_integer(columns_at(&columns, 1), (int64_t)level->n);
		/* null without any */
		json_real(columns_at(&columns, 2),
			  (double)level->latency / (double)level->n_latencies);
		columns_end_row(&columns);
	}
	columns_set(json, "levels", &columns);
}

static void write_blocks(const struct object_tally *tally, struct json *json)
{
	static const char *const names[] = { "id",	     "address",	 "size",
					     "allocated_ns", "freed_ns", "n_samples" };
	auto_columns struct columns columns;

	columns_begin(&columns, names, 6);
	for (size_t i = 0; i < tally->n_blocks; i++) {
		const struct object_block *block = &tally->blocks[i];
		json_integer(columns_at(&columns, 0), block->id);
		json_integer(columns_at(&columns, 1), block->address);
		json_integer(columns_at(&columns, 2), block->size);
		json_integer(columns_at(&columns, 3), block->allocated_ns);
		if (block->freed_ns == INT64_MAX)
			json_null(columns_at(&columns, 4));
		else
			json_integer(columns_at(&columns, 4), block->freed_ns);
		json_integer(columns_at(&columns, 5), (int64_t)block->n);
		columns_end_row(&columns);
	}
	columns_set(json, "blocks", &columns);
}

void object_tally_write(const struct object_tally *tally, struct json *json, bool is_short)
{
	static const char *const sizes[] = { "sizes", "size_log2", "n" };
	static const char *const lives[] = { "lives", "life_log2", "n" };

	write_heat(tally, json, is_short);
	write_offsets(tally, json);
	write_log2(json, sizes, tally->sizes);
	write_log2(json, lives, tally->lives);
	write_levels(tally, json);
	write_blocks(tally, json);
}

void object_tally_finish(struct object_tally *tally)
{
	key_map_finish(&tally->thread_of);
	key_map_finish(&tally->instruction_of);
	key_map_finish(&tally->count_of);
	free(tally->threads);
	free(tally->instructions);
}
