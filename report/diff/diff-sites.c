#include "report/diff/diff-sites.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/text.h"
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

/* Suffixes that compilers give to parts and copies of a function. */
static size_t name_length(const char *name)
{
	static const char *const suffixes[] = { ".constprop.", ".isra.", ".part.", ".cold",
						".lto_priv." };

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
		const char *at = strstr(name, suffixes[i]);
		if (at && at > name)
			return (size_t)(at - name);
	}
	return strlen(name);
}

/* What a side's rows are read with. */
struct reading {
	const struct paths *paths;
	const uint64_t *objects; /* by frame.id */
	uint32_t *functions; /* by 2 * number + is_library: of diff_sites, 0: not met yet */
	const char *program; /* base name of its file */
	int side;
};

/* A file by its name, without versions; that of the program may have another name each time. */
static void hash_module(struct key *key, const struct reading *reading, const char *module)
{
	const char *end = strstr(module, ".so");
	size_t n = end ? (size_t)(end - module) : strlen(module);

	if (reading->program && strcmp(module, reading->program) == 0)
		n = 0;
	for (size_t i = 0; i < n; i++)
		hash_byte(key, (unsigned char)module[i]);
	hash_byte(key, 0);
}

static uint32_t add_function(struct diff_sites *sites, const struct reading *reading,
			     const struct path_function *from, bool is_library)
{
	size_t n = name_length(from->name);
	struct key name = { UINT64_C(0xcbf29ce484222325), 1 };

	for (size_t i = 0; i < n; i++)
		hash_byte(&name, (unsigned char)from->name[i]);
	struct key key = name;
	hash_module(&key, reading, is_library ? "" : from->module);
	uint64_t number = key_map_get(&sites->function_numbers, key.a, key.b);
	if (number == 0) {
		number = sites->n_functions ? sites->n_functions : 1;
		if (grow_array_to(&sites->functions, number, &sites->n_functions_allocated,
				  sizeof(*sites->functions)) < 0 ||
		    key_map_put(&sites->function_numbers, key.a, key.b, number) < 0)
			return 0;
		sites->functions[number] = (struct diff_function){
			.name = strndup(from->name, n),
			.name_hash = name.b,
		};
		sites->n_functions = number + 1;
	}
	sites->functions[number].has[reading->side] = true;
	return sites->functions[number].name ? (uint32_t)number : 0;
}

/* 0: no memory */
static uint32_t function_of(struct diff_sites *sites, const struct reading *reading,
			    const struct path_step *step)
{
	uint32_t *known = &reading->functions[2 * step->function + step->is_library];

	if (*known == 0)
		*known = add_function(sites, reading, &reading->paths->functions[step->function],
				      step->is_library);
	return *known;
}

static struct diff_site *add_site(struct diff_sites *sites, struct key key)
{
	if (grow_one(&sites->items, sites->n, &sites->n_allocated) < 0 ||
	    key_map_put(&sites->numbers, key.a, key.b, sites->n + 1) < 0)
		return NULL;
	sites->items[sites->n] =
		(struct diff_site){ .sides = { { .stack_id = -1 }, { .stack_id = -1 } } };
	return &sites->items[sites->n++];
}

/* The site of a path of functions, lines and columns; lines of libraries are theirs. */
static struct diff_site *site_at(struct diff_sites *sites, const struct reading *reading,
				 const struct path_step *path, size_t n)
{
	auto_free struct diff_step *steps = calloc(n + 1, sizeof(*steps));
	struct key key = { UINT64_C(0xcbf29ce484222325), 1 };

	for (size_t i = 0; steps && i < n; i++) {
		steps[i].function = function_of(sites, reading, &path[i]);
		if (!path[i].is_library) {
			steps[i].line = path[i].line;
			steps[i].column = path[i].column;
		}
		if (steps[i].function == 0)
			return NULL;
		hash_number(&key, steps[i].function);
		hash_number(&key, (uint32_t)steps[i].line);
		hash_number(&key, (uint32_t)steps[i].column);
	}
	hash_number(&key, (uint32_t)reading->side);
	uint64_t number = key_map_get(&sites->numbers, key.a, key.b);
	if (number)
		return &sites->items[number - 1];
	struct diff_site *site = steps ? add_site(sites, key) : NULL;
	if (!site)
		return NULL;
	site->steps = steal_ptr(&steps);
	site->n_steps = n;
	site->lines = calloc(2 * n + 1, sizeof(*site->lines));
	site->side = reading->side;
	return site->lines ? site : NULL;
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

static void add_blocks(struct diff_site *site, sqlite3_stmt *row)
{
	site->n_blocks += sqlite3_column_double(row, 1);
	site->bytes += sqlite3_column_double(row, 2);
}

/* Rows of the metric, or (is_of_blocks) of all sites: what the metric has nothing of is there. */
static int add_rows(struct diff_sites *sites, const struct reading *reading, sqlite3_stmt *row,
		    bool is_of_blocks)
{
	struct path_step steps[PATHS_MAX_DEPTH];
	int code = SQLITE_DONE;

	while ((code = statement_advance(row)) == SQLITE_ROW) {
		int64_t stack_id = sqlite3_column_int64(row, 0);
		size_t n = paths_walk(reading->paths, stack_id, steps);
		struct diff_site *site = site_at(sites, reading, steps, n);
		if (!site)
			return -ENOMEM;
		struct diff_sum *sum = &site->sides[reading->side];
		site->build = build_of(reading->paths, reading->objects, stack_id);
		if (is_of_blocks)
			add_blocks(site, row);
		else
			add_row(sum, row);
		sum->stack_id = stack_id;
	}
	return code == SQLITE_DONE ? 0 : -EPROTO;
}

static int add_run(struct diff_sites *sites, const struct reading *reading,
		   const struct diff_request *request, int64_t run_id)
{
	const char *const sql[] = {
		"SELECT stack_id, n_blocks, bytes FROM site WHERE run_id = :run",
		profile_metric_row(request->metric)->sql
	};
	sqlite3 *db = request->sides[reading->side].db;
	int r = 0;

	for (int i = 0; r == 0 && i < 2; i++) {
		auto_statement sqlite3_stmt *row = report_sql_prepare(db, sql[i], run_id, -1);
		r = row ? add_rows(sites, reading, row, i == 0) : -EPROTO;
	}
	return r;
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

/* What the run's first process has become by exec; allocated, or NULL. */
static char *program_of(const struct diff_side *from)
{
	static const char sql[] =
		"SELECT exe FROM process WHERE run_id = :run AND pid = (SELECT pid FROM process"
		" WHERE run_id = :run ORDER BY number LIMIT 1) ORDER BY exec_seq DESC LIMIT 1";

	return from->n_runs ? report_sql_text(from->db, sql, from->runs[0]) : NULL;
}

int diff_sites_read(struct diff_sites *sites, const struct diff_request *request, int side)
{
	static const struct paths_options folded = { .fold = PATHS_ASKED };
	const struct diff_side *from = &request->sides[side];
	auto_paths struct paths *paths = NULL;
	int r = paths_open(from->db, &folded, &paths);
	if (r < 0)
		return r;
	auto_free uint64_t *objects = calloc(paths->n_frames + 1, sizeof(*objects));
	auto_free uint32_t *functions = calloc(2 * paths->n_functions + 2, sizeof(*functions));
	auto_free char *program = program_of(from);
	const struct reading reading = { paths, objects, functions,
					 program ? text_base_name(program) : NULL, side };

	r = objects && functions ? read_objects(request, side, paths->n_frames, objects) : -ENOMEM;
	for (size_t i = 0; r == 0 && i < from->n_runs; i++) {
		r = add_run(sites, &reading, request, from->runs[i]);
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

DEFINE_ORDER(compare_sites, struct diff_site,
	     compare_paths(a, b) ?: a->side - b->side ?: compare_lines(a, b));

/* The second becomes part of the first, and has neither side any more. */
static void join(struct diff_site *a, struct diff_site *b)
{
	a->sides[b->side] = b->sides[b->side];
	a->was = a->was ? a->was : b->was;
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

/* Sites of one side that are called at one line, or of one line at one column. */
struct part {
	struct diff_site *sites;
	size_t n;
	int32_t line; /* or column */
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
	r = r ?: split(b->sites, b->n, depth, &parts[1]);
	r = r ?: pair_parts(&parts[0], &parts[1], depth + 1);
	free_all(parts[0].items, parts[1].items);
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

/* What a pass takes for the same; each sees what those before it left. */
enum pass {
	PASS_PATHS, /* of the same functions */
	PASS_NAMES, /* that have another name, or lie in another file */
	PASS_ADDED, /* without functions that only the side after has */
	PASS_GONE, /* without functions that only the side before has */
	PASS_COUNT
};

static bool is_left_out(const struct diff_function *function, enum pass pass, int side)
{
	return ((pass == PASS_ADDED && side == 1) || (pass == PASS_GONE && side == 0)) &&
	       !function->has[!side] && !function->was && !function->is_other_now;
}

/* Path and lines of a site as a pass sees it. */
static void see(const struct diff_sites *sites, struct diff_site *site, enum pass pass)
{
	struct key path = { UINT64_C(0xcbf29ce484222325), 1 };

	site->n_lines = 0;
	site->was = NULL;
	for (size_t i = 0; i < site->n_steps; i++) {
		uint32_t number = site->steps[i].function;
		const struct diff_function *function = &sites->functions[number];
		if (is_left_out(function, pass, site->side))
			continue;
		if (pass > PASS_PATHS && function->was) {
			number = function->was;
			site->was = sites->functions[number].name;
		}
		hash_number(&path, number);
		site->lines[site->n_lines++] = site->steps[i].line;
		site->lines[site->n_lines++] = site->steps[i].column;
	}
	site->path[0] = path.a;
	site->path[1] = path.b;
}

static bool is_dead(const struct diff_site *site)
{
	return site->sides[0].stack_id < 0 && site->sides[1].stack_id < 0;
}

static bool is_open(const struct diff_site *site)
{
	return (site->sides[0].stack_id >= 0) != (site->sides[1].stack_id >= 0);
}

/* Sites of only one side first. Returns how many. */
static size_t open_first(struct diff_sites *sites)
{
	size_t n_open = 0;

	for (size_t i = 0; i < sites->n; i++) {
		if (!is_open(&sites->items[i]))
			continue;
		struct diff_site site = sites->items[i];
		sites->items[i] = sites->items[n_open];
		sites->items[n_open++] = site;
	}
	return n_open;
}

static int pair_pass(struct diff_sites *sites, size_t n_open, enum pass pass)
{
	int r = 0;

	for (size_t i = 0; i < n_open; i++)
		see(sites, &sites->items[i], pass);
	if (n_open)
		qsort(sites->items, n_open, sizeof(*sites->items), compare_sites);
	for (size_t i = 0, n = 0; r == 0 && i < n_open; i += n) {
		for (n = 1;
		     i + n < n_open && compare_paths(&sites->items[i], &sites->items[i + n]) == 0;)
			n++;
		r = pair_group(&sites->items[i], n);
	}
	return r;
}

/* Of one build what only one side has was not called by the other: nothing was renamed. */
static bool is_of_one_build(const struct diff_sites *sites)
{
	struct key_map builds = { 0 };
	bool is_one = false;

	for (size_t i = 0; i < sites->n; i++)
		if (sites->items[i].side == 0 && sites->items[i].build)
			key_map_put(&builds, sites->items[i].build, 0, 1);
	for (size_t i = 0; i < sites->n && !is_one; i++)
		is_one = sites->items[i].side == 1 && sites->items[i].n_steps &&
			 key_map_get(&builds, sites->items[i].build, 0);
	key_map_finish(&builds);
	return is_one;
}

static void finish_site(struct diff_site *site)
{
	free_all(site->steps, site->lines);
	site->steps = NULL;
	site->lines = NULL;
}

int diff_sites_pair(struct diff_sites *sites)
{
	bool is_one = is_of_one_build(sites);
	size_t n_left = 0;
	int r = 0;

	for (int pass = 0; r == 0 && pass < (is_one ? PASS_NAMES : PASS_COUNT); pass++) {
		size_t n_open = open_first(sites);
		if (pass == PASS_NAMES)
			r = diff_renames_find(sites, sites->items, n_open);
		r = r ?: pair_pass(sites, n_open, (enum pass)pass);
	}
	for (size_t i = 0; i < sites->n; i++) {
		struct diff_site *site = &sites->items[i];
		finish_site(site);
		if (is_open(site))
			site->was = NULL;
		if (!is_dead(site))
			sites->items[n_left++] = *site;
	}
	sites->n = n_left;
	return r;
}

void diff_sites_finish(struct diff_sites *sites)
{
	for (size_t i = 0; i < sites->n; i++)
		finish_site(&sites->items[i]);
	for (size_t i = 1; i < sites->n_functions; i++)
		free(sites->functions[i].name);
	free(sites->functions);
	key_map_finish(&sites->function_numbers);
	key_map_finish(&sites->numbers);
	free(sites->items);
	sites->items = NULL;
}
