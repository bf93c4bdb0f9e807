#include "report/diff/diff-sites.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/query-value.h"
#include "store/statement.h"

#define MAX_STEPS   1024
#define MAX_TRIED   (1u << 22) /* pairs of a group that all ways are tried for */
#define OTHER_VALUE (1u << 24) /* more lines than a file has */

struct key {
	uint64_t a, b;
};

static void hash_byte(struct key *key, unsigned char byte)
{
	key->a = (key->a ^ byte) * UINT64_C(0x100000001b3);
	key->b = (key->b + byte) * UINT64_C(0x9e3779b97f4a7c15);
	key->b ^= key->b >> 29;
}

static void hash_text(struct key *key, const char *text)
{
	for (; *text; text++)
		hash_byte(key, (unsigned char)*text);
	hash_byte(key, 0);
}

static void hash_number(struct key *key, uint32_t number)
{
	for (unsigned shift = 0; shift < 32; shift += 8)
		hash_byte(key, (unsigned char)(number >> shift));
}

/* By the functions alone. */
static struct key path_of(const struct paths *paths, const struct path_step *steps, size_t n)
{
	struct key key = { UINT64_C(0xcbf29ce484222325), 1 };

	for (size_t i = 0; i < n; i++) {
		const struct path_function *function = &paths->functions[steps[i].function];
		hash_text(&key, function->module);
		hash_text(&key, function->name);
	}
	return key;
}

static struct diff_site *add_site(struct diff_sites *sites, struct key key, struct key path)
{
	if (grow_array(&sites->items, sites->n, &sites->n_allocated, sizeof(*sites->items)) < 0 ||
	    key_map_put(&sites->numbers, key.a, key.b, sites->n + 1) < 0)
		return NULL;
	sites->items[sites->n] =
		(struct diff_site){ .sides = { { .stack_id = -1 }, { .stack_id = -1 } },
				    .path = { path.a, path.b } };
	return &sites->items[sites->n++];
}

static struct diff_site *site_at(struct diff_sites *sites, const struct paths *paths,
				 const struct path_step *steps, size_t n, int side)
{
	struct key path = path_of(paths, steps, n), key = path;

	for (size_t i = 0; i < n; i++)
		hash_number(&key, (uint32_t)steps[i].line);
	hash_number(&key, (uint32_t)side);
	uint64_t number = key_map_get(&sites->numbers, key.a, key.b);
	if (number)
		return &sites->items[number - 1];
	int32_t *lines = calloc(n + 1, sizeof(*lines));
	struct diff_site *site = lines ? add_site(sites, key, path) : NULL;
	if (!site) {
		free(lines);
		return NULL;
	}
	for (size_t i = 0; i < n; i++)
		lines[i] = steps[i].line;
	site->lines = lines;
	site->n_lines = n;
	site->side = side;
	return site;
}

/* Of each frame the file, by its build-id; one without may be another file each time. */
static int read_objects(const struct diff_request *request, int side, size_t n, uint64_t *objects)
{
	auto_statement sqlite3_stmt *row =
		report_sql_prepare(request->sides[side].db, "SELECT id, object FROM frame", 0, -1);
	int code = SQLITE_DONE;

	while (row && (code = statement_advance(row)) == SQLITE_ROW) {
		int64_t id = sqlite3_column_int64(row, 0);
		const char *object = statement_string(row, 1);
		struct key key = { 0, 1 };
		hash_text(&key, object);
		if (strchr(object, '/'))
			hash_byte(&key, (unsigned char)(1 + side));
		if (id > 0 && (uint64_t)id < n)
			objects[id] = key.b;
	}
	return row && code == SQLITE_DONE ? 0 : -EPROTO;
}

static uint64_t build_of(const struct paths *paths, const uint64_t *objects, int64_t stack_id)
{
	struct key key = { 0, 1 };

	for (int i = 0; stack_id > 0 && (size_t)stack_id < paths->n_stacks && i < MAX_STEPS; i++) {
		uint64_t object = objects[paths->stacks[stack_id].frame];
		hash_number(&key, (uint32_t)object);
		hash_number(&key, (uint32_t)(object >> 32));
		stack_id = paths->stacks[stack_id].parent;
	}
	return key.b;
}

/* What a side's rows are read with. */
struct reading {
	const struct paths *paths;
	const uint64_t *objects; /* by frame.id */
	int side;
};

/*
 * Where only the ends are known, the value stands for what is between them, with half of the range
 * as its error.
 */
static void add_row(struct diff_sum *sum, sqlite3_stmt *row)
{
	const struct profile_sum value = profile_row(row);
	double half = fmax(value.high - value.value, value.value - value.low);

	sum->n += value.n;
	sum->n_sq += value.n_sq;
	sum->has_ends |= value.has_ends;
	if (value.n_unknown) {
		sum->current += (value.low + value.high) / 2;
		sum->half_unknown += (value.high - value.low) / 2;
		return;
	}
	sum->current += value.value;
	sum->half_sq += value.has_ends ? half * half : 0;
}

static int add_rows(struct diff_sites *sites, const struct reading *reading, sqlite3_stmt *row)
{
	struct path_step steps[PATHS_MAX_DEPTH];
	int code = SQLITE_DONE;

	while ((code = statement_advance(row)) == SQLITE_ROW) {
		int64_t stack_id = sqlite3_column_int64(row, 0);
		size_t n = paths_walk(reading->paths, stack_id, steps);
		struct diff_site *site = site_at(sites, reading->paths, steps, n, reading->side);
		if (!site)
			return -ENOMEM;
		struct diff_sum *sum = &site->sides[reading->side];
		site->build = build_of(reading->paths, reading->objects, stack_id);
		add_row(sum, row);
		sum->stack_id = stack_id;
	}
	return code == SQLITE_DONE ? 0 : -EPROTO;
}

/* A run is over: a site that it did not have counts as 0. */
static void settle(struct diff_sites *sites, int side)
{
	for (size_t i = 0; i < sites->n; i++) {
		struct diff_sum *sum = &sites->items[i].sides[side];
		sum->sum += sum->current;
		sum->sum_sq += sum->current * sum->current;
		sum->current = 0;
	}
}

int diff_sites_read(struct diff_sites *sites, const struct diff_request *request, int side)
{
	const struct diff_side *from = &request->sides[side];
	const char *sql = profile_metric_row(request->metric)->sql;
	auto_paths struct paths *paths = NULL;
	int r = paths_open(from->db, NULL, &paths);
	if (r < 0)
		return r;
	auto_free uint64_t *objects = calloc(paths->n_frames + 1, sizeof(*objects));
	const struct reading reading = { paths, objects, side };

	r = objects ? read_objects(request, side, paths->n_frames, objects) : -ENOMEM;
	for (size_t i = 0; r == 0 && i < from->n_runs; i++) {
		sqlite3_stmt *row = report_sql_prepare(from->db, sql, from->runs[i], -1);
		r = row ? add_rows(sites, &reading, row) : -EPROTO;
		sqlite3_finalize(row);
		settle(sites, side);
	}
	return r;
}

/* ---- Pairs ---- */

static int compare_lines(const struct diff_site *a, const struct diff_site *b)
{
	for (size_t i = 0; i < a->n_lines && i < b->n_lines; i++)
		if (a->lines[i] != b->lines[i])
			return a->lines[i] < b->lines[i] ? -1 : 1;
	return 0; /* of one path: as many */
}

static int compare_paths(const struct diff_site *a, const struct diff_site *b)
{
	for (int i = 0; i < 2; i++)
		if (a->path[i] != b->path[i])
			return a->path[i] < b->path[i] ? -1 : 1;
	return 0;
}

static int compare_sites(const void *left, const void *right)
{
	const struct diff_site *a = left, *b = right;
	int path = compare_paths(a, b);

	return path ? path : a->side != b->side ? a->side - b->side : compare_lines(a, b);
}

/* The second becomes part of the first, and has neither side any more. */
static void join(struct diff_site *a, struct diff_site *b)
{
	a->sides[b->side] = b->sides[b->side];
	b->sides[b->side].stack_id = -1;
}

static void join_equal(struct diff_site *before, size_t n_before, struct diff_site *after,
		       size_t n_after)
{
	for (size_t i = 0, k = 0; i < n_before && k < n_after;) {
		int order = compare_lines(&before[i], &after[k]);
		if (order == 0)
			join(&before[i], &after[k]);
		i += order <= 0;
		k += order >= 0;
	}
}

/* Sites of one side that are called at one line. */
struct part {
	struct diff_site *sites;
	size_t n;
	int32_t line;
	double sum;
};

struct parts {
	struct part *items;
	size_t n;
};

static int split(struct diff_site *sites, size_t n, size_t depth, struct parts *ret_parts)
{
	struct parts parts = { calloc(n, sizeof(*parts.items)), 0 };

	if (!parts.items)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int32_t line = sites[i].lines[depth];
		if (i == 0 || line != sites[i - 1].lines[depth])
			parts.items[parts.n++] = (struct part){ .sites = &sites[i], .line = line };
		parts.items[parts.n - 1].n++;
		parts.items[parts.n - 1].sum += sites[i].sides[sites[i].side].sum;
	}
	*ret_parts = parts;
	return 0;
}

/* What has the same value most likely is the same; else what is nearer. */
static uint64_t distance(const struct part *a, const struct part *b)
{
	uint64_t lines = (uint64_t)llabs((long long)a->line - b->line);

	return lines + (a->sum == b->sum ? 0 : OTHER_VALUE);
}

static int pair_deeper(const struct part *few, const struct part *many, size_t depth);

/* Each of the few gets one of the many, in order, so that the sum of distances is the least. */
static int pair_nearest(const struct parts *few, const struct parts *many, size_t depth)
{
	auto_free uint64_t *costs =
		calloc(many->n + 1, sizeof(*costs)); /* of the first i of the few */
	auto_free bool *is_taken = calloc(few->n * many->n, sizeof(*is_taken));
	int r = costs && is_taken ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < few->n; i++) {
		uint64_t diagonal = costs[i];
		for (size_t k = i; k < many->n; k++) {
			uint64_t taken = diagonal + distance(&few->items[i], &many->items[k]);
			bool is = k == i || taken < costs[k];
			diagonal = costs[k + 1];
			is_taken[i * many->n + k] = is;
			costs[k + 1] = is ? taken : costs[k];
		}
	}
	for (size_t i = few->n, k = many->n; r == 0 && i > 0; k--) {
		if (!is_taken[(i - 1) * many->n + k - 1])
			continue;
		i--;
		r = pair_deeper(&few->items[i], &many->items[k - 1], depth);
	}
	return r;
}

static int pair_parts(const struct parts *before, const struct parts *after, size_t depth)
{
	int r = 0;

	if (before->n != after->n)
		return before->n < after->n ? pair_nearest(before, after, depth)
					    : pair_nearest(after, before, depth);
	for (size_t i = 0; r == 0 && i < before->n; i++)
		r = pair_deeper(&before->items[i], &after->items[i], depth);
	return r;
}

/* Two parts belong to each other: by the lines of the calls further in. */
static int pair_deeper(const struct part *a, const struct part *b, size_t depth)
{
	struct parts parts[2] = { { 0 } };

	if ((a->n == 1 && b->n == 1) || depth >= a->sites->n_lines) {
		join(a->sites, b->sites);
		return 0;
	}
	int r = split(a->sites, a->n, depth, &parts[0]);
	if (r == 0)
		r = split(b->sites, b->n, depth, &parts[1]);
	if (r == 0)
		r = pair_parts(&parts[0], &parts[1], depth + 1);
	free(parts[0].items);
	free(parts[1].items);
	return r;
}

/* The sites of one path, first those of the side before. Of one build, lines are what they were. */
static int pair_group(struct diff_site *sites, size_t n)
{
	size_t n_before = 0;

	while (n_before < n && sites[n_before].side == 0)
		n_before++;
	struct part before = { .sites = sites, .n = n_before };
	struct part after = { .sites = sites + n_before, .n = n - n_before };
	if (before.n == 0 || after.n == 0)
		return 0;
	if (before.sites->build != after.sites->build && before.n * after.n <= MAX_TRIED)
		return pair_deeper(&before, &after, 0);
	join_equal(before.sites, before.n, after.sites, after.n);
	return 0;
}

int diff_sites_pair(struct diff_sites *sites)
{
	size_t n_left = 0;

	if (sites->n > 0)
		qsort(sites->items, sites->n, sizeof(*sites->items), compare_sites);
	for (size_t i = 0, n = 0; i < sites->n; i += n) {
		for (n = 1; i + n < sites->n &&
			    compare_paths(&sites->items[i], &sites->items[i + n]) == 0;)
			n++;
		int r = pair_group(&sites->items[i], n);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < sites->n; i++) {
		struct diff_site *site = &sites->items[i];
		free(site->lines);
		site->lines = NULL;
		if (site->sides[0].stack_id >= 0 || site->sides[1].stack_id >= 0)
			sites->items[n_left++] = *site;
	}
	sites->n = n_left;
	return 0;
}

void diff_sites_finish(struct diff_sites *sites)
{
	for (size_t i = 0; i < sites->n; i++)
		free(sites->items[i].lines);
	key_map_finish(&sites->numbers);
	free(sites->items);
	sites->items = NULL;
}
