#include "store/heatmap/categories.h"

#include <stdlib.h>

#include "common/array.h"
#include "store/database.h"

const char *const picture_colours[PICTURE_BY_COUNT] = {
	[PICTURE_BY_DIRECTION] = "direction", [PICTURE_BY_THREAD] = "thread",
	[PICTURE_BY_LEVEL] = "level",	      [PICTURE_BY_LATENCY] = "latency",
	[PICTURE_BY_SOURCE] = "source",
};

unsigned picture_latency(int64_t cycles)
{
	if (cycles <= 0)
		return 0;
	unsigned log2 = 63 - (unsigned)__builtin_clzll((uint64_t)cycles);

	return log2 < 4 ? 1 : log2 < 17 ? log2 - 2 : PICTURE_LATENCIES - 1;
}

void picture_categories_finish(struct picture_categories *categories)
{
	for (unsigned by = 0; by < PICTURE_BY_COUNT; by++) {
		free(categories->counts[by].items);
		key_map_finish(&categories->counts[by].numbers);
	}
	*categories = (struct picture_categories){ 0 };
}

static int find(struct picture_counts *counts, int64_t item_id)
{
	uint64_t number = key_map_get(&counts->numbers, (uint64_t)item_id, 0);

	if (!number) {
		int r = grow_array(&counts->items, counts->n, &counts->n_allocated,
				   sizeof(*counts->items));
		if (r == 0)
			r = key_map_put(&counts->numbers, (uint64_t)item_id, 0, counts->n + 1);
		if (r < 0)
			return r;
		counts->items[counts->n] = (struct picture_count){ .item_id = item_id };
		number = ++counts->n;
	}
	counts->last = number;
	return 0;
}

int picture_categories_add(struct picture_categories *categories, enum picture_by by,
			   int64_t item_id)
{
	struct picture_counts *counts = &categories->counts[by];

	if (!counts->last || counts->items[counts->last - 1].item_id != item_id) {
		int r = find(counts, item_id);
		if (r < 0)
			return r;
	}
	counts->items[counts->last - 1].n++;
	return 0;
}

/* ---- Writing ---- */

static int compare_n(const void *a, const void *b)
{
	const struct picture_count *left = a, *right = b;

	if (left->n != right->n)
		return left->n > right->n ? -1 : 1;
	return left->item_id < right->item_id ? -1 : left->item_id > right->item_id;
}

static int compare_id(const void *a, const void *b)
{
	const struct picture_count *left = a, *right = b;

	return left->item_id < right->item_id ? -1 : left->item_id > right->item_id;
}

/* Those beyond what there is room for become one: all others. */
static void join_others(struct picture_counts *counts)
{
	const size_t last = PICTURE_MAX_CATEGORIES - 1;

	if (counts->n <= PICTURE_MAX_CATEGORIES)
		return;
	for (size_t i = last + 1; i < counts->n; i++)
		counts->items[last].n += counts->items[i].n;
	counts->items[last].item_id = -1;
	counts->n = PICTURE_MAX_CATEGORIES;
}

static int write_colour(struct picture_counts *counts, enum picture_by by,
			const struct picture_category_rows *rows)
{
	bool has_order = by == PICTURE_BY_DIRECTION || by == PICTURE_BY_LATENCY;
	int r = 0;

	if (counts->n > 1)
		qsort(counts->items, counts->n, sizeof(*counts->items),
		      has_order ? compare_id : compare_n);
	join_others(counts);
	for (size_t i = 0; i < counts->n && r == 0; i++) {
		int64_t item_id = counts->items[i].item_id;
		bool is_level = by == PICTURE_BY_LEVEL && item_id >= 0;
		r = db_run(
			rows->db,
			"INSERT INTO picture_category(run_id, process_id, colour, number, item_id,"
			" name, n) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
			"nntnntn", rows->run_id, rows->process_id, picture_colours[by], (int64_t)i,
			item_id, is_level ? rows->level_names[item_id] : "",
			(int64_t)counts->items[i].n);
	}
	return r;
}

int picture_categories_write(struct picture_categories *categories,
			     const struct picture_category_rows *rows)
{
	int r = 0;

	for (unsigned by = 0; by < PICTURE_BY_COUNT && r == 0; by++)
		r = write_colour(&categories->counts[by], (enum picture_by)by, rows);
	return r;
}
