#include "store/heatmap/address-axis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/database.h"
#include "store/heatmap/heatmap.h"
#include "store/statement.h"

#define PAGE	    UINT64_C(4096)
#define HOLE	    UINT64_C(65536)
#define MAX_WAITING 32768u
#define MAX_KEPT    65536u /* ranges while they are collected */
#define MAX_RANGES  1024u /* of an axis */
#define WORD_PAGES  64u
#define N_SEEN	    2048u /* words, of 256 KiB each */
#define LITTLE	    64u
#define FRACTION    64u /* a hole of less than this part of its neighbours stays */

void picture_ranges_init(struct picture_ranges *ranges)
{
	*ranges = (struct picture_ranges){ .hole = HOLE };
}

void picture_ranges_finish(struct picture_ranges *ranges)
{
	free_all(ranges->items, ranges->waiting, ranges->seen);
	*ranges = (struct picture_ranges){ 0 };
}

DEFINE_ORDER(compare_ranges, struct picture_range, BY(start));

/* Whether the hole between two neighbours stays on the axis. */
static bool is_joined(const struct picture_range *a, const struct picture_range *b, uint64_t hole)
{
	uint64_t part = (a->end - a->start) / FRACTION + (b->end - b->start) / FRACTION;

	return b->start <= a->end || b->start - a->end <= (hole > part ? hole : part);
}

/* Join sorted ranges in place over holes of at most so many bytes. Returns how many are left. */
static size_t join(struct picture_range *items, size_t n, uint64_t hole)
{
	size_t n_left = 0;

	for (size_t i = 0; i < n; i++) {
		struct picture_range *last = n_left ? &items[n_left - 1] : NULL;
		if (!last || !is_joined(last, &items[i], hole)) {
			items[n_left++] = items[i];
			continue;
		}
		last->end = items[i].end > last->end ? items[i].end : last->end;
		last->holds |= items[i].holds;
	}
	return n_left;
}

static int sort_in(struct picture_ranges *ranges)
{
	size_t n = ranges->n + ranges->n_waiting;
	struct picture_range *items = reallocarray(ranges->items, n + 1, sizeof(*items));

	if (!items)
		return -ENOMEM;
	ranges->items = items;
	if (ranges->n_waiting > 0)
		memcpy(items + ranges->n, ranges->waiting, ranges->n_waiting * sizeof(*items));
	ranges->n_waiting = 0;
	qsort(items, n, sizeof(*items), compare_ranges);
	ranges->n = join(items, n, ranges->hole);
	while (ranges->n > MAX_KEPT) {
		ranges->hole *= 2;
		ranges->n = join(items, ranges->n, ranges->hole);
	}
	return 0;
}

/* Whether all pages are in already; now they are. */
static bool was_seen(struct picture_ranges *ranges, uint64_t first, uint64_t last,
		     enum picture_holding what)
{
	uint64_t word = first / PAGE / WORD_PAGES, mark = word << 4 | (uint64_t)what;
	struct picture_seen *seen =
		&ranges->seen[(word * 2 + (what == PICTURE_HOLDS_BLOCKS)) % N_SEEN];
	uint64_t pages = UINT64_C(2) << last / PAGE % WORD_PAGES;

	if (last / PAGE / WORD_PAGES != word)
		return false;
	pages -= UINT64_C(1) << first / PAGE % WORD_PAGES;
	if (seen->mark != mark)
		*seen = (struct picture_seen){ mark, 0 };
	bool had_all = (seen->pages & pages) == pages;
	seen->pages |= pages;
	return had_all;
}

static bool has(const struct picture_ranges *ranges, size_t i, uint64_t first, uint64_t last,
		enum picture_holding what)
{
	if (i >= ranges->n)
		return false;
	const struct picture_range *range = &ranges->items[i];

	return range->start <= first && last < range->end && range->holds & what;
}

/* Whether a range that is sorted in has it already. */
static bool is_in(struct picture_ranges *ranges, uint64_t first, uint64_t last,
		  enum picture_holding what)
{
	ranges->last = array_n_until(ranges->items, ranges->n, start, first) - 1;
	return has(ranges, ranges->last, first, last, what);
}

/* Thousands of processes may have little each. */
static int reserve(struct picture_ranges *ranges)
{
	int r = grow_array(&ranges->waiting, ranges->n_waiting, &ranges->n_allocated,
			   sizeof(*ranges->waiting));

	if (r < 0 || ranges->seen || ranges->n_waiting < LITTLE)
		return r;
	ranges->seen = calloc(N_SEEN, sizeof(*ranges->seen));
	return ranges->seen ? 0 : -ENOMEM;
}

static int wait_for(struct picture_ranges *ranges, const struct picture_range *range)
{
	int r = ranges->n_waiting == MAX_WAITING ? sort_in(ranges) : reserve(ranges);

	if (r == 0)
		ranges->waiting[ranges->n_waiting++] = *range;
	return r;
}

int picture_ranges_add(struct picture_ranges *ranges, uint64_t address, uint64_t size,
		       enum picture_holding what)
{
	uint64_t last = picture_last_byte(address, size);
	uint64_t first_page = (address < last ? address : last) & ~(PAGE - 1);
	uint64_t last_page = last & ~(PAGE - 1);

	if (has(ranges, ranges->last, first_page, last_page, what) ||
	    (ranges->seen && was_seen(ranges, first_page, last_page, what)))
		return 0;
	if (is_in(ranges, first_page, last_page, what))
		return 0;
	return wait_for(ranges, &(struct picture_range){ first_page, last_page + PAGE, what });
}

int picture_ranges_join(struct picture_ranges *to, const struct picture_ranges *from)
{
	int r = 0;

	to->hole = from->hole > to->hole ? from->hole : to->hole;
	for (size_t i = 0; i < from->n && r == 0; i++)
		r = wait_for(to, &from->items[i]);
	for (size_t i = 0; i < from->n_waiting && r == 0; i++) {
		const struct picture_range *range = &from->waiting[i];
		r = picture_ranges_add(to, range->start, range->end - range->start,
				       (enum picture_holding)range->holds);
	}
	return r;
}

int picture_ranges_settle(struct picture_ranges *ranges)
{
	int r = sort_in(ranges);

	while (r == 0 && ranges->n > MAX_RANGES) {
		ranges->hole *= 2;
		ranges->n = join(ranges->items, ranges->n, ranges->hole);
	}
	return r;
}

/* ---- Places on the axis ---- */

bool picture_place(const struct picture_band *bands, size_t n, uint64_t address, uint64_t *ret_y)
{
	size_t i = array_n_until(bands, n, start, address);

	if (i == 0 || address >= bands[i - 1].end)
		return false;
	*ret_y = bands[i - 1].y + (address - bands[i - 1].start);
	return true;
}

bool picture_address(const struct picture_band *bands, size_t n, uint64_t y, uint64_t *ret_address)
{
	size_t i = array_n_until(bands, n, y, y);

	if (i == 0 || y - bands[i - 1].y >= bands[i - 1].end - bands[i - 1].start)
		return false;
	*ret_address = bands[i - 1].start + (y - bands[i - 1].y);
	return true;
}

/* ---- Bands ---- */

#define MAX_REGIONS (1u << 20) /* of a run: beyond, bands are not told apart any more */

/* Addresses that one thing of a process is known to lie in. */
struct region {
	int64_t process_id;
	uint64_t start;
	uint64_t end;
	const char *kind;
	char *name;
};

/* By process and address, none within another. */
struct list {
	struct region *items;
	size_t n;
	size_t n_allocated;
};

struct picture_regions {
	struct db *db;
	int64_t run_id;
	struct list named; /* bands are cut by them */
	struct list mapped; /* anonymous mappings, joined */
};

static void finish_list(struct list *list)
{
	array_free(list->items, list->n, it, free(it->name));
}

struct picture_regions *picture_regions_close(struct picture_regions *regions)
{
	if (!regions)
		return NULL;
	finish_list(&regions->named);
	finish_list(&regions->mapped);
	free(regions);
	return NULL;
}

/* What has a name: loaded files, stacks of threads, mapped files and libc's heap. */
static const char named_sql[] =
	"SELECT process_id, start, end, 'global', path FROM module WHERE run_id = ?1"
	" UNION SELECT process_id, stack_start, stack_end, 'stack', '[stack]' FROM thread"
	" WHERE run_id = ?1 AND stack_start < stack_end"
	" UNION SELECT process_id, address, address + size,"
	" CASE path WHEN '[heap]' THEN 'heap' WHEN '[stack]' THEN 'stack' ELSE 'mapping' END, path"
	" FROM mapping WHERE run_id = ?1 AND path <> ''";
static const char mapped_sql[] =
	"SELECT process_id, address, address + size, 'mapping', '' FROM mapping"
	" WHERE run_id = ?1 AND coalesce(path, '') = ''";

static const char *kind_of(const char *text)
{
	static const char *const kinds[] = { "global", "stack", "heap", "mapping" };

	for (size_t i = 0; text && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(text, kinds[i]) == 0)
			return kinds[i];
	}
	return "other";
}

static int add_region(struct list *list, sqlite3_stmt *row)
{
	const char *name = statement_string_or_null(row, 4);
	struct region region = {
		.process_id = sqlite3_column_int64(row, 0),
		.start = (uint64_t)sqlite3_column_int64(row, 1),
		.end = (uint64_t)sqlite3_column_int64(row, 2),
		.kind = kind_of(statement_string_or_null(row, 3)),
	};

	if (region.end <= region.start)
		return 0;
	int r = grow_array(&list->items, list->n, &list->n_allocated, sizeof(*list->items));
	if (r < 0)
		return r;
	region.name = strdup(name ? name : "");
	if (!region.name)
		return -ENOMEM;
	list->items[list->n++] = region;
	return 0;
}

DEFINE_ORDER(compare_regions, struct region, BY(process_id) ?: BY(start));

/* What begins within the one before it loses that part, and is left out when nothing is left. */
static void part(struct list *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++) {
		struct region item = list->items[i];
		const struct region *last = n > 0 ? &list->items[n - 1] : NULL;
		if (last && last->process_id == item.process_id && item.start < last->end)
			item.start = last->end;
		if (item.start < item.end)
			list->items[n++] = item;
		else
			free(item.name);
	}
	list->n = n;
}

static int read_list(struct picture_regions *regions, const char *sql, struct list *list)
{
	auto_statement sqlite3_stmt *row = NULL;
	int r = statement_prepare(db_handle(regions->db), sql, &row);

	if (r < 0)
		return r;
	statement_integer(row, 1, regions->run_id);
	while ((r = statement_step(row)) > 0 && list->n < MAX_REGIONS) {
		if ((r = add_region(list, row)) < 0)
			return r;
	}
	if (list->n > 1)
		qsort(list->items, list->n, sizeof(*list->items), compare_regions);
	part(list);
	return r < 0 ? r : 0;
}

int picture_regions_open(struct db *db, int64_t run_id, struct picture_regions **ret_regions)
{
	struct picture_regions *regions = calloc(1, sizeof(*regions));

	if (!regions)
		return -ENOMEM;
	regions->db = db;
	regions->run_id = run_id;
	int r = read_list(regions, named_sql, &regions->named);
	r = r ?: read_list(regions, mapped_sql, &regions->mapped);
	if (r < 0)
		picture_regions_close(regions);
	else
		*ret_regions = regions;
	return r;
}

/* The first region of a process that ends behind an address; list->n: there is none. */
static size_t find_region(const struct list *list, int64_t process_id, uint64_t address)
{
	size_t low = 0, high = list->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct region *region = &list->items[middle];
		if (region->process_id < process_id ||
		    (region->process_id == process_id && region->end <= address))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The region of a process that meets a range of addresses first; NULL: none does. */
static const struct region *region_in(const struct list *list, int64_t process_id, uint64_t start,
				      uint64_t end)
{
	size_t i = find_region(list, process_id, start);
	const struct region *region = i < list->n ? &list->items[i] : NULL;

	return region && region->process_id == process_id && region->start < end ? region : NULL;
}

/* The bands as they are written, one after the other. */
struct writer {
	const struct picture_regions *regions;
	int64_t process_id;
	sqlite3_stmt *insert;
	int64_t number;
	uint64_t y;
};

/* What a piece of a range is that has no name. What is joined of several things is none of them. */
static const char *guess_kind(const struct writer *writer, uint64_t start, uint64_t end,
			      unsigned holds)
{
	if (holds & PICTURE_HOLDS_BLOCKS)
		return "heap";
	if (region_in(&writer->regions->mapped, writer->process_id, start, end))
		return "mapping";
	return holds == PICTURE_HOLDS_STACK  ? "stack"
	       : holds == PICTURE_HOLDS_TOOL ? "tool"
					     : "other";
}

static int write_band(struct writer *writer, uint64_t start, uint64_t end,
		      const struct region *region, unsigned holds)
{
	const char *kind = region ? region->kind : guess_kind(writer, start, end, holds);

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
static int write_range(struct writer *writer, const struct picture_range *range)
{
	uint64_t at = range->start;
	int r = 0;

	while (r == 0 && at < range->end) {
		const struct region *region =
			region_in(&writer->regions->named, writer->process_id, at, range->end);
		uint64_t start = !region ? range->end : region->start > at ? region->start : at;
		if (start > at)
			r = write_band(writer, at, start, NULL, range->holds);
		at = start;
		if (!region || r < 0)
			continue;
		uint64_t end = region->end < range->end ? region->end : range->end;
		r = write_band(writer, at, end, region, range->holds);
		at = end;
	}
	return r;
}

int picture_bands_write(const struct picture_ranges *ranges, const struct picture_regions *regions,
			int64_t process_id, uint64_t *ret_height)
{
	auto_statement sqlite3_stmt *insert = NULL;
	struct writer writer = { .regions = regions, .process_id = process_id };
	int r = statement_prepare(
		db_handle(regions->db),
		"INSERT INTO band(run_id, process_id, number, start, end, y, kind, name)"
		" VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
		&insert);

	if (r < 0)
		return r;
	writer.insert = insert;
	statement_integer(insert, 1, regions->run_id);
	statement_integer(insert, 2, process_id);
	for (size_t i = 0; i < ranges->n && r == 0; i++)
		r = write_range(&writer, &ranges->items[i]);
	*ret_height = writer.y;
	return r;
}
