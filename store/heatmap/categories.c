#include "store/heatmap/categories.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "store/database.h"
#include "store/heatmap/draw.h"
#include "store/statement.h"

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

int picture_categories_add(struct picture_categories *categories, enum picture_by by,
			   int64_t item_id)
{
	struct picture_counts *counts = &categories->counts[by];
	bool is_few = (uint64_t)item_id < sizeof(counts->few) / sizeof(counts->few[0]);

	if (is_few && counts->few[item_id])
		return counts->items[counts->few[item_id] - 1].n++, 0;
	struct picture_count *count =
		key_map_item(&counts->numbers, item_id, 0, counts->items, counts->n,
			     counts->n_allocated, (struct picture_count){ item_id, 0 });
	if (!count)
		return -ENOMEM;
	if (is_few)
		counts->few[item_id] = (uint32_t)(count - counts->items) + 1;
	count->n++;
	return 0;
}

/* ---- Writing ---- */

DEFINE_ORDER(compare_n, struct picture_count, ORDER(b->n, a->n) ?: BY(item_id));
DEFINE_ORDER(compare_id, struct picture_count, BY(item_id));

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
		bool is_level = by == PICTURE_BY_LEVEL && item_id > PICTURE_NO_LEVEL;
		r = db_insert(
			rows->db,
			"picture_category(run_id, process_id, colour, number, item_id, name, n)",
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

/* ---- Reading ---- */

/* What a category's item is called; NULL: by a rule of its own. ?1: the item. */
static const char *const names_sql[PICTURE_BY_COUNT] = {
	[PICTURE_BY_THREAD] = "SELECT coalesce((SELECT name FROM thread_name WHERE thread_id = ?1"
			      " ORDER BY time_ns DESC LIMIT 1) || ' ', '') || tid FROM thread"
			      " WHERE id = ?1",
	[PICTURE_BY_SOURCE] = "SELECT name FROM source WHERE id = ?1",
};

#define put_name(to, ...) snprintf((to)->name, sizeof((to)->name), __VA_ARGS__)

static int read_name(sqlite3 *db, enum picture_by by, struct picture_category *category)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db, names_sql[by], &row);

	if (r < 0)
		return picture_error(r);
	statement_integer(row, 1, category->id);
	r = statement_step(row);
	if (r > 0)
		put_name(category, "%s", statement_string(row, 0));
	else
		put_name(category, "unknown");
	return r < 0 ? picture_error(r) : 0;
}

static void name_latency(struct picture_category *category)
{
	unsigned number = (unsigned)category->id;

	if (number == 0 || number >= PICTURE_LATENCIES)
		put_name(category, "unknown");
	else if (number == 1)
		put_name(category, "below 16 cycles");
	else if (number == PICTURE_LATENCIES - 1)
		put_name(category, "%u cycles and more", 1u << (number + 2));
	else
		put_name(category, "%u-%u cycles", 1u << (number + 2), (2u << (number + 2)) - 1);
}

static int name_category(sqlite3 *db, enum picture_by by, const char *stored,
			 struct picture_category *category)
{
	if (category->id < 0)
		put_name(category, "all others");
	else if (by == PICTURE_BY_LATENCY)
		name_latency(category);
	else if (by == PICTURE_BY_LEVEL)
		put_name(category, "%s", stored && *stored ? stored : "unknown");
	else
		return read_name(db, by, category);
	return 0;
}

static int add_category(struct picture_job *job, sqlite3_stmt *row)
{
	struct picture *picture = job->picture;
	struct picture_palette *palette = &job->palette;
	struct picture_category *category = &picture->categories[palette->n];

	if (palette->n == PICTURE_MAX_CATEGORIES)
		return -EPROTO;
	category->id = sqlite3_column_int64(row, 0);
	if (category->id < 0)
		palette->others = (unsigned)palette->n;
	palette->items[palette->n++] = category->id;
	return name_category(job->store->db, palette->by, statement_string_or_null(row, 1),
			     category);
}

/* The same four, whatever the run has. */
static void set_directions(struct picture_job *job)
{
	static const char *const names[] = {
		"read", "write", [PICTURE_UNKNOWN] = "unknown", [PICTURE_FAULT] = "page fault"
	};
	const unsigned n = sizeof(names) / sizeof(names[0]);

	for (unsigned i = 0; i < n; i++) {
		job->palette.items[i] = i;
		job->picture->categories[i].id = i;
		put_name(&job->picture->categories[i], "%s", names[i]);
	}
	job->palette.n = n;
	job->palette.others = PICTURE_UNKNOWN;
}

int picture_palette_read(struct picture_job *job)
{
	const struct picture_request *request = &job->picture->request;
	auto_statement sqlite3_stmt *row = NULL;

	job->palette = (struct picture_palette){ .by = request->by };
	if (request->by == PICTURE_BY_DIRECTION) {
		set_directions(job);
		job->picture->n_categories = job->palette.n;
		return 0;
	}
	int r = statement_prepare(job->store->db,
				  "SELECT item_id, name FROM picture_category WHERE run_id = ?1"
				  " AND process_id = ?2 AND colour = ?3 ORDER BY number",
				  &row);
	if (r < 0)
		return picture_error(r);
	statement_integer(row, 1, request->run_id);
	statement_integer(row, 2, request->process_id);
	statement_text(row, 3, picture_colours[request->by]);
	while ((r = statement_step(row)) > 0) {
		r = add_category(job, row);
		if (r < 0)
			return r;
	}
	job->picture->n_categories = job->palette.n;
	return picture_error(r);
}
