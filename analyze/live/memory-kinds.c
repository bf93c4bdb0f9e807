#include "analyze/live/memory-kinds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/block-weight.h"
#include "store/database.h"
#include "store/statement.h"

void kinds_init(struct kinds *kinds, struct db *db, int64_t run_id)
{
	*kinds = (struct kinds){ .db = db, .run_id = run_id, .n = 2 };
	memcpy(kinds->items[KINDS_LIBC].name, "libc", sizeof("libc"));
	memcpy(kinds->items[KINDS_SPILLED].name, "spilled", sizeof("spilled"));
}

/* Give a kind its row, which runs share. */
static int make_row(struct kinds *kinds, struct kinds_item *item)
{
	auto_statement sqlite3_stmt *find = NULL;
	int r = db_run(kinds->db, "INSERT OR IGNORE INTO heap_kind(name) VALUES(?1)", "t",
		       item->name);

	if (r == 0)
		r = statement_prepare(db_handle(kinds->db),
				      "SELECT id FROM heap_kind WHERE name = ?1", &find);
	if (r < 0)
		return r;
	statement_text(find, 1, item->name);
	r = statement_step(find);
	if (r > 0)
		item->row = sqlite3_column_int64(find, 0);
	return r < 0 ? r : 0;
}

/* The kind of a name, made at its first use. */
static unsigned number_of(struct kinds *kinds, const char *name)
{
	for (unsigned i = 0; i < kinds->n; i++) {
		if (strncmp(kinds->items[i].name, name, sizeof(kinds->items[i].name) - 1) == 0)
			return i;
	}
	if (kinds->n < KINDS_MAX)
		kinds->n++;
	snprintf(kinds->items[kinds->n - 1].name, sizeof(kinds->items[0].name), "%s", name);
	return kinds->n - 1;
}

static struct kinds_range *new_range(struct kinds_ranges *ranges)
{
	if (ranges->n < KINDS_MAX_RANGES)
		ranges->n++;
	return &ranges->items[ranges->n - 1];
}

int kinds_add_range(struct kinds *kinds, struct kinds_ranges *ranges, const struct kinds_told *told)
{
	unsigned number = number_of(kinds, told->kind);
	int r = 0;

	kinds->is_used = true;
	for (unsigned i = 0; i < kinds->n && r == 0; i++) {
		if (kinds->items[i].row == 0)
			r = make_row(kinds, &kinds->items[i]);
	}
	if (r < 0)
		return r;
	*new_range(ranges) = (struct kinds_range){
		.start = told->start,
		.size = told->size,
		.since_ns = told->time_ns,
		.kind = number,
	};
	return db_insert(kinds->db,
			 "heap_range(run_id, process_id, kind_id, place, start, size,"
			 " allocated_ns)",
			 "nnntnnn", kinds->run_id, told->process_row, kinds->items[number].row,
			 told->place, (int64_t)told->start, (int64_t)told->size, told->time_ns);
}

unsigned kinds_in_ranges(const struct kinds *kinds, const struct kinds_ranges *ranges,
			 const struct heap_block *block)
{
	/* The last one told holds: a forked process may have moved to other memory. */
	for (unsigned i = ranges->n; i-- > 0;) {
		const struct kinds_range *range = &ranges->items[i];

		if (block->address - range->start < range->size)
			return range->kind;
	}
	if (kinds->spills && block->size >= kinds->min_bytes &&
	    block->allocated_ns > ranges->items[0].since_ns)
		return KINDS_SPILLED;
	return KINDS_LIBC;
}

void kinds_allocated(struct kinds *kinds, unsigned kind, const struct block_weight *weight)
{
	struct kinds_item *item = &kinds->items[kind];

	item->n_blocks += weight->n;
	item->bytes += weight->bytes;
	item->live_blocks += weight->n;
	item->live_bytes += weight->bytes;
	item->now_bytes += weight->bytes;
	if (item->now_bytes > item->peak_bytes)
		item->peak_bytes = item->now_bytes;
}

void kinds_freed(struct kinds *kinds, unsigned kind, const struct block_weight *weight,
		 bool is_freed)
{
	struct kinds_item *item = &kinds->items[kind];

	item->now_bytes -= weight->bytes;
	item->live_blocks -= is_freed ? weight->n : 0;
	item->live_bytes -= is_freed ? weight->bytes : 0;
}

int64_t kinds_row(const struct kinds *kinds, unsigned kind)
{
	return kind == KINDS_LIBC ? INT64_MIN : kinds->items[kind].row;
}

/* Shares of a sample in blocks of one kind belong together. */
/* clang-format off */
static const char touch_sql[] =
	"UPDATE kind_total SET n_samples = shares.n, n_samples_sq = shares.sq, time_ns ="
	" shares.time, n_faults = shares.faults FROM (SELECT kind, sum(n) AS n, sum(n * n) AS sq,"
	" sum(time) AS time, sum(faults) AS faults FROM"
	"  (SELECT coalesce(allocation.kind, ?2) AS kind, touch.sample_id,"
	"    sum(touch.share * (role = 1)) AS n,"
	"    sum(touch.share * sample.weight * (role = 1)) AS time, sum(role = 3) AS faults"
	"   FROM touch JOIN sample ON sample.id = touch.sample_id"
	"   JOIN owner ON owner.id = touch.owner_kind AND owner.name = 'heap'"
	"   JOIN allocation ON allocation.id = touch.owner_id"
	"   WHERE touch.run_id = ?1 GROUP BY 1, 2)"
	"  GROUP BY kind) AS shares WHERE run_id = ?1 AND kind_id = shares.kind";
/* clang-format on */

int kinds_write(struct kinds *kinds)
{
	int r = 0;

	for (unsigned i = 0; i < kinds->n && kinds->is_used && r == 0; i++) {
		const struct kinds_item *item = &kinds->items[i];

		r = db_run(kinds->db,
			   "INSERT INTO kind_total VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, 0)",
			   "nnnnnnn", kinds->run_id, item->row, llround(item->n_blocks),
			   (int64_t)item->bytes, llround(item->live_blocks),
			   (int64_t)item->live_bytes, (int64_t)item->peak_bytes);
	}
	if (r < 0 || !kinds->is_used)
		return r;
	return db_run(kinds->db, touch_sql, "nn", kinds->run_id, kinds->items[KINDS_LIBC].row);
}
