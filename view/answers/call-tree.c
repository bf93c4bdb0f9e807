#include "view/answers/call-tree.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "store/statement.h"

static int node_at(struct flame *flame, uint32_t parent, uint32_t function, uint32_t *ret_index)
{
	uint64_t number = key_map_get(&flame->node_of, parent, function);

	if (number) {
		*ret_index = (uint32_t)(number - 1);
		return 0;
	}
	if (grow_array(&flame->nodes, flame->n_nodes, &flame->n_allocated, sizeof(*flame->nodes)) <
		    0 ||
	    key_map_put(&flame->node_of, parent, function, flame->n_nodes + 1) < 0)
		return -ENOMEM;
	*ret_index = (uint32_t)flame->n_nodes;
	flame->nodes[flame->n_nodes++] =
		(struct flame_node){ .parent = parent, .function = function };
	return 0;
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

static int allocate_lines(struct flame *flame)
{
	size_t n = flame->paths->n_functions;

	if (!flame->lines)
		flame->lines = calloc(n, sizeof(*flame->lines));
	if (!flame->line_values)
		flame->line_values = calloc(n, sizeof(*flame->line_values));
	return flame->lines && flame->line_values ? 0 : -ENOMEM;
}

int flame_add(struct flame *flame, sqlite3_stmt *rows)
{
	int r = allocate_lines(flame);
	int code = SQLITE_DONE;

	while (r == 0 && (code = statement_advance(rows)) == SQLITE_ROW) {
		const struct profile_sum sum = profile_row(rows);
		if (sum.value > 0 || sum.n_unknown)
			r = add_site(flame, sqlite3_column_int64(rows, 0), &sum);
	}
	return r < 0 || code == SQLITE_DONE ? r : -EPROTO;
}

static int compare_descending(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a > b ? -1 : a < b;
}

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

int64_t flame_prune(struct flame *flame, size_t max_nodes)
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

void flame_finish(struct flame *flame)
{
	free(flame->nodes);
	free(flame->lines);
	free(flame->line_values);
	key_map_finish(&flame->node_of);
	flame->nodes = NULL;
	flame->lines = NULL;
	flame->line_values = NULL;
}
