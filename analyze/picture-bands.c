#include "analyze/picture-axis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/db.h"
#include "analyze/grow.h"
#include "analyze/statement.h"
#include "common/cleanup.h"

#define MAX_REGIONS 4096u /* that bands are cut by */

/* Addresses that one thing is known to lie in. */
struct region {
	uint64_t start;
	uint64_t end;
	const char *kind;
	char *name;
};

struct regions {
	struct region *items;
	size_t n;
	size_t n_allocated;
};

static void finish_regions(struct regions *regions)
{
	for (size_t i = 0; i < regions->n; i++)
		free(regions->items[i].name);
	free(regions->items);
}
#define auto_regions __attribute__((cleanup(finish_regions)))

/* What is named by itself: loaded files, stacks of threads, mapped files and libc's heap. */
static const char regions_sql[] =
	"SELECT DISTINCT start, end, 'global', path FROM module WHERE process_id = ?1"
	" UNION ALL SELECT DISTINCT stack_start, stack_end, 'stack', '[stack]' FROM thread"
	" WHERE process_id = ?1 AND stack_start < stack_end"
	" UNION ALL SELECT DISTINCT address, address + size,"
	" CASE path WHEN '[heap]' THEN 'heap' WHEN '[stack]' THEN 'stack' ELSE 'mapping' END, path"
	" FROM mapping WHERE process_id = ?1 AND path <> ''";

static const char *kind_of(const char *text)
{
	static const char *const kinds[] = { "global", "stack", "heap", "mapping" };

	for (size_t i = 0; text && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(text, kinds[i]) == 0)
			return kinds[i];
	}
	return "other";
}

static int add_region(struct regions *regions, sqlite3_stmt *row)
{
	const char *name = (const char *)sqlite3_column_text(row, 3);
	struct region region = {
		.start = (uint64_t)sqlite3_column_int64(row, 0),
		.end = (uint64_t)sqlite3_column_int64(row, 1),
		.kind = kind_of((const char *)sqlite3_column_text(row, 2)),
	};

	if (region.end <= region.start)
		return 0;
	int r = grow_array(&regions->items, regions->n, &regions->n_allocated,
			   sizeof(*regions->items));
	if (r < 0)
		return r;
	region.name = strdup(name ? name : "");
	if (!region.name)
		return -ENOMEM;
	regions->items[regions->n++] = region;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct region *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

/* The regions of a process in order; those that begin within another are cut or left out. */
static int read_regions(struct db *db, int64_t process_id, struct regions *regions)
{
	auto_statement sqlite3_stmt *row = NULL;
	size_t n = 0;
	int r = statement_prepare(db_handle(db), regions_sql, &row);

	if (r < 0)
		return r;
	statement_integer(row, 1, process_id);
	while ((r = statement_step(row)) > 0 && regions->n < MAX_REGIONS) {
		if ((r = add_region(regions, row)) < 0)
			return r;
	}
	if (regions->n > 1)
		qsort(regions->items, regions->n, sizeof(*regions->items), compare);
	for (size_t i = 0; i < regions->n; i++) {
		struct region item = regions->items[i];
		if (n > 0 && item.start < regions->items[n - 1].end)
			item.start = regions->items[n - 1].end;
		if (item.start < item.end)
			regions->items[n++] = item;
		else
			free(item.name);
	}
	regions->n = n;
	return r < 0 ? r : 0;
}

/* The bands as they are written, one after the other. */
struct writer {
	sqlite3_stmt *insert;
	int64_t number;
	uint64_t y;
};

static int write_band(struct writer *writer, uint64_t start, uint64_t end,
		      const struct region *region, bool has_blocks)
{
	const char *kind = region ? region->kind : has_blocks ? "heap" : "other";

	statement_integer(writer->insert, 3, writer->number++);
	statement_integer(writer->insert, 4, (int64_t)start);
	statement_integer(writer->insert, 5, (int64_t)end);
	statement_integer(writer->insert, 6, (int64_t)writer->y);
	statement_text(writer->insert, 7, kind);
	statement_text(writer->insert, 8, region ? region->name : "");
	writer->y += end - start;
	return statement_run(writer->insert);
}

/* A range as bands: what lies in a region, and what lies between. */
static int write_range(struct writer *writer, const struct picture_range *range,
		       const struct regions *regions, size_t *next)
{
	uint64_t at = range->start;
	int r = 0;

	while (*next < regions->n && regions->items[*next].end <= at)
		(*next)++;
	for (size_t i = *next; r == 0 && at < range->end; i++) {
		const struct region *region = i < regions->n ? &regions->items[i] : NULL;
		if (!region || region->start >= range->end) {
			r = write_band(writer, at, range->end, NULL, range->has_blocks);
			break;
		}
		if (region->start > at)
			r = write_band(writer, at, region->start, NULL, range->has_blocks);
		at = region->start > at ? region->start : at;
		uint64_t end = region->end < range->end ? region->end : range->end;
		if (r == 0)
			r = write_band(writer, at, end, region, range->has_blocks);
		at = end;
	}
	return r;
}

int picture_bands_write(const struct picture_ranges *ranges, struct db *db, int64_t run_id,
			int64_t process_id, uint64_t *ret_height)
{
	auto_regions struct regions regions = { 0 };
	auto_statement sqlite3_stmt *insert = NULL;
	struct writer writer = { 0 };
	size_t next = 0;
	int r = read_regions(db, process_id, &regions);

	if (r == 0)
		r = statement_prepare(
			db_handle(db),
			"INSERT INTO band(run_id, process_id, number, start, end, y, kind, name)"
			" VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
			&insert);
	if (r < 0)
		return r;
	writer.insert = insert;
	statement_integer(insert, 1, run_id);
	statement_integer(insert, 2, process_id);
	for (size_t i = 0; i < ranges->n && r == 0; i++)
		r = write_range(&writer, &ranges->items[i], &regions, &next);
	*ret_height = writer.y;
	return r;
}
