#include "view/answers/internal.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/hash-map.h"
#include "report/callgraph/call-paths.h"
#include "report/callgraph/profile.h"
#include "report/text/json.h"
#include "store/statement.h"

struct flame_node {
	uint32_t parent; /* index; FLAME_ROOT: none */
	uint32_t function; /* of paths.functions; 0: no call path */
	struct profile_sum all;
	struct profile_sum self; /* of sites whose path ends here */
	double most; /* of one site that ends here: */
	int64_t site; /* stack.id; 0: none, or not recorded */
};
#define FLAME_ROOT UINT32_MAX

/* All zero, with paths and is_inverse set, is empty. */
struct flame {
	const struct paths *paths;
	bool is_inverse;
	struct flame_node *nodes; /* parents before their children */
	size_t n_nodes;
	size_t n_allocated;
	struct key_map node_of; /* (parent, function): index + 1 */
	struct profile_sum total;
	double *line_values; /* by function: the most that one site has at lines[] */
	/* by function: of its call, or allocation, with the greatest value; 0: not known */
	int32_t *lines;
};

/*
 * A call tree: values of call sites added up along their call paths, from main inwards or, inverse,
 * from the sites outwards. What a node has is the sum over the sites below it; the whole is the sum
 * over the roots.
 */

static int node_at(struct flame *flame, uint32_t parent, uint32_t function, uint32_t *ret_index)
{
	const struct flame_node *node = key_map_item(
		&flame->node_of, parent, function, flame->nodes, flame->n_nodes, flame->n_allocated,
		(struct flame_node){ .parent = parent, .function = function });

	if (node)
		*ret_index = (uint32_t)(node - flame->nodes);
	return node ? 0 : -ENOMEM;
}

static void note_line(struct flame *flame, const struct path_step *step, double value)
{
	if (step->line == 0 || value <= flame->line_values[step->function])
		return;
	flame->line_values[step->function] = value;
	flame->lines[step->function] = step->line;
}

static int add_site(struct flame *flame, int64_t stack_id, const struct profile_sum *sum)
{
	struct path_step steps[PATHS_MAX_DEPTH];
	size_t n = paths_walk(flame->paths, stack_id, steps);
	uint32_t at = FLAME_ROOT;

	if (n == 0)
		steps[n++] = (struct path_step){ 0 };
	for (size_t i = 0; i < n; i++) {
		const struct path_step *step = &steps[flame->is_inverse ? n - 1 - i : i];
		if (node_at(flame, at, step->function, &at) < 0)
			return -ENOMEM;
		profile_sum_add(&flame->nodes[at].all, sum);
		note_line(flame, step, sum->value);
	}
	struct flame_node *end = &flame->nodes[at];
	profile_sum_add(&end->self, sum);
	if (sum->value > end->most || !end->site) {
		end->most = sum->value;
		end->site = stack_id;
	}
	profile_sum_add(&flame->total, sum);
	return 0;
}

/* Add the rows of a metric's statement (profile_row()). Returns 0, -ENOMEM or -EPROTO. */
static int flame_add(struct flame *flame, sqlite3_stmt *rows)
{
	size_t n = flame->paths->n_functions;

	if (!flame->lines)
		flame->lines = calloc(n, sizeof(*flame->lines));
	if (!flame->line_values)
		flame->line_values = calloc(n, sizeof(*flame->line_values));
	int r = flame->lines && flame->line_values ? 0 : -ENOMEM;
	int code = SQLITE_DONE;

	while (r == 0 && (code = statement_advance(rows)) == SQLITE_ROW) {
		const struct profile_sum sum = profile_row(rows);
		if (sum.value > 0 || sum.n_unknown)
			r = add_site(flame, sqlite3_column_int64(rows, 0), &sum);
	}
	return r < 0 || code == SQLITE_DONE ? r : -EPROTO;
}

DEFINE_ORDER(compare_descending, double, ORDER(*b, *a));

/* Nodes above the value stay: no parent has less than its child. */
static void keep_above(struct flame *flame, double value, uint32_t *new_index)
{
	size_t n = 0;

	for (size_t i = 0; i < flame->n_nodes; i++) {
		struct flame_node node = flame->nodes[i];
		if (node.all.value <= value)
			continue;
		if (node.parent != FLAME_ROOT)
			node.parent = new_index[node.parent];
		new_index[i] = (uint32_t)n;
		flame->nodes[n++] = node;
	}
	flame->n_nodes = n;
}

/*
 * Leave out the nodes with the least values until there are no more than max_nodes. Those that stay
 * keep their values. Returns how many are left out, or -ENOMEM.
 */
static int64_t flame_prune(struct flame *flame, size_t max_nodes)
{
	size_t n = flame->n_nodes;

	if (n <= max_nodes)
		return 0;
	auto_free double *values = calloc(n, sizeof(*values));
	auto_free uint32_t *new_index = calloc(n, sizeof(*new_index));
	if (!values || !new_index)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		values[i] = flame->nodes[i].all.value;
	qsort(values, n, sizeof(*values), compare_descending);
	keep_above(flame, values[max_nodes], new_index);
	return (int64_t)(n - flame->n_nodes);
}

static void flame_finish(struct flame *flame)
{
	free_all(flame->nodes, flame->lines, flame->line_values);
	key_map_finish(&flame->node_of);
	flame->nodes = NULL;
	flame->lines = NULL;
	flame->line_values = NULL;
}
#define auto_flame __attribute__((cleanup(flame_finish)))

/* ---- Call trees: request "flame" ---- */

#define MAX_NODES 30000u

/* What a graph may count beside the metrics of profiles. */
static const struct {
	const char *name;
	const char *title;
	const char *sql;
} access_metrics[] = {
	{ "accesses", "sampled accesses at blocks allocated there",
	  "SELECT owner_id, sum(n) FROM access_total WHERE run_id = :run AND owner_kind = 1"
	  " GROUP BY owner_id" },
	{ "latency", "cycles of sampled accesses at blocks allocated there",
	  "SELECT owner_id, sum(latency) FROM access_total WHERE run_id = :run AND owner_kind = 1"
	  " GROUP BY owner_id" },
};

/* What is counted, as a query of stack_id and value. */
struct metric {
	const char *title;
	const char *sql;
	bool is_time;
};

static int find_metric(struct view_question *question, struct metric *ret_metric)
{
	const char *name = question->values->texts[VIEW_BY];
	int found = profile_metric_find(name ? name : "bytes");

	if (found >= 0) {
		const struct profile_metric_row *row = profile_metric_row_of(
			question->db, question->run, (enum profile_metric)found);
		*ret_metric = (struct metric){ row->title, row->sql, found == PROFILE_TIME };
		return 0;
	}
	for (size_t i = 0; i < sizeof(access_metrics) / sizeof(access_metrics[0]); i++) {
		if (strcmp(access_metrics[i].name, name) != 0)
			continue;
		*ret_metric =
			(struct metric){ access_metrics[i].title, access_metrics[i].sql, false };
		return 0;
	}
	return view_context_refuse(question->context, -EINVAL,
				   "by is none of bytes, blocks, peak, leaked, time, faults, "
				   "accesses and latency");
}

/*
 * Of time that is known of some sites as a range only: what its ends are told by, of all (""), and
 * right in it ("self_").
 */
static const char *const ends_names[] = {
	"told",	     "n_told",	    "low",	"high",	     "n_sites",	     "n_unknown",
	"self_told", "self_n_told", "self_low", "self_high", "self_n_sites", "self_n_unknown",
};
#define N_BASE 6u
#define N_ENDS (sizeof(ends_names) / sizeof(ends_names[0]) / 2)

static void write_ends(struct columns *columns, size_t first, const struct profile_sum *sum)
{
	const double values[N_ENDS] = { sum->told, sum->n,	 sum->low,
					sum->high, sum->n_sites, sum->n_unknown };

	for (size_t i = 0; i < N_ENDS; i++)
		json_real(columns_at(columns, first + i), values[i]);
}

/*
 * samples_per_ns: of time, a node has as many samples as its time says, since samples stand for
 * periods that differ: shares are those of time, as in --flat; 0: n is what was counted.
 */
static void write_nodes(struct json *json, const struct flame *flame, const uint32_t *name_of,
			double samples_per_ns)
{
	const char *names[N_BASE + 2 * N_ENDS] = { "parent", "function", "value",
						   "self",   "site",	 "n" };
	bool has_unknown = flame->total.n_unknown > 0;
	auto_columns struct columns columns;

	memcpy(&names[N_BASE], ends_names, sizeof(ends_names));
	columns_begin(&columns, names, has_unknown ? N_BASE + 2 * N_ENDS : N_BASE);
	for (size_t i = 0; i < flame->n_nodes; i++) {
		const struct flame_node *node = &flame->nodes[i];
		json_integer(columns_at(&columns, 0),
			     node->parent == FLAME_ROOT ? -1 : (int64_t)node->parent);
		json_integer(columns_at(&columns, 1), name_of[node->function] - 1);
		json_real(columns_at(&columns, 2), node->all.value);
		json_real(columns_at(&columns, 3), node->self.value);
		if (node->site)
			json_integer(columns_at(&columns, 4), node->site);
		else
			json_null(columns_at(&columns, 4));
		json_real(columns_at(&columns, 5),
			  samples_per_ns > 0 ? node->all.value * samples_per_ns : node->all.n);
		if (has_unknown) {
			write_ends(&columns, N_BASE, &node->all);
			write_ends(&columns, N_BASE + N_ENDS, &node->self);
		}
		columns_end_row(&columns);
	}
	columns_set(json, "nodes", &columns);
}

static void add_name(struct columns *columns, const struct flame *flame, uint32_t function)
{
	const struct path_function *names = &flame->paths->functions[function];

	json_text(columns_at(columns, 0), function ? names->name : "(no call stack)");
	json_text(columns_at(columns, 1), names->module);
	json_text(columns_at(columns, 2), names->source);
	if (flame->lines[function])
		json_integer(columns_at(columns, 3), flame->lines[function]);
	else
		json_null(columns_at(columns, 3));
	columns_end_row(columns);
}

/* The names that the nodes use, numbered in their order; name_of: that number + 1. */
static void write_names(struct json *json, const struct flame *flame, uint32_t *name_of)
{
	static const char *const names[] = { "function", "module", "file", "line" };
	auto_columns struct columns columns;
	uint32_t n = 0;

	columns_begin(&columns, names, 4);
	for (size_t i = 0; i < flame->n_nodes; i++) {
		uint32_t function = flame->nodes[i].function;
		if (name_of[function])
			continue;
		name_of[function] = ++n;
		add_name(&columns, flame, function);
	}
	columns_set(json, "names", &columns);
}

static int write_flame(struct view_question *question, struct flame *flame,
		       const struct metric *metric)
{
	struct json *json = &question->json;
	auto_free uint32_t *name_of = calloc(flame->paths->n_functions, sizeof(*name_of));
	size_t wanted = question->context->limits.n_nodes;
	int64_t n_samples = 0;
	double clock_ns = 0;
	int64_t n_pruned = flame_prune(flame, wanted ? wanted : MAX_NODES);

	if (!name_of || n_pruned < 0)
		return -ENOMEM;
	auto_free char *title = profile_title(question->db, question->run, metric->title);

	if (metric->is_time) {
		n_samples = view_number(question,
					"SELECT sum(n_samples) FROM source WHERE run_id = :run"
					" AND measures = 'time'");
		clock_ns = (double)view_number(question,
					       "SELECT CAST(" PROFILE_CLOCK_TIME " AS INTEGER)");
	}
	json_open(json, '{');
	json_set_text(json, "unit", title ? title : metric->title);
	json_set_real(json, "total", flame->total.value);
	json_name(json, "n_samples");
	if (metric->is_time)
		json_integer(json, n_samples);
	else
		json_null(json);
	json_set_real(json, "clock_ns", clock_ns);
	json_set_integer(json, "n_sites", flame->total.n_sites);
	json_set_integer(json, "n_left_out", n_pruned);
	write_names(json, flame, name_of);
	write_nodes(json, flame, name_of, clock_ns > 0 ? (double)n_samples / clock_ns : 0);
	json_close(json, '}');
	return 0;
}

int view_flame(struct view_question *question)
{
	auto_paths struct paths *paths = NULL;
	auto_flame struct flame flame = { .is_inverse = view_value(question, VIEW_INVERSE, 0) };
	struct metric metric = { 0 };
	auto_statement sqlite3_stmt *rows = NULL;
	const struct paths_options options = {
		.fold = view_value(question, VIEW_FULL, 0) ? PATHS_WHOLE : PATHS_ASKED,
	};
	int r = view_take_part(question, 0) ?: find_metric(question, &metric);
	r = r ?: paths_open(question->db, &options, &paths);
	flame.paths = paths;
	r = r ?: view_prepare(question, metric.sql, &rows) ?: flame_add(&flame, rows);
	return r < 0 ? r : write_flame(question, &flame, &metric);
}
