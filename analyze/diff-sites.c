#include "analyze/diff-sites.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/grow.h"
#include "analyze/report-sql.h"
#include "analyze/statement.h"

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

static struct key key_of(const struct paths *paths, const struct path_step *steps, size_t n)
{
	struct key key = { UINT64_C(0xcbf29ce484222325), 1 };

	for (size_t i = 0; i < n; i++) {
		const struct path_function *function = &paths->functions[steps[i].function];
		hash_text(&key, function->module);
		hash_text(&key, function->name);
		for (unsigned shift = 0; shift < 32; shift += 8)
			hash_byte(&key, (unsigned char)((uint32_t)steps[i].line >> shift));
	}
	return key;
}

static struct diff_site *site_at(struct diff_sites *sites, struct key key)
{
	uint64_t number = key_map_get(&sites->numbers, key.a, key.b);

	if (number)
		return &sites->items[number - 1];
	if (grow_array(&sites->items, sites->n, &sites->n_allocated, sizeof(*sites->items)) < 0 ||
	    key_map_put(&sites->numbers, key.a, key.b, sites->n + 1) < 0)
		return NULL;
	sites->items[sites->n] =
		(struct diff_site){ .sides = { { .stack_id = -1 }, { .stack_id = -1 } } };
	return &sites->items[sites->n++];
}

static int add_rows(struct diff_sites *sites, const struct paths *paths, sqlite3_stmt *row,
		    int side)
{
	struct path_step steps[PATHS_MAX_DEPTH];
	int code = SQLITE_DONE;

	while ((code = statement_advance(row)) == SQLITE_ROW) {
		int64_t stack_id = sqlite3_column_int64(row, 0);
		size_t n = paths_walk(paths, stack_id, steps);
		struct diff_site *site = site_at(sites, key_of(paths, steps, n));
		if (!site)
			return -ENOMEM;
		struct diff_sum *sum = &site->sides[side];
		sum->current += sqlite3_column_double(row, 1);
		sum->n += sqlite3_column_double(row, 2);
		sum->n_sq += sqlite3_column_double(row, 3);
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

	for (size_t i = 0; r == 0 && i < from->n_runs; i++) {
		sqlite3_stmt *row = report_sql_prepare(from->db, sql, from->runs[i], -1);
		r = row ? add_rows(sites, paths, row, side) : -EPROTO;
		sqlite3_finalize(row);
		settle(sites, side);
	}
	return r;
}

void diff_sites_finish(struct diff_sites *sites)
{
	key_map_finish(&sites->numbers);
	free(sites->items);
	sites->items = NULL;
}
