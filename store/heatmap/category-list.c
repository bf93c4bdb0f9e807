#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/heatmap/categories.h"
#include "store/heatmap/draw-job.h"
#include "store/statement.h"

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

/* The same three, whatever the run has. */
static void set_directions(struct picture_job *job)
{
	static const char *const names[] = { "read", "write", "unknown" };

	for (unsigned i = 0; i < 3; i++) {
		job->palette.items[i] = i;
		job->picture->categories[i].id = i;
		put_name(&job->picture->categories[i], "%s", names[i]);
	}
	job->palette.n = 3;
	job->palette.others = 2;
}

int picture_palette_read(struct picture_job *job)
{
	const struct picture_request *request = &job->picture->request;
	auto_statement sqlite3_stmt *row = NULL;
	int r;

	job->palette = (struct picture_palette){ .by = request->by };
	if (request->by == PICTURE_BY_DIRECTION) {
		set_directions(job);
		job->picture->n_categories = job->palette.n;
		return 0;
	}
	r = statement_prepare(job->store->db,
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
