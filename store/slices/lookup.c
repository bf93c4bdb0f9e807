#include "store/slices/lookup.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "store/row-limit.h"
#include "store/slices/levels.h"
#include "store/statement.h"

void slice_store_close(struct slice_store *store)
{
	free(store->heads);
	sqlite3_finalize(store->fetch);
	slice_reader_close(store->reader);
	*store = (struct slice_store){ 0 };
}

static int add_head(struct slice_store *store, sqlite3_stmt *row)
{
	int r = grow_array(&store->heads, store->n_heads, &store->n_heads_allocated,
			   sizeof(*store->heads));

	if (r == 0)
		store->heads[store->n_heads++] = (struct slice_head){
			.id = sqlite3_column_int64(row, 0),
			.level = (unsigned)sqlite3_column_int(row, 1),
			.number = sqlite3_column_int64(row, 2),
			.first_ns = sqlite3_column_int64(row, 3),
			.last_ns = sqlite3_column_int64(row, 4),
			.first_row = sqlite3_column_int64(row, 5),
			.last_row = sqlite3_column_int64(row, 6),
			.first_sample = sqlite3_column_int64(row, 7),
			.last_sample = sqlite3_column_int64(row, 8),
		};
	return r;
}

static int read_heads(struct slice_store *store, bool is_blocks)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(store->db,
				  "SELECT id, level, number, first_ns, last_ns, first_row,"
				  " last_row, first_sample, last_sample FROM main.slice"
				  " WHERE run_id = ? AND is_blocks = ? ORDER BY level DESC, number",
				  &row);

	if (r < 0)
		return r;
	statement_integer(row, 1, store->run_id);
	statement_integer(row, 2, is_blocks);
	while ((r = statement_step(row)) > 0) {
		r = add_head(store, row);
		if (r < 0)
			return r;
	}
	return r;
}

/*
 * Each group has its slices: numbers of a level count up from 0, and the level above is complete.
 */
static bool are_sound(const struct slice_store *store)
{
	int64_t n[SLICE_LEVELS] = { 0 };

	for (size_t i = 0; i < store->n_heads; i++) {
		const struct slice_head *head = &store->heads[i];
		if (head->level >= SLICE_LEVELS || head->number != n[head->level]++)
			return false;
	}
	for (unsigned i = 1; i < SLICE_LEVELS; i++) {
		if (n[i] != (n[i - 1] + SLICE_FANOUT - 1) / SLICE_FANOUT)
			return false;
	}
	return true;
}

int slice_store_open(sqlite3 *db, int64_t run_id, bool is_blocks, struct slice_store *ret_store)
{
	auto_slice_store struct slice_store store = { .db = db, .run_id = run_id };

	if (!statement_has_column(db, "main", "slice", "level"))
		return statement_kept(db) == -ENOMEM ? -ENOMEM : -ENODATA;
	store.reader = slice_reader_open();
	if (!store.reader)
		return -ENOMEM;
	int r = statement_prepare(db, "SELECT data FROM main.slice WHERE id = ?", &store.fetch);
	if (r == 0)
		r = read_heads(&store, is_blocks);
	if (r < 0)
		return r;
	if (store.n_heads == 0)
		return -ENODATA;
	if (!are_sound(&store))
		return -EBADMSG;
	store.last_thread = row_limit(db, "main.thread") - 1;
	store.last_stack = row_limit(db, "main.stack") - 1;
	*ret_store = store;
	store = (struct slice_store){ 0 };
	return 0;
}

int slice_store_read(struct slice_store *store, const struct slice_head *head,
		     const struct slice_visitor *visitor)
{
	statement_integer(store->fetch, 1, head->id);
	int r = statement_step(store->fetch);

	if (r > 0)
		r = slice_read(store->reader, sqlite3_column_blob(store->fetch, 0),
			       (size_t)sqlite3_column_bytes(store->fetch, 0), visitor);
	sqlite3_reset(store->fetch);
	return r;
}

/* ---- Walking ---- */

static bool is_cut(const struct slice_walk *walk, const struct slice_head *head)
{
	return walk->cut_row && head->first_row <= walk->cut_row && head->last_row >= walk->cut_row;
}

/* Heads of a level begin here. */
static const struct slice_head *level_of(const struct slice_store *store, unsigned level)
{
	size_t i = 0;

	while (i < store->n_heads && store->heads[i].level != level)
		i++;
	return store->heads + i;
}

static int visit(const struct slice_store *store, const struct slice_walk *walk,
		 const struct slice_head *head);

static int visit_parts(const struct slice_store *store, const struct slice_walk *walk,
		       const struct slice_head *head)
{
	const struct slice_head *below = level_of(store, head->level - 1);
	const struct slice_head *end = store->heads + store->n_heads;
	int64_t first = head->number * SLICE_FANOUT;
	int r = 0;

	for (int64_t i = first; i < first + SLICE_FANOUT && r == 0; i++) {
		if (below + i >= end || below[i].level != head->level - 1)
			break;
		r = visit(store, walk, &below[i]);
	}
	return r;
}

/* Groups are three levels deep. */
static int visit(const struct slice_store *store, const struct slice_walk *walk,
		 const struct slice_head *head)
{
	bool is_outside = head->first_ns > head->last_ns || head->last_ns < walk->from_ns ||
			  head->first_ns >= walk->to_ns;
	bool is_inside = !walk->is_of_rows && head->first_ns >= walk->from_ns &&
			 head->last_ns < walk->to_ns && !is_cut(walk, head);

	if (is_outside)
		return 0;
	if (is_inside)
		return walk->whole(walk->context, head);
	return head->level > 0 ? visit_parts(store, walk, head) : walk->part(walk->context, head);
}

int slice_store_walk(const struct slice_store *store, const struct slice_walk *walk)
{
	int r = 0;

	for (size_t i = 0; i < store->n_heads && r == 0; i++) {
		if (store->heads[i].level + 1 == SLICE_LEVELS)
			r = visit(store, walk, &store->heads[i]);
	}
	return r;
}
