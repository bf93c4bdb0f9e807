/* Call trees: request "flame". */
#include "view/answers/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "report/callgraph/profile.h"
#include "view/answers/call-tree.h"
#include "view/columns.h"

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
	json_name(json, "nodes");
	columns_write(&columns, json);
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
	json_name(json, "names");
	columns_write(&columns, json);
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
	sqlite3_stmt *rows = NULL;
	int r = view_take_part(question);

	if (r == 0)
		r = find_metric(question, &metric);
	if (r == 0)
		r = paths_open(question->db, NULL, &paths);
	flame.paths = paths;
	if (r == 0)
		r = view_prepare(question, metric.sql, &rows);
	if (r == 0)
		r = flame_add(&flame, rows);
	sqlite3_finalize(rows);
	return r < 0 ? r : write_flame(question, &flame, &metric);
}
