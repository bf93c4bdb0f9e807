#include "cli/top/top.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/human-number.h"
#include "report/text/fit-text.h"

#define NS_PER_SECOND 1e9
#define UNNAMED	      "(names are being looked up)"
#define HALF_WIDTH    1.96 /* of a 95 % interval, in standard deviations */

struct top_site {
	char *name; /* NULL: not asked for yet */
	uint64_t n_allocations; /* at the last refresh */
	double rate; /* allocations a second, between the last two */
	uint64_t past_live[TOP_PAST]; /* at earlier refreshes, as a ring */
	char **frames; /* of the stack, as they were asked for; NULL: none was */
};

/* A recorder of another user may have made it: its size must not change while we look. */
static bool is_whole(int fd)
{
	struct stat status;
	int seals = fcntl(fd, F_GET_SEALS);

	return fstat(fd, &status) == 0 && status.st_size == sizeof(struct live_header) &&
	       seals >= 0 && (seals & F_SEAL_SHRINK);
}

/* Numbers of the shared memory, which may say anything. */
static uint32_t count_sites(const struct top *top)
{
	uint32_t n = atomic_load_explicit(&top->header->n_sites, memory_order_acquire);

	return n < LIVE_MAX_SITES ? n : LIVE_MAX_SITES;
}

int top_begin(struct top *top, int fd)
{
	*top = (struct top){ 0 };
	if (!is_whole(fd))
		return -EPROTO;
	const struct live_header *header =
		mmap(NULL, sizeof(*header), PROT_READ, MAP_SHARED, fd, 0);

	if (header == MAP_FAILED)
		return -errno;
	top->header = header;
	if (header->magic != LIVE_MAGIC)
		return -EPROTO;
	/* Only what is looked at becomes memory. */
	top->sites = calloc(LIVE_MAX_SITES, sizeof(*top->sites));
	top->rows = calloc(LIVE_MAX_SITES, sizeof(*top->rows));
	return !top->sites || !top->rows ? -ENOMEM : top_names_create(&top->names);
}

void top_end(struct top *top)
{
	uint32_t n = top->header ? count_sites(top) : 0;

	for (uint32_t i = 0; top->sites && i < n; i++) {
		for (size_t j = 0; top->sites[i].frames && j < LIVE_FRAMES; j++)
			free(top->sites[i].frames[j]);
		free_all(top->sites[i].frames, top->sites[i].name);
	}
	free_all(top->sites, top->rows);
	top->names = top_names_destroy(top->names);
	if (top->header)
		munmap((void *)top->header, sizeof(*top->header));
	*top = (struct top){ 0 };
}

/* ---- Rows ---- */

static const struct {
	const char *head;
	int width;
} columns[TOP_SORTS] = {
	[TOP_LIVE] = { "live", 16 },	 [TOP_GROWTH] = { "growth/s", 10 },
	[TOP_RATE] = { "allocs/s", 10 }, [TOP_LEAKED] = { "leaked", 9 },
	[TOP_BLOCKS] = { "blocks", 10 }, [TOP_AGE] = { "mean age", 9 },
};

static double sort_value(const struct top_row *row, enum top_sort sort)
{
	switch (sort) {
	case TOP_GROWTH:
		return row->growth;
	case TOP_RATE:
		return row->rate;
	case TOP_LEAKED:
		return (double)row->leaked_bytes;
	case TOP_BLOCKS:
		return (double)row->n_live;
	case TOP_AGE:
		return row->n_live ? (double)row->age_ms / (double)row->n_live : 0;
	default:
		return (double)row->live_bytes;
	}
}

static int compare(const void *a, const void *b, void *sort)
{
	const struct top_row *one = a, *other = b;
	double first = sort_value(one, *(const enum top_sort *)sort);
	double second = sort_value(other, *(const enum top_sort *)sort);

	return ORDER(second, first) ?: ORDER(one->site, other->site);
}

DEFINE_ORDER(compare_names, struct top_row,
	     strcmp(a->name, b->name) ?: ORDER(b->live_bytes, a->live_bytes));

/* The place of the oldest refresh that is kept, and how many s before the last one it was. */
static uint32_t oldest(const struct top *top, double *ret_seconds)
{
	uint32_t n = top->n_refreshes; /* the last one is number n - 1 */
	uint32_t place = n > TOP_PAST ? n % TOP_PAST : 0;

	*ret_seconds = (double)(top->refreshed_ns - top->past_ns[place]) / NS_PER_SECOND;
	return place;
}

static void fill_row(const struct top *top, uint32_t i, struct top_row *row)
{
	const struct live_site *site = &top->header->sites[i];
	const struct top_site *own = &top->sites[i];
	double growth_s;
	uint32_t place = oldest(top, &growth_s);

	*row = (struct top_row){
		.site = i,
		.live_bytes = atomic_load(&site->live_bytes),
		.n_live = atomic_load(&site->n_live),
		.variance = atomic_load(&site->variance),
		.leaked_bytes = atomic_load(&site->old_bytes),
		.age_ms = atomic_load(&site->age_ms),
		.n_allocations = atomic_load(&site->n_allocations),
		.rate = own->rate,
	};
	if (growth_s > 0)
		row->growth = ((double)row->live_bytes - (double)own->past_live[place]) / growth_s;
}

static void add_row(struct top_row *sum, const struct top_row *row)
{
	sum->live_bytes += row->live_bytes;
	sum->n_live += row->n_live;
	sum->variance += row->variance;
	sum->leaked_bytes += row->leaked_bytes;
	sum->age_ms += row->age_ms;
	sum->n_allocations += row->n_allocations;
	sum->growth += row->growth;
	sum->rate += row->rate;
}

static bool has_text(const char *name, const char *text)
{
	size_t n = strlen(text);

	for (; *name; name++)
		if (strncasecmp(name, text, n) == 0)
			return true;
	return n == 0;
}

size_t top_unnamed(const struct top *top, uint32_t *sites, size_t n)
{
	n = n < top->n_unnamed ? n : top->n_unnamed;
	memcpy(sites, top->unnamed, n * sizeof(*sites));
	return n;
}

char *top_find_name(struct top *top, uint32_t site)
{
	return top_names_site(top->names, &top->header->sites[site]);
}

void top_set_name(struct top *top, uint32_t site, char *name)
{
	free(top->sites[site].name);
	top->sites[site].name = name;
}

/* Names of the first rows, or of all. False: no memory. */
static bool name_rows(struct top *top, size_t n, bool is_hurried)
{
	top->n_unnamed = 0;
	for (size_t i = 0; i < n; i++) {
		struct top_site *own = &top->sites[top->rows[i].site];

		if (!own->name && is_hurried) {
			if (top->n_unnamed < TOP_UNNAMED)
				top->unnamed[top->n_unnamed++] = top->rows[i].site;
			top->rows[i].name = UNNAMED;
			continue;
		}
		if (!own->name)
			own->name =
				top_names_site(top->names, &top->header->sites[top->rows[i].site]);
		top->rows[i].name = own->name;
		if (!own->name)
			return false;
	}
	return true;
}

/* Rows of one name become one; those that the filter does not let through go. */
static void join_rows(struct top *top, size_t n, const char *filter)
{
	size_t n_kept = 0;

	qsort(top->rows, n, sizeof(*top->rows), compare_names);
	for (size_t i = 0; i < n; i++) {
		struct top_row *last = n_kept ? &top->rows[n_kept - 1] : NULL;

		if (filter && !has_text(top->rows[i].name, filter))
			continue;
		if (last && strcmp(last->name, top->rows[i].name) == 0)
			add_row(last, &top->rows[i]);
		else
			top->rows[n_kept++] = top->rows[i];
	}
	top->n_rows = n_kept;
}

/* The first rows in an order: those come first. */
static size_t pick_by(struct top *top, size_t n, enum top_sort sort, size_t n_wanted)
{
	qsort_r(top->rows, n, sizeof(*top->rows), compare, &sort);
	return n_wanted;
}

/* The first ones by each column. */
static size_t pick_by_all(struct top *top, size_t n, size_t n_wanted)
{
	size_t n_picked = 0;

	for (int sort = 0; sort < TOP_SORTS && n_picked < n; sort++) {
		enum top_sort by = (enum top_sort)sort;
		size_t n_left = n - n_picked;

		qsort_r(top->rows + n_picked, n_left, sizeof(*top->rows), compare, &by);
		n_picked += n_wanted < n_left ? n_wanted : n_left;
	}
	return n_picked;
}

int top_arrange(struct top *top, const struct top_wish *wish)
{
	uint32_t n_sites = count_sites(top);
	enum top_sort sort = wish->sort;
	size_t n = 0;

	for (uint32_t i = 0; i < n_sites; i++) {
		fill_row(top, i, &top->rows[n]);
		n += top->rows[n].n_live > 0 || top->rows[n].rate > 0 || top->rows[n].growth != 0;
	}
	top->n_found = n;
	/* Names take time: only those that can be seen, and some more that may become one row. */
	if (!wish->filter && wish->n_rows && 2 * wish->n_rows < n)
		n = wish->is_for_all_sorts ? pick_by_all(top, n, 2 * wish->n_rows)
					   : pick_by(top, n, sort, 2 * wish->n_rows);
	if (!name_rows(top, n, wish->is_hurried))
		return -ENOMEM;
	join_rows(top, n, wish->filter);
	qsort_r(top->rows, top->n_rows, sizeof(*top->rows), compare, &sort);
	return 0;
}

/* ---- Refresh ---- */

static void refresh_now(struct top *top, double since_s, uint64_t began_ns)
{
	const struct live_header *header = top->header;
	struct top_now *now = &top->now;
	uint64_t n_before = now->n_allocations, bytes_before = now->allocated_bytes;
	double growth_s;
	uint32_t place = oldest(top, &growth_s);

	now->seconds = (double)(top->refreshed_ns - began_ns) / NS_PER_SECOND;
	now->live_bytes = atomic_load(&header->live_bytes);
	now->half_width = HALF_WIDTH * sqrt(fmax(0, atomic_load(&header->variance)));
	now->n_live = atomic_load(&header->n_live);
	now->leaked_bytes = atomic_load(&header->old_bytes);
	now->rss_bytes = atomic_load(&header->rss_bytes);
	now->n_allocations = atomic_load(&header->n_allocations);
	now->allocated_bytes = atomic_load(&header->allocated_bytes);
	if (since_s <= 0)
		since_s = now->seconds;
	now->rate = since_s > 0 ? (double)(now->n_allocations - n_before) / since_s : 0;
	now->bytes_rate = since_s > 0 ? (double)(now->allocated_bytes - bytes_before) / since_s : 0;
	now->growth = growth_s > 0
			      ? ((double)now->live_bytes - (double)top->past_live[place]) / growth_s
			      : 0;
	now->n_lost = atomic_load(&header->n_lost) + atomic_load(&header->n_left_out);
	now->n_threads = atomic_load(&header->n_threads);
	now->n_processes = atomic_load(&header->n_processes);
	now->one_in = 1u << (atomic_load(&header->shift) & 31);
	now->is_paused = atomic_load(&header->is_paused);
}

/* What is remembered of sites until the next refresh. */
static void remember_sites(struct top *top, double since_s)
{
	uint32_t n_sites = count_sites(top);
	uint32_t place = (top->n_refreshes - 1) % TOP_PAST;

	for (uint32_t i = 0; i < n_sites; i++) {
		const struct live_site *site = &top->header->sites[i];
		uint64_t n = atomic_load(&site->n_allocations);
		struct top_site *own = &top->sites[i];

		own->rate = since_s > 0 ? (double)(n - own->n_allocations) / since_s : 0;
		own->n_allocations = n;
		own->past_live[place] = atomic_load(&site->live_bytes);
	}
}

int top_refresh(struct top *top, const struct top_wish *wish, uint64_t began_ns)
{
	uint64_t before_ns = top->refreshed_ns ? top->refreshed_ns : began_ns;
	uint32_t place = top->n_refreshes % TOP_PAST;

	top->refreshed_ns = clock_ns(CLOCK_MONOTONIC);
	double since_s = (double)(top->refreshed_ns - before_ns) / NS_PER_SECOND;
	top->past_ns[place] = top->refreshed_ns;
	top->past_live[place] = atomic_load(&top->header->live_bytes);
	top->live_points[top->n_refreshes % TOP_POINTS] = top->past_live[place];
	top->rss_points[top->n_refreshes % TOP_POINTS] = atomic_load(&top->header->rss_bytes);
	top->n_refreshes++;
	remember_sites(top, since_s);
	refresh_now(top, since_s, began_ns);
	return top_arrange(top, wish);
}

const char *top_frame(struct top *top, uint32_t site, size_t i)
{
	struct top_site *own = &top->sites[site];

	if (i >= top_count_frames(&top->header->sites[site]))
		return NULL;
	if (!own->frames)
		own->frames = calloc(LIVE_FRAMES, sizeof(*own->frames));
	if (own->frames && !own->frames[i])
		own->frames[i] = top_names_frame(top->names, &top->header->sites[site], i);
	return own->frames ? own->frames[i] : NULL;
}

/* ---- Text ---- */

/* "1.21 MiB", and "±0.03" where it is an estimate. */
static struct format_text live_text(double bytes, double half_width)
{
	struct format_text text = format_bytes((int64_t)bytes);
	double unit = 1;

	if (half_width < 1)
		return text;
	while (unit * 1024 <= fabs(bytes))
		unit *= 1024;
	snprintf(text.text, sizeof(text.text), "%.3g ±%.2g %s", bytes / unit, half_width / unit,
		 strchr(format_bytes((int64_t)bytes).text, ' ') + 1);
	return text;
}

static struct format_text signed_bytes(double bytes)
{
	struct format_text text, size = format_bytes((int64_t)fabs(bytes));

	if (fabs(bytes) < 1)
		return (struct format_text){ "0 B" };
	snprintf(text.text, sizeof(text.text), "%c%.40s", bytes < 0 ? '-' : '+', size.text);
	return text;
}

/* Right-aligned in columns, not bytes: "±" has two of these. */
static size_t put_cell(char *cells, size_t at, int width, const char *text)
{
	int n = (int)fit_columns(text);

	n = snprintf(cells + at, TOP_CELLS_BYTES - at, "%*s%s  ", n < width ? width - n : 0, "",
		     text);
	return at + (size_t)n;
}

void top_write_cells(const struct top_row *row, char cells[static TOP_CELLS_BYTES])
{
	double age_ms = row->n_live ? (double)row->age_ms / (double)row->n_live : 0;
	struct format_text texts[TOP_SORTS] = {
		[TOP_LIVE] = live_text((double)row->live_bytes,
				       HALF_WIDTH * sqrt(fmax(0, row->variance))),
		[TOP_GROWTH] = signed_bytes(row->growth),
		[TOP_RATE] = format_count((int64_t)llround(row->rate)),
		[TOP_LEAKED] = format_bytes((int64_t)row->leaked_bytes),
		[TOP_BLOCKS] = format_count((int64_t)row->n_live),
		[TOP_AGE] = format_duration((int64_t)(age_ms * 1e6)),
	};
	size_t at = 0;

	for (int sort = 0; sort < TOP_SORTS; sort++)
		at = put_cell(cells, at, columns[sort].width, texts[sort].text);
}

void top_write_head(enum top_sort sort, char head[static TOP_CELLS_BYTES], int *ret_at,
		    int *ret_width)
{
	size_t at = 0;

	for (int column = 0; column < TOP_SORTS; column++) {
		if (column == (int)sort && ret_at) {
			*ret_at = (int)at;
			*ret_width = columns[column].width;
		}
		at = put_cell(head, at, columns[column].width, columns[column].head);
	}
}

void top_write_now(const struct top_now *now, char line[static TOP_LINE_BYTES])
{
	char lost[64] = "", share[64] = "";

	if (now->n_lost)
		snprintf(lost, sizeof(lost), "   lost %s", format_count((int64_t)now->n_lost).text);
	if (now->one_in > 1)
		snprintf(share, sizeof(share), "   1 in %u new blocks followed", now->one_in);
	snprintf(line, TOP_LINE_BYTES,
		 "%s   live %s in %s blocks, %s/s   %s allocs/s, %s/s   RSS %s   leaked %s%s%s%s",
		 format_duration((int64_t)(now->seconds * NS_PER_SECOND)).text,
		 live_text((double)now->live_bytes, now->half_width).text,
		 format_count((int64_t)now->n_live).text, signed_bytes(now->growth).text,
		 format_count((int64_t)llround(now->rate)).text,
		 format_bytes((int64_t)now->bytes_rate).text,
		 format_bytes((int64_t)now->rss_bytes).text,
		 format_bytes((int64_t)now->leaked_bytes).text, share, lost,
		 now->is_paused ? "   paused" : "");
}
