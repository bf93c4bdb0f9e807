#include "store/totals/keyed.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "store/touch.h"

/* ---- Threads ---- */

void thread_totals_finish(struct thread_totals *totals)
{
	free(totals->items);
	totals->items = NULL;
}

struct thread_total *thread_totals_make(struct thread_totals *totals, int64_t row)
{
	int64_t at = row - totals->first_row;

	if (at < 0 || grow_array_to(&totals->items, (size_t)at, &totals->n_allocated,
				    sizeof(*totals->items)) < 0)
		return NULL;
	if ((size_t)at >= totals->n)
		totals->n = (size_t)at + 1;
	return &totals->items[at];
}

/* ---- Sizes and lifetimes ---- */

int histogram_bucket(uint64_t number)
{
	return number ? 63 - __builtin_clzll(number) : HISTOGRAM_ZERO;
}

void histogram_add(struct histogram *histogram, uint64_t size, int64_t life_ns,
		   const struct block_weight *weight)
{
	int life = life_ns < 0 ? HISTOGRAM_UNFREED : histogram_bucket((uint64_t)life_ns);
	struct histogram_cell *cell = &histogram->cells[histogram_bucket(size) + 2][life + 2];

	cell->n_blocks += weight->n;
	cell->bytes += weight->bytes;
}

void histogram_join(struct histogram *to, const struct histogram *from)
{
	for (int size = 0; size < HISTOGRAM_BUCKETS; size++) {
		for (int life = 0; life < HISTOGRAM_BUCKETS; life++) {
			to->cells[size][life].n_blocks += from->cells[size][life].n_blocks;
			to->cells[size][life].bytes += from->cells[size][life].bytes;
		}
	}
}

/* ---- Objects ---- */

void object_totals_finish(struct object_totals *totals)
{
	key_map_finish(&totals->numbers);
	free(totals->items);
	*totals = (struct object_totals){ 0 };
}

struct object_total *object_totals_at(struct object_totals *totals, int64_t kind, int64_t id)
{
	return key_map_item(&totals->numbers, kind, id, totals->items, totals->n,
			    totals->n_allocated,
			    (struct object_total){
				    .owner_kind = kind,
				    .owner_id = id,
				    .first_touch_ns = INT64_MAX,
				    .last_touch_ns = INT64_MIN,
			    });
}

int object_totals_add(struct object_totals *totals, const struct touch *touch, uint32_t *ret_index)
{
	struct object_total *item = object_totals_at(totals, touch->owner.kind, touch->owner.id);

	if (!item)
		return -ENOMEM;
	if (touch->time_ns < item->first_touch_ns)
		item->first_touch_ns = touch->time_ns;
	if (touch->time_ns > item->last_touch_ns)
		item->last_touch_ns = touch->time_ns;
	item->n_faults += touch->role == TRACE_ROLE_FAULT;
	*ret_index = (uint32_t)(item - totals->items);
	return 0;
}

/* ---- Accesses ---- */

/* Sources are few, kinds of owners fewer, and rows never 2^46. */
#define SOURCE_SHIFT 52
#define KIND_SHIFT   46

void access_totals_finish(struct access_totals *totals)
{
	key_map_finish(&totals->numbers);
	free(totals->items);
	*totals = (struct access_totals){ 0 };
}

struct access_total *access_totals_at(struct access_totals *totals, const struct access_total *like)
{
	uint64_t owner = (uint64_t)like->source_row << SOURCE_SHIFT |
			 (uint64_t)like->owner_kind << KIND_SHIFT | (uint64_t)like->owner_id;

	return key_map_item(&totals->numbers, owner, like->data_src, totals->items, totals->n,
			    totals->n_allocated,
			    (struct access_total){
				    .source_row = like->source_row,
				    .owner_kind = like->owner_kind,
				    .owner_id = like->owner_id,
				    .data_src = like->data_src,
			    });
}

int access_totals_add(struct access_totals *totals, const struct touch *touch, int64_t owner_id)
{
	const struct access_total like = {
		.source_row = touch->source_row,
		.owner_kind = touch->owner.kind,
		.owner_id = owner_id,
		.data_src = touch->data_src,
	};
	struct access_total *item = access_totals_at(totals, &like);

	if (!item)
		return -ENOMEM;
	item->n++;
	item->n_writes += touch->is_write > 0;
	item->n_latencies += touch->latency > 0;
	item->latency += touch->latency;
	item->latency_sq += (double)touch->latency * (double)touch->latency;
	return 0;
}

/* ---- Call stacks ---- */

void stack_totals_finish(struct stack_totals *totals)
{
	key_map_finish(&totals->numbers);
	free(totals->items);
	*totals = (struct stack_totals){ 0 };
}

struct stack_total *stack_totals_at(struct stack_totals *totals, enum source_measures measures,
				    int64_t stack_id)
{
	return key_map_item(&totals->numbers, stack_id, measures, totals->items, totals->n,
			    totals->n_allocated,
			    (struct stack_total){ .measures = measures, .stack_id = stack_id });
}

int stack_totals_add(struct stack_totals *totals, enum source_measures measures, int64_t stack_id,
		     int64_t weight)
{
	if (stack_id == 0)
		return 0;
	struct stack_total *item = stack_totals_at(totals, measures, stack_id);
	if (!item)
		return -ENOMEM;
	item->n++;
	/* Unsigned: a damaged weight may be anything. */
	item->weight = (int64_t)((uint64_t)item->weight + (uint64_t)weight);
	return 0;
}
