#include "view/answers/site-blocks.h"

#include <errno.h>

#include "store/database.h"
#include "store/heatmap/lookup.h"
#include "store/statement.h"
#include "view/answers/internal.h"
#include "view/context.h"

#define BIT(column) (1u << (column))

struct list {
	struct picture_store *store;
	sqlite3_stmt *add[2]; /* a sample, a block */
	int64_t site;
	int64_t n[2];
	uint64_t from, to; /* picture_time() */
};

static void cleanup(struct list *list)
{
	sqlite3_finalize(list->add[0]);
	sqlite3_finalize(list->add[1]);
}
#define auto_list __attribute__((cleanup(cleanup)))

/* What tells items of the site, and what is listed of them. */
static const struct {
	unsigned site, id;
} columns_of[2] = {
	{ PICTURE_TOUCH_SITE, PICTURE_TOUCH_SAMPLE },
	{ PICTURE_BLOCK_SITE, PICTURE_BLOCK_ID },
};

static int add_piece(struct list *list, bool is_blocks)
{
	const struct picture_columns *columns = &list->store->columns;
	const int64_t *sites = columns->values[columns_of[is_blocks].site];
	const int64_t *ids = columns->values[columns_of[is_blocks].id];

	for (uint32_t i = 0; i < columns->n; i++) {
		if (sites[i] != list->site)
			continue;
		if (++list->n[is_blocks] > OBJECT_LIST_MAX)
			return 0;
		statement_integer(list->add[is_blocks], 1, ids[i]);
		int r = statement_run(list->add[is_blocks]);
		if (r < 0)
			return r;
	}
	return 1;
}

/* A block may live on behind the part's end, as nobody freed it. */
static bool may_meet(const struct list *list, const struct picture_part *part)
{
	return part->from < list->to && (part->is_blocks || part->to > list->from);
}

static int add_part(struct list *list, const struct picture_part *part)
{
	unsigned wanted =
		BIT(columns_of[part->is_blocks].site) | BIT(columns_of[part->is_blocks].id);
	int r = 1;

	for (unsigned piece = 0; piece < PICTURE_PIECES && r > 0; piece++) {
		r = picture_store_fetch(list->store, part, piece, wanted);
		if (r > 0)
			r = add_piece(list, part->is_blocks);
		else if (r == 0)
			r = 1; /* the part is small */
	}
	return r;
}

static int add_parts(struct list *list, int64_t run_id)
{
	int r = 1;

	for (size_t i = 0; i < list->store->n_processes && r > 0; i++) {
		const struct picture_process *process = &list->store->processes[i];
		for (size_t j = 0; j < process->n_parts && process->run_id == run_id && r > 0;
		     j++) {
			if (may_meet(list, &process->parts[j]))
				r = add_part(list, &process->parts[j]);
		}
	}
	return r;
}

/* Pictures of older databases do not know the sites of touches; those who do came with slices. */
static bool do_pictures_tell(struct view_question *question)
{
	return question->context->pictures_db ||
	       (statement_has_column(question->db, "main", "slice", "level") &&
		view_number(question, "SELECT EXISTS (SELECT 1 FROM slice WHERE run_id = :run)"));
}

static bool are_too_many(struct view_question *question, int64_t site)
{
	sqlite3_stmt *row = NULL;
	int r = view_prepare(
		question,
		"SELECT n_blocks FROM main.site WHERE run_id = :run AND stack_id = :its_site",
		&row);

	if (r == 0) {
		view_bind(row, ":its_site", site);
		r = statement_step(row) > 0 && sqlite3_column_int64(row, 0) > OBJECT_LIST_MAX;
	}
	sqlite3_finalize(row);
	return r > 0;
}

static int prepare(struct view_question *question, struct list *list)
{
	/*
	 * Emptied, not dropped: SQLite refuses that while whoever asks for many sites reads them.
	 */
	static const char tables[] =
		"CREATE TEMP TABLE IF NOT EXISTS its_block(id INTEGER PRIMARY KEY);"
		"CREATE TEMP TABLE IF NOT EXISTS its_sample(id INTEGER PRIMARY KEY);"
		"DELETE FROM temp.its_block; DELETE FROM temp.its_sample";
	int r = view_context_pictures(question->context, &list->store);

	int result = r == 0 ? sqlite3_exec(question->db, tables, NULL, NULL, NULL) : SQLITE_OK;
	if (result != SQLITE_OK) {
		statement_keep(question->db, result);
		r = -EPROTO;
	}
	if (r == 0)
		r = statement_prepare(question->db,
				      "INSERT OR IGNORE INTO temp.its_sample VALUES (?)",
				      &list->add[0]);
	if (r == 0)
		r = statement_prepare(question->db,
				      "INSERT OR IGNORE INTO temp.its_block VALUES (?)",
				      &list->add[1]);
	return r == 0 || r == -ENOMEM || r == -ENODATA ? r : -EPROTO;
}

int object_list_make(struct view_question *question, int64_t site)
{
	auto_list struct list list = {
		.site = site,
		.from = picture_time(view_value(question, VIEW_FROM, INT64_MIN)),
		.to = picture_time(view_value(question, VIEW_TO, INT64_MAX)),
	};

	if (site == 0 || !do_pictures_tell(question) || are_too_many(question, site))
		return 0;
	int r = prepare(question, &list);
	return r == -ENODATA ? 0 : r < 0 ? r : add_parts(&list, question->run);
}
